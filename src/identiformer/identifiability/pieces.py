"""Batches that are too large to compute at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from jaxtyping import Int
from torch import Tensor

from identiformer.identifiability.head import AttentionHead
from identiformer.identifiability.layout import Layout
from identiformer.identifiability.linalg import split

# Numbers that one step may hold for a batch: 2^24 float64 are 128 MiB.
_NUMBERS_AT_ONCE = 2**24


class Halves(NamedTuple):
    """A batch in two, and the dimension along which to join again what is computed of either."""

    one: AttentionHead
    other: AttentionHead
    dimension: int


def halves(head: AttentionHead, whole: int | None = None) -> Halves | None:
    """The two halves of a batch whose directions and values would not fit into memory; `None` if they do.

    The outermost dimension is split first. It is usually that of texts or heads; rows, which share the keys
    and values of their head, are the last to be torn apart. The batch dimension `whole` never is.
    """
    tokens, width = head.keys.shape[-2:]
    numbers = tokens * (4 * width + 2 * head.values.shape[-1])
    dimensions = [i for i, size in enumerate(head.batch_shape) if size > 1 and i != whole]
    if head.batch_shape.numel() * numbers <= _NUMBERS_AT_ONCE or not dimensions:
        return None
    return _split(head, dimensions[0])


def halves_by_head(head: AttentionHead) -> Halves | None:
    """The same for what is computed once a head, which rows share: their dimensions are not split.

    Four times as much may be held here, for a head in two costs as much as its quick certificate.
    """
    heads = Layout.of(head).heads
    tokens, width = head.keys.shape[-2:]
    numbers = tokens * (width + head.values.shape[-1])
    if heads.numel() * numbers <= _NUMBERS_AT_ONCE or heads.numel() <= 1:
        return None
    return _split(head, next(i for i, size in enumerate(heads) if size > 1))


def at_once(numbers: int) -> int:
    """How many at once, of what needs so many numbers each."""
    return max(_NUMBERS_AT_ONCE // max(numbers, 1), 1)


def in_parts(places: Sequence[Int[Tensor, " k"]], numbers: int) -> Iterator[tuple[Int[Tensor, " _"], ...]]:
    """Places, an index for each dimension, in parts of as many as can be held at once; none of no places.

    **Arguments:** `places`: as `nonzero(as_tuple=True)` gives them; `numbers`: how many each of them needs.
    """
    each = at_once(numbers)
    for part in zip(*(split(index, each) for index in places), strict=True):
        if len(part[0]):
            yield part


def _split(head: AttentionHead, dimension: int) -> Halves:
    before = (slice(None),) * dimension
    half = head.batch_shape[dimension] // 2
    return Halves(head[(*before, slice(None, half))], head[(*before, slice(half, None))], dimension)
