r"""The rows that a head can generate as an exponential family, and two ways to find one of them.

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

from identiformer.identifiability.linalg import lengths, solve_gram, triangle

# A step that moves no weight by more than this is the last one.
_STILL = 1e-14
_MOST_STEPS = 200
# How far θ may go before the ridge moves the mean by more than rounding has. A mean that rounding has moved out of
# the hull ends at the bound, where weights vanish that are merely small: a nearer one is a better start then.
_REACHES = (1e3, 10.0, 0.1)


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


def fit(
    family: Family,
    mean: Float[Tensor, "*batch p"],
    noise: Float[Tensor, "*batch p"],
    matrix: Float[Tensor, "*#batch n r"],
    target: Float[Tensor, "*batch r"],
    enough: float,
) -> Float[Tensor, "*batch p"]:
    r"""The θ whose row has a given mean, which is known up to `noise`, and a given output: $a(\theta) T = h$.

    **Arguments:**

    - `mean`: `[*batch, p]`.
    - `noise`: `[*batch, p]`, to how much of each entry there is no meaning; 0 only for features that are zero.
    - `matrix`, `target`: $T$ and $h$.
    - `enough`: an error of the output, relative to the longest row of $T$, that needs no other try.

    **Returns:** `[*batch, p]`: the θ of the least error.
    """
    # Features that are zero need some ridge, no matter what.
    best, least = torch.zeros_like(mean), torch.full_like(mean[..., 0], torch.inf)
    for reach in _REACHES:
        theta = fit_mean(family, mean, (noise / reach).where(noise > 0, 1.0))
        theta, error = fit_output(family, theta, matrix, target)
        best = torch.where((error < least)[..., None], theta, best)
        least = torch.minimum(error, least)
        if bool((least <= enough).all()):
            break
    return best


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


def fit_output(
    family: Family,
    theta: Float[Tensor, "*batch p"],
    matrix: Float[Tensor, "*#batch n r"],
    target: Float[Tensor, "*batch r"],
) -> tuple[Float[Tensor, "*batch p"], Float[Tensor, "*batch"]]:
    r"""θ refined until $a(\theta) T = h$ as well as it can be, by damped Gauss-Newton steps.

    **Arguments:** `theta`: where to start; `matrix`: $T$; `target`: $h$.

    **Returns:** θ, `[*batch, p]`, and $\|a(\theta) T - h\|$ relative to the longest row of $T$, `[*batch]`.

    **Source:** Nocedal and Wright, Numerical Optimization, 2nd edition, section 10.3.
    """
    unit = torch.maximum(lengths(matrix).amax(dim=-1), lengths(target))
    unit = unit.where(unit > 0, 1.0)[..., None]
    floor = 64 * torch.finfo(torch.float64).eps

    def miss(theta: Tensor) -> Tensor:
        return ((family.weights(theta)[..., None, :] @ matrix)[..., 0, :] - target) / unit

    misses = miss(theta)
    error = lengths(misses)
    damping = torch.full_like(error, 1e-12)
    stalled = torch.zeros_like(error)
    for _ in range(_MOST_STEPS):
        done = (error <= floor) | (stalled >= 10)
        if bool(done.all()):
            break
        weights = family.weights(theta)
        present = (weights[..., None, :] @ family.features)[..., 0, :]
        moves = weights[..., None] * (family.features - present[..., None, :])
        response = (moves.mT @ (matrix / unit[..., None])).mT  # [*batch, r, p]
        size = lengths(response.flatten(-2))
        size = size.where(size > 0, 1.0)
        identity = torch.eye(theta.shape[-1], dtype=torch.float64, device=theta.device)
        stacked = torch.cat([response, (damping * size)[..., None, None] * identity], dim=-2)
        trial = theta - solve_gram(triangle(stacked), response.mT @ misses[..., None])[..., 0]
        after = miss(trial)
        better = (lengths(after) < error) & ~done
        stalled = torch.where(better & (lengths(after) < 0.5 * error), 0.0, stalled + 1)
        theta = torch.where(better[..., None], trial, theta)
        misses = torch.where(better[..., None], after, misses)
        error = torch.where(better, lengths(after), error)
        damping = torch.where(better, damping / 10, damping * 100)
    return theta, error
