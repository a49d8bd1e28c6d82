"""Which rows of an audit get the work that not all of them can."""

from __future__ import annotations


def spread_rows(
    count: int, texts: list[int], heads: list[tuple[int, int]], *, stride: float = 0.6180339887498949
) -> set[tuple[int, int, int]]:
    """Up to `count` different `(text_id, layer, head)`, spread evenly over texts and over heads.

    Which they are follows from the arguments alone, so that a run that goes on chooses the same.

    Args:
        count: How many.
        texts: Ids of the texts, in their order.
        heads: `(layer, head)` of each head.
        stride: The share of the heads by which each choice is further than the last; an irrational one meets all of
            them evenly (Weyl's theorem on equidistribution).
    """
    chosen: set[tuple[int, int, int]] = set()
    for number in range(min(count, len(texts) * len(heads))):
        text = texts[number * len(texts) // count if count <= len(texts) else number % len(texts)]
        place = int(number * stride * len(heads)) % len(heads)
        # The next free one, where this one was chosen already.
        while (text, *heads[place]) in chosen:
            place = (place + 1) % len(heads)
        chosen.add((text, *heads[place]))
    return chosen
