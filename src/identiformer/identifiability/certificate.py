"""Whether a head's output fixes its weights."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import IntEnum

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from identiformer.identifiability.directions import (
    KeySpace,
    Level,
    key_space,
    support,
    tangents,
)
from identiformer.identifiability.head import AttentionHead
from identiformer.identifiability.linalg import lengths, singular_values
from identiformer.identifiability.pieces import halves
from identiformer.identifiability.spectrum import Scale, Spectrum, centre, output_scale, spectrum
from identiformer.identifiability.ties import tied_tokens
from identiformer.identifiability.tolerance import ROUNDING


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

    What counts as zero: [`output_cutoff`][] for $T^\top U$ and [`key_space`][] for the keys.

    **Arguments:** `head`, of any batch shape.

    **Returns:** a [`Certificate`][] with tensors of that batch shape.

    **Source:** Brunner et al. 2020 (arXiv 1908.04211), section 3; arXiv 2106.01269, section 3. Exponential
    families: Barndorff-Nielsen, Information and Exponential Families, section 9.1.
    """
    parts = halves(head)
    if parts is None:
        return _certify(head)
    one, other, dimension = certify(parts.one), certify(parts.other), parts.dimension
    return Certificate(
        free=_join(one.free, other.free, dimension),
        simplex=_join(one.simplex, other.simplex, dimension),
        generatable=_join(one.generatable, other.generatable, dimension),
        tokens=torch.cat([one.tokens, other.tokens], dim=dimension),
        tied_tokens=torch.cat([one.tied_tokens, other.tied_tokens], dim=dimension),
    )


def _join(one: LevelCertificate, other: LevelCertificate, dimension: int) -> LevelCertificate:
    names = [field.name for field in dataclasses.fields(LevelCertificate)]
    return LevelCertificate(
        *(torch.cat([getattr(one, name), getattr(other, name)], dim=dimension) for name in names)
    )


def _certify(head: AttentionHead) -> Certificate:
    scale = output_scale(head)
    centred = spectrum(centre(head.reduced, head.mask), scale.cutoff)
    keys = key_space(head, head.mask)
    moving = support(head)
    movable = keys if moving is head.mask else key_space(head, moving)
    basis, dimension = tangents(head.weights, movable.coordinates, head.eps)
    responses = singular_values(head.reduced.mT @ basis)

    free = _nullity(scale.singular, head.tokens, scale)
    # Interlacing says that nullities do not grow; rounding at the cutoff must not say otherwise.
    simplex = torch.minimum(free, _nullity(centred.singular, head.tokens - 1, scale))
    generatable = torch.minimum(simplex, _nullity(responses, dimension, scale))
    everywhere = torch.ones_like(free, dtype=torch.bool)
    only_one = (simplex == 0) | (keys.dimension == 0) | _carries_keys(head, keys, centred, scale)
    return Certificate(
        free=_level(head, free, scale.singular, head.tokens, scale, everywhere),
        simplex=_level(head, simplex, centred.singular, head.tokens - 1, scale, everywhere),
        generatable=_level(head, generatable, responses, dimension, scale, only_one),
        tokens=head.tokens.expand(head.batch_shape),
        tied_tokens=tied_tokens(head).number.expand(head.batch_shape),
    )


def _nullity(
    singular: Float[Tensor, "*#batch m"], dimension: Int[Tensor, "*#batch"], scale: Scale
) -> Int[Tensor, "*#batch"]:
    return dimension - (singular > scale.cutoff[..., None]).sum(dim=-1)


def _level(
    head: AttentionHead,
    nullity: Int[Tensor, "*#batch"],
    singular: Float[Tensor, "*#batch m"],
    dimension: Int[Tensor, "*#batch"],
    scale: Scale,
    only_one: Bool[Tensor, "*#batch"],
) -> LevelCertificate:
    r"""The certificate of a level from its nullity and the singular values of $T^\top U$.

    `only_one`: whether a nullity of 0 means that there is no other row at all.
    """
    batch = head.batch_shape
    # Where some directions have no singular value, the nullity is not 0.
    last = (dimension.expand(batch) - 1).clamp(0, singular.shape[-1] - 1)[..., None]
    least = singular.expand(*batch, singular.shape[-1]).gather(-1, last)[..., 0]
    relative = (least / scale.greatest.where(scale.greatest > 0, 1.0)).clamp(max=1.0)
    margin = torch.where(dimension == 0, 1.0, relative).masked_fill(nullity > 0, 0.0)
    unique = torch.where(only_one, int(Verdict.GLOBAL), int(Verdict.LOCAL))
    verdict = torch.where(nullity == 0, unique, int(Verdict.NONE))
    return LevelCertificate(*(t.expand(batch) for t in (nullity, margin, verdict, dimension)))


def _carries_keys(
    head: AttentionHead, keys: KeySpace, centred: Spectrum, scale: Scale
) -> Bool[Tensor, "*#batch"]:
    r"""Whether the columns of $K$ lie in the column space of $[T\ 1]$.

    Of each principal direction of the centred keys, as a unit vector, the part outside of that space must be
    rounding noise: no more than what rounding may do to it, and less than $\sqrt\varepsilon$ besides, so that
    a direction which itself is hardly above the noise is not carried by default.
    """
    columns = centre(keys.coordinates, head.mask)
    inside = centred.left.mT @ columns
    outside = lengths(columns - centred.left @ inside, dim=-2)
    # What our own arithmetic loses where the keys hang on small singular values of T.
    weakest = centred.singular.where(centred.singular > scale.cutoff[..., None], torch.inf)
    hanging = lengths(inside / weakest[..., None], dim=-2) * scale.greatest[..., None]
    arithmetic = (ROUNDING * (1 + hanging)).clamp(max=1e-8)
    return (outside <= torch.maximum(keys.noise.clamp(max=head.eps**0.5), arithmetic)).all(dim=-1)
