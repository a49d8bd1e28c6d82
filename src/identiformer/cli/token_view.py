"""An explanation in the terminal: words shaded by their weight, and what the certificate says of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from identiformer.explaining.saying import item_names, row_name, shaded_spans, tops_sentence, verdict_words
from identiformer.printable import printable

if TYPE_CHECKING:
    from identiformer.explaining.explanation import Explanation
    from identiformer.explaining.heads import HeadExplanation, LevelResult

SHOWN_WORDS = 6  # rows of a head's table
SHOWN_UNREAD = 80  # characters beyond those that the model read
SHOWN_IN_FULL = 12  # heads, or rows of them; of more, each is a row of one table
SHOWN_AT_ALL = 60  # rows of that table
_LEVELS = ("free", "simplex", "generatable")


def token_view(explanation: Explanation, pieces: bool = False) -> RenderableType:
    """What `explain` prints of an explanation: by words, or by the pieces of which the model has a weight each."""
    parts: list[RenderableType] = [_prediction(explanation)]
    words = [word for word in explanation.words if not word.special]
    unknown = sum(word.unknown for word in words)
    if unknown:
        parts.append(Text(f"{unknown} of {len(words)} words are unknown to the model", style="yellow"))
    names = item_names(explanation, pieces)
    if len(explanation.heads) > SHOWN_IN_FULL:
        parts += ["", *_overview(explanation, names, pieces)]
    else:
        for head in explanation.heads:
            parts += ["", *_head(explanation, _Weights.of(head, pieces), names, pieces)]
    parts += ["", *_left_out(explanation), _gloss(explanation, pieces)]
    return Group(*parts)


def _prediction(explanation: Explanation) -> Text:
    if explanation.prediction is None:
        return Text("no prediction (the model does not classify texts): only its attention is shown")
    ranked = sorted(explanation.probabilities.items(), key=lambda item: -item[1])
    text = Text.assemble("prediction: ", (printable(explanation.prediction), "bold"), "  (")
    text.append(", ".join(f"{printable(label)} {probability:.3f}" for label, probability in ranked[:5]))
    return text.append(", …)" if len(ranked) > 5 else ")")


@dataclass(frozen=True)
class _Weights:
    """A head, and its numbers by word or by piece; bounds and tops are `None` where they were not computed."""

    head: HeadExplanation
    weights: Sequence[float]
    lower: Sequence[float] | None
    upper: Sequence[float] | None
    effective: Sequence[float]
    tops: list[int] | None

    @classmethod
    def of(cls, head: HeadExplanation, pieces: bool) -> _Weights:
        if pieces:
            arrays = head.weights, head.lower, head.upper, head.effective
            tops = head.possible_tops
        else:
            arrays = head.word_weights, head.word_lower, head.word_upper, head.word_effective
            tops = head.word_possible_tops
        weights, lower, upper, effective = (None if array is None else array.tolist() for array in arrays)
        assert weights is not None
        assert effective is not None
        return cls(head, weights, lower, upper, effective, tops)

    @property
    def order(self) -> list[int]:
        """The heaviest first."""
        return sorted(range(len(self.weights)), key=lambda i: -self.weights[i])


def _head(explanation: Explanation, shown: _Weights, names: list[str], pieces: bool) -> list[RenderableType]:
    head = shown.head
    title = Text(f"layer {head.layer}, head {head.head}", style="bold")
    title.append(f", row {row_name(explanation, head, pieces)}", style="not bold")
    lines = [Text(f"{name}: ") + _level(head.levels.get(name)) for name in _LEVELS]
    if head.tied_tokens:
        lines.append(
            Text(
                f"{head.tied_tokens} tokens have the same key and value as another: on the simplex only their total is "
                "fixed"
            )
        )
    if shown.tops is not None:
        lines.append(Text(tops_sentence(shown.tops, shown.weights, names)))
    return [
        title,
        *(
            Padding(part, (0, 0, 0, 2), expand=False)
            for part in (_shaded(explanation, shown, pieces), *lines, _table(shown, names, pieces))
        ),
    ]


def _level(level: LevelResult | None) -> Text:
    if level is None:
        return Text("nothing is said (see below)", style="dim")
    words = verdict_words(level, joint=", ")
    if level.verdict == "none":
        return Text(words, style="yellow")
    return Text(words, style="green").append(f" (margin {level.margin:.1e})", style="dim not bold")


def _shaded(explanation: Explanation, shown: _Weights, pieces: bool) -> Text:
    """The original text, each word on a ground the darker the more weight it has."""
    greatest = max(*shown.weights, 1e-12)
    items = explanation.tokens if pieces else explanation.words
    text = Text()
    for segment, source in enumerate((explanation.text, explanation.text_pair)):
        if source is None:
            continue
        if segment:
            text.append("\n")
        position = 0
        for start, end, weight in shaded_spans(items, shown.weights, segment):
            text.append(printable(source[position:start], keep="\n\t"))
            level = weight / greatest
            # From the terminal's own ground to a strong blue: dark text turns light where the ground is dark.
            shade = (round(255 - 225 * level), round(255 - 175 * level), 255)
            colour = "white" if level > 0.5 else "black"
            text.append(
                printable(source[start:end], keep="\n\t"),
                style=f"{colour} on rgb({shade[0]},{shade[1]},{shade[2]})",
            )
            position = end
        # What the model did not see, where the text was truncated, is not shaded but dimmed.
        rest = printable(source[position:], keep="\n\t")
        if explanation.truncated and len(rest) > SHOWN_UNREAD:
            rest = rest[:SHOWN_UNREAD] + "…"
        text.append(rest, style="dim" if explanation.truncated else "")
    return text


def _table(shown: _Weights, names: list[str], pieces: bool) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False)
    heading = "piece" if pieces else "word"
    for column in (heading, "weight", "from", "to", "effective"):
        table.add_column(column, justify="left" if column == heading else "right", header_style="dim")
    order = shown.order
    for i in order[:SHOWN_WORDS]:
        numbers = [
            None if column is None else column[i]
            for column in (shown.weights, shown.lower, shown.upper, shown.effective)
        ]
        table.add_row(
            Text(names[i]),
            *("" if number is None else f"{round(number, 3) + 0.0:.3f}" for number in numbers),  # no -0.000
        )
    if len(order) > SHOWN_WORDS:
        rest = sum(shown.weights[i] for i in order[SHOWN_WORDS:])
        table.add_row(Text(f"{len(order) - SHOWN_WORDS} more"), f"{rest:.3f}", "", "", "")
    if shown.head.sink is not None:
        table.add_row(Text("nothing (sink)", style="dim"), f"{shown.head.sink:.3f}", "", "", "")
    return table


def _overview(explanation: Explanation, names: list[str], pieces: bool) -> list[RenderableType]:
    """A line for each head and row, where they are too many to be shown in full."""
    rows = [row_name(explanation, head, pieces) for head in explanation.heads]
    several = len(set(rows)) > 1
    table = Table(box=None, pad_edge=False, show_edge=False, padding=(0, 2, 0, 0))
    top_of = "top piece" if pieces else "top word"
    for column in ("head", *["row"] * several, *_LEVELS, top_of, "weight", "certain"):
        words = column in ("row", top_of)
        table.add_column(column, header_style="dim", no_wrap=not words, overflow="ellipsis")
    for row, head in list(zip(rows, explanation.heads, strict=True))[:SHOWN_AT_ALL]:
        shown = _Weights.of(head, pieces)
        top = shown.order[0]
        others = None if shown.tops is None else len(shown.tops) - 1
        table.add_row(
            f"{head.layer}.{head.head}",
            *[Text(row.removeprefix("of "))] * several,
            *(_short(head.levels.get(level)) for level in _LEVELS),
            Text(names[top]),
            f"{shown.weights[top]:.3f}",
            Text(
                "-" if others is None else f"or {others}" if others else "yes",
                style="yellow" if others else "",
            ),
        )
    left = len(explanation.heads) - SHOWN_AT_ALL
    return [
        *([] if several else [Text(f"row {rows[0]}")]),
        table,
        *([Text(f"and {left} more rows: --json writes all")] if left > 0 else []),
        Text(
            "head: layer.head; certain: yes, or how many others could be at the top instead. (Up to "
            f"{SHOWN_IN_FULL} rows are shown in full: --layers, --heads and --rows choose.)",
            style="dim",
        ),
    ]


def _short(level: LevelResult | None) -> Text:
    if level is None:
        return Text("-", style="dim")
    if level.verdict == "none":
        return Text(f"no ({level.nullity})", style="yellow")
    return Text("unique" if level.verdict == "global" else "nearby", style="green").append(
        f" {level.margin:.0e}", style="dim"
    )


def _left_out(explanation: Explanation) -> Iterator[Text]:
    """Notes on layers, and one line for each reason why heads are left out."""
    layers: dict[str, list[str]] = {}
    for layer, note in explanation.notes.items():
        layers.setdefault(note, []).append(str(layer))
    for note, numbers in layers.items():
        yield Text(f"layer{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}: {note}")
    heads: dict[str, list[str]] = {}
    for refused in explanation.refused:
        heads.setdefault(refused.reason, []).append(f"{refused.layer}.{refused.head}")
    for reason, some in heads.items():
        more = ", …" if len(some) > 10 else ""
        yield Text(f"left out, layer.head {', '.join(some[:10])}{more}: {reason}", style="yellow")


def _gloss(explanation: Explanation, pieces: bool) -> Text:
    """What the names of the levels, and the columns, mean."""
    lines = [
        "unique: no other weights give the same output of the head; nearby: none that are close do.",
        "free: any weights; simplex: any distribution; generatable: any the head could produce.",
    ]
    if len(explanation.heads) <= SHOWN_IN_FULL:
        unit = "piece" if pieces else "word"
        lines.append(
            f"from, to: the least and the greatest weight of the {unit} in a distribution with the same output."
        )
        if any(head.sink is not None for head in explanation.heads):
            lines.append("sink: the share of the weight that this model's heads can give to no token at all.")
    return Text("\n".join(lines), style="dim")
