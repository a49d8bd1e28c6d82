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
from identiformer.identifiability.quick import head_grams, space_grams
from identiformer.identifiability.quick_keys import QuickKeys, quick_carried, quick_keys
from identiformer.identifiability.quick_rows import quick_rows
from identiformer.identifiability.row_products import HeadsOfRows
from identiformer.identifiability.ties import tied_tokens

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
        # Where the quick path has settled `free` and `simplex`.
        self._linear = torch.zeros(self.layout.heads.numel(), dtype=torch.bool, device=head.weights.device)

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
            spread(found.noise),
        )

    @cached_property
    def moving(self) -> Bool[Tensor, "H R"]:
        """The rows that give every visible token some weight: a change of the query moves them all."""
        mask = self.layout.by_head(self.head.mask, 1)
        weights = self.layout.by_row(self.head.weights, 1)
        return ((weights > _LEAST_WEIGHT) | ~mask[:, None]).all(dim=-1)

    @property
    def tied_tokens(self) -> Int[Tensor, "*#batch"]:
        """How many visible tokens share key and value with another."""
        if self.quick and not bool(self.keys.tied.any()):
            return torch.zeros_like(self.head.tokens)
        return tied_tokens(self.head).number

    def heads(self, with_keys: bool = True) -> HeadFindings:
        """What does not depend on the row, as lists `[H]`.

        `with_keys`: whether what `generatable` needs is wanted: `greatest`, `cutoff` and `only_one`.
        """
        if not self.quick:
            every = torch.arange(self.layout.heads.numel(), device=self.head.weights.device)
            return self._exact_heads(every, with_keys)
        spread = self.layout.by_head
        native = head_grams(self.head).scaled if with_keys else space_grams(self.head).unscaled
        found, settled = native.findings.map(spread), spread(native.linear)
        self._linear = settled
        if with_keys:
            unique = found.simplex.nullity == 0
            # Where keys span the simplex, its certificate is that of `generatable`, and this tells nothing more.
            needless = unique | (self.keys.spanning & self.moving.all(dim=-1))
            rank = found.simplex.dimension - found.simplex.nullity
            basis = settled & (rank == head_grams(self.head).columns)
            carried, sure = self._carried(basis & self.keys.full & ~needless)
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
            settled = (self.keys.spanning & self._linear)[:, None] & self.moving
            apart = (self.keys.full & ~self.keys.spanning).nonzero()[:, 0]
            if len(apart):
                some = self._heads_of_rows(apart, heads)
                quick, sure = quick_rows(some, _pick(weights, apart), self.head.eps)
                settled[apart] = sure & _pick(self.moving, apart)
                found = found.put(apart, quick)
        of_head, row = (~settled).nonzero(as_tuple=True)
        if len(row) == 0:
            return found
        return found.put((of_head, row), self._exact_rows(of_head, row, weights, heads.cutoff))

    def _carried(self, ask: Bool[Tensor, " H"]) -> tuple[Bool[Tensor, " H"], Bool[Tensor, " H"]]:
        """Of the heads in `ask`, all of full column rank: whether their keys are carried, if that is beyond doubt."""
        index = ask.nonzero()[:, 0]
        carried, sure = torch.zeros_like(ask), torch.zeros_like(ask)
        coordinates = self.keys.coordinates
        if len(index) and coordinates is not None:
            grams, inside = head_grams(self.head), head_grams(self.head).inside
            carried[index], sure[index] = quick_carried(
                _pick(coordinates, index),
                self._of(grams.centred, index, 2),
                Gram(
                    *(
                        self._of(part, index, own)
                        for part, own in ((inside.matrix, 2), (inside.mass, 0), (inside.room, 0))
                    )
                ),
                self._of(grams.floor, index),
                self._of(self.head.mask, index, 1),
                self.head.eps,
            )
        return carried, sure

    def _heads_of_rows(self, index: Int[Tensor, " k"], heads: HeadFindings) -> HeadsOfRows:
        coordinates, grams = self.keys.coordinates, head_grams(self.head)
        assert coordinates is not None
        return HeadsOfRows(
            reduced=self._of(grams.slim, index, 2),
            mass=self._of(grams.mass, index),
            coordinates=_pick(coordinates, index),
            noise=_pick(self.keys.noise, index),
            greatest=heads.greatest[index],
            cutoff=heads.cutoff[index],
        )

    def _of(self, tensor: Tensor, index: Int[Tensor, " k"], own: int = 0) -> Tensor:
        """What belongs to some heads, of a tensor for the whole batch."""
        return _pick(self.layout.by_head(tensor, own), index)

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


def _pick(tensor: Tensor, index: Int[Tensor, " k"]) -> Tensor:
    """Some entries of a list, or the list itself if that is all of them."""
    return tensor if len(index) == len(tensor) else tensor[index]
