"""All queries of a head, in coordinates of one scale."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from identiformer.identifiability.head import AttentionHead
from identiformer.identifiability.linalg import lengths, singular_values, svd
from identiformer.identifiability.tolerance import ROUNDING, resolution, used_columns


class QuerySpace:
    r"""The rows $\mathrm{softmax}(\beta + s K q)$ over the visible tokens of one row, $q$ being any query.

    They depend on differences between keys alone. With the thin factorisation
    $L \, \mathrm{diag}(\sigma) R^\top$ of the centred $s K$, cut off as in [`key_space`][], all of them are
    $\mathrm{softmax}(\beta + Y c)$ with $Y = L$, and $q = R \, \mathrm{diag}(\sigma)^{-1} c$ is the shortest
    query that generates one.

    **Attributes:**

    - `coordinates`: `[m, p]`, $Y$, for $m$ visible tokens and a rank of $p$.
    - `bias`: `[m]`, $\beta$.
    - `precision`: the relative error that the model may have made in a logit.
    - `longest`: the length of the longest $s k_i$.
    """

    def __init__(self, head: AttentionHead) -> None:
        seen = head.mask
        keys = head.keys[seen] * float(head.scaling)
        # From one token, so that a part common to all keys costs no accuracy.
        centred = keys - keys[:1]
        centred = centred - centred.mean(dim=0)
        _, singular, right = svd(centred)
        relative = float(resolution(head.tokens, used_columns(keys), head.eps))
        self.precision: float = max(relative, ROUNDING)
        kept = singular > self.precision * singular_values(keys)[0]
        to_query = right[kept].mT / singular[kept]
        self._to_query: NDArray[np.float64] = to_query.cpu().numpy()
        self.coordinates: NDArray[np.float64] = (centred @ to_query).cpu().numpy()
        bias = torch.zeros_like(keys[:, 0]) if head.bias is None else head.bias[seen]
        self.bias: NDArray[np.float64] = bias.cpu().numpy()
        self.longest: float = float(lengths(keys).max())

    def query(self, point: NDArray[np.float64]) -> NDArray[np.float64]:
        """The shortest query with coordinates `point`, `[p]`: `[d_k]`."""
        return self._to_query @ point

    def log_weights(self, point: NDArray[np.float64]) -> NDArray[np.float64]:
        """The logarithms of the weights at `point`, `[m]`."""
        logits = self.bias + self.coordinates @ point
        logits = logits - logits.max()
        return logits - np.log(np.exp(logits).sum())
