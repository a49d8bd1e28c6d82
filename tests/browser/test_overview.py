"""Reports of an audit and of a training in a browser: what stands above the texts, and the texts themselves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

pytest.importorskip("playwright.sync_api", reason="needs playwright, of the extra dev")

from playwright.sync_api import Page, expect

from identiformer.auditing import AuditSettings, audit
from identiformer.training import train
from runs import rows_of_texts, settings_with, write_csv
from small import TEXTS, small_classifier

Kind = Literal["audit", "training"]
LABELS = ("good", "bad", "<script>window.ran = 1</script>")


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[Kind, Path]:
    """The files of an audit and of a training, both small."""
    folder = tmp_path_factory.mktemp("reports")
    classifier, tokenizer = small_classifier()
    for part in (classifier, tokenizer):
        part.save_pretrained(folder / "model")
    texts = write_csv(folder / "texts.csv", [{"text": text} for text in [*TEXTS, *TEXTS[:1]]])
    audit(str(folder / "model"), texts, folder / "audit", AuditSettings(prove=2, intervals=3, report_rows=3))
    rows = write_csv(folder / "rows.csv", rows_of_texts(60, LABELS))
    train(rows, folder / "trained", settings_with(epochs=1))
    return {"audit": folder / "audit" / "report.html", "training": folder / "trained" / "report.html"}


KINDS = pytest.mark.parametrize("kind", ["audit", "training"])


@KINDS
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_overviews_are_accessible(
    reports: dict[Kind, Path],
    viewer: Any,
    kind: Kind,
    scheme: Literal["light", "dark"],
    serious_findings: Callable[[Page], list[str]],
) -> None:
    page = viewer(reports[kind], scheme=scheme)
    for details in page.locator(".overview details").all():
        details.evaluate("element => element.open = true")
    assert serious_findings(page) == []


@KINDS
def test_every_figure_is_drawn_in_the_theme_of_the_reader(
    reports: dict[Kind, Path], viewer: Any, kind: Kind
) -> None:
    shown: list[list[str]] = []
    for scheme in ("light", "dark"):
        page = viewer(reports[kind], scheme=scheme)
        pictures = page.locator(".overview figure img")
        assert pictures.count() == {"audit": 5, "training": 3}[kind]
        widths = pictures.evaluate_all("all => all.map(one => one.complete ? one.naturalWidth : 0)")
        assert min(widths) > 100
        shown.append(pictures.evaluate_all("all => all.map(one => one.currentSrc)"))
    assert not set(shown[0]) & set(shown[1])


@KINDS
def test_overviews_need_no_scripts(reports: dict[Kind, Path], viewer: Any, kind: Kind) -> None:
    page = viewer(reports[kind], scripts=False)
    figure = page.locator(".overview figure").first
    figure.locator("summary").click()
    expect(figure.locator("table")).to_be_visible()
    expect(page.locator("#token-view")).to_contain_text("head 0")
    expect(page.locator(".overview h2").last).to_have_text("The texts, word by word")


@KINDS
def test_links_lead_to_their_sections(reports: dict[Kind, Path], viewer: Any, kind: Kind) -> None:
    page = viewer(reports[kind], height=600)
    page.get_by_role("navigation", name="On this page").get_by_role("link", name="How it was made").click()
    expect(page.get_by_role("heading", name="How it was made")).to_be_in_viewport()


@KINDS
@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_is_wider_than_the_page(
    reports: dict[Kind, Path], viewer: Any, kind: Kind, width: int
) -> None:
    page = viewer(reports[kind], width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_an_audit_opens_with_a_text_of_which_all_is_known(reports: dict[Kind, Path], viewer: Any) -> None:
    page = viewer(reports["audit"])
    view = page.locator("#token-view")
    expect(view).to_contain_text("layer 1, head 0")  # the last of its layers
    expect(view).to_contain_text("the last layer’s in the first text that is not unique")
    page = viewer(reports["audit"], fragment="view=alternative")
    expect(page.get_by_label("An alternative", exact=True)).to_be_checked()
    expect(page.locator(".alternative")).not_to_contain_text("not computed")
    expect(page.locator(".alternative")).to_contain_text("0.")  # how far they are away


def _listed(page: Page) -> int:
    """How many texts the list has."""
    return page.locator(".texts li").count()


def test_texts_of_an_audit_are_filtered_and_searched(reports: dict[Kind, Path], viewer: Any) -> None:
    page = viewer(reports["audit"])
    assert _listed(page) == 5
    page.get_by_label("Search in texts").fill("waiter")
    assert _listed(page) == 2
    page.get_by_label("Search in texts").fill("")
    page.get_by_label("Certificates").select_option("simplex")
    assert _listed(page) == 4  # "Not good." is unique


def test_a_training_shows_wrong_predictions_first_and_runs_no_label(
    reports: dict[Kind, Path], viewer: Any
) -> None:
    page = viewer(reports["training"])
    every = _listed(page)
    first = page.locator(".texts li").first
    expect(first).to_contain_text("wrong")
    before = first.inner_text()
    page.get_by_label("only wrong predictions").check()
    assert 0 < _listed(page) <= every
    assert page.locator(".texts li").first.inner_text() == before
    expect(page.locator(".confusion")).to_contain_text("<script>window.ran = 1</script>")
    assert page.evaluate("window.ran") is None


def test_reports_are_whole_on_paper(reports: dict[Kind, Path], viewer: Any) -> None:
    page = viewer(reports["audit"])
    page.emulate_media(media="print")
    expect(page.get_by_role("navigation", name="On this page")).to_be_hidden()
    expect(page.locator(".overview figure img").last).to_be_visible()
    assert page.pdf().startswith(b"%PDF")
