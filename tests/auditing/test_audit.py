"""A data set through a model: the table against certificates one by one, resuming, and proofs."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from identiformer.auditing import AuditSettings, audit
from identiformer.capturing import capture
from identiformer.errors import InputError
from identiformer.identifiability import Verdict, certify, top_is_certain, weight_intervals
from identiformer.reading import ChosenColumns
from small import TEXTS, small_classifier

LONG = "The food was good, but the waiter was rude. Not good. We waited and waited; nobody came."


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    classifier, tokenizer = small_classifier()
    classifier.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("source") / "texts.csv"
    with open(file, "w", newline="", encoding="utf-8") as handle:
        writer = csv.writer(handle)
        writer.writerow(["text"])
        writer.writerows([text] for text in [*TEXTS, LONG, LONG + " " + LONG] * 3)
    return file


@pytest.fixture(scope="module")
def audited(model: Path, source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audits") / "audit"
    audit(str(model), str(source), folder, AuditSettings(batch_size=1, intervals=5, prove=3))
    return folder


def test_the_table_holds_what_the_certificates_say(audited: Path) -> None:
    table = pq.read_table(audited / "heads.parquet").to_pylist()
    assert len(table) == 18 * 2 * 3
    keys = [(row["text_id"], row["layer"], row["head"], row["row"]) for row in table]
    assert keys == sorted(keys)
    classifier, tokenizer = small_classifier()
    texts = [*TEXTS, LONG, LONG + " " + LONG]
    for captured in capture(classifier, tokenizer, texts, batch_size=1):
        assert captured.heads is not None
        certificate = certify(captured.heads)
        for head in range(3):
            (row,) = (
                r
                for r, k in zip(table, keys, strict=True)
                if k == (captured.texts[0] + 1, captured.layer, head, 0)
            )
            place = (0, head, 0)
            for level in ("free", "simplex", "generatable"):
                one = certificate[level]
                assert row[f"{level}_nullity"] == int(one.nullity[place])
                assert row[f"{level}_margin"] == pytest.approx(float(one.margin[place]), rel=1e-6)
                assert row[f"{level}_verdict"] == Verdict(int(one.verdict[place])).label
            weights = captured.heads[place].weights
            assert row["tokens"] == int(certificate.tokens[place]) == len(weights)
            assert row["top_token"] == int(weights.argmax())
            assert row["top_weight"] == pytest.approx(float(weights.max()))
            assert row["top_certain"] == top_is_certain(captured.heads, place)
            if row["widest_interval"] is not None:
                bounds = weight_intervals(captured.heads, place)
                widest = float((bounds.upper - bounds.lower).max())
                assert row["widest_interval"] == pytest.approx(widest, abs=1e-8)


def test_intervals_are_computed_where_they_are_not_known(audited: Path) -> None:
    table = pq.read_table(audited / "heads.parquet").to_pylist()
    widths = [row["widest_interval"] for row in table]
    assert all(width == 0 for width, row in zip(widths, table, strict=True) if row["simplex_nullity"] == 0)
    assert any(width for width in widths)
    assert sum(width is not None and width > 0 for width in widths) <= 5


def test_the_words_at_the_top_are_those_of_the_text(audited: Path) -> None:
    table = pq.read_table(audited / "heads.parquet").to_pylist()
    words = ["<cls>", "The", "food", "was", "good", ",", "but", "the", "waiter", "was", "rude", "."]
    first = [row for row in table if row["text_id"] == 1]
    assert len(first) == 6
    assert [row["top_text"] for row in first] == [words[row["top_token"]] for row in first]


def test_the_summary_adds_up_and_the_figures_are_there(audited: Path) -> None:
    summary = json.loads((audited / "summary.json").read_text())
    table = pq.read_table(audited / "heads.parquet")
    assert summary["all"]["rows"] == table.num_rows == sum(head["rows"] for head in summary["heads"])
    unique = np.mean([verdict == "global" for verdict in table.column("simplex_verdict").to_pylist()])
    assert 0 < unique < 1
    assert summary["all"]["levels"]["simplex"]["identifiable"] == pytest.approx(unique)
    # Three of the texts are longer than the 24 tokens that the model takes.
    assert summary["texts"]["truncated"] == pytest.approx(3 / 18)
    assert {file.name for file in (audited / "figures").iterdir()} == {
        "heads.png", "lengths.png", "margins.png", "nullity.png", "tops.png",
    }  # fmt: skip


def test_alternatives_leave_the_model_where_it_was_and_other_weights_do_not(audited: Path) -> None:
    proof = json.loads((audited / "summary.json").read_text())["proof"]
    assert proof["found"] == proof["asked"] >= 3
    assert proof["largest_change"] < 1e-5
    assert proof["predictions_changed"] == 0
    assert proof["median_distance"] > 0.01
    assert proof["median_control_change"] > 1e-3


class Killed(Exception):
    """Stands for a kill."""


def test_a_run_that_was_killed_goes_on_to_the_same_files(
    model: Path, source: Path, audited: Path, tmp_path: Path
) -> None:
    settings = AuditSettings(batch_size=1, intervals=5, prove=3)
    calls = 0

    def kill(_done: int, _total: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 12:
            raise Killed

    with pytest.raises(Killed):
        audit(str(model), str(source), tmp_path / "audit", settings, progress=kill)
    assert not (tmp_path / "audit").exists()
    with pytest.raises(InputError, match="--resume"):
        audit(str(model), str(source), tmp_path / "audit", settings)
    with pytest.raises(InputError, match="other settings"):
        audit(str(model), str(source), tmp_path / "audit", AuditSettings(batch_size=2), resume=True)

    def kill_in_the_report(done: int, total: int) -> None:
        if done and total > 18 + 3:  # texts and rows to prove, and then the texts of the report
            raise Killed

    with pytest.raises(Killed):
        audit(str(model), str(source), tmp_path / "audit", settings, resume=True, progress=kill_in_the_report)
    audit(str(model), str(source), tmp_path / "audit", settings, resume=True)
    for name in ("heads.parquet", "summary.json", "figures/nullity.png", "report.html"):
        assert (tmp_path / "audit" / name).read_bytes() == (audited / name).read_bytes()


def test_all_rows_of_some_heads_of_the_first_texts(model: Path, source: Path, tmp_path: Path) -> None:
    said: list[str] = []
    settings = AuditSettings(rows="all", layers=(-1,), heads=(2,), limit=2, intervals=0)
    audit(str(model), str(source), tmp_path / "audit", settings, say=said.append)
    table = pq.read_table(tmp_path / "audit" / "heads.parquet").to_pylist()
    assert [(row["text_id"], row["row"]) for row in table] == [
        *((1, row) for row in range(12)),
        *((2, row) for row in range(4)),
    ]
    assert {(row["layer"], row["head"]) for row in table} == {(1, 2)}
    assert any("first 2" in sentence for sentence in said)


def test_the_page_has_the_command_with_what_was_read(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    for split in ("train", "valid", "test"):
        (folder / f"{split}.csv").write_text("news,label\ngood film,a\n,a\nbad film,b\n", encoding="utf-8")
    audit(
        str(model),
        str(folder),
        tmp_path / "audit",
        AuditSettings(limit=2),
        split="valid",
        columns=ChosenColumns(text="news"),
        on_bad_row="skip",
    )
    page = (tmp_path / "audit" / "report.html").read_text(encoding="utf-8")
    assert "--output audit --limit 2 --split valid --text-column news --on-bad-row skip" in page


def test_padding_on_the_left_moves_no_place(source: Path, tmp_path: Path) -> None:
    _, tokenizer = small_classifier()
    torch.manual_seed(0)
    bert = BertForSequenceClassification(
        BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=12,
            num_hidden_layers=1,
            num_attention_heads=3,
            intermediate_size=7,
            max_position_embeddings=24,
            initializer_range=1.0,
        )
    )
    tables = []
    for side in ("left", "right"):
        bert.save_pretrained(tmp_path / side)
        tokenizer.padding_side = side
        tokenizer.save_pretrained(tmp_path / side)
        # Batches of one text have no padding: what they give is right on either side.
        for batch_size in (1, 4):
            out = tmp_path / f"{side}-{batch_size}"
            settings = AuditSettings(rows=2, limit=4, intervals=0, batch_size=batch_size)
            audit(str(tmp_path / side), str(source), out, settings)
            rows = pq.read_table(out / "heads.parquet").to_pylist()
            tables.append([(row["text_id"], row["row"], row["tokens"]) for row in rows])
            words = {text: tokenizer(text)["input_ids"] for text in TEXTS}
            for row in rows:
                token = words[TEXTS[row["text_id"] - 1]][row["top_token"]]
                name = tokenizer.convert_ids_to_tokens(token)
                assert row["top_text"].lower() == name
    assert tables[0] == tables[1] == tables[2] == tables[3]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layers": (7,)}, "there is no layer 7"),
        ({"heads": (3,)}, "there is no head 3"),
    ],
)
def test_layers_and_heads_that_do_not_exist(
    model: Path, source: Path, tmp_path: Path, settings: dict[str, tuple[int, ...]], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        audit(str(model), str(source), tmp_path / "audit", AuditSettings(**settings))  # pyright: ignore[reportArgumentType]
    assert not (tmp_path / "audit.unfinished").exists()


@pytest.mark.parametrize(
    "settings",
    [
        {"rows": "some"},
        {"rows": 0},
        {"limit": 0},
        {"batch_size": 0},
        {"tolerance": -0.1},
        {"intervals": -1},
        {"prove": -1},
        {"report_texts": -1},
        {"report_rows": -1},
    ],
)
def test_settings_that_cannot_be(settings: dict[str, object]) -> None:
    name = next(iter(settings)).replace("_", "-")
    with pytest.raises(InputError, match=f"--{name} is"):
        AuditSettings(**settings)  # pyright: ignore[reportArgumentType]


def test_nothing_but_an_audit_is_replaced(model: Path, source: Path, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "thesis.txt").write_text("years of work")
    for output in (model, source.parent, tmp_path / "notes"):
        before = sorted(output.iterdir())
        with pytest.raises(InputError, match="replaced"):
            audit(str(model), str(source), output, AuditSettings(limit=1), overwrite=True)
        assert sorted(output.iterdir()) == before
