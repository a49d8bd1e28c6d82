"""All rows of weights with the same output."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from identiformer.errors import InputError
from identiformer.identifiability.head import AttentionHead
from identiformer.identifiability.linalg import complement, lengths
from identiformer.identifiability.program import RowProgram
from identiformer.identifiability.rows import one_row
from identiformer.identifiability.spectrum import centre, output_scale, spectrum

# Two rows of weights are never farther apart than sqrt(2) times their sum, which is 1 up to 5% at most.
_NEVER_REACHED = 1.5


class RowPolytope:
    r"""The rows $\{b \ge 0,\ \sum b = \sum a,\ b T = a T\}$, over the visible tokens of one row.

    The constraints are written in an orthonormal basis $P$ of the column space of $[T\ 1]$, as
    $P^\top (b - a) = 0$, so that their scale is that of the weights whatever that of $T$. Where it takes fewer
    numbers, they are also there as $b = a + N z$, with an orthonormal basis $N$ of the null space: $n$
    non-negative variables and $\mathrm{rank}$ equalities, or $n - \mathrm{rank}$ free variables $z$ and $n$
    inequalities.

    With `tolerance` $\varepsilon > 0$: rows whose output moves by at most $\varepsilon \|h\|$. With the thin
    $W = P \, \mathrm{diag}(\sigma) R^\top$ of the centred $T$, $\|(b - a) T\|$ is the length of
    $\mathrm{diag}(\sigma) P^\top (b - a)$; the ball is replaced by the box around it,
    $|p_i^\top (b - a)| \le \delta_i = \varepsilon \|h\| / \sigma_i$, which contains it. Constraints that no row
    of weights can reach are left out.

    **Arguments:**

    - `head`: one row, without batch dimensions.
    - `tolerance`: $\varepsilon$.
    - `cutoff`: up to where singular values of the centred $T$ count as zero. `None`: [`output_cutoff`][].

    **Attributes:**

    - `visible`: `[n]`, the places of the visible tokens among all.
    - `weights`: `[n]`, $a$.
    - `basis`: `[m, n]`, $P^\top$; its first row is constant.
    - `slack`: `[m]`, $\delta$; that of the first row is 0.
    - `null`: `[n, n - m]`, $N$, where that is the smaller form; else `None`.
    - `is_point`: whether the row's own weights are the only ones.
    """

    def __init__(self, head: AttentionHead, tolerance: float = 0.0, cutoff: float | None = None) -> None:
        head = one_row(head)
        if not 0.0 <= tolerance < float("inf"):
            raise InputError(f"tolerance must be a finite number of 0 or more, not {tolerance}")
        seen = head.mask
        self.visible: NDArray[np.int64] = seen.nonzero()[:, 0].cpu().numpy()
        self.weights: NDArray[np.float64] = head.weights[seen].cpu().numpy()
        scale = output_scale(head)
        centred = spectrum(
            centre(head.reduced, seen),
            scale.cutoff if cutoff is None else torch.full_like(scale.cutoff, cutoff),
        )
        rank = int(centred.rank)
        tokens = len(self.weights)
        ones = torch.full((tokens, 1), tokens**-0.5, dtype=torch.float64, device=seen.device)
        slack = tolerance * lengths(head.output) / centred.singular[:rank]
        kept = slack < _NEVER_REACHED
        basis = torch.cat([ones, centred.left[seen, :rank][:, kept]], dim=-1)
        self.basis: NDArray[np.float64] = basis.mT.contiguous().cpu().numpy()
        self.slack: NDArray[np.float64] = np.append(0.0, slack[kept].cpu().numpy())
        exact = not self.slack.any()
        self.is_point: bool = exact and tokens == len(self.basis)
        self.null: NDArray[np.float64] | None = None
        if exact and tokens < 2 * len(self.basis):
            self.null = complement(basis).cpu().numpy()

    def most(self, token: int) -> NDArray[np.float64]:
        """A row in which the weight of a token (counted among the visible ones) is the greatest possible."""
        return self.maximise(np.eye(1, len(self.weights), token)[0])

    def least(self, token: int) -> NDArray[np.float64]:
        """A row in which it is the least possible."""
        return self.maximise(-np.eye(1, len(self.weights), token)[0])

    def maximise(self, objective: NDArray[np.float64]) -> NDArray[np.float64]:
        """A row in which the sum of the weights times `objective`, `[n]`, is the greatest possible."""
        return self.weights if self.is_point else self._program.minimise(-objective)

    @cached_property
    def _program(self) -> RowProgram:
        return RowProgram(self.weights, self.basis, self.slack, self.null)
