r"""The row of an exponential family whose output is nearest to a given one: $\min_\theta \|a(\theta) T - h\|$.

Where $h$ is the output of a row, the minimum is zero and near where the mean key says. In half precision it is not
zero, and the misfit may have several local minima; those that several starts lead to are compared.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from identiformer.identifiability.exponential import Family, fit_mean
from identiformer.identifiability.linalg import lengths, solve_gram, svd, triangle

_MOST_STEPS = 200
# A step that can gain no more than this of the square of the error gains nothing.
_LITTLE = 1e-12
# How far θ may go before the ridge moves the mean by more than rounding has. A mean that rounding has moved out of
# the hull ends at the bound, where weights vanish that are merely small: a nearer one is a better start then.
_REACHES = (1e3, 10.0, 0.1)
# Singular values of what the output says of the mean, relative to the greatest, below which it says nothing.
_SILENT = 1e-6


def fit(
    family: Family,
    reading: Float[Tensor, "*#batch m p"],
    inside: Float[Tensor, "*batch m"],
    noise: Float[Tensor, "*batch p"],
    matrix: Float[Tensor, "*#batch n r"],
    target: Float[Tensor, "*batch r"],
    enough: float,
) -> Float[Tensor, "*batch p"]:
    r"""The θ whose row has an output as near to a given one as can be found: $\|a(\theta) T - h\|$.

    Gauss-Newton steps from several rows, in this order, until the error is small enough:

    - those with the mean $m = y^\top R$ that the output says, by convex problems with a ridge of `noise`;
    - that of θ = 0;
    - that whose mean is nearest to $m$ as the output sees it: the least change of $y$ that gives it that mean. Over all
      means of rows, a convex set, that is a strictly convex function, so there is only one such row or face.

    **Arguments:**

    - `reading`, `inside`: $R$ and $y$, in coordinates in which errors of $y$ are errors of the output.
    - `noise`: `[*batch, p]`, to how much of each entry of $m$ there is no meaning; 0 only for features that are zero.
    - `matrix`, `target`: $T$ and $h$.
    - `enough`: an error of the output, relative to the longest row of $T$, that needs no other try.

    **Returns:** `[*batch, p]`: the θ of the least error.
    """
    mean = (inside[..., None, :] @ reading)[..., 0, :]
    none = torch.zeros_like(mean)

    def with_ridge(reach: float) -> Tensor:
        # Features that are zero need some ridge, no matter what.
        return fit_mean(family, mean, (noise / reach).where(noise > 0, 1.0))

    def as_seen() -> Tensor:
        left, singular, right = svd(reading)
        kept = singular > _SILENT * singular[..., :1]
        inverse = (right.mT * (kept / singular.where(kept, 1.0))[..., None, :]) @ left.mT
        return fit_output(family, none, family.features @ inverse, (mean[..., None, :] @ inverse)[..., 0, :])[
            0
        ]

    starts = [*((lambda reach=reach: with_ridge(reach)) for reach in _REACHES), lambda: none, as_seen]
    best, least = none, torch.full_like(mean[..., 0], torch.inf)
    for start in starts:
        theta, error = fit_output(family, start(), matrix, target)
        best = torch.where((error < least)[..., None], theta, best)
        least = torch.minimum(error, least)
        if bool((least <= enough).all()):
            break
    return best


def fit_output(
    family: Family,
    theta: Float[Tensor, "*batch p"],
    matrix: Float[Tensor, "*#batch n r"],
    target: Float[Tensor, "*batch r"],
) -> tuple[Float[Tensor, "*batch p"], Float[Tensor, "*batch"]]:
    r"""θ refined until $a(\theta) T = h$ as well as it can be near by, by damped Gauss-Newton steps.

    Where the least error is only reached at the edge of the family, θ goes as far as makes a difference.

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
    done = error <= floor
    for _ in range(_MOST_STEPS):
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
        step = solve_gram(triangle(stacked), response.mT @ misses[..., None])[..., 0]
        trial = theta - step
        after = miss(trial)
        # What the step would gain if the output were linear in it, and what it does gain, of the square of the error.
        square = error.square()
        hoped = square - lengths(misses - (response @ step[..., None])[..., 0]).square()
        gained = square - lengths(after).square()
        better = (gained > 0) & ~done
        idle = (hoped <= _LITTLE * square) & ~(gained > _LITTLE * square)
        stalled = torch.where(idle, stalled + 1, stalled.where(~better, 0.0))
        theta = torch.where(better[..., None], trial, theta)
        misses = torch.where(better[..., None], after, misses)
        error = torch.where(better, lengths(after), error)
        done |= (error <= floor) | (stalled >= 3) | (damping > 1e8)
        slower = torch.where(better, damping, (10 * damping).clamp(min=1e-4))
        damping = torch.where(better & (gained > 0.25 * hoped), damping / 10, slower)
    return theta, error
