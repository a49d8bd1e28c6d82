"""Advice, laid out for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from identiformer.cli.results import show
from identiformer.printable import printable

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from identiformer.advice import Advice

# Value sizes that many people's models have.
KNOWN_HEADS = {32: "a head of MiniLM", 64: "a head of BERT"}


def advice_view(advice: Advice) -> Group:
    """The lengths, and the texts identifiable by value size; not what to run."""
    from rich.console import Group
    from rich.text import Text

    return Group(
        Text(_title(advice)),
        _lengths(advice),
        Text("\nTexts identifiable on the simplex, by value size"),
        _sizes(advice),
        *(Text(line) for line in _lines(advice)),
    )


def _title(advice: Advice) -> str:
    source = advice.source if advice.split is None else f"{advice.source} ({advice.split})"
    tokens = {"word": "words and symbols", "bpe": "byte pairs", None: f"tokens of {advice.model}"}
    return printable(f"Lengths of {source} in {tokens[advice.tokenizer]}, special tokens included")


def _lengths(advice: Advice) -> Table:
    from rich.table import Table

    table = Table()
    columns = {
        "texts": f"{advice.shares.total:,}",
        "shortest": f"{advice.shortest:,}",
        "mean": f"{advice.mean:,.1f}",
        "median": f"{advice.quantiles[0.5]:,}",
        **{_percent(share): f"{number:,}" for share, number in advice.quantiles.items() if share != 0.5},
        "longest": f"{advice.longest:,}",
    }
    for heading in columns:
        table.add_column(heading, justify="right")
    table.add_row(*columns.values())
    return table


def _sizes(advice: Advice) -> Table:
    from rich.table import Table

    table = Table()
    for heading in ("value size", "up to tokens", "texts", "share", "without positions"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for size in advice.sizes:
        table.add_row(
            f"{size.value_size:,}",
            f"{size.identifiable_length:,}",
            f"{size.positions.texts:,}",
            str(size.positions),
            str(size.no_positions),
            "; ".join(_notes(advice, size.value_size)),
        )
    return table


def _notes(advice: Advice, value_size: int) -> Iterator[str]:
    from identiformer.advice.recommendation import sizes_with

    if value_size == advice.needed.value_size:
        yield f"needed for {_percent(advice.coverage)}"
    if advice.heads is not None and value_size == advice.heads.value_rank:
        yield "the model"
    elif advice.model is None and value_size == sizes_with({}).value_size:
        yield "the default model"
    elif value_size in KNOWN_HEADS:
        yield KNOWN_HEADS[value_size]


def _lines(advice: Advice) -> Iterator[str]:
    total = f"{advice.shares.total:,}"
    yield "Identifiable on the simplex: no other weights (none below 0, of sum 1) give the output of a head."
    if advice.truncated.texts:
        where = (
            "which is the model's limit"
            if advice.model
            else "where train cuts them unless given --max-length"
        )
        yield (
            f"{advice.truncated.texts:,} of {total} texts are longer than {advice.max_length:,} tokens, {where}; they "
            "count as what is left of them."
        )
    yield (
        f"{advice.repeats.texts:,} of {total} texts ({advice.repeats}) hold a token more than once. Without position "
        "embedding, the weights of equal tokens are fixed only in sum, whatever the value size."
    )
    carried = "after a retrofit" if advice.model else "with --values-carry-keys"
    yield (
        "Among the weights that a head can generate with some query (level generatable), those of almost every text, "
        f"of any length, are unique nearby if the key size is at most the value size, and unique outright {carried}."
    )


def show_advice(advice: Advice) -> None:
    """Print all of it. Commands stay on one line, however narrow the terminal: they are there to be copied."""
    from rich.text import Text

    show(advice_view(advice))
    heading = f"Recommended, for {_percent(advice.coverage)} of the texts:"
    for title, choice in ((heading, advice.recommended), ("Or:", advice.alternative)):
        if choice is not None:
            print(f"\n{title}\n  {printable(choice.command)}")
            show(Text("\n".join(choice.reasons)))


def _percent(share: float) -> str:
    return f"{share * 100:.10g}%"
