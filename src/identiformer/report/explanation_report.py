"""The page of one explanation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from identiformer.errors import InputError
from identiformer.report.document import LARGEST_PAGE, document
from identiformer.report.packing import bytes_of, packed_explanation, view_data
from identiformer.report.static_view import static_view

if TYPE_CHECKING:
    from identiformer.explaining.explanation import Explanation


def explanation_page(
    explanation: Explanation,
    *,
    model: str | None = None,
    label: str | None = None,
    scripts: Sequence[str] = ("view",),
) -> str:
    """A whole HTML document that shows one explanation; it stays below `LARGEST_PAGE` bytes.

    Rows of heads that do not fit are left out, the last ones first, and the page says so.

    Args:
        explanation: The explanation.
        model: What the model is called, as a command takes it; `None` where that is not known.
        label: The true label of the text.
        scripts: As of `document`.

    Raises:
        InputError: If not even one row fits, because the text is that long.
    """
    data = packed_explanation(explanation, label=label)
    every = data["heads"]

    def page(heads: list[Any]) -> str:
        sentences = [explanation.left_out] if explanation.left_out else []
        if len(heads) < len(every):
            sentences.insert(
                0,
                f"the page shows the first {len(heads)} of {len(every)} rows of heads, as more would be too large",
            )
        return document(
            "Attention behind a prediction" if explanation.prediction is not None else "Attention of a model",
            Markup(""),
            view_data(
                "explanation",
                model or "MODEL",
                list(explanation.probabilities),
                [{**data, "heads": heads}],
                detailed=" ".join(f"{sentence[0].upper()}{sentence[1:]}." for sentence in sentences),
            ),
            scripts=scripts,
            head_note=f"Model: {model}" if model else "",
            static=static_view(explanation, label=label),
        )

    room = LARGEST_PAGE - len(page([]).encode())
    heads: list[Any] = []
    for head in every:
        room -= bytes_of(head) + 1
        if room < 0:
            break
        heads.append(head)
    if not heads:
        raise InputError(
            f"the text has {len(explanation.text)} characters, too many for a page of {LARGEST_PAGE // 10**6} MB: "
            "give a shorter one"
        )
    return page(heads)
