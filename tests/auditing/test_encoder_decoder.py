"""Audits of encoder-decoders: layers without a row that stands for the text, or with but one token to attend to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
import transformers
from transformers import PreTrainedModel

from architectures import SIZE, build
from identiformer.auditing import AuditSettings, audit
from identiformer.auditing.audit import HEADS
from identiformer.cli.audit_view import audit_view
from identiformer.cli.results import show
from identiformer.errors import InputError
from pieces import pieces_tokenizer
from runs import write_csv

t: Any = transformers
TEXTS = ["the unlikely film", "an unlikely film with a cast", "the film"]


def bart() -> PreTrainedModel:
    torch.manual_seed(0)
    names = {"hidden_size": "d_model", "num_hidden_layers": "encoder_layers"}
    config = {names.get(name, name): value for name, value in SIZE.items()} | {"forced_eos_token_id": None}
    sizes = dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 40) | {"decoder_layers": 2}
    heads = dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4)
    return t.BartModel(t.BartConfig(**config, **sizes, **heads)).eval()


def audited(
    model: PreTrainedModel, folder: Path, **settings: Any
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    model.save_pretrained(folder / "model")
    pieces_tokenizer().save_pretrained(folder / "model")
    source = write_csv(folder / "texts.csv", [{"text": text} for text in TEXTS])
    summary = audit(str(folder / "model"), source, folder / "audit", AuditSettings(**settings))
    return summary, pq.read_table(folder / "audit" / HEADS).to_pylist()


def test_layers_without_a_row_for_the_text_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Two layers of the encoder; then of the decoder 2 and 4 to its own tokens, 3 and 5 to the text."""
    summary, rows = audited(build("t5"), tmp_path, intervals=0)
    assert {row["layer"] for row in rows} == {2, 3, 4, 5}
    assert [(entry["layer"], entry["head"]) for entry in summary["refused"]] == [
        (layer, head) for layer in (0, 1) for head in range(4)
    ]
    assert all("no row stands for the text" in entry["reason"] for entry in summary["refused"])
    # A decoder that is given the text has it one token later.
    assert all(row["top_text"] == "" for row in rows if row["layer"] in (2, 4))
    assert any(row["top_text"] == "film" for row in rows if row["layer"] in (3, 5))
    show(audit_view(summary))
    assert (
        "left out, layer.head 0.0, 0.1, 0.2, 0.3, 1.0, 1.1, 1.2, 1.3: in the encoder"
        in capsys.readouterr().out
    )


def test_a_decoder_that_has_but_its_first_token_is_left_out(tmp_path: Path):
    summary, rows = audited(bart(), tmp_path)
    assert {row["layer"] for row in rows} == {3, 5}
    assert {entry["layer"] for entry in summary["refused"]} == {0, 1, 2, 4}
    assert {entry["reason"].split(":")[0] for entry in summary["refused"] if entry["layer"] in (2, 4)} == {
        "it attends to the decoder's own tokens, of which there is one"
    }


def test_with_all_rows_the_encoder_is_there(tmp_path: Path):
    summary, rows = audited(build("t5"), tmp_path, rows="all", intervals=0)
    assert {row["layer"] for row in rows} == set(range(6))
    assert summary["refused"] == []


def test_layers_that_are_asked_for_and_have_no_row_are_an_error(tmp_path: Path):
    with pytest.raises(InputError, match=r"layers 0, 1: .*, or for layers out of 2, 3, 4, 5"):
        audited(build("t5"), tmp_path, layers=(0, 1, 3))
