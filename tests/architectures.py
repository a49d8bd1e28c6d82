"""Small models of many architectures with random weights, and a padded batch for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers
from torch import Tensor

from small import small_classifier

# Its configurations are typed so strictly that settings shared in a dictionary fit none of them.
t: Any = transformers

VOCABULARY = 31
LENGTHS = (7, 5, 3)
PAD, EOS = 0, 1
SIZE: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 24,
    "pad_token_id": PAD,
    "bos_token_id": 2,
    "eos_token_id": EOS,
}
GROUPED = SIZE | {"num_key_value_heads": 2, "head_dim": 8}


def _t5() -> transformers.PreTrainedModel:
    config = t.T5Config(
        vocab_size=VOCABULARY,
        d_model=32,
        d_kv=8,
        d_ff=40,
        num_layers=2,
        num_heads=4,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=PAD,
        relative_attention_num_buckets=8,
    )
    return t.T5ForSequenceClassification(config)


# DistilBERT and GPT-2 have names of their own for what SIZE names.
BUILDERS: dict[str, Callable[[], transformers.PreTrainedModel]] = {
    "bert": lambda: t.BertForSequenceClassification(t.BertConfig(**SIZE)),
    "roberta": lambda: t.RobertaForSequenceClassification(t.RobertaConfig(**SIZE)),
    "distilbert": lambda: t.DistilBertForSequenceClassification(
        t.DistilBertConfig(
            vocab_size=VOCABULARY, dim=32, n_layers=2, n_heads=4, hidden_dim=40, max_position_embeddings=24
        )
    ),
    "electra": lambda: t.ElectraForSequenceClassification(t.ElectraConfig(embedding_size=16, **SIZE)),
    "albert": lambda: t.AlbertForSequenceClassification(t.AlbertConfig(embedding_size=16, **SIZE)),
    "modernbert": lambda: t.ModernBertForSequenceClassification(
        t.ModernBertConfig(
            local_attention=4, global_attn_every_n_layers=2, cls_token_id=2, sep_token_id=1, **SIZE
        )
    ),
    "mpnet": lambda: t.MPNetForSequenceClassification(t.MPNetConfig(**SIZE)),
    "deberta_v2": lambda: t.DebertaV2ForSequenceClassification(
        t.DebertaV2Config(
            relative_attention=True,
            pos_att_type=["c2p", "p2c"],
            position_buckets=4,
            type_vocab_size=0,
            **SIZE,
        )
    ),
    "deberta_v2-share": lambda: t.DebertaV2ForSequenceClassification(
        t.DebertaV2Config(
            relative_attention=True,
            pos_att_type=["p2c", "c2p"],
            share_att_key=True,
            type_vocab_size=0,
            **SIZE,
        )
    ),
    "gpt2": lambda: t.GPT2ForSequenceClassification(
        t.GPT2Config(
            vocab_size=VOCABULARY,
            n_embd=32,
            n_layer=2,
            n_head=4,
            n_positions=24,
            pad_token_id=PAD,
            bos_token_id=2,
            eos_token_id=EOS,
        )
    ),
    "llama": lambda: t.LlamaForSequenceClassification(
        t.LlamaConfig(**SIZE | {"num_key_value_heads": 2, "attention_bias": True})
    ),
    "qwen3": lambda: t.Qwen3ForSequenceClassification(t.Qwen3Config(**GROUPED)),
    "gemma2": lambda: t.Gemma2ForSequenceClassification(
        t.Gemma2Config(sliding_window=3, attn_logit_softcapping=2.0, **GROUPED)
    ),
    "gpt_oss": lambda: t.GptOssForSequenceClassification(
        t.GptOssConfig(
            sliding_window=3,
            num_local_experts=2,
            num_experts_per_tok=1,
            rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
            **GROUPED,
        )
    ),
    "t5": _t5,
    "vit": lambda: t.ViTForImageClassification(
        t.ViTConfig(
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=40,
            image_size=8,
            patch_size=4,
        )
    ),
    "identiformer": lambda: small_classifier(head_merge="concat")[0],
    "identiformer-add": lambda: small_classifier(head_merge="add", values_carry_keys=True)[0],
}


def build(name: str) -> Any:
    """A model with weights large enough that attention is far from uniform, in evaluation mode."""
    torch.manual_seed(0)
    model = BUILDERS[name]()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3 if parameter.ndim > 1 else 0.1)
    return model.eval()


def batch(name: str, side: str = "right") -> dict[str, Tensor]:
    """Three texts of 7, 5 and 3 tokens, padded on one side; or three images."""
    torch.manual_seed(1)
    if name == "vit":
        return {"pixel_values": torch.randn(3, 3, 8, 8)}
    longest = max(LENGTHS)
    ids = torch.full((len(LENGTHS), longest), PAD)
    mask = torch.zeros_like(ids)
    for text, length in enumerate(LENGTHS):
        where = slice(0, length) if side == "right" else slice(longest - length, longest)
        ids[text, where] = 3 + torch.randperm(16)[:length]  # no repeated words
        ids[text, where.stop - 1] = EOS
        mask[text, where] = 1
    return {"input_ids": ids, "attention_mask": mask}
