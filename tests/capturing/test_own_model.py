"""The project's own model: heads added up or side by side, values that carry keys, the pooled row bypassed."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch

from identiformer.capturing import capture, capture_inputs
from small import TEXTS, small_classifier

SETTINGS = [
    {"head_merge": merge, "values_carry_keys": carry}
    for merge, carry in product(("add", "concat"), (False, True))
]


def encoded(tokenizer: Any, side: str = "right") -> dict[str, torch.Tensor]:
    tokenizer.padding_side = side
    return dict(tokenizer(TEXTS, padding=True, return_tensors="pt"))


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("side", ["left", "right"])
def test_the_heads_outputs_add_up_to_the_attention_layers_output(settings: dict[str, Any], side: str):
    model, tokenizer = small_classifier(**settings)
    inputs = encoded(tokenizer, side)
    layers: Any = model.encoder.layers
    outputs: dict[int, torch.Tensor] = {}
    for layer in layers:
        layer.attention.register_forward_hook(
            lambda module, _, output: outputs.__setitem__(module.layer_idx, output[0])
        )
    captured = list(capture_inputs(model, inputs, rows="all"))
    assert [layer.layer for layer in captured] == [0, 1]
    for layer in captured:
        assert layer.heads is not None
        bias = layers[layer.layer].attention.output.bias.detach().double()
        total = layer.heads.output.sum(dim=1) + bias  # [texts, rows, d_e]
        for text, rows in enumerate(layer.rows.tolist()):
            assert [row for row in rows if row >= 0] == inputs["attention_mask"][text].nonzero()[
                :, 0
            ].tolist()
            for place, row in enumerate(rows):
                if row >= 0:
                    torch.testing.assert_close(
                        total[text, place], outputs[layer.layer][text, row].double(), atol=1e-5, rtol=1e-5
                    )


def test_all_heads_share_the_projection_where_they_are_added_up():
    model, tokenizer = small_classifier(head_merge="add")
    (layer,) = capture(model, tokenizer, TEXTS, layers=[0])
    assert layer.heads is not None
    assert layer.heads.output_projection is not None
    assert layer.heads.output_projection.shape == (1, 1, 1, 7, 24)
    model, tokenizer = small_classifier(head_merge="concat")
    (layer,) = capture(model, tokenizer, TEXTS, layers=[0])
    assert layer.heads is not None
    assert layer.heads.output_projection is not None
    assert layer.heads.output_projection.shape == (1, 3, 1, 7, 24)
