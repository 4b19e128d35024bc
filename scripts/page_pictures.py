"""Take the pictures of docs/browser.md, in Chromium, of a real run: `python -m scripts.page_pictures`."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Generator
from pathlib import Path

from deep_demo import copy_sample_project
from PIL import Image

from plugins.web.tests.served import serving
from plugins.web.tests.tabs import Tab
from tests.browser import browser

ASSETS = Path(__file__).resolve().parent.parent / "docs" / "assets"
CONFIG = """
[plugins.filesystem]
require_approval = "name:edit_file"
"""
COLORS = 128
TASK = "Find the failing test, fix it, and write down what you did."


@contextlib.contextmanager
def opened() -> Generator[Tab]:
    """Open the page for the sample project of deep-demo, with its scripted model."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory).resolve()
        copy_sample_project(root / "project")
        with serving(root, model="demo:tour", config=CONFIG) as server, browser(root / "profile") as driver:
            yield Tab(driver, server.page)


def take(tab: Tab, name: str, pixels: int = 1) -> None:
    """Write the picture: with few colors, as a page has, it is small. It has one pixel for `pixels` of the screen."""
    tab.js("document.getElementById('folder').textContent = '~/invoices'; document.activeElement.blur()")
    picture = Image.open(io.BytesIO(tab.driver.get_screenshot_as_png())).convert("RGB")
    picture = picture.reduce(pixels)
    path = ASSETS / f"{name}.png"
    picture.quantize(COLORS, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path.name}: {picture.width} x {picture.height}, {path.stat().st_size // 1024} KB")


def main() -> None:
    """Take them at the first change to approve, and after the run."""
    with opened() as tab:
        tab.say(TASK)
        while not tab.is_shown("#approval .diff"):
            tab.approve()
        tab.sees_some("#approval .card.armed")
        take(tab, "page-approval")
        while tab.is_shown("#approval"):
            tab.approve()
        tab.emulate(dark=True)
        take(tab, "page-dark")
        tab.width(390)
        tab.driver.refresh()
        tab.ready()
        tab.sees_some("article.assistant")
        take(tab, "page-phone", pixels=2)


if __name__ == "__main__":
    main()
