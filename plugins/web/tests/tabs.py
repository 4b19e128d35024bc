"""A page of deep-web in a real Chromium, as its user sees it."""

# selenium leaves arguments without types
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException, WebDriverException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from .served import SECONDS

__all__ = ["Keys", "Tab"]

T = TypeVar("T")
READY = """
return document.body.dataset.session === decodeURIComponent(location.hash.slice(1))
  && document.getElementById('connection').textContent === ''
"""


class Tab:
    """A page.

    The page changes while a test looks at it. So a test says what it will see, with `sees`, and never what it saw.

    Args:
        driver: the browser. A tab is a window of it.
        url: the address, with the token.
    """

    def __init__(self, driver: webdriver.Chrome, url: str) -> None:
        self.driver = driver
        self.window = driver.current_window_handle
        driver.get(url)
        self.ready()

    def front(self) -> Tab:
        """Switch the driver to this tab."""
        self.driver.switch_to.window(self.window)
        return self

    def ready(self) -> None:
        """Wait until the page has all that there is of its session."""
        self.until(lambda: self.session and self.js(READY), "the page is not ready")

    def until(self, condition: Callable[[], T], message: str | Callable[[], object] = "") -> T:
        """Wait until this is so."""
        wait = WebDriverWait(self.driver, SECONDS, 0.05, [StaleElementReferenceException])
        try:
            return wait.until(lambda driver: condition())
        except WebDriverException as error:
            said = message if isinstance(message, str) else message()
            raise AssertionError(
                f"{said or 'it did not come'}; the page: {self.js('return document.body.innerText')}"
            ) from error

    def sees(self, selector: str, *expected: str) -> None:
        """Wait until the elements have these texts, in this order."""
        self.until(
            lambda: self.texts(selector) == [*expected], lambda: f"{selector}: {self.texts(selector)}, not {expected}"
        )

    def sees_in(self, selector: str, part: str) -> None:
        """Wait until the text of an element contains this."""
        self.until(
            lambda: any(part in text for text in self.texts(selector)), lambda: f"no {part!r} in {self.texts(selector)}"
        )

    def sees_no(self, selector: str) -> None:
        """Wait until no such element is visible."""
        self.until(lambda: not self.is_shown(selector), f"{selector} is there")

    def sees_some(self, selector: str) -> None:
        """Wait until such an element is visible."""
        self.until(lambda: self.is_shown(selector), f"{selector} is not there")

    def js(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    @property
    def session(self) -> str:
        return self.js("return decodeURIComponent(location.hash.slice(1))")

    def find(self, selector: str) -> Any:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        """The texts of elements, as they are at once."""
        return self.js(
            "return [...document.querySelectorAll(arguments[0])].map((node) => (node.innerText ?? '').trim())", selector
        )

    def is_shown(self, selector: str) -> bool:
        return self.js(
            "return [...document.querySelectorAll(arguments[0])].some((node) => node.checkVisibility())", selector
        )

    def click(self, selector: str) -> None:
        """Click once the element is there and visible."""

        def click() -> bool:
            if not self.is_shown(selector):
                return False
            self.find(selector).click()
            return True

        self.until(click, f"{selector} cannot be clicked")

    def write(self, text: str) -> None:
        """Put a text into the message at once, as pasting does."""
        self.js("arguments[0].value = arguments[1]; arguments[0].oninput()", self.find("#text"), text)

    def send(self, text: str) -> None:
        """Send a message."""
        self.write(text)
        self.find("#text").send_keys(Keys.ENTER)

    def say(self, text: str) -> None:
        """Send a message, and wait until its run has ended, or a question waits."""
        before = self.js("return document.querySelectorAll('article.user:not(.sending)').length")
        self.send(text)
        self.until(
            lambda: self.js("return document.querySelectorAll('article.user:not(.sending)').length") > before,
            f"the message {text!r} did not arrive",
        )
        self.settled()

    def settled(self) -> None:
        """Wait until nothing runs."""
        self.until(
            lambda: (
                self.js("return document.body.dataset.status") not in ("running", None)
                and self.js("return document.getElementById('items').getAttribute('aria-busy')") == "false"
                and self.is_shown("#items .call.waiting") <= self.is_shown("#approval")
            ),
            "the run does not end",
        )

    def approve(self) -> None:
        """Approve what is asked, and wait for the end of the run or the next question."""
        self.sees_some("#approval .approve")
        self.js("document.querySelector('#approval .card').dataset.old = ''")  # the next question can come at once
        self.click("#approval .approve")
        self.answered(".card[data-old]")

    def answered(self, card: str = ".card") -> None:
        """Wait until the answer was taken, and for the end of the run or the next question."""
        self.until(lambda: not self.is_shown(f"#approval {card} button:enabled"), "the question stays")
        self.until(
            lambda: not self.is_shown("#approval") or self.is_shown("#approval button:enabled"),
            "the answer is not taken",
        )
        self.settled()

    def new(self) -> None:
        """Begin a new conversation."""
        before = self.session
        self.click("#new")
        self.until(lambda: self.session != before)
        self.ready()

    def upload(self, path: Path) -> None:
        self.find("#picker").send_keys(str(path))

    def errors(self) -> list[str]:
        """What the browser's console has of errors."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    def emulate(self, *, dark: bool = False) -> None:
        """Choose the color scheme."""
        media = {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)

    def width(self, pixels: int | None) -> None:
        """Show the page on a screen of this width; None for the window's."""
        if pixels is None:
            self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
            return
        metrics = {"width": pixels, "height": 844, "deviceScaleFactor": 2, "mobile": True}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
