"""The pages of audits and of trainings: what they say, and that no label or text can break them."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from identiformer.report.audit_overview import audit_page
from identiformer.report.document import LARGEST_PAGE
from identiformer.report.samples import Samples
from identiformer.report.training_overview import TestPredictions, TrainedOn, training_page

HOSTILE = "<script>window.ran = 1</script>{{ 7 * 7 }}\x00\u202e😀"


class Parsed(HTMLParser):
    """The text of a page, its tables as lists of rows of cells, and where its links within the page lead."""

    def __init__(self, page: str):
        super().__init__()
        self.text: list[str] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags = Counter[str]()
        self._rows: list[list[str]] = []
        self._in: list[str] = []
        self._caption = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags[tag] += 1
        self._in.append(tag)
        if given.get("id"):
            self.ids.append(str(given["id"]))
        if (given.get("href") or "").startswith("#"):
            self.links.append(str(given["href"])[1:])
        if tag == "table":
            self._rows, self._caption = [], ""
        if tag == "tr":
            self._rows.append([])
        if tag in ("td", "th"):
            self._rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._in:
            while self._in.pop() != tag:
                pass
        if tag == "table":
            self.tables[self._caption] = self._rows

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self._in):
            self.text.append(data)
        if "caption" in self._in:
            self._caption += data
        elif {"td", "th"} & set(self._in):
            self._rows[-1][-1] += data.strip()

    @property
    def words(self) -> str:
        """All that is to be read, on one line."""
        return " ".join(" ".join(self.text).split())


def group(rows: int, identifiable: float) -> dict[str, Any]:
    margin = dict.fromkeys(("0.05", "0.25", "0.5", "0.75", "0.95"), 0.01 if identifiable else None)
    level = {"rows": rows, "identifiable": identifiable, "global": identifiable, "margin": margin}
    return {
        "rows": rows,
        "tied": 0.0,
        "top_certain": 0.75,
        "levels": {"free": level, "simplex": level, "generatable": {**level, "identifiable": 1.0}},
    }


def summary(**changes: Any) -> dict[str, Any]:
    """Of 8 rows: one layer of two heads, four texts, two of them of more than 5 tokens."""
    return {
        "model": "some/where/model",
        "source": "texts.csv",
        "settings": {"rows": "pooled", "limit": 4, "prove": 0},
        "texts": {"number": 4, "truncated": 0.25, "lengths": [(3, 2), (11, 2)]},
        "all": group(8, 0.5),
        "by_length": [{"from": 1, "to": 8, **group(4, 1.0)}, {"from": 9, "to": 16, **group(4, 0.0)}],
        "layers": [{"layer": 0, "simplex_length": 5, **group(8, 0.5)}],
        "heads": [{"layer": 0, "head": head, "by_length": [], **group(4, 0.5)} for head in range(2)],
        "refused": [{"layer": 1, "head": head, "reason": "its logits are capped"} for head in (0, 1, 2, 5)],
        "notes": [{"layer": 0, "note": "an odd one"}],
        **changes,
    }


NO_TEXTS = Samples([], [], (0, 0), "No texts.", "")
NULLITIES = Counter({(0, 3, 0): 4, (0, 11, 6): 4})


def audit_of(samples: Samples | None = None, **changes: Any) -> str:
    return audit_page(
        "out",
        summary(**changes),
        NULLITIES,
        samples or NO_TEXTS,
        {"rows": "pooled", "limit": 4, "prove": 0, "split": None, "text_column": "news"},
        {"rows": "pooled", "prove": 0},
    )


@cache
def usual_audit() -> str:
    return audit_of()


def test_an_audit_says_what_was_found() -> None:
    page = Parsed(usual_audit())
    assert "Audit of where/model" in page.words
    assert "4 texts of texts.csv; 8 rows of 2 attention heads of some/where/model" in page.words
    assert (
        "50 % of the rows are unique on the simplex. The weights of the others can move in 6 directions (median)"
    ) in page.words
    assert "In 75 % of the rows the most attended token is certain" in page.words
    assert (
        "identiformer audit some/where/model texts.csv --output out --limit 4 --text-column news"
        in page.words
    )
    by_length = next(rows for caption, rows in page.tables.items() if caption.startswith("By the tokens"))
    assert by_length[1][:4] == ["1–8", "4", "100 %", "100 %"]
    assert by_length[2][:4] == ["9–16", "4", "0 %", "0 %"]
    assert page.tables["Heads of which nothing can be said"][1] == [
        "its logits are capped", "4", "layer 1: 0–2, 5",
    ]  # fmt: skip
    assert "layer 0: an odd one" in page.words


def test_the_median_of_directions_is_one_number_and_exact() -> None:
    nullities = Counter({(0, 3, 0): 5, (0, 11, 30): 1, (1, 11, 30): 1, (0, 11, 35): 2})
    text = audit_page("out", summary(), nullities, NO_TEXTS, {}, {})
    said = re.findall(r"can move in (\S+ directions) \(median", Parsed(text).words)
    assert said == ["32.5 directions"] * 2


def test_the_glossary_says_unique_of_what_has_no_other_at_all() -> None:
    terms = dict(re.findall(r"<dt>([^<]+)</dt>\n<dd>(.*?)</dd>", usual_audit()))
    assert terms["unique"].startswith("No other weights at all")
    assert terms["unique nearby"].startswith("No other weights that are close")
    assert terms["identifiable"].startswith("Unique, or unique nearby.")


def test_every_figure_has_a_sentence_a_table_and_both_themes() -> None:
    text = usual_audit()
    page = Parsed(text)
    assert page.tags["figure"] == page.tags["figcaption"] == page.tags["picture"] == 5
    for figure in re.findall("<figure.*?</figure>", text, re.DOTALL):
        assert len(re.findall(r"<figcaption>\s*<h3>.+?</h3>\s*<p>.+?</p>", figure, re.DOTALL)) == 1
        assert re.search(
            r'<source media="screen and \(prefers-color-scheme: dark\)" srcset="data:image/svg', figure
        )
        assert re.search(r'<img src="data:image/svg[^"]+" alt="[^"]+"', figure)
        assert re.search("<details>.*<table.*</details>", figure, re.DOTALL)


def test_links_within_a_page_lead_somewhere_and_no_name_is_there_twice() -> None:
    for page in (Parsed(usual_audit()), Parsed(usual_training())):
        assert len(page.ids) == len(set(page.ids))
        assert set(page.links) <= set(page.ids)
        assert len(page.links) >= 6
    # Nothing that would need a style or a script of its own.
    assert " style=" not in usual_audit()
    assert not re.search(r"<[^>]+ on\w+=", usual_audit())


def test_a_proof_is_told_with_its_control() -> None:
    row = {
        "text_id": 3, "layer": 0, "head": 1, "row": 0, "level": "simplex", "status": "found", "distance": 0.4,
        "change": 2e-7, "control_change": 0.05, "top_changed": True, "prediction_changed": False,
    }  # fmt: skip
    lost = {"text_id": 2, "layer": 0, "head": 0, "row": 0, "level": "generatable", "status": "not_found"}
    proof = {
        "asked": 2, "found": 1, "largest_change": 2e-7, "median_control_change": 0.05, "predictions_changed": 0,
        "largest_distance": 0.4, "median_distance": 0.4, "tops_changed": 1, "rows": [lost, row],
    }  # fmt: skip
    page = Parsed(audit_of(proof=proof))
    assert (
        "in 1 of 2 rows tried, moved no output by more than 2.0e-7 of the largest one; weights as far away that are no "
        "alternatives move it by 0.05 (median)."
    ) in page.words
    assert "0 predictions changed" in page.words
    tried = page.tables["Rows, the farthest alternatives first"]
    assert tried[1] == ["3", "0.1", "0", "simplex", "0.4", "2.0e-7", "0.05", "yes"]
    assert tried[2] == ["2", "0.0", "0", "generatable", "not found", "–", "–", "–"]
    assert "--prove N" in Parsed(usual_audit()).words


def test_an_audit_of_a_large_model_stays_small() -> None:
    heads = [{"layer": i // 64, "head": i % 64, "by_length": [], **group(4, 0.5)} for i in range(64 * 80)]
    page = audit_of(heads=heads)
    assert len(page.encode()) < LARGEST_PAGE / 4
    assert "The first 1200 of 5120; all are in summary.json." in page


# Trainings

LABELS = ["bad", "good", "so so"]
COUNTS = [[7, 2, 1], [0, 5, 0], [0, 3, 2]]


def training_of(labels: list[str], counts: list[list[int]], pair: str | None = None, **changes: Any) -> str:
    total, hits = sum(map(sum, counts)), sum(row[i] for i, row in enumerate(counts))
    scores = {
        "accuracy": hits / total, "macro_f1": 0.5, "log_loss": 0.7, "calibration_error": 0.1,
        "confusion_matrix": counts, "labels": labels,
    }  # fmt: skip
    metrics = {
        "examples": {"train": 100, "valid": 10, "test": total}, "skipped": {"empty text": 3}, "max_length": 24,
        "best_epoch": 1, "valid": scores, "test": scores,
        "identifiable": {
            "share": dict.fromkeys(("free", "simplex", "generatable"), 0.9),
            "global": dict.fromkeys(("free", "simplex", "generatable"), 0.8),
            "tied": 0.0,
            "longest": 8,
        },
        **changes,
    }  # fmt: skip
    return training_page(
        "model",
        metrics,
        [{"epoch": 1, "valid_accuracy": 0.7, "train_loss": 0.5, "valid_log_loss": 0.6}],
        TestPredictions(np.full(total, 0.75), np.arange(total) < hits, Counter({3: total})),
        8,
        TrainedOn(
            "texts.csv",
            {"text": HOSTILE, "pair": pair, "label": "label"},
            [HOSTILE],
            "identiformer train",
            {},
            {},
        ),
        NO_TEXTS,
    )


@cache
def harmless_training() -> str:
    return training_of(["bad", "good"], [[3, 1], [2, 5]])


@cache
def usual_training() -> str:
    return training_of(LABELS, COUNTS)


def test_a_training_says_how_good_it_is() -> None:
    page = Parsed(usual_training())
    assert "14 of 20 test texts get their true label (70 %)" in page.words
    assert "Always saying “bad”, the most frequent one, would be right in 50 %." in page.words
    assert "“so so” is taken for “good” in 3 texts, 60 % of those labelled “so so”" in page.words
    assert page.tables["Confusion matrix of the test texts"] == [
        ["true \\ predicted", *LABELS],
        ["bad", "7", "2", "1"],
        ["good", "0", "5", "0"],
        ["so so", "0", "3", "2"],
    ]
    assert page.tables["Test texts, label by label"][2] == ["good", "5", "10", "0.500", "1.000", "0.667"]
    assert page.tables["Test texts whose attention is unique"][2][:3] == ["simplex", "80 %", "90 %"]
    assert "left out: 3 rows (empty text)" in page.words


def test_the_command_for_more_texts_is_one_that_the_model_takes() -> None:
    single = "identiformer explain model --text 'a text' --html explanation.html"
    paired = "identiformer explain model --text 'a text' --text-pair 'its pair' --html explanation.html"
    assert single in Parsed(usual_training()).words
    assert paired in Parsed(training_of(LABELS, COUNTS, pair="hypothesis")).words


def test_where_no_text_is_unique_none_is_the_longest() -> None:
    none = dict.fromkeys(("free", "simplex", "generatable"), 0.0)
    page = Parsed(
        training_of(LABELS, COUNTS, identifiable={"share": none, "global": none, "tied": 0.0, "longest": 0})
    )
    assert "On the simplex there is no such text." in page.words
    assert "0 tokens" not in page.words
    assert "The longest such text, on the simplex, has 8 tokens." in Parsed(usual_training()).words


def test_shades_are_shares_of_a_row() -> None:
    text = usual_training()
    cells = re.findall(r'<td class="cell-(right|wrong) share-(\d+)">(\d+)</td>', text)
    assert cells[:3] == [("right", "7", "7"), ("wrong", "2", "2"), ("wrong", "1", "1")]
    assert cells[3:6] == [("wrong", "0", "0"), ("right", "10", "5"), ("wrong", "0", "0")]


def test_where_all_is_right_nothing_is_confused() -> None:
    assert "No test text is taken for another label" in training_of(["a", "b"], [[3, 0], [0, 5]])


def test_many_labels_give_the_pairs_that_are_confused_most() -> None:
    labels = [f"label {i}" for i in range(300)]
    counts = (3 * np.eye(300, dtype=int)).tolist()
    counts[11][7], counts[5][3] = 11, 2
    page = Parsed(training_of(labels, counts))
    assert "Confusion matrix of the test texts" not in page.tables
    assert page.tables["Labels that are confused most"][1:] == [
        ["label 11", "label 7", "11", "78.6 %"],
        ["label 5", "label 3", "2", "40 %"],
    ]
    by_label = page.tables["Test texts, label by label"]
    assert [row[0] for row in by_label[1:3]] == ["label 7", "label 11"]  # the least F1 first
    assert len(by_label) == 201


@pytest.mark.parametrize("hostile", [HOSTILE, "</td></table><b>", "x" * 10_000, "$\\frac$ %s", "'\"&amp;"])
def test_a_label_can_be_anything(hostile: str) -> None:
    text = training_of([hostile, "good"], [[3, 1], [2, 5]])
    page, harmless = Parsed(text), harmless_training()
    assert page.tags == Parsed(harmless).tags
    assert "49" not in page.tables["Confusion matrix of the test texts"][0][1]
    assert "\x00" not in text
    assert len(text) < len(harmless) + 100_000


def test_attention_that_cannot_be_certified_is_said_to_be_so() -> None:
    page = Parsed(training_of(LABELS, COUNTS, identifiable=None))
    assert "Attention of this kind of model cannot be certified." in page.words
    assert "Test texts whose attention is unique" not in page.tables
