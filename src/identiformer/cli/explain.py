"""`identiformer explain`."""

from __future__ import annotations

from typing import Annotated

import typer

from identiformer.cli.options import JsonFile, Model, Overwrite, quiet_libraries, say
from identiformer.errors import InputError


def explain(
    model: Model,
    text: Annotated[str, typer.Option(help="The text to explain.")],
    text_pair: Annotated[str | None, typer.Option(help="Its pair, for a model trained on pairs.")] = None,
    layers: Annotated[
        str | None,
        typer.Option(help="Layers to explain: numbers from 0, as 0,1, or all; the last one otherwise."),
    ] = None,
    all_rows: Annotated[
        bool, typer.Option("--all-rows", help="Every token's row, and not only the one that is classified.")
    ] = False,
    json_file: JsonFile = None,
    overwrite: Overwrite = False,
) -> None:
    """Show a prediction of MODEL, the attention behind it, and whether that attention is the only one possible."""
    from identiformer.cli.results import show
    from identiformer.cli.token_view import token_view
    from identiformer.explanation import explain as run
    from identiformer.loading import load_classifier
    from identiformer.output import refuse_existing, write_json
    from identiformer.reading import check_pair
    from identiformer.scoring import check_given

    if json_file is not None:
        refuse_existing(json_file, overwrite, "--json file")
    check_given([text])
    check_given([] if text_pair is None else [text_pair], pair=True)
    quiet_libraries()
    classifier, tokenizer = load_classifier(model)
    check_pair(classifier, text_pair is not None)
    explanation = run(
        classifier,
        tokenizer,
        text,
        text_pair,
        rows="all" if all_rows else "pooled",
        layers=_layers(layers, int(classifier.config.num_hidden_layers)),
    )
    if explanation.truncated:
        say(f"the text is longer than {len(explanation.tokens)} tokens and was truncated")
    if json_file is not None:
        write_json(json_file, explanation.to_dict())
        say(f"explanation: {json_file}")
    show(token_view(explanation))


def _layers(value: str | None, count: int) -> list[int] | None:
    if value is None:
        return None
    if value == "all":
        return list(range(count))
    try:
        return [int(layer) for layer in value.split(",")]
    except ValueError:
        raise InputError(f"--layers is {value}: give numbers such as 0,1, or all") from None
