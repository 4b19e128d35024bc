"""A real Chromium without a window, each with a profile of its own: another user, another cookie jar."""

from __future__ import annotations

import contextlib
import gc
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

__all__ = ["CHROMIUM", "DRIVER", "browser"]

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
# Without a window, and without a word to anybody but the server under test.
ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,860",
)


@contextlib.contextmanager
def browser(profile: Path, *arguments: str) -> Iterator[webdriver.Chrome]:
    """A browser with this empty directory as its profile."""
    profile.mkdir(parents=True, exist_ok=True)
    options = Options()
    options.binary_location = CHROMIUM or ""
    for argument in (*ARGUMENTS, f"--user-data-dir={profile}", *arguments):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()
        del driver
        # Selenium leaves open the sockets with which it looks whether its driver answers.
        with warnings.catch_warnings(action="ignore", category=ResourceWarning):
            gc.collect()
