"""Whether the output of a layer fixes the weights of all its heads."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from identiformer.errors import InputError
from identiformer.identifiability.certificate import Verdict
from identiformer.identifiability.directions import Level, directions, key_space
from identiformer.identifiability.head import AttentionHead
from identiformer.identifiability.linalg import lengths, qr, singular_values, svd, triangle
from identiformer.identifiability.pieces import halves
from identiformer.identifiability.spectrum import centre
from identiformer.identifiability.tolerance import ROUNDING, product_error, resolution, used_columns


@dataclass(frozen=True, eq=False)
class LayerLevel:
    r"""What holds at one level for all heads of a layer together, for every row of a batch.

    With a block-diagonal orthonormal basis $U$ of the directions in which the level lets the weights of the heads
    move, and the $T_h$ of the heads below each other in $T$:

    - `nullity`: `[*batch]`, $\sum_h \dim U_h - \mathrm{rank}(T^\top U)$: how many independent small changes, in
      one head or in several at once, leave the output of the layer as it is.
    - `margin`: `[*batch]`, $\sigma_{\min}(T^\top U) / \sigma_{\max}(T)$, and 0 where the nullity is not 0. In
      [0, 1]; 1 where there is no direction at all.
    - `verdict`: `[*batch]`, values of [`Verdict`][].
    - `directions`: `[*batch]`, $\sum_h \dim U_h$.
    """

    nullity: Int[Tensor, "*batch"]
    margin: Float[Tensor, "*batch"]
    verdict: Int[Tensor, "*batch"]
    directions: Int[Tensor, "*batch"]


@dataclass(frozen=True, eq=False)
class LayerCertificate:
    """What a layer's output fixes of the weights of all its heads; not what a head's own output fixes of its own.

    That is a [`Certificate`][], and either can hold without the other being worth anything: heads that are
    identifiable one by one can make up for each other, since a layer adds them.

    - `free`, `simplex`, `generatable`: a [`LayerLevel`][] each; also `certificate[Level.SIMPLEX]`.
    - `heads`: how many heads the layer has.
    """

    free: LayerLevel
    simplex: LayerLevel
    generatable: LayerLevel
    heads: int

    def __getitem__(self, level: Level | str) -> LayerLevel:
        """The certificate of one level."""
        return {Level.FREE: self.free, Level.SIMPLEX: self.simplex, Level.GENERATABLE: self.generatable}[
            Level(level)
        ]


def certify_layer(head: AttentionHead, head_dimension: int | None = None) -> LayerCertificate:
    r"""Whether other weights, in any of the heads, would have given the same output of the layer.

    A layer adds its heads up: its output is $\sum_h a_h T_h$, $T_h = V_h D_h$, where all $D_h$ are the same in a
    layer that merges its heads by `add`. That is $a T$ with the rows $a_h$ beside and the $T_h$ below each
    other, so it is the computation of [`certify`][] again, on the directions
    $U = \mathrm{diag}(U_1, …, U_H)$:
    $$\text{nullity} = \textstyle\sum_h \dim U_h - \mathrm{rank}([T_h^\top U_h]_h).$$

    At `generatable` it is 0 for almost every input while $H d_k \le d_e$, or $\le \min(d_v, d_e)$ for `add`. It is
    `local` then, and `global` in two cases:

    - the nullity of the simplex is 0;
    - for every head, the columns of $\mathrm{diag}(0, …, K_h, …, 0)$ lie in the column space of
      $[T\ \mathrm{diag}(1, …, 1)]$. Then the output of the layer fixes the mean keys of all heads, and those fix
      the rows. So it is where all values carry their keys and the stacked $D_h$ have full row rank; heads that
      share one $D$ can only do so if they differ in the channels that carry.

    Singular values of $T^\top U$ up to $\tau = \max(\sum_h n_h, d_e) \cdot \varepsilon \cdot \sigma_{\max}(T)$
    count as zero, with the exceptions of [`output_cutoff`][].

    **Arguments:**

    - `head`: the heads of a layer as one batch, as `[heads]`, `[heads, rows]` or `[texts, heads, rows]`.
    - `head_dimension`: which batch dimension counts the heads. By default the last but one, or the only one.

    **Returns:** a [`LayerCertificate`][] with tensors of the batch shape without that dimension.

    **Raises:** [`InputError`][] where there is no such dimension.

    **Source:** the levels are those of [`certify`][]. Exponential families: Barndorff-Nielsen, Information and
    Exponential Families, section 9.1.
    """
    place = _head_place(head, head_dimension)
    parts = halves(head, whole=place)
    if parts is None:
        return _certify(head, place)
    one, other = (certify_layer(part, place) for part in (parts.one, parts.other))
    dimension = parts.dimension - (parts.dimension > place)
    joined = [_join(one[level], other[level], dimension) for level in Level]
    return LayerCertificate(*joined, heads=one.heads)


def _join(one: LayerLevel, other: LayerLevel, dimension: int) -> LayerLevel:
    names = [field.name for field in dataclasses.fields(LayerLevel)]
    return LayerLevel(
        *(torch.cat([getattr(one, name), getattr(other, name)], dim=dimension) for name in names)
    )


def _head_place(head: AttentionHead, dimension: int | None) -> int:
    """The batch dimension that counts the heads, from 0."""
    shape = tuple(head.batch_shape)
    if not shape:
        raise InputError(
            "a layer needs a batch dimension that counts its heads, and this head has batch shape (): "
            "put the heads together with AttentionHead.stack"
        )
    if dimension is None:
        return max(len(shape) - 2, 0)
    if not -len(shape) <= dimension < len(shape):
        raise InputError(f"head_dimension is {dimension}, but the heads have batch shape {shape}")
    return dimension % len(shape)


def _certify(head: AttentionHead, place: int) -> LayerCertificate:
    batch = torch.Size([*head.batch_shape[:place], *head.batch_shape[place + 1 :]])

    def stacked(tensor: Tensor, own: int) -> Tensor:
        """`[*batch, heads, ...]`, the heads last among the batch dimensions and no longer shared."""
        missing = len(head.batch_shape) + own - tensor.ndim
        tensor = tensor[(None,) * missing]
        shape = list(tensor.shape)
        shape[place] = head.batch_shape[place]
        return tensor.expand(shape).movedim(place, len(head.batch_shape) - 1)

    mask = stacked(head.mask, 1)
    values = stacked(head.values, 2).masked_fill(~mask[..., None], 0.0)
    given = head.output_projection
    projection = torch.eye(values.shape[-1], dtype=torch.float64, device=values.device)
    projection = stacked(projection if given is None else given, 2)

    whole = singular_values(_below(triangle(values) @ projection))
    tokens = mask.sum(dim=(-2, -1))
    cutoff = _cutoff(head.eps, tokens, values, projection, whole[..., 0])
    greatest = whole[..., 0]

    basis, upper = qr(centre(values, mask))
    left, centred, _ = svd(_below(upper @ projection))

    moves = directions(head, Level.GENERATABLE)
    tangent = stacked(moves.basis, 2)
    dimension = stacked(moves.dimension, 0).sum(dim=-1)
    responses = singular_values(_below(tangent.mT @ values @ projection))

    def nullity(singular: Tensor, dimension: Tensor) -> Tensor:
        return dimension - (singular > cutoff[..., None]).sum(dim=-1)

    heads = head.batch_shape[place]
    free = nullity(whole, tokens)
    # Interlacing says that nullities do not grow; rounding at the cutoff must not say otherwise.
    simplex = torch.minimum(free, nullity(centred, tokens - heads))
    generatable = torch.minimum(simplex, nullity(responses, dimension))
    keys = key_space(head, head.mask)
    coordinates = centre(stacked(keys.coordinates, 2), mask)
    carried = _carries_keys(
        coordinates,
        stacked(keys.noise, 1),
        basis,
        left * (centred > cutoff[..., None])[..., None, :],
        centred / greatest.where(greatest > 0, 1.0)[..., None],
        head.eps,
    )

    def level(nullity: Tensor, singular: Tensor, dimension: Tensor, only_one: bool | Tensor) -> LayerLevel:
        dimension = dimension.expand(batch)
        # Where some directions have no singular value, the nullity is not 0.
        last = (dimension - 1).clamp(0, singular.shape[-1] - 1)[..., None]
        least = singular.expand(*batch, singular.shape[-1]).gather(-1, last)[..., 0]
        relative = (least / greatest.where(greatest > 0, 1.0)).clamp(max=1.0)
        margin = torch.where(dimension == 0, 1.0, relative).masked_fill(nullity > 0, 0.0)
        unique = torch.where(torch.as_tensor(only_one), int(Verdict.GLOBAL), int(Verdict.LOCAL))
        verdict = torch.where(nullity == 0, unique, int(Verdict.NONE))
        return LayerLevel(nullity.expand(batch), margin, verdict.expand(batch), dimension)

    return LayerCertificate(
        free=level(free, whole, tokens, True),
        simplex=level(simplex, centred, tokens - heads, True),
        generatable=level(generatable, responses, dimension, (simplex == 0) | carried),
        heads=heads,
    )


def _below(blocks: Float[Tensor, "*batch heads m d"]) -> Float[Tensor, "*batch hm d"]:
    """The matrices of the heads below each other."""
    return blocks.flatten(-3, -2)


def _cutoff(
    eps: float,
    tokens: Int[Tensor, "*#batch"],
    values: Float[Tensor, "*#batch heads n d_v"],
    projection: Float[Tensor, "*#batch heads d_v d_e"],
    greatest: Float[Tensor, "*#batch"],
) -> Float[Tensor, "*#batch"]:
    r"""[`output_cutoff`][] for $\mathrm{diag}(V_1, …, V_H)$ and the stacked $D_h$."""
    columns = used_columns(_below(projection))
    relative = resolution(tokens, columns, eps)
    terms = (lengths(values, dim=-2) * lengths(projection, dim=-1)).flatten(-2)
    error = product_error(terms, tokens, columns, eps)
    return torch.maximum(relative.clamp(min=ROUNDING) * greatest, error)


def _carries_keys(
    coordinates: Float[Tensor, "*#batch heads n p"],
    noise: Float[Tensor, "*#batch heads p"],
    basis: Float[Tensor, "*#batch heads n r"],
    left: Float[Tensor, "*#batch hr m"],
    singular: Float[Tensor, "*#batch m"],
    eps: float,
) -> Bool[Tensor, "*#batch"]:
    r"""Whether the keys of every head alone lie in the column space of the stacked $T_h$, each centred.

    An orthonormal basis of that space is $\mathrm{diag}(Q_1, …, Q_H) L$. As for one head, the part outside of it
    of each principal direction of the keys must be rounding noise.

    **Arguments:** `basis`: $Q_h$; `left`: $L$, columns beyond the rank zero; `singular`: the singular values that
    belong to it, relative to that of $T$.
    """
    heads, rank = basis.shape[-3], basis.shape[-1]
    inner = basis.mT @ coordinates  # [*batch, heads, r, p]
    beyond = lengths(coordinates - basis @ inner, dim=-2).flatten(-2)
    alone = torch.eye(heads, dtype=torch.float64, device=basis.device)[:, None, :, None]
    blocks = (inner[..., None, :] * alone).flatten(-4, -3).flatten(-2)  # [*batch, heads * r, heads * p]
    assert blocks.shape[-2] == heads * rank
    inside = left.mT @ blocks
    outside = torch.hypot(lengths(blocks - left @ inside, dim=-2), beyond)
    present = (left != 0).any(dim=-2)
    weakest = singular.where(present, torch.inf)
    # What our own arithmetic loses where the keys hang on small singular values of T.
    hanging = lengths(inside / weakest[..., None], dim=-2)
    arithmetic = (ROUNDING * (1 + hanging)).clamp(max=1e-8)
    return (outside <= torch.maximum(noise.flatten(-2).clamp(max=eps**0.5), arithmetic)).all(dim=-1)
