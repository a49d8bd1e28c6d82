from datetime import date
from decimal import Decimal

import pytest

from identiformer.data.cells import Bad, read_label, read_text


@pytest.mark.parametrize(
    ("value", "label"),
    [
        ("pos", "pos"),
        (" pos\n", "pos"),
        (1, "1"),
        (1.0, "1"),
        ("1.0", "1"),
        ("1.", "1"),
        ("-3.00", "-3"),
        (-0.0, "0"),
        ("-0.0", "0"),
        (Decimal("2.00"), "2"),
        (1e16, "10000000000000000"),
        ("01", "01"),
        ("01.0", "01.0"),
        (0.5, "0.5"),
        ("1.5", "1.5"),
        ("1.0.0", "1.0.0"),
        (True, "True"),
        (False, "False"),
        ("None", "None"),
        ("NA", "NA"),
        (date(2020, 1, 2), "2020-01-02"),
        (float("inf"), "inf"),
    ],
)
def test_a_label_has_one_form(value: object, label: str) -> None:
    assert read_label(value) == label


@pytest.mark.parametrize("value", [None, float("nan"), "", "  ", "nan", "NaN", " NAN "])
def test_missing_labels(value: object) -> None:
    assert read_label(value) == Bad("missing label")


@pytest.mark.parametrize("value", [["a"], {"a": 1}, b"a", ("a",)])
def test_labels_of_several_values(value: object) -> None:
    assert read_label(value) == Bad("label that is a list, an object or bytes")


@pytest.mark.parametrize("text", ["NA", "null", "None", "nan", " a ", "\x00a", "😀", "שלום", "x" * 1_000_000])
def test_texts_stay_as_they_are(text: str) -> None:
    assert read_text(text) == text


@pytest.mark.parametrize(("value", "text"), [(3, "3"), (2.5, "2.5"), (True, "True"), (0, "0")])
def test_other_values_become_texts(value: object, text: str) -> None:
    assert read_text(value) == text


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "missing text"),
        (float("nan"), "missing text"),
        ("", "missing text"),
        (" ", "blank text"),
        ("\t\n\x85\u2003\u200b\ufeff\x00", "blank text"),
        (["a"], "text that is a list, an object or bytes"),
        (b"a", "text that is a list, an object or bytes"),
        ("a\ud83d", "text that is not valid Unicode"),
    ],
)
def test_what_is_no_text(value: object, reason: str) -> None:
    assert read_text(value) == Bad(reason)
    assert read_text(value, pair=True) == Bad(reason.replace("text", "text pair"))
