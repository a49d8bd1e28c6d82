"""Nothing of the model is changed beyond a capture, however it ends; captures at once do not mix."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor

from architectures import batch, build
from identiformer.capturing import CapturedLayer, capture_inputs


def state(model: Any) -> dict[str, Any]:
    """All of a model that a capture touches."""
    configs = {id(m.config): m.config for m in model.modules() if hasattr(m, "config")}
    return {
        "implementations": {key: config._attn_implementation for key, config in configs.items()},
        "caches": {key: getattr(config, "use_cache", None) for key, config in configs.items()},
        "training": [module.training for module in model.modules()],
        "hooks": [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()],
    }


def captures_running() -> int:
    return sum(thread.name == "capture" for thread in threading.enumerate())


def unusual(name: str, implementation: str) -> Any:
    """A model that differs from one just loaded: an implementation chosen, and a part of it in training."""
    model = build(name)
    if name != "mpnet":
        model.set_attn_implementation(implementation)
    next(module for module in model.modules() if isinstance(module, torch.nn.Dropout)).train()
    return model


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("name", ["bert", "gpt2", "t5", "mpnet"])
def test_a_capture_that_is_used_up_leaves_nothing_behind(name: str, implementation: str):
    model = unusual(name, implementation)
    before = state(model)
    assert True in before["training"]
    for _ in capture_inputs(model, batch(name), rows="all"):
        assert True not in state(model)["training"]
    assert state(model) == before
    assert captures_running() == 0


@pytest.mark.parametrize("name", ["bert", "mpnet"])
def test_a_capture_that_is_abandoned_leaves_nothing_behind(name: str):
    model = unusual(name, "sdpa")
    before = state(model)
    for _ in capture_inputs(model, batch(name)):
        break
    assert state(model) == before
    captured = capture_inputs(model, batch(name))
    next(captured)
    assert state(model) != before
    captured.close()
    assert state(model) == before
    captured = capture_inputs(model, batch(name))
    next(captured)
    del captured
    gc.collect()
    assert state(model) == before
    assert captures_running() == 0


def test_a_capture_that_was_never_begun_changes_nothing():
    model = unusual("bert", "sdpa")
    before = state(model)
    captured = capture_inputs(model, batch("bert"))
    assert state(model) == before
    assert captures_running() == 0
    captured.close()


@pytest.mark.parametrize("name", ["bert", "mpnet"])
def test_an_error_of_the_model_comes_through_and_leaves_nothing_behind(name: str):
    model = unusual(name, "sdpa")
    before = state(model)
    inputs = batch(name)
    with pytest.raises(IndexError):
        list(capture_inputs(model, {**inputs, "input_ids": inputs["input_ids"] + 10_000}))
    assert state(model) == before
    assert captures_running() == 0


def test_an_error_where_layers_are_used_leaves_nothing_behind():
    model = unusual("bert", "sdpa")
    before = state(model)
    with pytest.raises(ZeroDivisionError):
        assert [1 // layer.layer for layer in capture_inputs(model, batch("bert"))]
    assert state(model) == before
    assert captures_running() == 0


def test_dropout_is_off():
    model, inputs = build("bert"), batch("bert")
    expected = list(capture_inputs(model, inputs, rows="all"))
    model.train()
    for layer, other in zip(capture_inputs(model, inputs, rows="all"), expected, strict=True):
        assert layer.heads is not None
        assert other.heads is not None
        assert torch.equal(layer.heads.weights, other.heads.weights)
    assert model.training


def test_the_model_can_be_used_between_layers():
    model, inputs = build("gpt2"), batch("gpt2")
    with torch.no_grad():
        expected = model(**inputs).logits
    layers: list[int] = []
    for layer in capture_inputs(model, inputs):
        layers.append(layer.layer)
        with torch.no_grad():
            torch.testing.assert_close(model(**inputs).logits, expected, atol=1e-6, rtol=0)
    assert layers == [0, 1]


def test_captures_of_one_model_may_cross():
    model, one, other = build("bert"), batch("bert"), batch("bert", "left")
    before = state(model)
    expected = [list(capture_inputs(model, inputs, rows="all")) for inputs in (one, other)]
    first = capture_inputs(model, one, rows="all")
    given: list[list[CapturedLayer]] = [[next(first)], []]
    second = capture_inputs(model, other, rows="all")
    given[1].append(next(second))
    given[0] += first  # the one that began first ends first
    assert state(model) != before
    given[1] += second
    assert state(model) == before
    for layers, wanted in zip(given, expected, strict=True):
        for layer, other_layer in zip(layers, wanted, strict=True):
            assert layer.heads is not None
            assert other_layer.heads is not None
            assert torch.equal(layer.heads.weights, other_layer.heads.weights)


def test_models_with_one_configuration_are_both_given_back():
    model = build("bert")
    twin = type(model)(model.config).eval()
    before = model.config._attn_implementation
    first, second = capture_inputs(model, batch("bert")), capture_inputs(twin, batch("bert"))
    assert (next(first).layer, next(second).layer) == (0, 0)
    assert [layer.layer for layer in first] == [1]
    assert [layer.layer for layer in second] == [1]
    assert model.config._attn_implementation == before


def test_two_threads_do_not_mix():
    names = ("bert", "llama", "mpnet")
    models = {name: build(name) for name in names}
    inputs = {name: batch(name, side) for name, side in zip(names, ("left", "right", "left"), strict=True)}
    expected = {name: weights_of(models[name], inputs[name]) for name in names}
    results: dict[str, list[list[Tensor]]] = {name: [] for name in names}
    barrier = threading.Barrier(len(names))

    def work(name: str) -> None:
        barrier.wait()
        results[name] += [weights_of(models[name], inputs[name]) for _ in range(5)]

    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in names:
        assert len(results[name]) == 5
        for weights in results[name]:
            assert all(torch.equal(one, other) for one, other in zip(weights, expected[name], strict=True))


def weights_of(model: Any, inputs: dict[str, Tensor]) -> list[Tensor]:
    layers = capture_inputs(model, inputs, rows="all")
    return [layer.heads.weights for layer in layers if layer.heads is not None]


def test_one_layer_is_held_at_a_time():
    """Layer 1 is not computed before it is asked for, and layer 0 is gone by then."""
    model, inputs = build("bert"), batch("bert")
    began: list[int] = []
    for number, layer in enumerate(model.bert.encoder.layer):
        layer.register_forward_pre_hook(lambda *_, number=number: began.append(number))
    captured = capture_inputs(model, inputs, rows="all")
    assert began == []
    first = next(captured)
    assert began == [0]
    assert first.heads is not None
    parts = [weakref.ref(tensor) for tensor in (first.heads.weights, first.heads.keys, first.heads.values)]
    del first
    second = next(captured)
    assert began == [0, 1]
    assert second.layer == 1
    assert [part() for part in parts] == [None, None, None]
    captured.close()
