"""A tokenizer that cuts words in pieces, for the models of `architectures`."""

from __future__ import annotations

from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

PIECES = ["[PAD]", "[EOS]", "[CLS]", "[UNK]", "the", "film", "was", "un", "##like", "##ly", "good", "##ness"]
PIECES += [
    "don",
    "'",
    "t",
    ".",
    "-",
    "well",
    "known",
    "##s",
    "no",
    "##body",
    "came",
    "far",
    "too",
    "long",
    "and",
]
PIECES += ["we", "left", "it", "##er"]
LONG = "the film was unlikely good goodness don't well-known nobody came"  # 18 pieces in 10 words


def pieces_tokenizer() -> PreTrainedTokenizerFast:
    """A WordPiece for the models of `architectures`, which know 31 tokens."""
    model: Any = models.WordPiece
    tokenizer: Any = Tokenizer(model({piece: i for i, piece in enumerate(PIECES)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A [EOS]", pair="$A [EOS] $B [EOS]", special_tokens=[("[EOS]", 1)]
    )
    return wrapped(tokenizer)


def wrapped(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    """A tokenizer with these special tokens, as transformers takes it."""
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        eos_token="[EOS]",
        unk_token="[UNK]",
        model_max_length=24,
        model_input_names=["input_ids", "attention_mask"],
    )
