"""A browser, and pages opened in it that must not complain, nor ask anything of anybody."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

pytest.importorskip("playwright.sync_api", reason="needs playwright, of the extra dev")

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Page,
    Request,
    sync_playwright,
)

_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, as it is installed; one for all tests."""
    executable = shutil.which("chromium")
    if executable is None:
        pytest.skip("needs chromium (Debian's package of that name), and there is none on the PATH")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=executable, args=_FLAGS)
        yield started
        started.close()


class Viewer:
    """Opens pages; `problems` is what went wrong on any of them, and has to be empty at the end of the test.

    A test that provokes a problem takes it out by `expect`.
    """

    def __init__(self, browser: Browser, folder: Path):
        self.problems: list[str] = []
        self._browser, self._folder = browser, folder
        self._contexts: list[BrowserContext] = []

    def __call__(
        self,
        page: str | Path,
        *,
        fragment: str = "",
        scheme: Literal["light", "dark"] = "light",
        width: int = 1280,
        height: int = 900,
        scripts: bool = True,
        allowed: Sequence[str] = ("file://", "data:"),
        prepare: Callable[[Page], object] = lambda _page: None,
    ) -> Page:
        """Open a page.

        Args:
            page: An HTML document, a file with one, or an address.
            fragment: What follows its address after `#`.
            scheme, width, height: How it is seen.
            scripts: Whether its scripts run.
            allowed: What all addresses that it asks for begin with.
            prepare: Called before anything is loaded.
        """
        context = self._browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            java_script_enabled=scripts,
            reduced_motion="reduce",
        )
        context.set_default_timeout(5000)
        self._contexts.append(context)
        context.on("request", lambda request: self._asked(request, allowed))
        opened = context.new_page()
        opened.on("console", self._said)
        opened.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        opened.on("dialog", self._opened)
        prepare(opened)
        if isinstance(page, str) and page.startswith("http"):
            address = page
        else:
            if isinstance(page, str):
                file = self._folder / f"{len(self._contexts)}.html"
                file.write_text(page, "utf-8")
                page = file
            address = page.as_uri()
        opened.goto(f"{address}#{fragment}" if fragment else address)
        return opened

    def expect(self, part: str) -> None:
        """There were problems that say `part`, and they are what the test is about."""
        assert any(part in problem for problem in self.problems), self.problems
        self.problems = [problem for problem in self.problems if part not in problem]

    def close(self) -> None:
        """Close all pages."""
        for context in self._contexts:
            context.close()

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning", "assert"):
            self.problems.append(f"console: {message.text}")

    def _opened(self, dialog: Dialog) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _asked(self, request: Request, allowed: Sequence[str]) -> None:
        if not request.url.startswith(tuple(allowed)):
            self.problems.append(f"request: {request.url}")


@pytest.fixture
def viewer(browser: Browser, tmp_path: Path) -> Iterator[Viewer]:
    """Opens pages, and fails the test for what went wrong on them."""
    opens = Viewer(browser, tmp_path)
    yield opens
    opens.close()
    assert opens.problems == []


@pytest.fixture(scope="session")
def serious_findings() -> Callable[[Page], list[str]]:
    """What axe-core finds on a page that is serious or critical, a line each."""
    axe_of_playwright = pytest.importorskip("axe_playwright_python.sync_playwright")
    axe = axe_of_playwright.Axe()

    def findings(page: Page) -> list[str]:
        violations: list[dict[str, Any]] = axe.run(page).response["violations"]
        return [
            f"{violation['id']}: {node['html'][:200]} {node['failureSummary']}"
            for violation in violations
            if violation["impact"] in ("serious", "critical")
            for node in violation["nodes"]
        ]

    return findings
