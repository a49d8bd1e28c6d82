r"""The projection $E$ with which keys are added to a head's output."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

# The least variance of a direction that is told apart from none, relative to the greatest of its head.
FLATTEST = 1e-2
# The least output of a head that sets the size of what is added to it, relative to the mean of its layer's heads.
QUIETEST = 1e-3


def carrying_projection(
    own: Float[Tensor, "heads d_v d_e"],
    covariance: Float[Tensor, "heads merged merged"],
    strength: float,
    generator: torch.Generator,
) -> Float[Tensor, "heads d_k d_e"]:
    r"""$E = s \, \frac{\sigma}{\rho} \, M R$ for each head of a layer, for values that carry keys: $D' = [D; E]$.

    - $R$, `[d_k, d_e]`, has orthonormal rows, orthogonal to those of the head's own $D$. So nothing that is
      added cancels what the head gave, and $T E^\top = K E E^\top$ gives back the keys. The $R$ of different
      heads come from one random orthogonal matrix: what they add has no direction in common to add up in.
    - $M = \Sigma^{-1/2}$, with $\Sigma$ the covariance of the mixed keys $a K$: every direction of the keys
      takes the same part of what is added. A direction of small variance would else be the one in which the
      weights can move almost unseen.
    - $\sigma$ is the root mean square of $a V D$ about its mean, $\rho$ that of $a K M R$, and $s$ the strength:
      what is added varies by the share $s$ of what the head's own output varies by.

    **Arguments:**

    - `own`: $D$.
    - `covariance`: of the mixed values and keys, $a [V\ K]$.
    - `strength`: $s$.
    - `generator`: of the random directions.

    **Returns:** $E$, in float64.
    """
    value_size = own.shape[1]
    values, keys = covariance[:, :value_size, :value_size], covariance[:, value_size:, value_size:]
    spread = torch.einsum("hie,hij,hje->h", own, values, own).clamp(min=0).sqrt()
    loudness = spread.clamp(min=QUIETEST * float(spread.mean()))
    metric = whitening(keys)
    added = (metric @ keys @ metric).diagonal(dim1=-2, dim2=-1).sum(dim=-1).clamp(min=0).sqrt()
    # Heads that give nothing, or have but one key, need no particular size.
    size = loudness.where(loudness > 0, 1.0) / added.where(added > 0, 1.0)
    frame = directions_beside(own, keys.shape[-1], generator)
    return strength * size[:, None, None] * (metric @ frame)


def whitening(covariance: Float[Tensor, "*batch d d"]) -> Float[Tensor, "*batch d d"]:
    r"""$\Sigma^{-1/2}$, symmetric, with eigenvalues below a hundredth of the greatest counted as that.

    Otherwise a direction that hardly varies on the texts at hand would be magnified, and vary on others.
    """
    values, vectors = torch.linalg.eigh(covariance)
    greatest = values[..., -1:].clamp(min=0)
    floored = torch.maximum(values, FLATTEST * greatest).where(greatest > 0, 1.0)
    return vectors @ (floored.rsqrt()[..., :, None] * vectors.mT)


def directions_beside(
    own: Float[Tensor, "heads d_v d_e"], count: int, generator: torch.Generator
) -> Float[Tensor, "heads count d_e"]:
    """Random orthonormal rows for each head, orthogonal to the rows of its projection.

    Blocks of rows of random orthogonal matrices, each moved to the nearest rows that are orthogonal to the
    head's own; where blocks are of one matrix, they stay nearly orthogonal to each other.
    """
    heads, _, width = own.shape
    blocks = width // count
    square = torch.randn(-(-heads // blocks), width, width, generator=generator, dtype=torch.float64)
    rows = torch.linalg.qr(square).Q[:, : blocks * count]
    random = rows.reshape(-1, count, width)[:heads].to(own.device)
    basis = torch.linalg.qr(own.mT).Q  # [heads, d_e, d_v]
    for _ in range(2):  # the second time for what rounding left
        beside = random - (random @ basis) @ basis.mT
        left, _, right = torch.linalg.svd(beside, full_matrices=False)
        random = left @ right
    return random
