"""One query row out of a batch of heads."""

from __future__ import annotations

from identiformer.errors import InputError
from identiformer.identifiability.head import AttentionHead

Row = int | tuple[int, ...]


def one_row(head: AttentionHead, row: Row | None = None) -> AttentionHead:
    """The head of one query row, for what is answered row by row.

    **Arguments:**

    - `head`: of any batch shape.
    - `row`: which row of the batch: an index for each of its dimensions, negative ones from the end. `None`:
      the head is one row already.

    **Returns:** `head[row]`, without batch dimensions.

    **Raises:** `InputError` if that is not one row: it names the batch shape and an index that would do.
    """
    batch = tuple(head.batch_shape)
    index = () if row is None else row if isinstance(row, tuple) else (row,)
    if not all(isinstance(place, int) and not isinstance(place, bool) for place in index):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(
            f"row is {row!r}: give a whole number, or one for each batch dimension, as in row=(0, 2)"
        )
    if len(index) != len(batch):
        raise InputError(_not_one(batch, row))
    if not all(-size <= place < size for place, size in zip(index, batch, strict=True)):
        raise InputError(f"there is no row {row}: the head has batch shape {batch}, counted from 0")
    return head if row is None else head[index]


def _not_one(batch: tuple[int, ...], row: Row | None) -> str:
    if not batch:
        return f"row {row} is asked for, but the head is one row, without batch dimensions: leave row out"
    example = "0" if len(batch) == 1 else f"({', '.join('0' * len(batch))})"
    asked = "no row is given" if row is None else f"row {row} is asked for"
    return f"{asked}, but the head has batch shape {batch}: give an index for each dimension, as in row={example}"
