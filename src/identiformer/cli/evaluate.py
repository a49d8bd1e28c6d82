"""`identiformer evaluate`."""

from __future__ import annotations

from identiformer.cli.options import (
    BadRow,
    BatchSize,
    JsonFile,
    LabelColumn,
    Model,
    OnBadRow,
    Overwrite,
    Source,
    Split,
    TextColumn,
    TextPairColumn,
    quiet_libraries,
    say,
)


def evaluate(
    model: Model,
    source: Source,
    split: Split = None,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    text_pair_column: TextPairColumn = None,
    on_bad_row: BadRow = OnBadRow.ERROR,
    batch_size: BatchSize = 64,
    json_file: JsonFile = None,
    overwrite: Overwrite = False,
) -> None:
    """Score MODEL on the labelled texts of SOURCE."""
    from identiformer.cli.progress import progress_bar
    from identiformer.cli.results import show
    from identiformer.data import files_of
    from identiformer.evaluation import metrics_table
    from identiformer.output import refuse_file, write_json
    from identiformer.reading import ChosenColumns
    from identiformer.scoring import evaluate as run

    refuse_file(json_file, [model, *files_of(source)], overwrite)
    quiet_libraries()
    with progress_bar("scoring") as progress:
        metrics = run(
            model,
            source,
            split=split,
            columns=ChosenColumns(text_column, label_column, text_pair_column),
            on_bad_row=on_bad_row.value,
            batch_size=batch_size,
            say=say,
            progress=progress,
        )
    if json_file is not None:
        write_json(json_file, metrics)
        say(f"metrics: {json_file}")
    show(metrics_table(metrics))
