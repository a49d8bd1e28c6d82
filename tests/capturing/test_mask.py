"""The mask has to be registered besides the attention function: without it, padding is attended to in silence."""

from __future__ import annotations

import pytest
import torch
from transformers.masking_utils import AttentionMaskInterface

from architectures import batch, build
from identiformer.capturing import capture_inputs
from identiformer.capturing.interface import IMPLEMENTATION

CLEAR = 1e-2


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", ["bert", "llama"])
def test_without_the_mask_the_logits_of_padded_texts_would_change(
    name: str, side: str, monkeypatch: pytest.MonkeyPatch
):
    model, inputs = build(name), batch(name, side)
    logits: list[torch.Tensor] = []
    model.register_forward_hook(lambda _, __, output: logits.append(output.logits))
    with torch.no_grad():
        model(**inputs)
    assert len(list(capture_inputs(model, inputs))) == 2
    monkeypatch.delitem(AttentionMaskInterface._global_mapping, IMPLEMENTATION)
    assert len(list(capture_inputs(model, inputs))) == 2
    plain, registered, without = logits
    torch.testing.assert_close(registered, plain, atol=1e-6, rtol=1e-5)
    moved = (without - plain).abs().amax(dim=1)
    # Text 0 fills the batch. A causal model sees no padding after a text, with any mask or none.
    padded = [] if name == "llama" and side == "right" else [1, 2]
    for text in range(3):
        assert (float(moved[text]) > CLEAR) == (text in padded)
