"""Whether a head's output fixes its weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass
from enum import IntEnum

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from identiformer.identifiability.directions import Level
from identiformer.identifiability.findings import LevelFinding
from identiformer.identifiability.head import AttentionHead
from identiformer.identifiability.layout import Layout
from identiformer.identifiability.pieces import halves_by_head
from identiformer.identifiability.settle import Settling


class Verdict(IntEnum):
    """Which other rows give the same output: any (`NONE`), none nearby (`LOCAL`), none at all (`GLOBAL`)."""

    NONE = 0
    LOCAL = 1
    GLOBAL = 2

    @property
    def label(self) -> str:
        """The verdict as reports write it: `none`, `local` or `global`."""
        return self.name.lower()


@dataclass(frozen=True, eq=False)
class LevelCertificate:
    r"""What holds at one level, for every row of a batch.

    With an orthonormal basis $U$ of the directions in which the level lets the weights move:

    - `nullity`: `[*batch]`, $\dim U - \mathrm{rank}(T^\top U)$: how many independent small changes leave the
      output as it is.
    - `margin`: `[*batch]`, $\sigma_{\min}(T^\top U) / \sigma_{\max}(T)$, and 0 where the nullity is not 0:
      the least relative change of the output that a unit change of the weights can cause. In [0, 1]; 1 where
      there is no direction at all.
    - `verdict`: `[*batch]`, values of [`Verdict`][].
    - `directions`: `[*batch]`, $\dim U$.
    """

    nullity: Int[Tensor, "*batch"]
    margin: Float[Tensor, "*batch"]
    verdict: Int[Tensor, "*batch"]
    directions: Int[Tensor, "*batch"]


@dataclass(frozen=True, eq=False)
class Certificate:
    """What a head's output fixes of its weights, for every row: `certificate[Level.SIMPLEX].nullity`.

    - `free`, `simplex`, `generatable`: a [`LevelCertificate`][] each.
    - `tokens`: `[*batch]`, the visible tokens.
    - `tied_tokens`: `[*batch]`, how many of them share key and value with another. Of those, the simplex
      fixes only the total of each group.
    """

    free: LevelCertificate
    simplex: LevelCertificate
    generatable: LevelCertificate
    tokens: Int[Tensor, "*batch"]
    tied_tokens: Int[Tensor, "*batch"]

    def __getitem__(self, level: Level | str) -> LevelCertificate:
        """The certificate of one level."""
        return {Level.FREE: self.free, Level.SIMPLEX: self.simplex, Level.GENERATABLE: self.generatable}[
            Level(level)
        ]


def certify(head: AttentionHead) -> Certificate:
    r"""Whether other weights, out of those that are allowed, would have given the same output.

    The same computation at each level, on an orthonormal basis $U$ of its directions:
    $\text{nullity} = \dim U - \mathrm{rank}(T^\top U)$. At `free` and `simplex` the problem is linear, so a
    nullity of 0 is `global`. At `generatable` it is `local`, and `global` in three cases:

    - the nullity of the simplex, which is wider, is 0;
    - the columns of $K$ lie in the column space of $[T\ 1]$: then the output fixes the mean key $a^\top K$,
      and $\{\mathrm{softmax}(b + K \theta)\}$ is an exponential family, in which the mean fixes the row;
    - all keys are equal, and there is only one such row. A row that is so peaked that its other weights are
      exactly zero has no direction either, but is only `local`.

    `generatable` takes the row for one that some query generates from these keys and this bias, as the row of a model
    is. That is not checked: where a bias or a mask was forgotten, the verdict is about another row than the one given.
    [`alternative`][] does check it.

    What counts as zero: [`output_cutoff`][] for $T^\top U$ and [`key_space`][] for the keys.

    **Arguments:** `head`, of any batch shape.

    **Returns:** a [`Certificate`][] with tensors of that batch shape.

    **Source:** Brunner et al. 2020 (arXiv 1908.04211), section 3; arXiv 2106.01269, section 3. Exponential
    families: Barndorff-Nielsen, Information and Exponential Families, section 9.1.
    """
    levels, tied = _certify(head, tuple(Level))
    return Certificate(
        free=levels[Level.FREE],
        simplex=levels[Level.SIMPLEX],
        generatable=levels[Level.GENERATABLE],
        tokens=head.tokens.expand(head.batch_shape),
        tied_tokens=tied,
    )


def certify_levels(
    head: AttentionHead, levels: Collection[Level] = tuple(Level), quick: bool = True
) -> dict[Level, LevelCertificate]:
    r"""[`certify`][] for some levels. `free` and `simplex` do not depend on the row, and cost little without
    `generatable`.

    What Gram matrices prove (`quick.py`) is taken from there; heads and rows that they leave open are computed by
    orthogonal factorisations (`exact.py`), which is the definition. The results are the same, margins to 1e-6 of
    themselves.

    **Arguments:** `quick`: `False` for the exact path throughout.
    """
    return _certify(head, levels, quick)[0]


def _certify(
    head: AttentionHead, levels: Collection[Level], quick: bool = True
) -> tuple[dict[Level, LevelCertificate], Int[Tensor, "*batch"]]:
    """The levels, and the number of tied tokens, which comes with `generatable` for nothing; 0 without it."""
    parts = halves_by_head(head)
    if parts is not None:
        (one, ties), (other, more) = (_certify(part, levels, quick) for part in (parts.one, parts.other))
        joined = {level: _join(one[level], other[level], parts.dimension) for level in one}
        return joined, torch.cat([ties, more], dim=parts.dimension)
    settling = Settling(head, quick)
    with_rows = Level.GENERATABLE in levels
    heads = settling.heads(with_keys=with_rows)
    everywhere = torch.ones_like(heads.only_one)
    findings = {Level.FREE: (heads.free, everywhere), Level.SIMPLEX: (heads.simplex, everywhere)}
    if with_rows:
        rows = settling.rows(heads)
        # Interlacing says that nullities do not grow; rounding at the cutoff must not say otherwise.
        nullity = torch.minimum(heads.simplex.nullity[:, None], rows.nullity)
        findings[Level.GENERATABLE] = (rows._replace(nullity=nullity), heads.only_one)
    tied = settling.tied_tokens if with_rows else torch.zeros_like(head.tokens)
    certificates = {
        level: _level(settling.layout, found, heads.greatest, only_one)
        for level, (found, only_one) in findings.items()
        if level in levels
    }
    return certificates, tied.expand(head.batch_shape)


def _join(one: LevelCertificate, other: LevelCertificate, dimension: int) -> LevelCertificate:
    names = [field.name for field in dataclasses.fields(LevelCertificate)]
    return LevelCertificate(
        *(torch.cat([getattr(one, name), getattr(other, name)], dim=dimension) for name in names)
    )


def _level(
    layout: Layout,
    found: LevelFinding,
    greatest: Float[Tensor, " H"],
    only_one: Bool[Tensor, " H"],
) -> LevelCertificate:
    """The certificate of a level, from findings for heads or for rows.

    `only_one`: whether a nullity of 0 means that there is no other row at all.
    """
    ones = (1,) * (found.nullity.ndim - 1)
    scale = greatest.where(greatest > 0, 1.0).view(-1, *ones)
    margin = torch.where(found.dimension == 0, 1.0, (found.least / scale).clamp(max=1.0))
    margin = margin.masked_fill(found.nullity > 0, 0.0)
    unique = torch.where(only_one, int(Verdict.GLOBAL), int(Verdict.LOCAL)).view(-1, *ones)
    verdict = torch.where(found.nullity == 0, unique, int(Verdict.NONE))
    return LevelCertificate(
        *(layout.batch(tensor) for tensor in (found.nullity, margin, verdict, found.dimension))
    )
