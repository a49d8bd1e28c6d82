"""Choosing which columns of a source hold the text, its pair and the label."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from identiformer.data.types import Columns, Labels, Row
from identiformer.data.wording import listed, shown, words
from identiformer.errors import InputError

# Names that other people's data sets give to these columns, compared without case.
TEXT_NAMES = words(
    "text sentence review content question message body comment document tweet utterance query title_text "
    "review_text reviewtext texts sentences sms post abstract description"
)
LABEL_NAMES = words(
    "label labels target targets class classes category categories sentiment intent topic y label_text coarse_label "
    "polarity emotion tag"
)
PAIR_NAMES = ("text_pair",)
PAIRED_NAMES = (
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("text1", "text2"),
    ("text_a", "text_b"),
    ("sentence_a", "sentence_b"),
    ("question", "sentence"),
    ("query", "document"),
)
ID_NAMES = {"", "id", "idx", "index", "row", "uid", "guid", "unnamed: 0", "__index_level_0__"}
# A column whose values have this many words on average is prose; values of labels and numbers have one or two.
PROSE_WORDS = 3.0


def choose_columns(
    names: Sequence[str],
    sample: Sequence[Row],
    *,
    text: str | None,
    label: str | None,
    pair: str | None,
    labels: Labels,
    where: str,
    has_header: bool = False,
) -> tuple[Columns, list[str]]:
    """Choose the columns: those given, else those with the usual names, else the only ones that make sense.

    Args:
        names: the columns there are.
        sample: some rows, to tell prose from labels where the names do not.
        text: the name given for the text's column, if any.
        label: the same for the label's.
        pair: the same for the second text's.
        labels: whether a label is needed, used if it is found by its name, or left alone.
        where: the source, for messages.
        has_header: whether the names were a line of their own, which could be data by mistake.

    Returns:
        The columns, and notes that say every choice that the names alone did not make obvious.

    Raises:
        InputError: if a given column is not there, or there is no telling which one is meant.
    """
    return _Choice(names, sample, labels, where, has_header).make(text, label, pair)


class _Choice:
    def __init__(
        self, names: Sequence[str], sample: Sequence[Row], labels: Labels, where: str, has_header: bool
    ):
        self.names = names
        self.sample = sample
        self.labels: Labels = labels
        self.where = where
        self.has_header = has_header
        self.notes: list[str] = []

    def make(self, text: str | None, label: str | None, pair: str | None) -> tuple[Columns, list[str]]:
        given_text = self._given(text, "--text-column")
        given_pair = self._given(pair, "--text-pair-column")
        # Even where labels are left alone, the label's column is no candidate for the text.
        given_label = self._given(label, "--label-column") if self.labels != "ignore" else None
        taken = {name for name in (given_text, given_pair, given_label) if name is not None}
        if len(taken) < sum(name is not None for name in (given_text, given_pair, given_label)):
            raise InputError(
                f"{self.where}: one column cannot be two things: --text-column, --text-pair-column and --label-column "
                "must name different columns"
            )

        named_label = given_label or self._by_name(LABEL_NAMES, taken)
        others = taken | ({named_label} if isinstance(named_label, str) else set(named_label or ()))
        if given_text is None and given_pair is None:
            both = self._paired(others)
            if both:
                given_text, given_pair = both
                self.notes.append(
                    f"{self.where}: the texts are the columns {shown(both[0])} and {shown(both[1])}, as a pair"
                )
        chosen_text = given_text or self._text(others)
        taken |= {chosen_text}
        chosen_pair = given_pair
        if chosen_pair is None:
            found = self._by_name(PAIR_NAMES, taken)
            chosen_pair = found if isinstance(found, str) else None
        if chosen_pair is not None:
            taken |= {chosen_pair}
        chosen_label = given_label or self._label(taken)
        return Columns(chosen_text, chosen_label, chosen_pair), self.notes

    def _given(self, wanted: str | None, option: str) -> str | None:
        if wanted is None:
            return None
        if wanted in self.names:
            return wanted
        alike = [name for name in self.names if _plain(name) == _plain(wanted)]
        if len(alike) == 1:
            return alike[0]
        raise InputError(
            f"{self.where} has no column {shown(wanted)} (given with {option}): its columns are {listed(self.names)}"
        )

    def _by_name(self, usual: Iterable[str], taken: Iterable[str]) -> str | list[str] | None:
        """The column with a usual name, `None` if there is none, or all of them if there is no telling which."""
        free = [name for name in self.names if name not in taken]
        usual = list(usual)
        best = usual[0]
        if best in free:
            return best
        alike = [name for name in free if _plain(name) == best] or [
            name for name in free if _plain(name) in usual
        ]
        return alike[0] if len(alike) == 1 else alike or None

    def _paired(self, taken: set[str]) -> tuple[str, str] | None:
        if any(_plain(name) == "text" for name in self.names):
            return None
        plain = {_plain(name): name for name in self.names if name not in taken}
        found = [(plain[a], plain[b]) for a, b in PAIRED_NAMES if a in plain and b in plain]
        return found[0] if len(found) == 1 else None

    def _text(self, taken: set[str]) -> str:
        found = self._by_name(TEXT_NAMES, taken)
        if isinstance(found, str):
            if found != "text":
                self.notes.append(f"{self.where}: the text is the column {shown(found)}")
            return found
        if found is None:
            free = [name for name in self.names if name not in taken and _plain(name) not in ID_NAMES]
            prose = [name for name in free if self._words(name) >= PROSE_WORDS]
            likely = prose if len(free) > 1 else free
            if len(likely) == 1:
                self._check_header(likely[0])
                self.notes.append(
                    f"{self.where}: the text is the column {shown(likely[0])}, the only one of prose"
                )
                return likely[0]
        raise InputError(
            f"{self.where}: there is no telling which column is the text among {listed(self.names)}: name it with "
            "--text-column"
        )

    def _label(self, taken: set[str]) -> str | None:
        if self.labels == "ignore":
            return None
        found = self._by_name(LABEL_NAMES, taken)
        if isinstance(found, str):
            if found != "label":
                self.notes.append(f"{self.where}: the label is the column {shown(found)}")
            return found
        if self.labels == "optional":
            if found:
                self.notes.append(
                    f"{self.where}: no labels are used, since {listed(found)} could each be the label: name one with "
                    "--label-column"
                )
            return None
        free = [name for name in self.names if name not in taken and _plain(name) not in ID_NAMES]
        if not free:
            raise InputError(
                f"{self.where} has no column of labels: its columns are {listed(self.names)}; add a column named "
                "'label' or name one with --label-column"
            )
        if found or len(free) > 1:
            raise InputError(
                f"{self.where}: there is no telling which column is the label among {listed(self.names)}: name it with "
                "--label-column"
            )
        self._check_header(free[0])
        self.notes.append(f"{self.where}: the label is the column {shown(free[0])}, the only one left")
        return free[0]

    def _words(self, name: str) -> float:
        """The mean number of words of a column's values; 0 for a column that is not of strings."""
        values = [row.cells.get(name) for row in self.sample if row.fault is None]
        counts = [len(value.split()) for value in values if isinstance(value, str)]
        return sum(counts) / len(values) if counts else 0.0

    def _check_header(self, name: str) -> None:
        """Refuse a first line that is a row like the others: its row would be lost, and be the columns' names."""
        if not self.has_header:
            return
        values = [str(row.cells.get(name, "")).strip() for row in self.sample if row.fault is None]
        # Prose as long as the texts under it, or a name that is also a value of its own column.
        if name in values or len(name.split()) > PROSE_WORDS:
            raise InputError(
                f"{self.where}: the first line seems to be a row, not the names of the columns: put a header before "
                f"it, such as text,label; or, if {listed(self.names)} are names, choose with --text-column and "
                "--label-column"
            )


def _plain(name: str) -> str:
    return name.strip().casefold()
