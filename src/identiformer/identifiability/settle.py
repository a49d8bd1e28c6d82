"""Every head and row by the cheapest path that settles it: quick where that is beyond doubt, exact elsewhere."""

from __future__ import annotations

from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from identiformer.identifiability.exact import exact_heads, exact_rows
from identiformer.identifiability.findings import HeadFindings, LevelFinding, joined
from identiformer.identifiability.gram import Gram
from identiformer.identifiability.head import AttentionHead
from identiformer.identifiability.layout import Layout
from identiformer.identifiability.linalg import runs, split
from identiformer.identifiability.pieces import at_once
from identiformer.identifiability.quick import head_grams
from identiformer.identifiability.quick_keys import QuickKeys, quick_carried, quick_keys
from identiformer.identifiability.quick_rows import HeadsOfRows, quick_rows

# From here on, products with weights stay normal numbers.
_LEAST_WEIGHT = 1e-290


class Settling:
    """A batch on its way through both paths.

    **Arguments:** `head`, of any batch shape; `quick`: `False` for the exact path alone.
    """

    def __init__(self, head: AttentionHead, quick: bool = True) -> None:
        self.head = head
        self.layout = Layout.of(head)
        self.quick = quick

    @cached_property
    def keys(self) -> QuickKeys:
        """The [`QuickKeys`][] as lists `[H, ...]`."""
        found = quick_keys(self.head)
        spread, coordinates = self.layout.by_head, found.coordinates
        return QuickKeys(
            spread(found.spanning),
            spread(found.full),
            spread(found.tied),
            None if coordinates is None else spread(coordinates, 2),
        )

    def heads(self, with_keys: bool = True) -> HeadFindings:
        """What does not depend on the row, as lists `[H]`.

        `with_keys`: whether what `generatable` needs is wanted: `greatest`, `cutoff` and `only_one`.
        """
        if not self.quick:
            every = torch.arange(self.layout.heads.numel(), device=self.head.weights.device)
            return self._exact_heads(every, with_keys)
        grams, spread = head_grams(self.head), self.layout.by_head
        native = grams.scaled if with_keys else grams.unscaled
        found, settled = native.findings.map(spread), spread(native.linear)
        if with_keys:
            unique = found.simplex.nullity == 0
            # Where keys span the simplex, its certificate is that of `generatable`.
            needless = unique | self.keys.spanning
            carried, sure = self._carried(settled & self.keys.full & ~needless)
            found = found._replace(only_one=unique | carried)
            settled = settled & (needless | sure)
        rest = (~settled).nonzero()[:, 0]
        return found.put(rest, self._exact_heads(rest, with_keys)) if len(rest) else found

    def rows(self, heads: HeadFindings) -> LevelFinding:
        """What is found of `generatable`, as lists `[H, R]`."""
        weights = self.layout.by_row(self.head.weights, 1)
        amount, rows, _ = weights.shape
        # Where keys span the simplex, its certificate is that of all rows that move at all.
        found = heads.simplex.map(lambda tensor: tensor[:, None].expand(amount, rows))
        settled = torch.zeros(amount, rows, dtype=torch.bool, device=weights.device)
        if self.quick:
            mask = self.layout.by_head(self.head.mask, 1)
            moving = weights.where(mask[:, None], 1.0).amin(dim=-1) > _LEAST_WEIGHT
            settled = self.keys.spanning[:, None] & moving
            apart = (self.keys.full & ~self.keys.spanning).nonzero()[:, 0]
            if len(apart):
                quick, settled[apart] = quick_rows(
                    self._heads_of_rows(apart, heads), weights[apart], self.head.eps
                )
                found = found.put(apart, quick)
        of_head, row = (~settled).nonzero(as_tuple=True)
        if len(row) == 0:
            return found
        return found.put((of_head, row), self._exact_rows(of_head, row, weights, heads.cutoff))

    def _carried(self, ask: Bool[Tensor, " H"]) -> tuple[Bool[Tensor, " H"], Bool[Tensor, " H"]]:
        """Of the heads in `ask`: whether their keys are carried, and whether that is beyond doubt."""
        index = ask.nonzero()[:, 0]
        carried, sure = torch.zeros_like(ask), torch.zeros_like(ask)
        coordinates = self.keys.coordinates
        if len(index) and coordinates is not None:
            grams, spread = head_grams(self.head), self.layout.by_head
            inside = grams.inside
            carried[index], sure[index] = quick_carried(
                coordinates[index],
                spread(grams.centred, 2)[index],
                Gram(spread(inside.matrix, 2)[index], spread(inside.mass)[index], spread(inside.room)[index]),
                spread(grams.floor)[index],
                spread(self.head.mask, 1)[index],
                self.head.eps,
            )
        return carried, sure

    def _heads_of_rows(self, index: Int[Tensor, " k"], heads: HeadFindings) -> HeadsOfRows:
        coordinates = self.keys.coordinates
        assert coordinates is not None
        spread = self.layout.by_head
        return HeadsOfRows(
            reduced=spread(head_grams(self.head).slim, 2)[index],
            coordinates=coordinates[index],
            mask=spread(self.head.mask, 1)[index],
            greatest=heads.greatest[index],
            cutoff=heads.cutoff[index],
        )

    def _exact_heads(self, index: Int[Tensor, " k"], with_keys: bool) -> HeadFindings:
        tokens, width = self.head.keys.shape[-2:]
        each = tokens * (4 * width + 4 * self.head.values.shape[-1])
        found = [
            exact_heads(self.layout.list_of(self.head, part), with_keys)
            for part in split(index, at_once(each))
        ]
        return HeadFindings(
            joined([part.free for part in found]),
            joined([part.simplex for part in found]),
            torch.cat([part.greatest for part in found]),
            torch.cat([part.cutoff for part in found]),
            torch.cat([part.only_one for part in found]),
        )

    def _exact_rows(
        self,
        heads: Int[Tensor, " k"],
        rows: Int[Tensor, " k"],
        weights: Float[Tensor, "H R n"],
        cutoff: Float[Tensor, " H"],
    ) -> LevelFinding:
        """Single rows, in the order of their heads."""
        tokens, width = self.head.keys.shape[-2:]
        each = at_once(tokens * (4 * width + 2 * self.head.values.shape[-1]))
        found: list[LevelFinding] = []
        for some, row in zip(split(heads, each), split(rows, each), strict=True):
            index, which = runs(some)
            listed = self.layout.list_of(self.head, index)
            found.append(exact_rows(listed, which, weights[some, row], cutoff[index]))
        return joined(found)
