"""Alternatives that favour and avoid one group of tokens after the other."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Int
from torch import Tensor

from identiformer.identifiability.alternatives import Alternative, SimplexRows, on_simplex
from identiformer.identifiability.goals import aim_at
from identiformer.identifiability.head import AttentionHead
from identiformer.identifiability.rows import Row, one_row


def group_alternatives(
    head: AttentionHead, groups: Int[Tensor, " n"], asked: Sequence[int], row: Row | None = None
) -> list[tuple[Alternative, Alternative]]:
    """For each of some groups the row on the simplex that favours it, and the one that avoids it.

    They are what [`alternative`][] gives for each, in a fraction of the time: what they have in common is computed
    once, and each linear program starts where the one before it ended. Where several rows give a group the same
    weight, it can be another one of them.

    **Arguments:** `asked`: the numbers of groups; the others are those of [`alternative`][].

    **Returns:** for each of `asked` its two alternatives.

    **Raises:** `InputError` as [`alternative`][].
    """
    head = one_row(head, row)
    rows = SimplexRows(head)
    return [
        (
            on_simplex(rows, aim_at(head, group, None, False, groups, 0)),
            on_simplex(rows, aim_at(head, None, group, False, groups, 0)),
        )
        for group in asked
    ]
