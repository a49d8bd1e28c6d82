"""An explanation in the terminal: words shaded by their weight, and what the certificate says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from identiformer.printable import printable

if TYPE_CHECKING:
    from identiformer.explanation import Explanation, HeadExplanation, LevelResult

SHOWN_TOKENS = 6  # rows of a head's table
SHOWN_UNREAD = 80  # characters beyond those that the model read


def token_view(explanation: Explanation) -> RenderableType:
    """What `explain` prints of an explanation."""
    parts: list[RenderableType] = [_prediction(explanation)]
    words = [token for token in explanation.tokens if not token.special]
    unknown = sum(token.unknown for token in words)
    if unknown:
        parts.append(Text(f"{unknown} of {len(words)} tokens are unknown to the model", style="yellow"))
    for head in explanation.heads:
        parts += ["", *_head(explanation, head)]
    return Group(*parts)


def _prediction(explanation: Explanation) -> Text:
    ranked = sorted(explanation.probabilities.items(), key=lambda item: -item[1])
    text = Text.assemble("prediction: ", (printable(explanation.prediction), "bold"), "  (")
    text.append(", ".join(f"{printable(label)} {probability:.3f}" for label, probability in ranked[:5]))
    return text.append(", …)" if len(ranked) > 5 else ")")


def _head(explanation: Explanation, head: HeadExplanation) -> list[RenderableType]:
    row = explanation.tokens[head.row].text
    title = Text(f"layer {head.layer}, head {head.head}", style="bold")
    title.append(f", row of {printable(row)}", style="not bold")
    lines = [Text(f"{name}: ") + _level(level) for name, level in head.levels.items()]
    if head.tied_tokens:
        lines.append(
            Text(f"{head.tied_tokens} tokens have the same key and value as another: on the simplex")
        )
        lines[-1].append(" only their total is fixed")
    lines.append(_tops(explanation, head))
    return [
        title,
        *(
            Padding(part, (0, 0, 0, 2), expand=False)
            for part in (_shaded(explanation, head), *lines, _table(explanation, head))
        ),
    ]


def _level(level: LevelResult) -> Text:
    if level.verdict == "none":
        freedom = "direction" if level.nullity == 1 else "directions"
        return Text(f"not unique, {level.nullity} {freedom} of freedom", style="yellow")
    words = "unique" if level.verdict == "global" else "unique nearby"
    return Text(words, style="green").append(f" (margin {level.margin:.1e})", style="dim not bold")


def _tops(explanation: Explanation, head: HeadExplanation) -> Text:
    words = [printable(explanation.tokens[i].text) for i in head.possible_tops]
    if len(words) == 1:
        return Text(f"most attended, for certain: {words[0]}")
    rest = f" and {len(words) - SHOWN_TOKENS} more" if len(words) > SHOWN_TOKENS else ""
    return Text(f"could be the most attended: {', '.join(words[:SHOWN_TOKENS])}{rest}")


def _shaded(explanation: Explanation, head: HeadExplanation) -> Text:
    """The original text, each word on a ground the darker the more weight it has."""
    greatest = max(float(head.weights.max()), 1e-12)
    text = Text()
    for segment, source in enumerate((explanation.text, explanation.text_pair)):
        if source is None:
            continue
        if segment:
            text.append("\n")
        position = 0
        for token, weight in zip(explanation.tokens, head.weights, strict=True):
            if token.segment != segment or token.special:
                continue
            text.append(printable(source[position : token.start], keep="\n\t"))
            level = float(weight) / greatest
            # From the terminal's own ground to a strong blue: dark text turns light where the ground is dark.
            shade = (round(255 - 225 * level), round(255 - 175 * level), 255)
            colour = "white" if level > 0.5 else "black"
            text.append(
                printable(source[token.start : token.end], keep="\n\t"),
                style=f"{colour} on rgb({shade[0]},{shade[1]},{shade[2]})",
            )
            position = token.end
        # What the model did not see, where the text was truncated, is not shaded but dimmed.
        rest = printable(source[position:], keep="\n\t")
        if explanation.truncated and len(rest) > SHOWN_UNREAD:
            rest = rest[:SHOWN_UNREAD] + "…"
        text.append(rest, style="dim" if explanation.truncated else "")
    return text


def _table(explanation: Explanation, head: HeadExplanation) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False)
    for column in ("token", "weight", "from", "to", "effective"):
        table.add_column(column, justify="left" if column == "token" else "right", header_style="dim")
    order = sorted(range(len(head.weights)), key=lambda i: -float(head.weights[i]))
    for i in order[:SHOWN_TOKENS]:
        numbers = (head.weights[i], head.lower[i], head.upper[i], head.effective[i])
        table.add_row(Text(printable(explanation.tokens[i].text)), *(f"{number:.3f}" for number in numbers))
    if len(order) > SHOWN_TOKENS:
        rest = sum(float(head.weights[i]) for i in order[SHOWN_TOKENS:])
        table.add_row(Text(f"{len(order) - SHOWN_TOKENS} more"), f"{rest:.3f}", "", "", "")
    return table
