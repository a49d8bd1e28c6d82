"""What either path finds of heads and rows, before it becomes a certificate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

_Places = Int[Tensor, " k"] | tuple[Int[Tensor, " k"], Int[Tensor, " k"]]


class LevelFinding(NamedTuple):
    r"""What is found of one level, with an orthonormal basis $U$ of its directions.

    - `dimension`: `[*batch]`, $\dim U$.
    - `nullity`: `[*batch]`, $\dim U - \mathrm{rank}(T^\top U)$.
    - `least`: `[*batch]`, $\sigma_{\min}(T^\top U)$; of no meaning where the nullity is not 0.
    """

    dimension: Int[Tensor, "*batch"]
    nullity: Int[Tensor, "*batch"]
    least: Float[Tensor, "*batch"]

    def map(self, change: Callable[[Tensor], Tensor]) -> LevelFinding:
        """The same of other tensors."""
        return LevelFinding(change(self.dimension), change(self.nullity), change(self.least))

    def put(self, places: _Places, better: LevelFinding) -> LevelFinding:
        """These, with others in some places."""
        return LevelFinding(*(_put(one, places, other) for one, other in zip(self, better, strict=True)))


class HeadFindings(NamedTuple):
    r"""What does not depend on the row.

    - `free`, `simplex`: a [`LevelFinding`][] each.
    - `greatest`: `[*batch]`, $\sigma_{\max}(T)$.
    - `cutoff`: `[*batch]`, up to where singular values of $T^\top U$ count as zero.
    - `only_one`: `[*batch]`: at `generatable`, a nullity of 0 means that there is no other row at all.
    """

    free: LevelFinding
    simplex: LevelFinding
    greatest: Float[Tensor, "*batch"]
    cutoff: Float[Tensor, "*batch"]
    only_one: Bool[Tensor, "*batch"]

    def map(self, change: Callable[[Tensor], Tensor]) -> HeadFindings:
        """The same of other tensors."""
        return HeadFindings(
            self.free.map(change),
            self.simplex.map(change),
            change(self.greatest),
            change(self.cutoff),
            change(self.only_one),
        )

    def put(self, places: _Places, better: HeadFindings) -> HeadFindings:
        """These, with others in some places."""
        return HeadFindings(
            self.free.put(places, better.free),
            self.simplex.put(places, better.simplex),
            _put(self.greatest, places, better.greatest),
            _put(self.cutoff, places, better.cutoff),
            _put(self.only_one, places, better.only_one),
        )


def joined(found: Sequence[LevelFinding]) -> LevelFinding:
    """Findings of several lists, as one list."""
    return LevelFinding(
        torch.cat([part.dimension for part in found]),
        torch.cat([part.nullity for part in found]),
        torch.cat([part.least for part in found]),
    )


def _put(tensor: Tensor, places: _Places, better: Tensor) -> Tensor:
    return tensor.contiguous().index_put(places if isinstance(places, tuple) else (places,), better)
