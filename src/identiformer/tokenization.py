"""Tokenizers learned from the training texts, whose tokens know which characters they came from.

Both kinds share what happens before the vocabulary: invisible marks go, the text is decomposed (NFKD) and
lower-cased, and it falls apart into words and single symbols.

Why decomposed and not composed: composing "e" and a combining accent into "é" leaves the accent without an
alignment to the text, so that a token's characters would end before the accent; decomposing keeps every
alignment. Hence the vocabulary holds "café" with its accent apart; take what is shown to people from the
offsets, `text[start:end]`. Where one character becomes several tokens ("½", "…"), each points at all of it.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Literal

import numpy as np
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from identiformer.errors import InputError

PAD, UNK, CLS, SEP = SPECIAL_TOKENS = ("<pad>", "<unk>", "<cls>", "<sep>")  # ids 0, 1, 2, 3

# Soft hyphen, marks of direction, word joiner, byte order mark: "foot\u00adball" is the word "football".
_INVISIBLE = r"[\u00AD\u061C\u180E\u200E\u200F\u202A-\u202E\u2060-\u2064\u2066-\u206F\uFEFF]"
# What separates and is no token: spaces, control characters, the zero-width space.
_BLANK = r"\s\p{Cc}\u200B"
# Scripts written without spaces: a character with its marks is the smallest unit that recurs.
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_LETTER = rf"\w&&[^{_UNSPACED}]"
# Joiners carry meaning inside words (Persian, Indic scripts) and emoji; alone they are nothing.
_JOINERS = r"\u200C\u200D"
_SKIN_OR_TAG = r"\x{1F3FB}-\x{1F3FF}\x{E0020}-\x{E007F}"
# Not \X, which would say this in two characters: its time is quadratic on a run of flags.
_PIECE = "|".join(
    [
        rf"[{_UNSPACED}]\p{{M}}*",
        rf"[{_LETTER}](?:[{_LETTER}]|[{_JOINERS}])*",
        r"[\x{1F1E6}-\x{1F1FF}]{2}",  # a flag
        rf"[^{_BLANK}{_JOINERS}](?:[\p{{M}}{_SKIN_OR_TAG}]|\u200D[^{_BLANK}{_JOINERS}\w])*",
    ]
)


def build_tokenizer(
    texts: Iterable[str],
    *,
    kind: Literal["word", "bpe"] = "word",
    vocab_size: int = 30_000,
    min_frequency: int = 2,
    model_max_length: int | None = None,
) -> PreTrainedTokenizerFast:
    """Learn a tokenizer from texts; the same texts give the same tokenizer on every run and machine.

    A text becomes `<cls> A`, a pair `<cls> A <sep> B` with `token_type_ids` 1 from B on. A marker written out
    in a text ("<cls>") stays ordinary text. `AutoTokenizer.from_pretrained` reads what it saves.

    Args:
        texts: the training texts, read once, one after another. Of pairs, give both sides.
        kind: `"word"`: a token is a word or a symbol, any other word is `<unk>`. `"bpe"`: words are put
            together from pieces learned by byte pair encoding over bytes, so that no word is unknown.
        vocab_size: at most so many tokens, the special ones included; the most frequent ones win, ties go by
            code point.
        min_frequency: how often a word (or, with BPE, a pair of pieces) must occur to enter the vocabulary.
            At 2, words seen once teach a model the vector of `<unk>`; at 1, it would never be trained.
        model_max_length: the most tokens the model takes, 4 or more; `truncation=True` cuts there.

    Returns:
        A tokenizer with offsets, `<pad>` 0, `<unk>` 1, `<cls>` 2, `<sep>` 3, padding on the right.

    Raises:
        InputError: something among `texts` is not text, nothing is frequent enough, or an option is out of
            range.
    """
    if isinstance(texts, str):
        raise InputError("build_tokenizer: texts is one string; give a list of texts, for example [text].")
    if min_frequency < 1:
        raise InputError(f"build_tokenizer: min_frequency is {min_frequency}; it must be 1 or more.")
    if model_max_length is not None and model_max_length < 4:  # <cls> A <sep> B; below, nothing would be cut
        raise InputError(f"build_tokenizer: model_max_length is {model_max_length}; it must be 4 or more.")
    tokenizer, trainer, reserved = _untrained(kind, vocab_size, min_frequency)
    if vocab_size <= reserved:
        raise InputError(
            f"build_tokenizer: vocab_size is {vocab_size}, but {reserved} tokens are reserved with "
            f"kind={kind!r}; give more than {reserved}."
        )
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Replace(Regex(_INVISIBLE), ""), normalizers.NFKD(), normalizers.Lowercase()]
    )
    tokenizer.train_from_iterator(_checked(texts), trainer=trainer)
    if tokenizer.get_vocab_size() == reserved:
        raise InputError(
            f"build_tokenizer: nothing occurs {min_frequency} times or more in the texts; "
            "give more texts or a smaller min_frequency."
        )
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{CLS}:0 $A:0",
        pair=f"{CLS}:0 $A:0 {SEP}:0 $B:1",
        special_tokens=[(token, SPECIAL_TOKENS.index(token)) for token in (CLS, SEP)],
    )
    options = {} if model_max_length is None else {"model_max_length": model_max_length}
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        unk_token=UNK,
        cls_token=CLS,
        sep_token=SEP,
        split_special_tokens=True,  # "<cls>" in a text is three pieces, never the special token
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        **options,
    )


def token_lengths(
    tokenizer: PreTrainedTokenizerBase,
    texts: Iterable[str],
    text_pairs: Iterable[str] | None = None,
    batch_size: int = 1000,
) -> np.ndarray:
    """Count the tokens of every text, special tokens included and nothing cut off.

    Args:
        tokenizer: any tokenizer of transformers.
        texts: N texts, read once.
        text_pairs: N second texts, or None.
        batch_size: how many texts are encoded at a time.

    Returns:
        The lengths, int64 of shape [N].

    Raises:
        InputError: something among the texts is not text.
        ValueError: there are more texts than pairs, or fewer.
    """
    columns = [_checked(texts)] if text_pairs is None else [_checked(texts), _checked(text_pairs)]
    rows = zip(*columns, strict=True)
    lengths: list[int] = []
    while batch := list(islice(rows, batch_size)):
        # Lists, also of one text: transformers drops an empty second text when it is given a single pair.
        first, *second = (list(column) for column in zip(*batch, strict=True))
        # verbose=False: no warning about the model's maximum; finding out is why the caller asks.
        encoded = tokenizer(
            first, second[0] if second else None, truncation=False, padding=False, verbose=False
        )
        lengths.extend(len(ids) for ids in encoded["input_ids"])
    return np.array(lengths, dtype=np.int64)


def by_length(lengths: Sequence[int] | np.ndarray) -> list[int]:
    """The places of N texts, the shortest first: batches of neighbours hold the least padding."""
    return np.argsort(np.asarray(lengths), kind="stable").tolist()


def length_batches(lengths: Sequence[int] | np.ndarray, size: int) -> list[list[int]]:
    """The places of N texts in batches of `size`, those of similar length together."""
    order = by_length(lengths)
    return [order[start : start + size] for start in range(0, len(order), size)]


def covering_length(lengths: Sequence[int] | np.ndarray, coverage: float) -> int:
    """Find the smallest length L such that at least a share `coverage` of the lengths is at most L.

    Args:
        lengths: N lengths, in any order.
        coverage: the share, above 0 and at most 1.

    Returns:
        L, one of the lengths.

    Raises:
        InputError: there are no lengths, or `coverage` is out of range.
    """
    ordered = np.sort(np.asarray(lengths))
    if ordered.size == 0:
        raise InputError("covering_length: there are no lengths; give at least one text.")
    if not 0 < coverage <= 1:
        raise InputError(f"covering_length: coverage is {coverage}; it must be above 0 and at most 1.")
    # Rounded divisions are compared, not coverage * N: 0.07 * 100 is above 7, while 7 / 100 is 0.07.
    shares = np.arange(1, ordered.size + 1) / ordered.size
    return int(ordered[np.searchsorted(shares, coverage)])


def _untrained(
    kind: str, vocab_size: int, min_frequency: int
) -> tuple[Tokenizer, trainers.WordLevelTrainer | trainers.BpeTrainer, int]:
    """Return a tokenizer that splits, its trainer, and how many tokens its vocabulary starts with."""
    split = pre_tokenizers.Split(Regex(_PIECE), behavior="removed", invert=True)
    options = {
        "vocab_size": vocab_size,
        "min_frequency": min_frequency,
        "special_tokens": list(SPECIAL_TOKENS),
        "show_progress": False,
    }
    if kind == "word":
        tokenizer = Tokenizer(models.WordLevel(vocab={}, unk_token=UNK))
        tokenizer.pre_tokenizer = split
        return tokenizer, trainers.WordLevelTrainer(**options), len(SPECIAL_TOKENS)
    if kind == "bpe":
        tokenizer = Tokenizer(models.BPE())
        # The space put before every word tells a piece that begins a word from one inside.
        to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, to_bytes])
        tokenizer.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(initial_alphabet=alphabet, **options)
        return tokenizer, trainer, len(SPECIAL_TOKENS) + len(alphabet)
    raise InputError(f"build_tokenizer: kind is {kind!r}; it must be 'word' or 'bpe'.")


def _checked(texts: Iterable[str]) -> Iterator[str]:
    """Pass texts on; the tokenizers library itself would not say which one it cannot read, nor why."""
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"Text {number} (counted from 0) is {text!r}, not a string; leave it out.")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InputError(
                f"Text {number} (counted from 0) holds half a surrogate pair at character {error.start}, "
                "which is not valid Unicode; replace it, for example by '\\ufffd'."
            ) from None
        yield text
