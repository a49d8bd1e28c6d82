"""The exact path: what a head's output fixes, by orthogonal factorisations of the matrices themselves.

Nothing here squares a condition number. `quick.py` settles most heads and rows for a fraction of the cost; what it
leaves open comes here, and whatever it settles must agree with this.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from identiformer.identifiability.carried import carries_keys
from identiformer.identifiability.directions import key_space, tangents
from identiformer.identifiability.findings import HeadFindings, LevelFinding
from identiformer.identifiability.head import AttentionHead
from identiformer.identifiability.linalg import singular_values
from identiformer.identifiability.spectrum import centre, output_scale, spectrum


def exact_heads(head: AttentionHead, with_keys: bool = True) -> HeadFindings:
    """[`HeadFindings`][] of heads without a dimension for rows: the weights are not looked at.

    `with_keys`: whether `only_one` is wanted; it is False throughout if not.
    """
    scale = output_scale(head)
    centred = spectrum(centre(head.reduced, head.mask), scale.cutoff)
    free = _level(scale.singular, head.tokens, scale.cutoff)
    simplex = _level(centred.singular, head.tokens - 1, scale.cutoff)
    # Interlacing says that nullities do not grow; rounding at the cutoff must not say otherwise.
    simplex = simplex._replace(nullity=torch.minimum(free.nullity, simplex.nullity))
    only_one = torch.zeros_like(simplex.nullity, dtype=torch.bool)
    if with_keys:
        keys = key_space(head, head.mask)
        only_one = (simplex.nullity == 0) | (keys.dimension == 0) | carries_keys(head, keys, centred, scale)
    found = HeadFindings(free, simplex, scale.greatest, scale.cutoff, only_one)
    return found.map(lambda tensor: tensor.expand(head.batch_shape))


def exact_rows(
    head: AttentionHead,
    which: Int[Tensor, " rows"],
    weights: Float[Tensor, "rows n"],
    cutoff: Float[Tensor, " heads"],
) -> LevelFinding:
    """What is found of `generatable`.

    **Arguments:** `head`: a list of heads, whose weights are not looked at; `which`: of which of them each row
    is; `weights`: the rows; `cutoff`: of each head.
    """

    def of_rows(tensor: Tensor) -> Tensor:
        return tensor.expand(*cutoff.shape, *tensor.shape[1:])[which]

    coordinates = of_rows(key_space(head, head.mask).coordinates)
    partial = ((weights > 0) != of_rows(head.mask)).any(dim=-1)
    if bool(partial.any()):
        # Weights of exactly zero do not move: the keys of the others decide.
        moving = key_space(head[which[partial]], weights[partial] > 0).coordinates
        coordinates[partial] = torch.nn.functional.pad(moving, (0, coordinates.shape[-1] - moving.shape[-1]))
    basis, dimension = tangents(weights, coordinates, head.eps)
    responses = singular_values(of_rows(head.reduced).mT @ basis)
    return _level(responses, dimension, cutoff[which])


def _level(
    singular: Float[Tensor, "*batch m"], dimension: Int[Tensor, "*#batch"], cutoff: Float[Tensor, "*batch"]
) -> LevelFinding:
    dimension = dimension.expand(singular.shape[:-1])
    nullity = dimension - (singular > cutoff[..., None]).sum(dim=-1)
    # Where some directions have no singular value, the nullity is not 0.
    last = (dimension - 1).clamp(0, singular.shape[-1] - 1)[..., None]
    return LevelFinding(dimension, nullity, singular.gather(-1, last)[..., 0])
