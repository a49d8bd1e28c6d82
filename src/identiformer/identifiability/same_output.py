"""When two rows of weights give the same output, in numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from identiformer.identifiability.head import AttentionHead
from identiformer.identifiability.linalg import lengths, svd
from identiformer.identifiability.spectrum import centre, output_scale
from identiformer.identifiability.tolerance import ROUNDING

# Up to this residual, two outputs are the same.
SAME_OUTPUT = 1e-6
# Up to here, two weights from the solver of linear programs are the same.
SAME_WEIGHT = 1e-9
# Up to this share of the output, a singular value of T may be left out of the equations.
_LEFT_OUT = 0.5 * SAME_OUTPUT


class Responses(NamedTuple):
    r"""The equations $b\, C = h$ of the same output, for rows whose sum is 1.

    - `matrix`: `[m, r]`, $C$.
    - `output`: `[r]`, $h$.
    - `rounding`: what rounding may leave of $b\, C - h$.
    """

    matrix: NDArray[np.float64]
    output: NDArray[np.float64]
    rounding: float


class SameOutput:
    r"""The equations $b T = a T$ of one row, to a residual of [`SAME_OUTPUT`][], over its visible tokens.

    The residual of a row $b$ is $\|(b - a) T\| / \|a T\|$. Where $a T$ is zero, which is to say no larger than
    the rounding of its terms in the model's precision, $\varepsilon \sigma_{\max}(T)$, it is
    $\|(b - a) T\| / \sigma_{\max}(T)$. Where all of $T = V D$ is the rounding of terms that cancel, it is
    relative to the size of those, $\sum_j \|V_{:j}\| \|D_{j:}\|$; and it is 0 where $T$ is.

    Certificates and intervals count singular values of $T$ up to $\tau$ ([`output_cutoff`][]) as zero, since the
    precision of the model leaves it open whether they are. In float32 that is too coarse to reproduce an output
    to 1e-6. What counts as zero here, $\tau'$, is the smaller of $\tau$ and of half of 1e-6 times what the
    residual is relative to: as $\|b - a\| \le \sqrt 2$, the directions that are left out of the equations
    cannot add more than 0.71e-6 to a residual.

    **Attributes:**

    - `weights`: `[m]`, $a$, of $m$ visible tokens.
    - `reference`: what the residual is relative to; 1 where $T = 0$.
    - `cutoff`: $\tau'$.
    - `as_certified`: whether $\tau'$ leaves out the same singular values of the centred $T$ as $\tau$ does.
    """

    def __init__(self, head: AttentionHead) -> None:
        seen = head.mask
        scale = output_scale(head)
        greatest, certified = float(scale.greatest), float(scale.cutoff)
        size = float(lengths(head.output))
        if greatest <= certified:
            self.reference = certified / max(head.eps, ROUNDING) or 1.0
        else:
            self.reference = size if size > max(head.eps, ROUNDING) * greatest else greatest
        cutoff = max(min(certified, _LEFT_OUT * self.reference), ROUNDING * greatest)
        self.cutoff: float = cutoff
        self.weights: NDArray[np.float64] = head.weights[seen].cpu().numpy()
        self._transformed: NDArray[np.float64] = head.transformed[seen].cpu().numpy()
        self._mean = head.reduced[seen].mean(dim=0)
        left, singular, right = svd(centre(head.reduced, seen)[seen])
        kept = singular > cutoff
        self.as_certified: bool = bool((kept == (singular > certified)).all())
        self._left, self._singular, self._right = left[:, kept], singular[kept], right[kept]

    def residual(self, row: NDArray[np.float64]) -> float:
        """The residual of a row."""
        return float(np.linalg.norm((row - self.weights) @ self._transformed)) / self.reference

    def responses(self) -> Responses:
        r"""The equations for rows whose sum is 1, as of a softmax, whatever that of $a$ is after rounding.

        With $m$ the mean of the rows of $T$, $b T = a T$ is $b (T - 1 m) = a (T - 1 m) + (\sum a - 1) m$: what all
        tokens have in common cancels before it costs accuracy.
        """
        weights = torch.as_tensor(self.weights, device=self._left.device)
        matrix = self._left * self._singular
        output = weights @ matrix + (weights.sum() - 1) * (self._right @ self._mean)
        greatest = float(self._singular[0]) if len(self._singular) else 0.0
        unit = min(self.reference, greatest) or 1.0
        return Responses(
            (matrix / unit).cpu().numpy(), (output / unit).cpu().numpy(), ROUNDING * greatest / unit
        )

    def polish(self, row: NDArray[np.float64]) -> NDArray[np.float64]:
        r"""The row with what a solver left of $b T = a T$ and $\sum b = \sum a$ removed, as far as that goes.

        The least change, with each weight measured by itself, $b_i \to b_i (1 + y_i)$: it moves no token that has
        no weight, and makes none negative while $|y_i| \le 1$.
        """
        tokens = len(row)
        # [T 1] in an orthonormal basis, so that the scale of T does not matter.
        equations = np.vstack([self._left.T.cpu().numpy(), np.full((1, tokens), tokens**-0.5)])
        best, least = row, np.inf
        for _ in range(3):
            error = equations @ (self.weights - row)
            size = float(np.linalg.norm(error))
            if size >= least:
                break
            best, least = row, size
            relative = np.asarray(np.linalg.lstsq(equations * row, error, rcond=None)[0], dtype=np.float64)
            row = np.maximum(row * (1 + relative), 0.0)
        return best
