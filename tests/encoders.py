"""Small encoders of the families that can be retrofitted, with random weights, and a tokenizer for them."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerFast

# Its configurations are typed so strictly that settings shared in a dictionary fit none of them.
t: Any = transformers

WORDS = [f"w{number}" for number in range(26)]
VOCABULARY = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]", *WORDS]
HEADS, HEAD_SIZE, WIDTH, LONGEST = 3, 5, 15, 40
SIZE: dict[str, Any] = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": WIDTH,
    "num_hidden_layers": 2,
    "num_attention_heads": HEADS,
    "intermediate_size": 7,
    "max_position_embeddings": LONGEST,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
DISTILLED: dict[str, Any] = {
    "vocab_size": len(VOCABULARY),
    "dim": WIDTH,
    "n_layers": 2,
    "n_heads": HEADS,
    "hidden_dim": 7,
    "max_position_embeddings": LONGEST,
    "pad_token_id": 0,
}
ENCODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("Bert", SIZE),
    "roberta": ("Roberta", SIZE),
    "xlm-roberta": ("XLMRoberta", SIZE),
    "camembert": ("Camembert", SIZE),
    "electra": ("Electra", SIZE | {"embedding_size": 11}),
    "distilbert": ("DistilBert", DISTILLED),
    "albert": ("Albert", SIZE | {"embedding_size": 11}),
    "mpnet": ("MPNet", SIZE),
}
TEXTS = [" ".join(WORDS[(3 * i + j * j) % 26] for j in range(2 + i % 9)) for i in range(24)]


def encoder(family: str, task: str = "Model", scale: float = 0.5, **settings: Any) -> PreTrainedModel:
    """A model in evaluation mode; as it is, its weights are so large that attention is far from uniform.

    Args:
        family: One of `ENCODERS`.
        task: How its class is called, after the family: `Model`, `ForSequenceClassification`.
        scale: Of its weights. Those of 0.5 are hard to train further.
        **settings: Of its configuration.
    """
    prefix, sizes = ENCODERS[family]
    torch.manual_seed(0)
    model = getattr(t, prefix + task)(getattr(t, f"{prefix}Config")(**sizes | settings))
    for name, parameter in model.named_parameters():
        if "norm" not in name.lower():
            torch.nn.init.normal_(parameter, std=scale if parameter.ndim > 1 else 0.4 * scale)
    return model.eval()


def words_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer of `WORDS`, which puts special tokens around a text as BERT's does."""
    vocabulary = {word: number for number, word in enumerate(VOCABULARY)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()  # pyright: ignore[reportAttributeAccessIssue]
    tokenizer.post_processor = processors.TemplateProcessing(  # pyright: ignore[reportAttributeAccessIssue]
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        unk_token="[UNK]",
        mask_token="[MASK]",
        model_max_length=LONGEST - 4,
        model_input_names=["input_ids", "attention_mask"],
    )


def padded(texts: list[str]) -> dict[str, Tensor]:
    """A batch of texts, padded on the right."""
    return dict(words_tokenizer()(texts, padding=True, return_tensors="pt"))
