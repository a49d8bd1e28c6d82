import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from identiformer.errors import InputError
from identiformer.tokenization import (
    build_tokenizer,
    by_length,
    covering_length,
    length_batches,
    token_lengths,
)

WORDS = ["the cat sat", "the cat ran !", "the dog"]
WILD = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"])),
    # Where normalisation, lower-casing and segmentation meet: most of the bugs live here.
    st.text("eE\u0301\u0315\u0323ﬁ½…İßẞＦ日が\u3099한\u1100\u1161 \u200d\u200c\u00ad👩💻🏽🇩🇪\ufe0f.\x00"),
)
WORD = build_tokenizer(["a b"], min_frequency=1)
BPE = build_tokenizer(["aa bb"] * 2, kind="bpe", vocab_size=262)


def pieces(text, tokenizer=WORD):
    """The stretches of the text that its tokens came from."""
    offsets = tokenizer([text], return_offsets_mapping=True)["offset_mapping"][0]
    return [text[start:end] for start, end in offsets[1:]]


def normalise(text):
    return WORD.backend_tokenizer.normalizer.normalize_str(text)


# Vocabulary


def test_vocabulary_orders_by_count_then_code_point():
    tokenizer = build_tokenizer(WORDS, min_frequency=1)
    assert tokenizer.get_vocab() == {
        "<pad>": 0,
        "<unk>": 1,
        "<cls>": 2,
        "<sep>": 3,
        "the": 4,
        "cat": 5,
        "!": 6,
        "dog": 7,
        "ran": 8,
        "sat": 9,
    }
    assert len(tokenizer) == tokenizer.vocab_size == 10


def test_words_seen_once_are_unknown_by_default():
    tokenizer = build_tokenizer(WORDS)
    assert len(tokenizer) == 6
    assert tokenizer("The CAT sat.")["input_ids"] == [2, 4, 5, 1, 1]


def test_vocab_size_counts_special_tokens_and_keeps_the_most_frequent():
    assert set(build_tokenizer(WORDS, vocab_size=5).get_vocab()) == {
        "<pad>",
        "<unk>",
        "<cls>",
        "<sep>",
        "the",
    }
    assert len(build_tokenizer(["ababab abab ab ab"] * 5, kind="bpe", vocab_size=262)) == 262


@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_order_of_the_texts_does_not_matter(kind):
    texts = [f"w{i} w{i * 7 % 300} É{i % 11} 日本 x!" for i in range(300)]
    first, second = (build_tokenizer(rows, kind=kind, vocab_size=400) for rows in (texts, texts[::-1]))
    assert first.backend_tokenizer.to_str() == second.backend_tokenizer.to_str()


@pytest.mark.slow
def test_processes_with_other_hash_seeds_and_threads_agree(tmp_path):
    script = (
        "import hashlib; from identiformer.tokenization import build_tokenizer as b\n"
        "texts = [f'w{i} w{i * 7 % 300} x!' for i in range(300)]\n"
        "for kind in ('word', 'bpe'):\n"
        "    json = b(iter(texts), kind=kind, vocab_size=400).backend_tokenizer.to_str()\n"
        "    print(hashlib.sha256(json.encode()).hexdigest())"
    )
    outputs = set()
    for seed in ("1", "2"):
        environment = {"PYTHONHASHSEED": seed, "RAYON_NUM_THREADS": seed, "HF_HUB_OFFLINE": "1"}
        run = subprocess.run(
            [sys.executable, "-c", script], env=environment, check=True, capture_output=True, text=True
        )
        outputs.add(run.stdout)
    assert len(outputs) == 1
    assert len(outputs.pop().split()) == 2


def test_training_reads_an_iterator_once_and_lets_its_errors_through():
    def broken():
        yield "the cat"
        raise OSError("disk gone")

    assert "cat" in build_tokenizer(iter(["cat cat"])).get_vocab()
    with pytest.raises(OSError, match="disk gone"):
        build_tokenizer(broken())


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        ("one string", {}, "give a list of texts"),
        (["a a", None], {}, "Text 1 .* is None, not a string"),
        (["a a", float("nan")], {}, "Text 1 .* is nan, not a string"),
        (["ok \ud800"], {}, "Text 0 .* half a surrogate pair at character 3"),
        ([], {}, "nothing occurs 2 times or more"),
        (["each word once"], {}, "nothing occurs 2 times or more"),
        ([" \n"], {"kind": "bpe"}, "nothing occurs 2 times or more"),
        (["a a"], {"vocab_size": 4}, "4 tokens are reserved"),
        (["a a"], {"vocab_size": 260, "kind": "bpe"}, "260 tokens are reserved"),
        (["a a"], {"min_frequency": 0}, "min_frequency is 0"),
        (["a a"], {"model_max_length": 3}, "model_max_length is 3"),
        (["a a"], {"kind": "char"}, "kind is 'char'"),
    ],
)
def test_unusable_input_is_named(texts, options, message):
    with pytest.raises(InputError, match=message):
        build_tokenizer(texts, **options)


# Special tokens


def test_single_text_and_pair():
    tokenizer = build_tokenizer(WORDS, min_frequency=1)
    assert tokenizer("the cat") == {
        "input_ids": [2, 4, 5],
        "token_type_ids": [0] * 3,
        "attention_mask": [1] * 3,
    }
    pair = tokenizer("the cat", "dog ran !")
    assert pair.tokens() == ["<cls>", "the", "cat", "<sep>", "dog", "ran", "!"]
    assert pair["token_type_ids"] == [0, 0, 0, 0, 1, 1, 1]
    assert tokenizer("the cat", "dog", return_special_tokens_mask=True)["special_tokens_mask"] == [
        1,
        0,
        0,
        1,
        0,
    ]
    assert tokenizer.model_input_names == ["input_ids", "token_type_ids", "attention_mask"]


@pytest.mark.parametrize("tokenizer", [WORD, BPE], ids=["word", "bpe"])
@pytest.mark.parametrize(
    "text", ["", " \t\r\n\u3000\xa0\u2028\x85", "\x00\x01\x1c\x9f", "\ufeff\u00ad\u200b\u200d"]
)
def test_a_text_of_nothing_is_only_cls(tokenizer, text):
    assert tokenizer([text])["input_ids"] == [[2]]
    assert tokenizer([text], [text])["input_ids"] == [[2, 3]]


@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_markers_in_a_text_stay_text(kind):
    texts = ["<cls> <pad><sep> <unk> <PAD>"] * 3
    tokenizer = build_tokenizer(texts, kind=kind, vocab_size=300)
    ids = tokenizer(texts[0])["input_ids"]
    assert ids[0] == 2
    assert set(ids[1:]).isdisjoint({0, 1, 2, 3})
    assert pieces("<cls>x", tokenizer)[0] == "<"
    assert tokenizer.backend_tokenizer.encode("<cls>").ids[1:].count(2) == 0
    # A pair cannot be forged either.
    assert set(tokenizer("a <sep> a")["token_type_ids"]) == {0}


def test_padding_on_either_side():
    tokenizer = build_tokenizer(WORDS, min_frequency=1)
    right = tokenizer(["the", "the cat"], padding=True)
    assert right["input_ids"] == [[2, 4, 0], [2, 4, 5]]
    assert right["attention_mask"] == [[1, 1, 0], [1, 1, 1]]
    tokenizer.padding_side = "left"
    left = tokenizer(["the", "the cat"], padding=True)
    assert left["input_ids"] == [[0, 2, 4], [2, 4, 5]]
    assert left["attention_mask"] == [[0, 1, 1], [1, 1, 1]]


def test_truncation_takes_from_the_longer_of_a_pair():
    tokenizer = build_tokenizer(WORDS, min_frequency=1, model_max_length=6)
    tokens = tokenizer("the cat sat the cat sat", "the dog", truncation=True).tokens()
    assert tokens == ["<cls>", "the", "cat", "<sep>", "the", "dog"]
    assert tokenizer("the cat sat", truncation=True, max_length=3).tokens() == ["<cls>", "the", "cat"]


# Pieces and offsets


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Don't stop!! It's 3.5.", ["Don", "'", "t", "stop", "!", "!", "It", "'", "s", "3", ".", "5", "."]),
        ("snake_case x-y a/b", ["snake_case", "x", "-", "y", "a", "/", "b"]),
        ("İstanbul ﬁne Straße", ["İstanbul", "ﬁne", "Straße"]),
        ("Ｆｕｌｌ　ｗｉｄｔｈ", ["Ｆｕｌｌ", "ｗｉｄｔｈ"]),
        ("cafe\u0301 e\u0301te\u0301!", ["cafe\u0301", "e\u0301te\u0301", "!"]),
        ("a\x00b\x85c\x1cd\u200be", ["a", "b", "c", "d", "e"]),
        ("\ufefffoot\u00adball", ["foot\u00adball"]),
        ("日本語のテスト、東京", ["日", "本", "語", "の", "テ", "ス", "ト", "、", "東", "京"]),
        ("iPhoneを買う", ["iPhone", "を", "買", "う"]),
        ("か\u3099ﾊﾟ", ["か\u3099", "ﾊﾟ"]),
        ("한국어 \u1112\u1161\u11ab", ["한국어", "\u1112\u1161\u11ab"]),
        ("שלום \u200fעולם", ["שלום", "עולם"]),
        ("می\u200cخواهم", ["می\u200cخواهم"]),
        ("नमस्ते", ["नमस्ते"]),
        ("👩\u200d💻👍🏽🇩🇪🇫🇷 ❤\ufe0fok", ["👩\u200d💻", "👍🏽", "🇩🇪", "🇫🇷", "❤\ufe0f", "ok"]),
        ("½…", ["½", "½", "½", "…", "…", "…"]),
    ],
)
def test_pieces_of_the_original_text(text, expected):
    assert pieces(text) == expected


@pytest.mark.parametrize(
    "forms",
    [
        ["café", "cafe\u0301", "CAFÉ", "CAFE\u0301", "Ｃafé"],
        ["fine", "ﬁne", "FINE", "ﬁ\u00adne", "𝐟𝐢𝐧𝐞"],
        ["straße", "STRAẞE", "Straße"],
        ["istanbul", "ISTANBUL", "Ｉstanbul"],
        ["i\u0307stanbul", "İstanbul", "I\u0307stanbul"],
        ["한국", "\u1112\u1161\u11ab국", "한\u1100\u116e\u11a8"],
    ],
)
def test_forms_of_a_word_share_its_id_and_map_back(forms):
    tokenizer = build_tokenizer([f"{forms[0]} {forms[0]}"])
    for form in forms:
        encoded = tokenizer(f"  {form}.", return_offsets_mapping=True)
        assert encoded["input_ids"] == [2, 4, 1]
        assert encoded["offset_mapping"] == [(0, 0), (2, 2 + len(form)), (2 + len(form), 3 + len(form))]
        assert normalise(form) == tokenizer.convert_ids_to_tokens(4)


def test_offsets_of_a_pair_count_from_the_start_of_each_text():
    encoded = WORD("a  b", " a", return_offsets_mapping=True)
    assert encoded["offset_mapping"] == [(0, 0), (0, 1), (3, 4), (0, 0), (1, 2)]
    assert encoded.sequence_ids() == [None, 0, 0, None, 1]


@given(WILD)
def test_every_token_maps_to_the_characters_it_came_from(text):
    split = WORD.backend_tokenizer.pre_tokenizer
    assert split is not None
    words = [word for word, _ in split.pre_tokenize_str(normalise(text))]
    found = pieces(text)
    assert len(found) == len(words)
    for word, piece in zip(words, found, strict=True):
        assert word in normalise(piece)
        assert len(piece) > 0


@given(WILD)
def test_bpe_loses_no_word(text):
    split = WORD.backend_tokenizer.pre_tokenizer
    assert split is not None
    words = [word for word, _ in split.pre_tokenize_str(normalise(text))]
    encoded = BPE([text], return_offsets_mapping=True)
    assert 1 not in encoded["input_ids"][0]
    assert str(BPE.decode(encoded["input_ids"][0][1:])).split() == " ".join(words).split()
    covered = {i for start, end in encoded["offset_mapping"][0] for i in range(start, end)}
    # What no token covers is nothing that makes a token.
    assert pieces("".join(char for i, char in enumerate(text) if i not in covered)) == []


def test_bpe_learns_pieces_and_marks_where_words_begin():
    tokenizer = build_tokenizer(["low lower lowest slow"] * 3, kind="bpe", vocab_size=275)
    assert tokenizer.tokenize("Low") == ["Ġlow"]
    assert pieces("LOWlow", tokenizer) == ["LOW", "low"]
    assert tokenizer.decode(tokenizer("slow  lowest")["input_ids"][1:]) == " slow lowest"


@pytest.mark.parametrize("tokenizer", [WORD, BPE], ids=["word", "bpe"])
@pytest.mark.parametrize(
    "text",
    ["a b " * 250_000, "x" * 1_000_000, "e\u0301" * 300_000, "🇩" * 250_000],
    ids=["words", "word", "marks", "flags"],
)
def test_a_megabyte_takes_linear_time(tokenizer, text):
    offsets = tokenizer(text, return_offsets_mapping=True, verbose=False)["offset_mapping"]
    assert offsets[-1][1] == len(text.rstrip())


# Saving


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_a_fresh_process_loads_the_same_tokenizer(tmp_path, kind):
    tokenizer = build_tokenizer(["le café est <cls> bon"] * 3, kind=kind, vocab_size=280, model_max_length=11)
    tokenizer.save_pretrained(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"tokenizer.json", "tokenizer_config.json"}
    script = (
        "import json, sys; from transformers import AutoTokenizer\n"
        "t = AutoTokenizer.from_pretrained(sys.argv[1])\n"
        "e = t(['LE Cafe\\u0301 <cls> x'], ['bon'], return_offsets_mapping=True)\n"
        "print(json.dumps([dict(e), t.model_input_names, t.model_max_length, t.pad_token, t.padding_side]))"
    )
    run = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        env={"HF_HUB_OFFLINE": "1"},
        check=True,
        capture_output=True,
        text=True,
    )
    here = dict(tokenizer(["LE Cafe\u0301 <cls> x"], ["bon"], return_offsets_mapping=True))
    names = ["input_ids", "token_type_ids", "attention_mask"]
    assert json.loads(run.stdout) == json.loads(json.dumps([here, names, 11, "<pad>", "right"]))
    assert run.stderr == ""


# Lengths


def test_token_lengths_count_everything_without_a_word(capfd):
    tokenizer = build_tokenizer(WORDS, min_frequency=1, model_max_length=4)
    tokenizer("the cat sat the cat", truncation=True, padding="max_length")  # leaves no trace in what follows
    texts = ["the cat", "", "the cat sat on the mat !", "dog", "<cls>"]
    lengths = token_lengths(tokenizer, iter(texts), batch_size=2)
    assert lengths.dtype == np.int64
    assert lengths.tolist() == [3, 1, 8, 2, 4]
    assert token_lengths(tokenizer, texts, ["a", "", "b", "c d", ""]).tolist() == [5, 2, 10, 5, 5]
    assert token_lengths(tokenizer, [""], [""]).tolist() == [2]
    assert token_lengths(tokenizer, []).tolist() == []
    assert capfd.readouterr() == ("", "")


def test_token_lengths_refuse_what_is_not_text():
    with pytest.raises(InputError, match=r"Text 1 .* is None"):
        token_lengths(WORD, ["a", None])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="shorter"):
        token_lengths(WORD, ["a", "b"], ["a"])


@pytest.mark.parametrize(
    ("coverage", "expected"), [(0.5, 5), (0.51, 7), (0.75, 7), (0.7500001, 11), (1, 11), (1e-9, 3), (0.25, 3)]
)
def test_covering_length_is_the_smallest_that_suffices(coverage, expected):
    assert covering_length([7, 3, 11, 5], coverage) == expected


def test_covering_length_is_exact_where_products_are_not():
    lengths = np.arange(1, 101)
    # 0.07 * 100, 0.29 * 100 and 0.57 * 100 are not the whole numbers they should be.
    assert [covering_length(lengths, share) for share in (0.07, 0.29, 0.57, 0.99)] == [7, 29, 57, 99]
    assert covering_length(np.arange(1, 1001), 0.995) == 995
    assert isinstance(covering_length(lengths, 0.5), int)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=30), st.integers(1, 30))
def test_covering_length_agrees_with_counting(lengths, wanted):
    wanted = min(wanted, len(lengths))
    by_counting = min(n for n in lengths if sum(m <= n for m in lengths) >= wanted)
    assert covering_length(lengths, wanted / len(lengths)) == by_counting


@pytest.mark.parametrize(
    ("lengths", "coverage"), [([], 0.5), ([3], 0), ([3], 1.01), ([3], -1), ([3], float("nan"))]
)
def test_covering_length_refuses_nonsense(lengths, coverage):
    with pytest.raises(InputError, match="covering_length"):
        covering_length(lengths, coverage)


def test_texts_of_similar_length_come_together():
    assert by_length([5, 3, 11, 3, 7]) == [1, 3, 0, 4, 2]
    assert length_batches(np.array([5, 3, 11, 3, 7]), 2) == [[1, 3], [0, 4], [2]]
    assert length_batches([], 3) == []
