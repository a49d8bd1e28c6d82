"""An audit: a data set through a model, and what the certificates of its heads say."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import torch
from datasets import Dataset
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from identiformer.auditing.plan import spread_rows
from identiformer.auditing.proof import candidates, prove
from identiformer.auditing.rows import audited, head_rows
from identiformer.auditing.settings import AuditSettings
from identiformer.auditing.summary import PartNotes, Summary
from identiformer.auditing.table import SCHEMA, Parts
from identiformer.capturing import CapturedLayer, capture
from identiformer.errors import InputError
from identiformer.explaining.alternatives import chooses_label
from identiformer.loading import label_list, load_model
from identiformer.output import UnfinishedFolder, refuse_replacing, whole_file, write_json
from identiformer.reading import AS_FOUND, ChosenColumns, Say, load_split, takes_pairs
from identiformer.report.audit_figures import audit_plots
from identiformer.report.audit_overview import audit_page
from identiformer.report.figures import write_png
from identiformer.report.samples import SampledText, Samples, explained_samples, spread
from identiformer.same_run import digest_of, is_same_run
from identiformer.threads import threads_for
from identiformer.tokenization import by_length, token_lengths
from identiformer.words import token_texts

HEADS = "heads.parquet"
SUMMARY = "summary.json"
REPORT = "report.html"
FIGURES = "figures"
RUN = "audit_run.json"  # what a run must share to be the same one
_BATCHES_A_PART = 8

Progress = Callable[[int, int], None]


def audit(
    model: str,
    source: str,
    output: str | Path,
    settings: AuditSettings | None = None,
    *,
    split: str | None = None,
    columns: ChosenColumns = AS_FOUND,
    on_bad_row: Literal["error", "skip"] = "error",
    overwrite: bool = False,
    resume: bool = False,
    say: Say = lambda _: None,
    progress: Progress = lambda _done, _total: None,
) -> dict[str, Any]:
    """Certify a model's heads on the texts of a source; write a table, its summary, figures and a report to a folder.

    Memory holds a part of the texts at a time, and of those one layer of one batch.

    Args:
        model: A model folder or a hub name; any model whose attention can be captured.
        source: Texts, as `load_source` takes them; labels are not looked at.
        output: The folder to make: `heads.parquet`, `summary.json`, `figures/`, `report.html`. A run that is stopped
            leaves `OUTPUT.unfinished` beside it.
        settings: See `AuditSettings`.
        split: Which split of a folder or a hub data set; `test` where it is `None`.
        columns: Of the source.
        on_bad_row: `error`, or `skip` to leave out rows that cannot be used and count them.
        overwrite: Replace `output`.
        resume: Go on with a run that was stopped; the result is that of an unbroken run.
        say: Called with a sentence on every choice made and everything left out.
        progress: Called as texts are done, with their number since the last call and that of all.

    Returns:
        The contents of `summary.json`: see `Summary.to_dict`.

    Raises:
        InputError: For a model, texts, settings or folders that cannot be used.
    """
    settings = settings or AuditSettings()
    output = Path(os.path.abspath(output))
    refuse_replacing(output, [model, source], overwrite, kind="folder of an audit", mark=HEADS)
    loaded, tokenizer = load_model(model)
    data, rows = load_split(source, columns, "ignore", on_bad_row, split, say)
    paired = takes_pairs(data, rows, loaded, columns)
    for note in data.notes:
        say(note)
    if settings.limit is not None and settings.limit < len(rows):
        say(f"of {len(rows)} texts, the first {settings.limit} are audited (--limit)")
        rows = rows.select(range(settings.limit))
    run = _Run(loaded, tokenizer, rows, paired, settings)
    with UnfinishedFolder(output, overwrite=overwrite, resume=resume) as folder:
        texts = digest_of([rows], ("text", "text_pair") if paired else ("text",))
        is_same_run(
            folder.path / RUN, {"settings": settings.to_dict(), "model": _digest(loaded), "data": texts}
        )
        parts = Parts(folder.path / "parts")
        with threads_for(loaded):
            run.add_missing(parts, progress)
        summary = Summary()
        for part in parts:
            summary.add(part)
        if not summary.rows:
            reasons = "; ".join(sorted(set(summary.refused.values()))) or "it has no attention"
            raise InputError(f"no head of {model} can be audited: {reasons}")
        result = {"model": model, "source": source, "settings": settings.to_dict(), **summary.to_dict()}
        done = len(rows)
        if settings.prove:
            with threads_for(loaded):
                result["proof"], tried = run.proof(parts, progress)
            done += tried
        samples = run.samples(done, progress)
        reading = {"split": split, "text_column": columns.text, "text_pair_column": columns.text_pair}
        options = {**settings.to_dict(), **reading, "on_bad_row": on_bad_row}
        defaults = {**AuditSettings().to_dict(), "on_bad_row": "error"}
        folder.result.mkdir()
        parts.join(folder.result / HEADS)
        write_png(audit_plots(result, summary.nullities), folder.result / FIGURES)
        write_json(folder.result / SUMMARY, result)
        with whole_file(folder.result / REPORT) as report:
            report.write(audit_page(output.name, result, summary.nullities, samples, options, defaults))
        folder.finish()
    return result


@dataclass(frozen=True)
class _Run:
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    rows: Dataset
    paired: bool
    settings: AuditSettings

    def add_missing(self, parts: Parts, progress: Progress) -> None:
        """Add the parts that are not there yet."""
        size = self.settings.batch_size * _BATCHES_A_PART
        starts = range(0, len(self.rows), size)
        done = len(parts)
        progress(min(done * size, len(self.rows)), len(self.rows))
        wanted: set[tuple[int, int, int]] | None = None
        for start in starts[done:]:
            chunk = self.rows.select(range(start, min(start + size, len(self.rows))))
            if wanted is None:
                wanted = self._rows_for_intervals()
            parts.add(self._part(chunk, wanted, lambda texts: progress(texts, len(self.rows))))

    def proof(self, parts: Parts, progress: Progress) -> tuple[dict[str, Any], int]:
        """What the model says with alternatives in place of its weights, and of how many rows."""
        chosen = candidates(parts, self.settings.prove, self.settings.seed)
        total = len(self.rows) + len(chosen)
        progress(0, total)
        numbers = np.asarray(self.rows["row"])

        def text_of(text_id: int) -> tuple[str, str | None]:
            one = self._text_at(int(np.searchsorted(numbers, text_id)))
            return one.text, one.text_pair

        result = prove(
            self.model,
            self.tokenizer,
            chosen,
            text_of,
            self.settings.rows,
            self.settings.seed,
            lambda rows: progress(rows, total),
        )
        return result, len(chosen)

    def samples(self, done: int, progress: Progress) -> Samples:
        """What the report shows of single texts, evenly spread.

        Args:
            done: What `progress` has counted so far.
            progress: That of the audit.
        """
        settings = self.settings
        return explained_samples(
            self.model,
            self.tokenizer,
            spread(len(self.rows), settings.report_texts),
            self._text_at,
            len(self.rows),
            label_list(self.model) if chooses_label(self.model) else [],
            lambda _shown: "Texts of the audit, evenly spread over it.",
            layers="all" if settings.layers is None else settings.layers,
            heads=settings.heads,
            detailed_rows=settings.report_rows,
            progress=lambda texts, total: progress(texts, done + total),
        )

    def _text_at(self, place: int) -> SampledText:
        row = self.rows[place]
        return SampledText(row["row"], row["text"], row["text_pair"] if self.paired else None)

    def _part(
        self, chunk: Dataset, wanted: set[tuple[int, int, int]], done: Callable[[int], None]
    ) -> pa.Table:
        texts = list(chunk["text"])
        pairs = list(chunk["text_pair"]) if self.paired else None
        lengths = token_lengths(self.tokenizer, texts, pairs)
        order = by_length(lengths)
        texts = [texts[i] for i in order]
        pairs = None if pairs is None else [pairs[i] for i in order]
        numbers = list(chunk["row"])
        ids = [int(numbers[i]) for i in order]
        notes = PartNotes(
            lengths=Counter(lengths.tolist()),
            truncated=int((lengths > self.tokenizer.model_max_length).sum()),
        )

        @lru_cache(maxsize=self.settings.batch_size)  # for all layers of a batch
        def texts_of_tokens(text: int) -> list[str]:
            return token_texts(self.tokenizer, texts[text], None if pairs is None else pairs[text])

        def token_text(text: int, token: int) -> str:
            found = texts_of_tokens(text)
            return found[token] if token < len(found) else ""

        def shifts(captured: CapturedLayer) -> list[int]:
            """How many tokens of padding stand before each text."""
            if self.tokenizer.padding_side != "left" or captured.heads is None:
                return [0] * len(captured.texts)
            width = captured.heads.weights.shape[-1] - captured.sink
            return [width - min(int(lengths[order[i]]), width) for i in captured.texts]

        tables: list[pa.Table] = []
        seen: set[int] = set()
        for captured in self._captured(texts, pairs):
            notes.note(captured)
            table = head_rows(captured, ids, shifts(captured), token_text, self.settings.tolerance, wanted)
            if table is not None:
                tables.append(table)
            if not seen.issuperset(captured.texts):
                seen.update(captured.texts)
                done(len(captured.texts))
        whole = pa.concat_tables(tables) if tables else SCHEMA.empty_table()
        keys = [(name, "ascending") for name in ("text_id", "layer", "head", "row")]
        return notes.attach(whole.sort_by(keys))

    def _captured(self, texts: list[str], pairs: list[str] | None) -> Iterator[CapturedLayer]:
        settings = self.settings
        captured = capture(
            self.model,
            self.tokenizer,
            texts,
            pairs,
            rows=settings.rows,
            layers=settings.layers,
            heads=settings.heads,
            batch_size=settings.batch_size,
        )
        with closing(captured):  # pyright: ignore[reportArgumentType] (a generator)
            yield from map(audited, captured)

    def _rows_for_intervals(self) -> set[tuple[int, int, int]]:
        """Rows whose intervals are computed: their heads are those that the first text shows."""
        if not self.settings.intervals:
            return set()
        first = self.rows.select(range(1))
        pairs = list(first["text_pair"]) if self.paired else None
        heads = [
            (captured.layer, head)
            for captured in self._captured(list(first["text"]), pairs)
            for head in captured.head_numbers
        ]
        if not heads:
            return set()
        return spread_rows(self.settings.intervals, list(self.rows["row"]), heads)


def _digest(model: PreTrainedModel) -> str:
    """A number that other models do not have: of the shapes of their weights, and of some numbers of each."""
    digest = hashlib.sha256(model.config.to_json_string().encode())
    for name, tensor in model.state_dict().items():
        some = tensor.detach().flatten()[:: max(1, tensor.numel() // 64)].to("cpu", torch.float64)
        digest.update(f"{name} {tuple(tensor.shape)}".encode() + some.numpy().tobytes())
    return digest.hexdigest()
