"""How long the page of a report takes to open, and how large it is.

A page of 200 texts, 12 heads and 128 tokens is opened in chromium, in turn with one of a single text: what they differ
by is what so many texts cost. Opening goes from the start of the navigation to the first frame after the token view is
filled, which a reader sees. Times of a head's change are from the key to the next frame.

    python benchmarks/report.py

needs chromium on the PATH. Prints milliseconds, the median and the quartiles of the rounds.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from importlib import import_module
from pathlib import Path

import numpy as np
from measuring import Spread
from playwright.sync_api import Browser, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
page_of_size = import_module("report_of_size").page_of_size

_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
_OPENED = """() => new Promise((resolve) => {
    const filled = () => document.querySelector(".stage .word") !== null;
    const shown = () => requestAnimationFrame(() => setTimeout(() => resolve(performance.now())));
    const wait = () => (filled() ? shown() : setTimeout(wait, 1));
    wait();
})"""
_NEXT = """(key) => new Promise((resolve) => {
    const start = performance.now();
    document.dispatchEvent(new KeyboardEvent("keydown", { key }));
    requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - start)));
})"""


def _open(browser: Browser, file: Path) -> dict[str, float]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(file.as_uri(), wait_until="commit")
    times = {"open": page.evaluate(_OPENED)}
    times["next head"] = page.evaluate(_NEXT, "h")
    times["effective attention"] = page.evaluate(_NEXT, "e")
    context.close()
    return times


def main() -> None:
    """Measure, and print."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--texts", type=int, default=200)
    options.add_argument("--heads", type=int, default=12)
    options.add_argument("--tokens", type=int, default=128)
    options.add_argument("--rounds", type=int, default=9)
    given = options.parse_args()
    executable = shutil.which("chromium")
    if executable is None:
        sys.exit("needs chromium on the PATH")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        files = {texts: Path(folder) / f"{texts}.html" for texts in (1, given.texts)}
        for texts, file in files.items():
            file.write_text(page_of_size(texts, given.heads, given.tokens), "utf-8")
        browser = playwright.chromium.launch(executable_path=executable, args=_FLAGS)
        rounds = [
            {texts: _open(browser, file) for texts, file in files.items()} for _ in range(given.rounds + 1)
        ][1:]
        browser.close()
        for texts, file in files.items():
            print(
                f"{texts} texts, {given.heads} heads, {given.tokens} tokens: {file.stat().st_size / 1e6:.2f} MB"
            )
            for name in rounds[0][texts]:
                milliseconds = Spread.of(np.array([one[texts][name] for one in rounds]))
                print(f"  {name}: {milliseconds.show()} ms")


if __name__ == "__main__":
    main()
