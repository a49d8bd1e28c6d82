"""What a single cell means: a text, a label, or a reason why it is neither."""

from __future__ import annotations

import math
import re
import unicodedata
from typing import NamedTuple

MISSING_TEXT = "missing text"
BLANK_TEXT = "blank text"
NOT_A_TEXT = "text that is a list, an object or bytes"
HALF_CHARACTER = "text that is not valid Unicode"
MISSING_LABEL = "missing label"
NOT_A_LABEL = "label that is a list, an object or bytes"

# A whole number that something wrote as a float. Not "01.0": a leading zero means that it is a code, not a number.
_WHOLE_FLOAT = re.compile(r"(-?(?:0|[1-9][0-9]*))\.0*")
# White space, and characters that no reader sees: controls, and format marks such as the zero-width space.
_UNSEEN = {"Cc", "Cf", "Zl", "Zp", "Zs"}


class Bad(NamedTuple):
    """Why a cell cannot be used."""

    reason: str


def read_text(value: object, pair: bool = False) -> str | Bad:
    """Read a cell as a text, kept exactly as it is.

    Words such as "NA", "null" or "None" are texts: only a value that is missing in the file is missing.

    Args:
        value: the cell.
        pair: whether it is of the second text of a pair; only the wording of a reason depends on it.

    Returns:
        The text, or the reason why there is none.
    """
    fault = _text_fault(value)
    if fault is not None:
        return Bad(fault.replace("text", "text pair", 1) if pair else fault)
    return value if isinstance(value, str) else str(value)


def _text_fault(value: object) -> str | None:
    if _is_missing(value) or value == "":
        return MISSING_TEXT
    if _is_compound(value):
        return NOT_A_TEXT
    if isinstance(value, str):
        if all(unicodedata.category(character) in _UNSEEN for character in value):
            return BLANK_TEXT
        if not _is_unicode(value):
            return HALF_CHARACTER
    return None


def read_label(value: object) -> str | Bad:
    """Read a cell as a label: a string, the same for every way of writing the same value.

    White space around it goes; a whole number is written as one even where it was read as a float, so that
    `1`, `1.0` and `"1.0"` are one label. `"01"` stays as it is.

    Args:
        value: the cell.

    Returns:
        The label, or the reason why there is none; not-a-number and the word "nan" count as missing.
    """
    if _is_missing(value):
        return Bad(MISSING_LABEL)
    if _is_compound(value):
        return Bad(NOT_A_LABEL)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    label = str(value).strip()
    if label == "" or label.casefold() == "nan":
        return Bad(MISSING_LABEL)
    if not _is_unicode(label):
        return Bad("label that is not valid Unicode")
    whole = _WHOLE_FLOAT.fullmatch(label)
    if whole:
        return "0" if whole[1] == "-0" else whole[1]
    return label


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _is_compound(value: object) -> bool:
    return isinstance(value, (list, tuple, dict, set, bytes, bytearray))


def _is_unicode(text: str) -> bool:
    """Whether the text can be written as UTF-8: JSON can spell half of a surrogate pair, which cannot."""
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
