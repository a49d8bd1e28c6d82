"""When two rows of weights give the same output, in numbers."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from identiformer.identifiability.head import AttentionHead
from identiformer.identifiability.linalg import lengths
from identiformer.identifiability.spectrum import Spectrum, centre, output_scale, spectrum
from identiformer.identifiability.tolerance import ROUNDING

# Up to this residual, two outputs are the same.
SAME_OUTPUT = 1e-6
# Up to here, two weights from the solver of linear programs are the same.
SAME_WEIGHT = 1e-9
# Up to this share of the output, a singular value of T may be left out of the equations.
_LEFT_OUT = 0.5 * SAME_OUTPUT


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

    - `visible`: `[m]`, the places of the visible tokens. All rows here are `[m]`.
    - `weights`: `[m]`, $a$.
    - `reference`: what the residual is relative to; 1 where $T = 0$.
    - `cutoff`: $\tau'$.
    - `rounding`: the residual that the arithmetic here may leave.
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
        self.cutoff: float = max(min(certified, _LEFT_OUT * self.reference), ROUNDING * greatest)
        self.rounding: float = ROUNDING * greatest / self.reference
        self.visible: NDArray[np.int64] = seen.nonzero()[:, 0].cpu().numpy()
        self.weights: NDArray[np.float64] = head.weights[seen].cpu().numpy()
        self._transformed: NDArray[np.float64] = head.transformed[seen].cpu().numpy()
        self._matrix = head.reduced[seen]
        self._centred = self._spectrum(centre(head.reduced, seen)[seen])
        between = (self._centred.singular > self.cutoff) != (self._centred.singular > certified)
        self.as_certified: bool = not bool(between.any())

    def residual(self, row: NDArray[np.float64]) -> float:
        """The residual of a row."""
        return float(np.linalg.norm((row - self.weights) @ self._transformed)) / self.reference

    def responses(self) -> NDArray[np.float64]:
        r"""$C$, `[m, r]`, with $\|(b - a) C\|$ the residual of $b$ but for what is left out."""
        factors = self._spectrum(self._matrix)
        rank = int(factors.rank)
        return (factors.left[:, :rank] * factors.singular[:rank]).cpu().numpy() / self.reference

    def polish(self, row: NDArray[np.float64]) -> NDArray[np.float64]:
        r"""The row with what a solver left of $b T = a T$ and $\sum b = \sum a$ removed, as far as that goes.

        The least change, with each weight measured by itself, $b_i \to b_i (1 + y_i)$: it moves no token that has
        no weight, and makes none negative while $|y_i| \le 1$.
        """
        tokens = len(row)
        rank = int(self._centred.rank)
        # [T 1] in an orthonormal basis, so that the scale of T does not matter.
        left = self._centred.left[:, :rank].cpu().numpy()
        equations = np.vstack([left.T, np.full((1, tokens), tokens**-0.5)])
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

    def _spectrum(self, matrix: torch.Tensor) -> Spectrum:
        return spectrum(matrix, torch.tensor(self.cutoff, dtype=torch.float64, device=matrix.device))
