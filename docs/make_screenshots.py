"""Make docs/images/report.png, the picture of a report in the README.

    python docs/make_screenshots.py

Trains a small model on the built-in reviews whose values are narrow, as those of pretrained encoders are, explains a
text with it, and takes a picture of the page in chromium, which has to be on the PATH: of the head of which most weight
can move with the same output. Takes a minute.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

PICTURE = Path(__file__).parent / "images" / "report.png"
TEXT = "The soup was cold and the waiter was rude, but the dessert was superb and the view over the harbour lovely."
SIZES = ["--hidden-size", "64", "--num-attention-heads", "4", "--value-size", "6"]
TRAINING = ["--epochs", "20", "--embedding-dropout", "0.1", "--hidden-dropout", "0.1"]
# The head of which most weight can move.
HEAD = """() => {
    const moved = (head) => head.alternatives[0].distance || 0;
    const heads = JSON.parse(document.querySelector("script#data").textContent).explanations[0].heads;
    return heads.reduce((best, head) => (moved(head) > moved(best) ? head : best)).head;
}"""


def main() -> None:
    """Train, explain, and take the picture."""
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("needs chromium on the PATH")
    with tempfile.TemporaryDirectory() as folder:
        run = [str(Path(sys.executable).with_name("identiformer"))]
        subprocess.run(
            [*run, "train", "demo:reviews", "--output", "reviews", *SIZES, *TRAINING], cwd=folder, check=True
        )
        page = ["explain", "reviews", "--text", TEXT, "--html", "report.html"]
        subprocess.run([*run, *page], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        take_picture(chromium, Path(folder, "report.html"))
    print(f"{PICTURE}: {PICTURE.stat().st_size / 1000:.0f} kB")


def take_picture(chromium: str, report: Path) -> None:
    """Of the page from its top down to where the alternative ends."""
    PICTURE.parent.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(
            viewport={"width": 1040, "height": 800}, device_scale_factor=1.4, color_scheme="light"
        )
        page.goto(report.as_uri())
        page.evaluate(
            "(head) => (location.hash = `#text=1&head=${head}&view=alternative`)", page.evaluate(HEAD)
        )
        box = page.locator(".alternative").bounding_box()
        assert box is not None
        scrolled = page.evaluate("scrollY")
        clip = {"x": 0, "y": 0, "width": 1040, "height": scrolled + box["y"] + box["height"] + 10}
        page.screenshot(path=PICTURE, full_page=True, clip=clip)  # pyright: ignore[reportArgumentType]
        browser.close()


if __name__ == "__main__":
    main()
