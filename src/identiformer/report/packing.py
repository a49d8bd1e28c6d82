"""Explanations as the data that pages show: the JSON of `Explanation.to_dict`, with its numbers in few bytes.

A list of numbers is `{"u16": ..., "low": l, "high": h}`: base64 of little-endian 16-bit integers $u$, each of which
stands for $l + (h - l) u / 65535$. The weights of a head and their bounds share $l$ and $h$: as rounding keeps order,
bounds stay around their weights, and those that are equal stay equal. Of the two $u$ next to a number it is one that
reads the same with three decimals, as pages show it. Numbers that pages sum up have 32 bits, under `u32`.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from identiformer.report.document import island

if TYPE_CHECKING:
    from identiformer.explaining.explanation import Explanation

Kind = Literal["explanation", "audit", "training", "live"]
_SHOWN = 1000  # pages show three decimals
# Characters of a text beyond those that the model read, and of what a token or word is called.
_MOST_UNREAD, _MOST_OF_A_NAME = 500, 1000


def pack(
    values: ArrayLike, low: float | None = None, high: float | None = None, bits: Literal[16, 32] = 16
) -> dict[str, Any]:
    """Numbers in two bytes each, or four.

    Args:
        values: `[n]`, finite.
        low, high: The range they are in; their own where it is `None`.
        bits: Of each.
    """
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1 or not np.isfinite(numbers).all():
        raise ValueError(f"only lists of finite numbers can be packed, not shape {numbers.shape}")
    low = float(numbers.min(initial=np.inf)) if low is None else low
    high = float(numbers.max(initial=-np.inf)) if high is None else high
    if not numbers.size:
        low = high = 0.0
    most = 2**bits - 1
    steps = np.rint(most * ((numbers - low) / ((high - low) or 1.0))).clip(0, most)
    size = (high - low) / most
    # Where rounding crosses to what reads otherwise, the step on the other side of the number does not.
    off = _as_read(low + size * steps) - _as_read(numbers)
    steps = (steps - np.sign(off)).clip(0, most).astype(f"<u{bits // 8}")
    return {f"u{bits}": b64encode(steps.tobytes()).decode(), "low": low, "high": high}


def _as_read(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Thousandths that a page shows, as its `toFixed(3)` rounds."""
    return np.sign(numbers) * np.floor(_SHOWN * np.abs(numbers) + 0.5)


def unpack(packed: Mapping[str, Any] | Sequence[float]) -> NDArray[np.float64]:
    """The numbers of `pack`, up to a step; or those of a list."""
    if not isinstance(packed, Mapping):
        return np.asarray(packed, dtype=np.float64)
    bits = 16 if "u16" in packed else 32
    steps = np.frombuffer(b64decode(packed[f"u{bits}"]), dtype=f"<u{bits // 8}").astype(np.float64)
    return packed["low"] + (packed["high"] - packed["low"]) / (2**bits - 1) * steps


def packed_explanation(
    explanation: Explanation, number: int | None = None, label: str | None = None
) -> dict[str, Any]:
    """One explanation as a page takes it.

    Of a text that the model did not read to its end the rest is cut, and so are endless words where they are named:
    the text itself has them whole.

    Args:
        explanation: The explanation.
        number: Its row in the source, from 1.
        label: The true label of its text.

    Raises:
        ValueError: If its lists do not line up with its tokens and words.
    """
    result = explanation.to_dict()
    tokens, words = len(explanation.tokens), len(explanation.words)
    single = all(len(word.tokens) == 1 for word in explanation.words)
    result["id"], result["label"] = number, label
    if explanation.truncated:
        for segment, name in enumerate(("text", "text_pair")):
            if name in result:
                read = max((token.end for token in explanation.tokens if token.segment == segment), default=0)
                result[name] = result[name][: read + _MOST_UNREAD]
    # False where it is left out.
    for item in (*result["tokens"], *result["words"]):
        if len(item["text"]) > _MOST_OF_A_NAME:
            item["text"] = item["text"][:_MOST_OF_A_NAME] + "…"
        for name in ("special", "unknown"):
            if not item[name]:
                del item[name]
    for head in result["heads"]:
        _pack_weights(head, tokens)
        if single:
            head["words"] = None  # the same as the tokens'
        else:
            _pack_weights(head["words"], words)
        for other in head.get("alternatives") or ():
            if other["weights"] is not None:
                other["weights"] = pack(_checked(other["weights"], tokens), bits=16 if single else 32)
    return result


def view_data(
    kind: Kind,
    model: str,
    labels: Sequence[str],
    explanations: Sequence[Mapping[str, Any]],
    *,
    shown_of: tuple[int, int] | None = None,
    detailed: str = "",
) -> dict[str, Any]:
    """What the token view of a page reads.

    Args:
        kind: Which page it is for.
        model: What the model is called.
        labels: Its labels.
        explanations: From `packed_explanation`.
        shown_of: How many texts are shown, and of how many; `None` where it is no sample.
        detailed: Which rows have bounds and alternatives, in a sentence.
    """
    sampled = None
    if shown_of is not None or detailed:
        shown, every = shown_of or (len(explanations), len(explanations))
        sampled = {"shown": shown, "of": every, "detailed": detailed}
    return {
        "kind": kind,
        "model": model,
        "labels": list(labels),
        "sampled": sampled,
        "explanations": list(explanations),
    }


def bytes_of(data: Mapping[str, Any]) -> int:
    """How much of a page some data takes up, such as one packed explanation; pages stay below `LARGEST_PAGE`."""
    return len(island(data).encode())


def _pack_weights(values: dict[str, Any], length: int) -> None:
    """Pack the lists of a head, of tokens or of words, in place."""
    intervals = values["intervals"]
    together = [values["weights"], *(intervals[name] for name in ("lower", "upper") if intervals is not None)]
    low, high = min(min(some) for some in together), max(max(some) for some in together)
    values["weights"] = pack(_checked(values["weights"], length), low, high)
    values["effective"] = pack(_checked(values["effective"], length))
    if intervals is not None:
        values["intervals"] = {
            name: pack(_checked(bounds, length), low, high) for name, bounds in intervals.items()
        }


def _checked(values: list[float], length: int) -> list[float]:
    if len(values) != length:
        raise ValueError(f"{len(values)} numbers do not line up with {length} tokens or words")
    return values
