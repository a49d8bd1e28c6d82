"""The model: settings, padding, saving, the Auto classes."""

from __future__ import annotations

import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification

from identiformer.model import (
    IdentiformerConfig,
    IdentiformerForSequenceClassification,
    IdentiformerModel,
)

SIZES = {
    "vocab_size": 23,
    "hidden_size": 24,
    "num_attention_heads": 3,
    "key_size": 5,
    "value_size": 7,
    "intermediate_size": 11,
    "max_position_embeddings": 13,
    "num_labels": 4,
}
SETTINGS = [
    {"head_merge": merge, "values_carry_keys": carry, "num_hidden_layers": layers}
    for merge, carry, layers in product(("add", "concat"), (False, True), (1, 2))
]


def make(**settings: object) -> IdentiformerForSequenceClassification:
    torch.manual_seed(0)
    return IdentiformerForSequenceClassification(IdentiformerConfig(**{**SIZES, **settings})).eval()


def texts(*lengths: int, left: bool = False) -> dict[str, torch.Tensor]:
    """Random texts of given lengths, padded to the longest of them."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.zeros(len(lengths), max(lengths), dtype=torch.long)
    mask = torch.zeros_like(ids)
    for i, length in enumerate(lengths):
        place = slice(max(lengths) - length, None) if left else slice(0, length)
        ids[i, place] = torch.randint(4, 23, (length,), generator=generator)
        ids[i, place.start] = 2
        mask[i, place] = 1
    return {"input_ids": ids, "attention_mask": mask}


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("left", [False, True])
def test_padding_changes_nothing(settings: dict[str, object], implementation: str, left: bool):
    model = make(**settings)
    model.set_attn_implementation(implementation)
    lengths = (5, 11, 2, 7)
    with torch.no_grad():
        together = model(**texts(*lengths, left=left)).logits
        every_row = model(**texts(*lengths, left=left), output_hidden_states=True).logits
        batch = texts(*lengths)
        order = [2, 0, 3, 1]
        shuffled = model(**{name: tensor[order] for name, tensor in batch.items()}).logits
        alone = [model(batch["input_ids"][i : i + 1, :length]).logits[0] for i, length in enumerate(lengths)]
    torch.testing.assert_close(together, torch.stack(alone), atol=1e-5, rtol=0)
    torch.testing.assert_close(every_row, torch.stack(alone), atol=1e-5, rtol=0)
    torch.testing.assert_close(shuffled, torch.stack(alone)[order], atol=1e-5, rtol=0)


def test_padding_is_hidden_where_no_mask_is_given():
    model = make()
    batch = texts(3, 11)
    with torch.no_grad():
        given = model(**batch).logits
        found = model(batch["input_ids"]).logits
        unmasked = model(batch["input_ids"], attention_mask=torch.ones_like(batch["input_ids"])).logits
    torch.testing.assert_close(given, found, atol=1e-6, rtol=0)
    assert (given - unmasked)[0].abs().max() > 1e-3  # the mask matters, so the test above can fail


def test_the_implementations_agree_and_eager_gives_the_weights():
    model = make(num_hidden_layers=2)
    batch = texts(5, 11, 7)
    with torch.no_grad():
        sdpa = model(**batch).logits
        model.set_attn_implementation("eager")
        eager = model(**batch)
        weights = model(**batch, output_attentions=True).attentions
    torch.testing.assert_close(sdpa, eager.logits, atol=1e-5, rtol=0)
    assert [tuple(layer.shape) for layer in weights] == [(3, 3, 11, 11)] * 2
    torch.testing.assert_close(weights[0].sum(-1), torch.ones(3, 3, 11))
    assert float(weights[0][0, :, :, 5:].max()) == 0.0


def test_positions_tell_equal_words_apart_only_where_they_are_learned():
    ids = torch.tensor([[2, 5, 6], [2, 6, 5]])
    with torch.no_grad():
        learned = make(position_embedding="learned")(ids).logits
        without = make(position_embedding="none")(ids).logits
    assert (learned[0] - learned[1]).abs().max() > 1e-4
    torch.testing.assert_close(without[0], without[1])


@pytest.mark.parametrize("settings", SETTINGS)
def test_saved_and_loaded_it_gives_the_same(settings: dict[str, object], tmp_path: Path):
    model = make(**settings)
    model.save_pretrained(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {"config.json", "model.safetensors"}
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert isinstance(loaded, IdentiformerForSequenceClassification)
    assert isinstance(AutoConfig.from_pretrained(tmp_path), IdentiformerConfig)
    batch = texts(5, 11)
    with torch.no_grad():
        assert torch.equal(loaded(**batch).logits, model(**batch).logits)
        encoder = AutoModel.from_pretrained(tmp_path)
        assert isinstance(encoder, IdentiformerModel)
        hidden = encoder(**batch).last_hidden_state
    assert tuple(hidden.shape) == (2, 11, 24)


def test_labels_give_the_cross_entropy():
    model = make()
    labels = torch.tensor([3, 0])
    with torch.no_grad():
        output = model(**texts(5, 11), labels=labels)
    expected = -output.logits.log_softmax(-1)[torch.arange(2), labels].mean()
    torch.testing.assert_close(output.loss, expected)


def test_a_value_size_follows_from_the_merge():
    assert IdentiformerConfig(hidden_size=24, num_attention_heads=3).value_size == 24
    assert IdentiformerConfig(hidden_size=24, num_attention_heads=3, head_merge="concat").value_size == 8


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"value_size": 20, "key_size": 5, "values_carry_keys": True}, ["value_size", "20 + 5 > 24"]),
        ({"key_size": 0}, ["key_size is 0"]),
        ({"num_attention_heads": -1}, ["num_attention_heads is -1"]),
        ({"hidden_dropout_prob": 1.0}, ["hidden_dropout_prob is 1.0"]),
        ({"head_merge": "sum"}, ["head_merge"]),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, object], words: list[str]):
    with pytest.raises(StrictDataclassError) as error:
        IdentiformerConfig(**{**SIZES, **settings})
    assert all(word in str(error.value) for word in words)


def test_a_text_that_is_too_long_is_refused_with_its_length():
    with pytest.raises(ValueError, match=r"14 tokens.* positions for 13"):
        make()(torch.full((1, 14), 5))
    assert make(position_embedding="none")(torch.full((1, 14), 5)).logits.shape == (1, 4)


def test_tokens_are_hidden_in_training_alone_and_special_ones_never():
    model = make(token_dropout_prob=0.5, embedding_dropout_prob=0.0)
    ids = torch.full((50, 13), 7)
    ids[:, 0], ids[:, 6], ids[:, 12] = 2, 3, 0
    embeddings = model.encoder.embeddings
    assert torch.equal(embeddings._drop_tokens(ids), ids)
    embeddings.train()
    dropped = embeddings._drop_tokens(ids)
    assert torch.equal(dropped[:, [0, 6, 12]], ids[:, [0, 6, 12]])
    assert 0.4 < float((dropped == 1).sum() / (50 * 10)) < 0.6
    assert set(dropped.unique().tolist()) == {0, 1, 2, 3, 7}


@pytest.mark.slow
@pytest.mark.parametrize(
    "imports",
    [
        "import identiformer; from transformers import AutoModelForSequenceClassification as Auto, AutoConfig",
        "from transformers import AutoModelForSequenceClassification as Auto, AutoConfig; import identiformer",
        "import identiformer; from transformers import Trainer, AutoConfig;"
        "from transformers import AutoModelForSequenceClassification as Auto",
        "from identiformer import IdentiformerModel;"
        "from transformers import AutoModelForSequenceClassification as Auto, AutoConfig",
    ],
)
def test_the_auto_classes_know_it_whatever_is_imported_first(imports: str):
    code = f"{imports}; print(type(Auto.from_config(AutoConfig.for_model('identiformer', vocab_size=9))).__name__)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "IdentiformerForSequenceClassification"
