"""From a model and texts to the attention heads that computed them.

The heads are read where every transformers model with the attention interface calls it, so that keys and values are
those that enter the dot product. Nothing of the model is changed beyond the call.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import AttentionInterface, PreTrainedModel
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from identiformer.errors import InputError
from identiformer.identifiability import AttentionHead

IMPLEMENTATION = "identiformer_capture"

Rows = Literal["pooled", "all"]


@dataclass(frozen=True)
class CapturedLayer:
    """The heads of one layer for a batch of texts.

    Args:
        layer: The layer's number, from 0.
        heads: Batch dimensions `[texts, heads, rows]`.
        rows: The query rows captured of each text, `[texts, rows]`.
    """

    layer: int
    heads: AttentionHead
    rows: Tensor


def capture(
    model: PreTrainedModel,
    inputs: dict[str, Tensor],
    rows: Rows = "pooled",
    layers: Collection[int] | None = None,
) -> list[CapturedLayer]:
    """The attention heads with which a model encodes a batch of texts.

    Args:
        model: An identiformer, in evaluation mode.
        inputs: What the tokenizer gave, padded on either side: `input_ids` and `attention_mask`, `[texts, n]`.
        rows: `pooled`, the row of the first token of each text, which in the last layer alone reaches the
            prediction; or `all`, every row, those of padding included.
        layers: Numbers of the layers to capture, from 0; all of them where it is `None`.

    Raises:
        InputError: If the model is no identiformer.
    """
    from identiformer.model.attention import IdentiformerAttention

    if getattr(model.config, "model_type", None) != "identiformer":
        raise InputError(
            f"attention can be captured of identiformer models only, not of {type(model).__name__}"
        )
    mask = inputs["attention_mask"]
    if rows == "pooled":
        wanted = mask.long().argmax(dim=-1, keepdim=True)  # [texts, 1]
    else:
        wanted = torch.arange(mask.shape[1], device=mask.device).expand(mask.shape)
    captured: list[CapturedLayer] = []

    def keep(module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, visible: Tensor) -> None:
        assert isinstance(module, IdentiformerAttention)
        if layers is not None and module.layer_idx not in layers:
            return
        heads = _heads(module, query, key, value, visible, wanted)
        captured.append(CapturedLayer(module.layer_idx, heads, wanted))

    with _recording(model, keep), torch.inference_mode():
        model(**inputs)
    return captured


def _heads(
    module: Any, query: Tensor, key: Tensor, value: Tensor, visible: Tensor, rows: Tensor
) -> AttentionHead:
    """The heads of one layer: tensors `[texts, heads, n, d]` and `visible` `[texts, 1, n, n]`, for given rows."""
    texts, heads, _, key_size = query.shape
    chosen = query.gather(2, rows[:, None, :, None].expand(texts, heads, rows.shape[1], key_size))
    visible = visible.expand(texts, 1, query.shape[2], key.shape[2])
    visible = visible.gather(2, rows[:, None, :, None].expand(texts, 1, rows.shape[1], key.shape[2]))
    weight = module.output.weight.detach()  # [d_e, heads * d_v] or [d_e, d_v]
    if module.config.head_merge == "concat":
        projection = weight.T.reshape(heads, value.shape[-1], -1)[None, :, None]  # [1, heads, 1, d_v, d_e]
    else:
        projection = weight.T[None, None, None]  # [1, 1, 1, d_v, d_e]
    return AttentionHead.from_query(
        query=chosen,
        keys=key[:, :, None],
        values=value[:, :, None],
        output_projection=projection,
        visible=visible,
        scaling=module.scaling,
    )


_recorder: ContextVar[Any] = ContextVar("recorder")


@contextmanager
def _recording(model: PreTrainedModel, recorder: Any) -> Iterator[None]:
    before = model.config._attn_implementation
    token = _recorder.set(recorder)
    model.set_attn_implementation(IMPLEMENTATION)
    try:
        yield
    finally:
        model.set_attn_implementation(before or "eager")
        _recorder.reset(token)


def _capturing_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor,
    scaling: float,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attention as `sdpa` computes it, shown to the recorder: the AttentionInterface's signature."""
    _recorder.get()(module, query, key, value, attention_mask)
    mixed = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=attention_mask, scale=scaling
    )
    return mixed.transpose(1, 2).contiguous(), None


def _capturing_mask(*args: Any, **kwargs: Any) -> Tensor | None:
    """A boolean mask, always made: without one of its own, an attention function is given no padding mask."""
    kwargs |= {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
    return sdpa_mask(*args, **kwargs)


AttentionInterface.register(IMPLEMENTATION, _capturing_attention)
AttentionMaskInterface.register(IMPLEMENTATION, _capturing_mask)
