"""What a reader calls the words of a text, and which of a model's tokens make up each of them.

Tokenizers disagree about words: BERT's splits "don't" in three, GPT-2's in two, and T5's takes "good." for one. So
words are read off the text, the same for every tokenizer:

- letters, digits and underscores, with the marks on them; across an apostrophe or a hyphen between two of them
  ("don't", "well-known", "COVID-19"), and across a point or a comma between digits ("3.14", "1,000");
- single letters with points ("U.S.", "e.g.");
- in scripts without spaces (Chinese, Japanese, Thai, ...) one character with its marks: where words end there, only
  the tokenizer has a say;
- any other symbol, an emoji with all that is joined to it.

A token that covers parts of several of these makes one word of them: it has but one weight.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, chain
from typing import Any

from transformers import PreTrainedTokenizerBase

from identiformer.errors import InputError


@dataclass(frozen=True)
class Token:
    """A token and where it stands.

    Args:
        text: The piece of the original text that it covers, without spaces around it; the token's own name where it
            covers none.
        start, end: Characters of the text (`segment` 0) or of its pair (1).
        segment: 0 for the text, 1 for its pair.
        special: Whether it is a token of the model's, such as `<cls>`, and not of the text.
        unknown: Whether the model does not know it and takes it for any other unknown one.
    """

    text: str
    start: int
    end: int
    segment: int
    special: bool
    unknown: bool


@dataclass(frozen=True)
class Word:
    """A word and its tokens.

    Args:
        text, start, end, segment, special: As of a token. A special token is a word of its own.
        unknown: Whether one of its tokens is.
        tokens: Which tokens these are, in ascending order.
    """

    text: str
    start: int
    end: int
    segment: int
    special: bool
    unknown: bool
    tokens: list[int]


# Words in terms of kinds of characters: letters (a), digits (0), letters of scripts without spaces (u), marks (m), the
# joiner of emoji (z), halves of flags (f), and what stands for itself.
_WORD = re.compile(
    r"""
      (?:a[mz]*[.]){2,} (?:a(?![a0mz]))?
    | [a0][a0mz]* (?: (?: ['-] | (?<=0)[.,](?=0) ) [a0][a0mz]* )*
    | u[mz]*
    | ff[mz]*
    | [^ ] m* (?:z[^ a0uz]m*)* z*
    """,
    re.VERBOSE,
)
_SPACE_SIGNS = " \u0120\u2581"  # in the names of tokens, by byte-level BPE and by SentencePiece
_KINDS = {"\u200d": "z", "\u200b": " ", "_": "a", ".": ".", ",": ","}
_KINDS |= dict.fromkeys("'\u2019", "'") | dict.fromkeys("-\u2010\u2011", "-")
_UNSPACED = [
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0x2FDF),  # radicals of Han
    (0x3005, 0x3007),
    (0x3041, 0x30FF),  # Hiragana, Katakana
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),  # Han
    (0x4E00, 0x9FFF),
    (0xA9E0, 0xA9FF),  # Myanmar, extended
    (0xAA60, 0xAA7F),
    (0xF900, 0xFAFF),
    (0xFF66, 0xFF9F),  # Katakana of half width
    (0x20000, 0x3FFFF),
]


def word_spans(text: str) -> list[tuple[int, int]]:
    """Where the words of a text start and end, in their order; only blank characters are in none."""
    return [match.span() for match in _WORD.finditer("".join(map(_kind, text)))]


@lru_cache(maxsize=65536)
def _kind(character: str) -> str:
    code, category = ord(character), unicodedata.category(character)
    if character in _KINDS:
        return _KINDS[character]
    if character.isspace() or category == "Cc":
        return " "
    if 0x1F1E6 <= code <= 0x1F1FF:
        return "f"
    # Marks, invisible signs, shades of skin: they belong to what stands before them.
    if category[0] == "M" or category == "Cf" or 0x1F3FB <= code <= 0x1F3FF:
        return "m"
    if category == "Nd":
        return "0"
    if category[0] in "LN":
        return "u" if any(first <= code <= last for first, last in _UNSPACED) else "a"
    return "!"


@dataclass(frozen=True)
class ReadText:
    """A text, or a pair, as a tokenizer cuts it: `words[i].tokens` are places in `tokens`."""

    tokens: list[Token]
    words: list[Word]


def read_words(tokenizer: PreTrainedTokenizerBase, text: str, text_pair: str | None = None) -> ReadText:
    """The tokens of a text and its words; what a reader sees nothing of, such as a line end, is a word as well.

    Args:
        tokenizer: A fast tokenizer: one that knows which characters its tokens come from.
        text: The text; truncated where it is longer than the tokenizer allows.
        text_pair: Its pair.

    Raises:
        InputError: If the tokenizer is a slow one, or finds no token in the text.
    """
    if not tokenizer.is_fast:
        raise InputError(
            f"{type(tokenizer).__name__} does not tell which characters its tokens come from: give a model with a fast "
            "tokenizer (its folder has a tokenizer.json)"
        )
    encoded = _encoded(tokenizer, text, text_pair)
    tokens = _tokens(encoded, tokenizer, text, text_pair)
    if not tokens:
        raise InputError("the tokenizer finds not a single token in the text: give at least one word")
    return ReadText(tokens, _words(tokens, encoded.word_ids(0), (text, text_pair)))


def token_texts(tokenizer: PreTrainedTokenizerBase, text: str, text_pair: str | None = None) -> list[str]:
    """The text of each token, as of `Token`; of a slow tokenizer, which does not tell, the tokens' own names."""
    encoded = _encoded(tokenizer, text, text_pair)
    if tokenizer.is_fast:
        return [token.text for token in _tokens(encoded, tokenizer, text, text_pair)]
    return [str(name) for name in tokenizer.convert_ids_to_tokens(encoded["input_ids"][0])]


def _encoded(tokenizer: PreTrainedTokenizerBase, text: str, text_pair: str | None) -> Any:
    # Lists: of a single pair transformers would drop an empty second text.
    pairs = None if text_pair is None else [text_pair]
    return tokenizer([text], pairs, truncation=True, return_offsets_mapping=bool(tokenizer.is_fast))


def _tokens(
    encoded: Any, tokenizer: PreTrainedTokenizerBase, text: str, text_pair: str | None
) -> list[Token]:
    tokens: list[Token] = []
    names = tokenizer.convert_ids_to_tokens(encoded["input_ids"][0])
    segment = 0
    for name, (start, end), segment_of_text in zip(
        names, encoded["offset_mapping"][0], encoded.sequence_ids(0), strict=True
    ):
        special = segment_of_text is None
        if not special:
            segment = segment_of_text  # a special token belongs to the text before it
        source = text_pair if segment == 1 else text
        piece = "" if special or source is None else source[start:end]
        if not name.strip(_SPACE_SIGNS) and piece.strip(_SPACE_SIGNS):
            # A sign for a space that is not in the text, which is said to stand on the character after it.
            piece, end = "", start
        if piece.strip():  # tokens that begin a word may hold the space before it
            start += len(piece) - len(piece.lstrip())
            piece = piece.strip()
            end = start + len(piece)
        unknown = not special and name == tokenizer.unk_token
        tokens.append(Token(piece or name, start, end, segment, special, unknown))
    return tokens


def _words(
    tokens: Sequence[Token], word_ids: Sequence[int | None], sources: Sequence[str | None]
) -> list[Word]:
    """Tokens put together where they have a word's characters in common.

    Args:
        tokens: All tokens.
        word_ids: Of each its word, as the tokenizer counts them; they settle where a token belongs that has none
            but blank characters.
        sources: The text and its pair.
    """
    words = [_word(tokens, [i], "") for i, token in enumerate(tokens) if token.special]
    for segment, source in enumerate(sources):
        mine = [i for i, token in enumerate(tokens) if token.segment == segment and not token.special]
        if source is not None and mine:
            words += _words_of_text(tokens, mine, word_ids, source)
    return sorted(words, key=lambda word: word.tokens)


def _words_of_text(
    tokens: Sequence[Token], mine: Sequence[int], word_ids: Sequence[int | None], source: str
) -> list[Word]:
    """The words of one text; `mine` are its tokens."""
    end = max(tokens[i].end for i in mine)
    while end < len(source) and _kind(source[end]) in "mz":  # marks that the tokenizer left out
        end += 1
    spans = word_spans(source[:end])  # not beyond: what was truncated may go on
    at = [-1] * end  # the word that each character is in
    for number, (start, stop) in enumerate(spans):
        at[start:stop] = [number] * (stop - start)
    covered: dict[int, tuple[int, int]] = {}  # the first and the last word that a token covers a part of
    goes_on = [0] * (
        len(spans) + 1
    )  # tokens that begin in word u and end behind it, less those that end in it
    for i in mine:
        numbers = [number for number in at[tokens[i].start : tokens[i].end] if number >= 0]
        if numbers:
            covered[i] = (numbers[0], numbers[-1])
            goes_on[numbers[0]] += 1
            goes_on[numbers[-1]] -= 1
    # Words that a token spans are one.
    joined = list(accumulate((int(not across) for across in accumulate(goes_on)), initial=0))
    groups: dict[int, list[int]] = {}
    blank: dict[int, list[int]] = {}
    for place, i in enumerate(mine):
        its = word_ids[i]
        home = covered.get(i)
        if home is None and its is not None:
            # The sign for a space, cut off its word by the tokenizer, belongs to what follows it there.
            others = chain(mine[place + 1 :], reversed(mine[:place]))
            home = next((covered[j] for j in others if word_ids[j] == its and j in covered), None)
        if home is not None:
            groups.setdefault(joined[home[0]], []).append(i)
        else:
            blank.setdefault(-1 - i if its is None else its, []).append(i)
    words = [_word(tokens, group, source) for group in blank.values()]
    for group in groups.values():
        its_words = [covered[i] for i in group if i in covered]
        start, stop = (
            spans[min(first for first, _ in its_words)][0],
            spans[max(last for _, last in its_words)][1],
        )
        words.append(_word(tokens, group, source, (start, stop)))
    return words


def _word(
    tokens: Sequence[Token], group: list[int], source: str, span: tuple[int, int] | None = None
) -> Word:
    """The word of some tokens: what stands at `span`, or where it has no visible character, what they cover."""
    parts = [tokens[i] for i in group]
    start, end = span or (parts[0].start, parts[-1].end)
    return Word(
        text=source[start:end] or parts[0].text,
        start=start,
        end=end,
        segment=parts[0].segment,
        special=parts[0].special,
        unknown=any(part.unknown for part in parts),
        tokens=group,
    )
