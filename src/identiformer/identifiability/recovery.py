"""The weights of a head from its output alone: the proof that a certificate holds."""

from __future__ import annotations

import dataclasses
from contextlib import suppress

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from identiformer.errors import InputError
from identiformer.identifiability.certificate import LevelCertificate, Verdict, certify
from identiformer.identifiability.directions import Level, key_space
from identiformer.identifiability.exponential import Family
from identiformer.identifiability.head import AttentionHead
from identiformer.identifiability.linalg import broadcast, lengths, qr, svd
from identiformer.identifiability.nearest_row import fit
from identiformer.identifiability.pieces import halves
from identiformer.identifiability.spectrum import centre, output_scale


def recover(
    keys: Float[Tensor, "*#batch n d_k"],
    values: Float[Tensor, "*#batch n d_v"],
    output_projection: Float[Tensor, "*#batch d_v d_e"] | None,
    output: Float[Tensor, "*#batch d_e"],
    level: Level | str,
    *,
    visible: Bool[Tensor, "*#batch n"] | None = None,
    bias: Float[Tensor, "*#batch n"] | None = None,
    dtype: torch.dtype | None = None,
) -> Float[Tensor, "*batch n"]:
    r"""The weights $a$ of which $h = a T$ is the output, $T = V D$, where the output fixes them.

    - `free` and `simplex` are linear. With the thin factorisation
      $T - 1 \bar t^\top = L \, \mathrm{diag}(\sigma) R^\top$ of $T$ less the mean $\bar t$ of its rows,
      $$a = \tfrac1n 1 + L z, \qquad z = \mathrm{diag}(\sigma)^{-1} R^\top (h - \bar t),$$
      and at `free` the same with $T$ itself and without $\tfrac1n 1$.
    - At `generatable`, the keys lie in the column space of $[T\ 1]$, and $z$ fixes their mean
      $m = K^\top a = K^\top (\tfrac1n 1 + L z)$, whatever $n$ is. The row is $\mathrm{softmax}(b + K \theta)$ with
      $$\theta = \arg\min_\theta \ \log \textstyle\sum_i \exp(b_i + k_i^\top \theta) - m^\top \theta,$$
      a strictly convex problem in the coordinates of [`key_space`][]. Where the keys hang on weak directions of
      $T$, $m$ is known less well than $h$; so the solution is refined on $a(\theta) T = h$ itself ([`fit`][]).

    All arithmetic is in float64. The error is that of the output divided by the margin of the certificate, a few
    roundings where the output is exact.

    **Rounded outputs.** In half precision $h$ is the output of no row, and the mean key that it says may be that of no
    row either. Returned at `generatable` is then the row of the least misfit $\|a T - h\|$ that is found from several
    starts, in the Euclidean norm; where that is only reached as some weights go to 0, they are all but 0. The misfit is
    not convex, and rounding gives it several local minima, so there may be a better row. What holds of every head that
    the tests draw, though nothing proves it, is

    $$\|a T - h\| \le \max(\|a^* T - h\|, \varepsilon s), \qquad s = \max(\max_i \|T_i\|, \|h\|)$$

    for the true row $a^*$ (if its query has no part in differences of keys that count as zero): $a$ fits as well as
    that one, or as well as the precision $\varepsilon$ of the model can tell. The weights are then off by about
    $\varepsilon$ over the margin, which is no small number for a margin of 0.01 in bfloat16.

    An output is refused where it is further from the output of every row than any rounding in the model explains,
    $\sqrt\varepsilon s$ (logits of 20 and more lose that much) and the rounding of $a V$ before it meets $D$.

    **Arguments:**

    - `keys`, `values`, `output_projection`, `visible`, `bias`: as in [`AttentionHead`][], of any batch shape.
    - `output`: `[*batch, d_e]`, $h$, what the head adds to the output of its layer: without the bias of the
      output projection.
    - `level`: which rows are allowed.
    - `dtype`: the floating-point type in which the model computed, which decides what counts as zero and how far
      an output may be off. By default that of `output`.

    **Returns:** `[*batch, n]`, zero for tokens that are not visible.

    **Raises:** [`InputError`][] where the output does not fix the weights at that level in every row of the batch
    (it says at which level it does): by the certificate of equal weights, and at `generatable`, where nullities depend
    on the row, by that of the row found. Also where no such weights have that output, and for whatever
    [`AttentionHead`][] refuses.

    **Source:** the mean of an exponential family fixes its member: Barndorff-Nielsen, Information and Exponential
    Families, section 9.1.
    """
    level = _level(level)
    if not output.is_floating_point():
        raise InputError(f"output must be of a floating-point dtype, not {output.dtype}")
    head = _without_weights(keys, values, output_projection, visible, bias, dtype or output.dtype)
    shape = _check_output_shape(head, output)
    certificate = certify(head)[level]
    sure = certificate.verdict == Verdict.GLOBAL
    # Other rows may have another nullity at `generatable`, but not where it is 0.
    hopeless = ~sure if level != Level.GENERATABLE else certificate.verdict == Verdict.LOCAL
    if bool(hopeless.any()):
        raise _not_fixed(head, level, hopeless, certificate)
    head = dataclasses.replace(head, weights=head.weights.expand(*shape, head.weights.shape[-1]))
    target = output.detach().to(torch.float64).expand(*shape, output.shape[-1])
    weights = _recover(head, target, level)
    if not bool(sure.all()):
        there = certify(dataclasses.replace(head, weights=weights))[level]
        unsure = ~sure & (there.verdict < Verdict.GLOBAL)
        if bool(unsure.any()):
            raise _not_fixed(head, level, unsure, certificate)
    # Rounding in directions that hardly move the output moves it further where weights of less than 0 are cut off.
    rounding = 64 * head.eps / certificate.margin if level != Level.GENERATABLE else 0.0
    _check_output(head, weights, target, level, head.eps**0.5 + rounding)
    return weights


def _recover(
    head: AttentionHead, output: Float[Tensor, "*batch d_e"], level: Level
) -> Float[Tensor, "*batch n"]:
    parts = halves(head)
    if parts is not None:
        half = parts.one.batch_shape[parts.dimension]
        rest = output.shape[parts.dimension] - half
        one = _recover(parts.one, output.narrow(parts.dimension, 0, half), level)
        other = _recover(parts.other, output.narrow(parts.dimension, half, rest), level)
        return torch.cat([one, other], dim=parts.dimension)
    matrix, target = _reduced(head, output)
    cutoff = output_scale(head).cutoff[..., None]
    tokens = head.tokens[..., None].to(torch.float64)
    offset = torch.zeros_like(target) if level == Level.FREE else matrix.sum(dim=-2) / tokens
    left, singular, right = svd(matrix if level == Level.FREE else centre(matrix, head.mask))
    kept = singular > cutoff
    inverse = kept / singular.where(kept, 1.0)
    inside = inverse * (right @ (target - offset)[..., None])[..., 0]  # z
    if level != Level.GENERATABLE:
        weights = (left @ inside[..., None])[..., 0]
        if level == Level.SIMPLEX:
            # Whatever is negative is rounding, or else the output is found out to be of no such weights.
            weights = (weights + 1 / tokens).clamp(min=0)
        return weights.masked_fill(~head.mask, 0.0)
    # Features of mean 0 and variance 1.
    features = centre(_coordinates(head), head.mask) * tokens[..., None].sqrt()
    # The mean is (h - t) R, R^T = within^T diag(inverse) right.
    reading = inverse[..., None] * (left.mT @ features)  # [*batch, r, p]
    seen = (right @ (target - offset)[..., None])[..., 0]
    # By how much the rounding of the output, in the model's precision, may have moved the mean.
    size = torch.maximum(lengths(target), lengths(matrix).amax(dim=-1))[..., None]
    noise = head.eps * size * lengths(reading, dim=-2)
    family = Family(features, head.mask, head.bias)
    # What rounding leaves in half precision is compared, not accepted.
    rounding = 1e3 * torch.finfo(torch.float64).eps
    enough = rounding if _is_half(head) else max(head.eps, rounding)
    return family.weights(fit(family, reading, seen, noise, matrix, target, enough))


def _is_half(head: AttentionHead) -> bool:
    """Whether the model computed in less than float32."""
    return head.eps > torch.finfo(torch.float32).eps


def _coordinates(head: AttentionHead) -> Float[Tensor, "*#batch n p"]:
    """The keys in the directions of [`key_space`][], with all differences that the model computed with.

    In half precision, keys count as equal that differ by a few percent: no certificate may rest on that
    difference, but rows do depend on it.
    """
    keys = key_space(head, head.mask)
    exact = torch.finfo(torch.float64).eps
    if head.eps <= exact:
        return keys.coordinates
    finer = key_space(dataclasses.replace(head, dtype=torch.float64), head.mask).coordinates
    columns = torch.arange(keys.coordinates.shape[-1], device=finer.device)
    return finer[..., : len(columns)] * (columns < keys.dimension[..., None])[..., None, :]


def _without_weights(
    keys: Tensor,
    values: Tensor,
    output_projection: Tensor | None,
    visible: Tensor | None,
    bias: Tensor | None,
    dtype: torch.dtype,
) -> AttentionHead:
    """A head with what is known of it, checked, and with equal weights on all visible tokens."""
    given = {"keys": (keys, 2), "values": (values, 2), "visible": (visible, 1), "bias": (bias, 1)}
    for name, (tensor, dimensions) in given.items():
        if tensor is None:
            continue
        if tensor.ndim < dimensions:
            raise InputError(
                f"{name} has shape {tuple(tensor.shape)}: it needs {dimensions} dimensions or more"
            )
        if tensor.shape[-dimensions] != keys.shape[-2]:
            raise InputError(
                f"{name} has shape {tuple(tensor.shape)} and keys have shape {tuple(keys.shape)}: "
                f"they differ in the number of tokens, {tensor.shape[-dimensions]} and {keys.shape[-2]}"
            )
    seen = torch.ones(keys.shape[-2], device=keys.device) if visible is None else visible
    # A row without a token is for AttentionHead to refuse.
    weights = seen / seen.sum(dim=-1, keepdim=True).clamp(min=1).to(torch.float64)
    given["output_projection"] = (output_projection, 2)
    batches = [weights.shape[:-1], *(t.shape[: t.ndim - own] for t, own in given.values() if t is not None)]
    # What does not broadcast is for AttentionHead to refuse, too.
    with suppress(RuntimeError):
        weights = weights.expand(*broadcast(*batches), weights.shape[-1])
    return AttentionHead(weights, keys, values, output_projection, visible, bias, dtype=dtype)


def _check_output_shape(head: AttentionHead, output: Tensor) -> torch.Size:
    """The batch shape of keys, values and output together."""
    name = "values" if head.output_projection is None else "output_projection"
    last = head.values if head.output_projection is None else head.output_projection
    if output.shape[-1:] != last.shape[-1:]:
        raise InputError(
            f"output has shape {tuple(output.shape)} and {name} has shape {tuple(last.shape)}: "
            "their last dimensions, d_e, must be equal"
        )
    if not bool(torch.isfinite(output).all()):
        raise InputError(f"output has shape {tuple(output.shape)} and holds NaN or infinity")
    try:
        return broadcast(head.batch_shape, output.shape[:-1])
    except RuntimeError:
        raise InputError(
            f"the batch dimensions {tuple(output.shape[:-1])} of output do not broadcast against "
            f"{tuple(head.batch_shape)}, those of keys and values"
        ) from None


def _level(level: Level | str) -> Level:
    try:
        return Level(level)
    except ValueError:
        known = ", ".join(Level)
        raise InputError(f"level must be one of {known}, not {level!r}") from None


def _not_fixed(
    head: AttentionHead, level: Level, failing: Bool[Tensor, "*batch"], certificate: LevelCertificate
) -> InputError:
    """The error that says that the output does not fix the weights, and at which level it does."""
    first = tuple(int(i) for i in failing.nonzero()[0])
    nullity = int(certificate.nullity.expand(failing.shape)[first])
    why = f"nullity {nullity}" if nullity else "no other row nearby, but perhaps others far away"
    where = f" in row {first}" if first else ""
    rounded = f" as {str(head.dtype).removeprefix('torch.')} rounds it" if _is_half(head) else ""
    every = certify(head)
    others = [other for other in Level if bool((every[other].verdict == Verdict.GLOBAL).all())]
    remedy = (
        f"recover them at level {others[0].value!r}, where it does"
        if others
        else "nor does it at any other level: certify says how far it does"
    )
    return InputError(
        f"the output{rounded} does not fix the weights at level {level.value!r} ({why}{where}); {remedy}"
    )


def _reduced(
    head: AttentionHead, output: Float[Tensor, "*batch d_e"]
) -> tuple[Float[Tensor, "*#batch n r"], Float[Tensor, "*batch r"]]:
    r"""$T$ and $h$ with no more columns than needed: with the thin $D^\top = Q R$, $V R^\top$ and $h Q$."""
    projection = head.output_projection
    if projection is None or projection.shape[-1] <= projection.shape[-2]:
        return head.transformed, output
    basis, upper = qr(projection.mT)
    visible = head.values.masked_fill(~head.mask[..., None], 0.0)
    return visible @ upper.mT, (output[..., None, :] @ basis)[..., 0, :]


def _check_output(
    head: AttentionHead,
    weights: Float[Tensor, "*batch n"],
    output: Float[Tensor, "*batch d_e"],
    level: Level,
    allowed: float | Float[Tensor, "*#batch"],
) -> None:
    """Refuses an output that no allowed weights have: the nearest ones would pass for an answer."""
    transformed = head.transformed
    miss = lengths((weights[..., None, :] @ transformed)[..., 0, :] - output)
    size = torch.maximum(lengths(transformed).amax(dim=-1), lengths(output))
    share = miss / size.where(size > 0, 1.0)
    failing = miss > allowed * size + _product_rounding(head)
    if bool(failing.any()):
        first = tuple(int(i) for i in failing.nonzero()[0])
        raise InputError(
            f"no weights at level {level.value!r} have this output{f' in row {first}' if first else ''}: the "
            f"nearest miss it by {float(share[first]):.1e} of the longest row of T. "
            "Give it as the head adds it, before any bias, and the precision of the model as dtype"
        )


def _product_rounding(head: AttentionHead) -> Float[Tensor, "*#batch"]:
    r"""What rounding $a V$ to the model's precision, and $a V D$, may move an output by.

    At most $\varepsilon \sum_j \max_i |V_{ij}| \|D_{j:}\|$, which is much where the product cancels. Numbers that the
    precision is too narrow for lose the least that it can hold besides, in each of their entries.
    """
    least = torch.finfo(head.dtype or torch.float64).smallest_normal * head.eps
    projection, values = head.output_projection, head.visible_values
    if projection is None:
        return torch.full_like(values[..., 0, 0], least * values.shape[-1] ** 0.5)
    of_rows = lengths(projection)
    largest = values.abs().amax(dim=-2)
    return ((head.eps * largest + least) * of_rows).sum(dim=-1) + least * projection.shape[-1] ** 0.5
