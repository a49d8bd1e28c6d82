"""Retrofitted models: what they compute, what they keep, and that their attention is identifiable."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, PreTrainedModel

import identiformer
from encoders import (
    ENCODERS,
    HEAD_SIZE,
    HEADS,
    LONGEST,
    TEXTS,
    WIDTH,
    WORDS,
    encoder,
    padded,
    words_tokenizer,
)
from identiformer.capturing import CapturedLayer, capture, capture_inputs
from identiformer.errors import InputError
from identiformer.identifiability import Level, Verdict, certify, recover
from identiformer.retrofitting.carrying import widened
from identiformer.retrofitting.families import FAMILIES, sites

CLASSIFIER = "ForSequenceClassification"
families = pytest.mark.parametrize("family", ENCODERS)


def retrofitted(family: str, task: str = "Model", strength: float = 0.05, **more: Any) -> PreTrainedModel:
    model = encoder(family, task).double()
    return identiformer.retrofit(model, words_tokenizer(), strength, TEXTS, **more)[0]


def own_and_added(model: PreTrainedModel, family: str) -> list[tuple[Tensor, Tensor]]:
    """`D` and `E` of every site, `[heads, d, d_e]`."""
    found: list[tuple[Tensor, Tensor]] = []
    for site in sites(model, FAMILIES[family]):
        projection = site.output.weight.detach().T.unflatten(0, (HEADS, 2 * HEAD_SIZE))
        found.append((projection[:, :HEAD_SIZE], projection[:, HEAD_SIZE:]))
    return found


def layers_of(model: PreTrainedModel, texts: list[str], **more: Any) -> list[CapturedLayer]:
    return list(capture(model, words_tokenizer(), texts, rows="all", batch_size=len(texts), **more))


@families
def test_with_no_projection_the_model_computes_what_it_computed(family: str):
    model = encoder(family, CLASSIFIER)
    wide = widened(model, FAMILIES[family])
    inputs = padded(TEXTS[:7])
    with torch.no_grad():
        expected, found = model(**inputs).logits, wide(**inputs).logits
    torch.testing.assert_close(found, expected, atol=2e-6, rtol=1e-5)


@families
def test_implementations_of_attention_agree_and_give_the_originals_weights(family: str):
    """The first layer has the original's input: a constant part of the keys changes none of its weights."""
    model, carrying = encoder(family).double(), retrofitted(family)
    inputs = padded(TEXTS[:7])
    with torch.no_grad():
        usual = carrying(**inputs).last_hidden_state
        for each in (model, carrying):
            each.set_attn_implementation("eager")
        eager = carrying(**inputs, output_attentions=True)
        before = model(**inputs, output_attentions=True)
    visible = inputs["attention_mask"].bool()
    torch.testing.assert_close(eager.last_hidden_state[visible], usual[visible])
    assert len(eager.attentions) == len(before.attentions) == 2
    torch.testing.assert_close(eager.attentions[0], before.attentions[0])


@families
def test_values_carry_the_keys_that_enter_the_dot_product(family: str):
    for layer in layers_of(retrofitted(family), TEXTS[:5]):
        assert layer.heads is not None
        assert not layer.refused
        assert layer.heads.values.shape[-1] == 2 * HEAD_SIZE
        assert torch.equal(layer.heads.values[..., HEAD_SIZE:], layer.heads.keys)


@families
def test_what_is_added_is_beside_the_heads_own_projection_which_is_kept(family: str):
    model = encoder(family).double()
    for site, (own, added) in zip(
        sites(model, FAMILIES[family]), own_and_added(retrofitted(family), family), strict=True
    ):
        before = site.output.weight.detach().T.unflatten(0, (HEADS, HEAD_SIZE))
        assert torch.equal(own, before)
        assert float((own @ added.mT).abs().max()) < 1e-12
        assert torch.linalg.matrix_rank(torch.cat([own, added], dim=1)).tolist() == [2 * HEAD_SIZE] * HEADS


@families
def test_a_first_layer_gives_what_it_gave_and_the_mixed_keys_less_their_mean(family: str):
    r"""$a V D + b + \sum_h (a K - \mathrm{const}) E$; the constant is the mean of $a K$ over the calibration texts.

    Only for a single layer: in ALBERT's shared one, the constant is that of all the layers that share it.
    """
    name = "n_layers" if family == "distilbert" else "num_hidden_layers"
    model = encoder(family, "Model", **{name: 1}).double()
    carrying, _ = identiformer.retrofit(model, words_tokenizer(), 0.05, TEXTS)
    (site,) = sites(model, FAMILIES[family])
    (carrying_site,) = sites(carrying, FAMILIES[family])
    ((_, added),) = own_and_added(carrying, family)

    def run(of: PreTrainedModel, output: Any, texts: list[str]) -> Tensor:
        outputs: list[Tensor] = []
        handle = output.register_forward_hook(lambda _module, _inputs, result: outputs.append(result))
        with torch.no_grad():
            of(**padded(texts))
        handle.remove()
        return outputs[0][padded(texts)["attention_mask"].bool()]

    def mixed_keys(texts: list[str]) -> Tensor:
        """$a K$ with the original's keys, `[rows, heads, d_k]`."""
        rows: list[Tensor] = []
        for text in texts:
            (layer,) = layers_of(widened(model, FAMILIES[family]), [text])
            assert layer.heads is not None
            mixed = layer.heads.weights[0] @ layer.heads.keys[0, :, 0]
            rows.append(mixed.transpose(0, 1))
        return torch.cat(rows)

    constant = mixed_keys(TEXTS[::2]).mean(dim=0)
    texts = TEXTS[1:6:2]
    moved = run(carrying, carrying_site.output, texts) - run(model, site.output, texts)
    expected = torch.einsum("rhk,hke->re", mixed_keys(texts) - constant, added)
    torch.testing.assert_close(moved, expected)
    assert float(moved.abs().max()) > 1e-4


def test_strength_is_the_share_by_which_the_output_varies():
    model = encoder("bert", num_hidden_layers=1).double()
    carrying, _ = identiformer.retrofit(model, words_tokenizer(), 0.03, TEXTS)
    ((own, added),) = own_and_added(carrying, "bert")
    rows: list[Tensor] = []
    for text in TEXTS[::2]:
        (layer,) = layers_of(carrying, [text])
        assert layer.heads is not None
        rows.append((layer.heads.weights[0] @ layer.heads.values[0, :, 0]).transpose(0, 1))
    mixed = torch.cat(rows)  # [rows, heads, d_v + d_k]
    spread = [
        (part - part.mean(dim=0)).square().sum(dim=-1).mean(dim=0).sqrt()
        for part in (
            torch.einsum("rhv,hve->rhe", mixed[..., :HEAD_SIZE], own),
            torch.einsum("rhk,hke->rhe", mixed[..., HEAD_SIZE:], added),
        )
    ]
    torch.testing.assert_close(spread[1], 0.03 * spread[0])


@families
def test_every_head_is_identifiable_at_every_length(family: str):
    model = retrofitted(family)
    before = widened(encoder(family).double(), FAMILIES[family])
    places: dict[str, int] = {"before": 0, "after": 0}
    lengths = range(1, LONGEST - 4)
    for length in lengths:
        generator = torch.Generator().manual_seed(length)
        ids = torch.randint(5, 5 + len(WORDS), (1, length), generator=generator)
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        for when, each in (("before", before), ("after", model)):
            for layer in capture_inputs(each, inputs, rows="all"):
                assert layer.heads is not None
                certificate = certify(layer.heads)[Level.GENERATABLE]
                places[when] += int((certificate.verdict == Verdict.GLOBAL).sum())
                if when == "after":
                    assert float(certificate.margin.min()) > 1e-9
    assert places["after"] == 2 * HEADS * sum(lengths)
    # Without carried keys, texts of up to d_v + 1 tokens are identifiable on the simplex, and no longer ones.
    assert places["before"] == 2 * HEADS * sum(range(1, HEAD_SIZE + 2))


@families
def test_the_weights_can_be_recovered_from_the_output_of_a_head_alone(family: str):
    (layer, *_) = layers_of(retrofitted(family), [" ".join(WORDS)])
    assert layer.heads is not None
    head = layer.heads[0, 1, 3]
    assert int(head.tokens) == 28  # far beyond d_v + d_k + 1
    assert head.output_projection is not None
    weights = recover(
        head.keys, head.values, head.output_projection, head.output, level=Level.GENERATABLE, bias=head.bias
    )
    torch.testing.assert_close(weights, head.weights, atol=1e-7, rtol=1e-6)


@families
@pytest.mark.parametrize("auto", [AutoModel, AutoModelForSequenceClassification])
def test_it_comes_back_from_a_folder(family: str, auto: Any, tmp_path: Path):
    task = "Model" if auto is AutoModel else CLASSIFIER
    carrying = retrofitted(family, task)
    carrying.save_pretrained(tmp_path)
    loaded, report = auto.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values())
    assert type(loaded) is type(carrying)
    assert loaded.config.model_type == f"identiformer_{family.replace('-', '_')}"
    assert loaded.config.retrofit == {"strength": 0.05, "seed": 0}
    inputs = padded(TEXTS[:5])
    with torch.no_grad():
        torch.testing.assert_close(loaded.eval()(**inputs)[0], carrying(**inputs)[0], atol=1e-12, rtol=1e-12)


@families
def test_an_encoder_comes_back_with_a_new_classifier_on_it(family: str, tmp_path: Path):
    carrying = retrofitted(family)
    carrying.save_pretrained(tmp_path)
    loaded, report = AutoModelForSequenceClassification.from_pretrained(
        tmp_path, num_labels=5, output_loading_info=True
    )
    assert {name.split(".")[0] for name in report["missing_keys"]} <= {"classifier", "pre_classifier"}
    for ours, theirs in zip(sites(carrying, FAMILIES[family]), sites(loaded, FAMILIES[family]), strict=True):
        assert torch.equal(ours.output.weight, theirs.output.weight)


@pytest.mark.parametrize("task", ["MaskedLM", "TokenClassification", "QuestionAnswering", "MultipleChoice"])
@pytest.mark.parametrize("family", ["bert", "distilbert"])
def test_heads_for_other_tasks_are_kept(family: str, task: str, tmp_path: Path):
    """Weights that are tied in the original, as those of words in and out, stay tied."""
    model = encoder(family, f"For{task}").double()
    wide = widened(model, FAMILIES[family])
    wide.save_pretrained(tmp_path)
    auto = getattr(transformers, f"AutoModelFor{task}")
    loaded, report = auto.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values())
    inputs = padded(TEXTS[:4])
    if task == "MultipleChoice":
        inputs = {name: tensor.unflatten(0, (2, 2)) for name, tensor in inputs.items()}
    with torch.no_grad():
        expected = model(**inputs)[0]
        for each in (wide, loaded.eval()):
            torch.testing.assert_close(each(**inputs)[0], expected)
    if task == "MaskedLM":
        assert loaded.get_output_embeddings().weight is loaded.get_input_embeddings().weight


@families
def test_it_trains(family: str):
    carrying = retrofitted(family, CLASSIFIER).train()
    inputs = padded(TEXTS[:6])
    torch.manual_seed(0)
    carrying(**inputs, labels=torch.tensor([0, 1, 0, 1, 1, 0])).loss.backward()
    for site in sites(carrying, FAMILIES[family]):
        assert site.output.weight.grad is not None
        added = site.output.weight.grad.T.unflatten(0, (HEADS, 2 * HEAD_SIZE))[:, HEAD_SIZE:]
        assert float(added.abs().max()) > 0


def test_the_model_given_and_random_numbers_are_left_as_they_are():
    model = encoder("bert", CLASSIFIER).train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    carrying, _ = identiformer.retrofit(model, words_tokenizer(), texts=TEXTS)
    assert torch.equal(torch.rand(3), expected)
    assert model.training
    assert not carrying.training
    assert model.config.model_type == "bert"
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_the_seed_decides_on_the_directions():
    one, same, other = (own_and_added(retrofitted("bert", seed=seed), "bert")[0][1] for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.allclose(one, other)


def test_layers_that_share_weights_are_retrofitted_once_and_certified_each():
    model = encoder("albert").double()
    carrying, report = identiformer.retrofit(model, words_tokenizer(), 0.05, TEXTS)
    assert len(own_and_added(carrying, "albert")) == 1
    assert [(head.layer, head.head) for head in report.after] == [
        (i, j) for i in range(2) for j in range(HEADS)
    ]


def test_the_report_says_what_moved_and_what_became_identifiable():
    model = encoder("bert", CLASSIFIER).double()
    carrying, report = identiformer.retrofit(model, words_tokenizer(), 0.02, TEXTS)
    texts = sorted(TEXTS[1::2], key=lambda text: len(text.split()))
    inputs = padded(texts)
    visible = inputs["attention_mask"][..., None]
    with torch.no_grad():
        logits = [each(**inputs).logits for each in (model, carrying)]
        hidden = [each.base_model(**inputs).last_hidden_state for each in (model, carrying)]
    pooled = [(each * visible).sum(dim=1) / visible.sum(dim=1) for each in hidden]
    cosine = torch.cosine_similarity(*pooled, dim=-1)
    assert report.drift.texts == 12
    assert report.drift.mean_cosine == pytest.approx(float(cosine.mean()), abs=1e-12)
    assert report.drift.min_cosine == pytest.approx(float(cosine.min()), abs=1e-12)
    assert report.drift.mean_cosine < 1 - 1e-7
    assert report.drift.max_logit_change == pytest.approx(float((logits[0] - logits[1]).abs().max()))
    assert report.drift.labels_changed == int((logits[0].argmax(-1) != logits[1].argmax(-1)).sum())
    assert report.identifiable
    assert len(report.before) == len(report.after) == 2 * HEADS
    for before, after in zip(report.before, report.after, strict=True):
        assert before.rows == after.rows == after.everywhere
        assert before.everywhere < before.rows
        assert before.none + before.local + before.everywhere == before.rows
        assert after.least <= after.low <= after.median
    assert report.to_dict()["after"][0]["verdict"] == {"none": 0, "local": 0, "global": report.after[0].rows}


def test_more_strength_gives_more_margin_and_more_drift():
    reports = [
        identiformer.retrofit(encoder("bert").double(), words_tokenizer(), strength, TEXTS)[1]
        for strength in (0.01, 0.1)
    ]
    assert min(head.least for head in reports[0].after) < min(head.least for head in reports[1].after)
    assert reports[0].drift.mean_cosine > reports[1].drift.mean_cosine


@pytest.mark.parametrize("tokenizer", [None, words_tokenizer()], ids=["no tokenizer", "tokenizer"])
def test_random_tokens_stand_in_for_texts(tokenizer: Any):
    model = encoder("roberta").double()
    carrying, report = identiformer.retrofit(model, tokenizer)
    assert report.texts is None
    assert report.identifiable
    assert report.drift.texts == 256
    (own, added), *_ = own_and_added(carrying, "roberta")
    assert torch.linalg.matrix_rank(torch.cat([own, added], dim=1)).tolist() == [2 * HEAD_SIZE] * HEADS


def test_configurations_and_models_can_be_pickled():
    carrying = retrofitted("distilbert")
    copy = pickle.loads(pickle.dumps(carrying))
    inputs = padded(TEXTS[:3])
    with torch.no_grad():
        assert torch.equal(copy(**inputs)[0], carrying(**inputs)[0])
    config = pickle.loads(pickle.dumps(carrying.config))
    assert config.model_type == "identiformer_distilbert"


def test_a_model_of_such_a_type_can_be_made_from_a_configuration():
    torch.manual_seed(0)
    config = AutoConfig.for_model("identiformer_bert", **ENCODERS["bert"][1])
    model = AutoModel.from_config(config).eval()
    (own, added), *_ = own_and_added(model, "bert")
    # Initial weights of the usual size, not torch's.
    assert float(own.std()) == pytest.approx(config.initializer_range, rel=0.2)
    assert float(added.std()) == pytest.approx(config.initializer_range, rel=0.2)


def refusal(*arguments: Any, **more: Any) -> str:
    with pytest.raises(InputError) as error:
        identiformer.retrofit(*arguments, **more)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_what_cannot_be_retrofitted_is_refused():
    from transformers import BertConfig, BertForPreTraining, GPT2Config, GPT2Model

    from small import small_classifier

    bert, tokenizer = encoder("bert"), words_tokenizer()
    assert "is retrofitted already" in refusal(retrofitted("bert"))
    gpt = GPT2Model(GPT2Config(vocab_size=11, n_positions=9, n_embd=8, n_layer=1, n_head=2))
    assert "a model of type gpt2 cannot be retrofitted: the types that can are bert, roberta," in refusal(gpt)
    assert "train an identiformer with --values-carry-keys" in refusal(small_classifier()[0])
    assert "only encoders" in refusal(encoder("bert", is_decoder=True))
    one = encoder("bert", num_attention_heads=1)
    assert "have 15 columns each, more together than the hidden size, 15" in refusal(one)
    pretraining = BertForPreTraining(BertConfig(**ENCODERS["bert"][1]))
    assert "a BertForPreTraining cannot be retrofitted; give one of BertFor" in refusal(pretraining)
    assert "load it in float32" in refusal(encoder("bert").half())
    assert "--strength is 0" in refusal(bert, strength=0)
    assert "--strength is nan" in refusal(bert, strength=float("nan"))
    assert "needs the tokenizer" in refusal(bert, texts=TEXTS)
    assert "there are no texts" in refusal(bert, tokenizer, texts=[])


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_named(number: float):
    model = encoder("bert")
    with torch.no_grad():
        model.get_parameter("encoder.layer.1.output.dense.bias")[4] = number
    with pytest.raises(
        InputError, match=f"the BertModel has weights .*: 1 of {WIDTH} in encoder.layer.1.output"
    ):
        identiformer.retrofit(model, words_tokenizer())


def test_a_head_that_cannot_be_captured_is_no_fault_of_ours():
    """Weights that are numbers, of which more is computed than a number can hold."""
    model = encoder("bert")
    with torch.no_grad():
        model.get_parameter("encoder.layer.1.attention.self.value.bias").fill_(1e38)
        model.get_parameter("encoder.layer.1.attention.self.value.weight").fill_(1e38)
    with pytest.raises(InputError, match="layer 1 cannot be certified, before or after: attention gave NaN"):
        identiformer.retrofit(model, words_tokenizer())
