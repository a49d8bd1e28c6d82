r"""The rows that a head can generate as an exponential family, and how to find the one with a given mean.

$$a(\theta) = \mathrm{softmax}(b + X \theta)$$

over the visible tokens, with features $X$ of one scale. Its derivative is
$\partial a = \mathrm{diag}(a) (X - 1 a^\top X) \, \partial\theta$, and that of its mean $a^\top X$ the covariance
of the features under $a$.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from identiformer.identifiability.linalg import solve_gram, triangle

# A step that moves no weight by more than this is the last one.
_STILL = 1e-14
_MOST_STEPS = 200


class Family(NamedTuple):
    """The rows softmax(bias + features θ).

    - `features`: `[*batch, n, p]`, of mean 0 and variance 1, or zero.
    - `mask`: `[*batch, n]`, the visible tokens.
    - `bias`: `[*batch, n]`, or `None`.
    """

    features: Float[Tensor, "*#batch n p"]
    mask: Bool[Tensor, "*#batch n"]
    bias: Float[Tensor, "*#batch n"] | None

    def logits(self, theta: Float[Tensor, "*batch p"]) -> Float[Tensor, "*batch n"]:
        """The logits of visible tokens, and minus infinity for the others."""
        logits = (self.features @ theta[..., None])[..., 0]
        if self.bias is not None:
            logits = logits + self.bias
        return logits.masked_fill(~self.mask, -torch.inf)

    def weights(self, theta: Float[Tensor, "*batch p"]) -> Float[Tensor, "*batch n"]:
        """The row of θ."""
        return torch.softmax(self.logits(theta), dim=-1)


def fit_mean(
    family: Family, mean: Float[Tensor, "*batch p"], ridge: Float[Tensor, "*batch p"]
) -> Float[Tensor, "*batch p"]:
    r"""The θ whose row has a given mean: the minimum of a convex function, by Newton's method.

    $$f(\theta) = \log \textstyle\sum_i \exp(b_i + x_i^\top \theta) - m^\top \theta
      + \tfrac12 \sum_j \rho_j \theta_j^2$$

    Its gradient is $a^\top X - m + \rho \theta$, its Hessian the covariance plus $\mathrm{diag}(\rho)$. A mean
    that rounding has moved out of the convex hull of the features, as happens to peaked rows, belongs to no row:
    the tiny $\rho$ keeps θ finite.

    The Newton step is computed from $\mathrm{diag}(\sqrt a) (X - 1 a^\top X)$, never from the covariance, whose
    small eigenvalues would drown in rounding. Along each step the slope is brought near zero: at peaked rows full
    steps overshoot by many orders of magnitude, and near the boundary they are far too short.

    **Arguments:**

    - `mean`: `[*batch, p]`, $m$.
    - `ridge`: `[*batch, p]`, $\rho > 0$.

    **Returns:** `[*batch, p]`.

    **Source:** Boyd and Vandenberghe, Convex Optimization, section 9.5. How far a step may go: $f$ is generalised
    self-concordant, Sun and Tran-Dinh (arXiv 1703.04599), section 4.
    """
    features = family.features
    theta = torch.zeros_like(mean)
    moved = torch.full_like(mean[..., 0], torch.inf)
    stalled = torch.zeros_like(moved)
    done = torch.zeros_like(moved, dtype=torch.bool)
    for _ in range(_MOST_STEPS):
        weights = family.weights(theta)
        present = (weights[..., None, :] @ features)[..., 0, :]
        downhill = mean - present - ridge * theta
        spread = weights.sqrt()[..., None] * (features - present[..., None, :])
        step = solve_gram(
            triangle(torch.cat([spread, torch.diag_embed(ridge.sqrt())], dim=-2)), downhill[..., None]
        )[..., 0]
        step = step.masked_fill(done[..., None], 0.0)
        step = step * _step_length(family, theta, step, mean, ridge)[..., None]
        theta = theta + step
        change = (family.weights(theta) - weights).abs().amax(dim=-1)
        # Near the solution steps shrink fast, until nothing but rounding is left of them.
        stalled = (stalled + 1).where((change < 1e-6) & (change > 0.5 * moved), 0.0)
        done |= (change <= _STILL) | (stalled >= 3)
        moved = change
        if bool(done.all()):
            break
    return theta


def _step_length(
    family: Family,
    theta: Float[Tensor, "*batch p"],
    step: Float[Tensor, "*batch p"],
    mean: Float[Tensor, "*batch p"],
    ridge: Float[Tensor, "*batch p"],
) -> Float[Tensor, "*batch"]:
    r"""A length $t$ of the step at which the slope of $f$ is at most a quarter of what it was.

    With $r$ the range of $X \, \partial\theta$, the slope cannot have changed its sign before
    $t = \log(1 + r) / r$: that is where the search begins.
    """
    start = family.logits(theta)
    logits = (family.features @ step[..., None])[..., 0]
    # Features have mean 0, so the range over visible tokens contains this 0.
    logits = logits.masked_fill(~family.mask, 0.0)
    reach = logits.amax(dim=-1) - logits.amin(dim=-1)

    def slope(length: Tensor) -> Tensor:
        weights = torch.softmax(start + length[..., None] * logits, dim=-1)
        pull = mean - ridge * (theta + length[..., None] * step)
        return (weights * logits).sum(dim=-1) - (pull * step).sum(dim=-1)

    enough = 0.25 * slope(torch.zeros_like(reach)).abs()
    low = (torch.log1p(reach) / reach.where(reach > 0, 1.0)).where(reach > 0, 1.0)
    high = torch.full_like(low, torch.inf)
    length = low.clamp(min=1.0)
    for _ in range(100):
        now = slope(length)
        if bool((now.abs() <= enough).all()):
            break
        low = torch.where(now < -enough, length, low)
        high = torch.where(now > enough, length, high)
        further = torch.where(torch.isfinite(high), (low * high).sqrt(), 4 * length)
        length = torch.where(now.abs() <= enough, length, further)
    return length
