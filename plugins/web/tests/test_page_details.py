"""Details of the page in a real Chromium: how it opens, what a message looks like, and what the clipboard brings."""

# selenium leaves arguments without types
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("selenium", reason="pip install selenium")

from selenium import webdriver

from tests.browser import browser

from .gated import gated_model
from .served import Served, serving
from .tabs import Tab

pytestmark = [pytest.mark.needs("Chromium"), pytest.mark.slow]
CODE = 'def f(x):\n    return "# no comment"  # one\n'
LISTS = "- [x] done\n- [ ] open\n- [y] neither\n\n3. third"
MESSAGE = f"think ```python\n{CODE}```\n\n{LISTS}\n\n| a | b |\n|---|--:|\n| 1 | 2 |"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    gate = tmp_path_factory.mktemp("gate") / "open"
    gate.touch()
    with serving(tmp_path_factory.mktemp("server"), models=lambda model_id: gated_model(gate)) as running:
        yield running


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    with browser(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


def test_it_opens_on_a_new_conversation_and_not_on_the_last_one(server: Served, chromium: webdriver.Chrome) -> None:
    tab = Tab(chromium, server.page)
    tab.new()
    tab.say("say an old secret")
    old = tab.session
    tab.driver.get("about:blank")
    tab = Tab(chromium, server.page)
    tab.sees("#items .hello .big", "What shall we do?")
    assert tab.session != old
    empty = tab.session
    tab.driver.get("about:blank")
    assert Tab(chromium, server.page).session == empty  # a look makes no second one
    assert "say an old secret" in tab.texts("#session-list .name")


def test_a_bad_token_is_one_clear_page(server: Served, chromium: webdriver.Chrome) -> None:
    chromium.delete_all_cookies()
    chromium.get(f"{server.url}/?token=wrong")
    tab = object.__new__(Tab)
    tab.driver, tab.window = chromium, chromium.current_window_handle
    tab.sees("#items .big", "This address gives no access")
    tab.sees_no("#composer")
    tab.sees_no("#sessions")


def test_code_is_colored_boxes_are_boxes_and_columns_are_aligned(server: Served, chromium: webdriver.Chrome) -> None:
    tab = Tab(chromium, server.page)
    tab.new()
    tab.say(MESSAGE)
    tab.sees(".code-keyword", "def", "return")
    tab.sees(".code-string", '"# no comment"')
    tab.sees(".code-comment", "# one")
    assert tab.js("return document.querySelector('.code code').textContent") == CODE
    tab.sees(".prose li", "☑done", "☐open", "[y] neither", "third")
    assert tab.js("return document.querySelector('.prose ol').start") == 3
    labels = "return [...document.querySelectorAll('.box')].map((box) => box.getAttribute('aria-label'))"
    assert tab.js(labels) == ["done", "open"]
    sides = "return [...document.querySelectorAll('td')].map((cell) => getComputedStyle(cell).textAlign)"
    assert tab.js(sides) == ["left", "right"]


def test_a_file_of_the_clipboard_is_uploaded_and_text_goes_into_the_message(
    server: Served, chromium: webdriver.Chrome, tmp_path: Path
) -> None:
    tab = Tab(chromium, server.page)
    tab.new()
    paste = """
        const data = new DataTransfer();
        arguments[0] ? data.items.add(new File(["bytes"], arguments[0])) : data.setData("text/plain", "words");
        const event = new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true });
        document.getElementById("text").dispatchEvent(event);
        return event.defaultPrevented;
    """
    assert tab.driver.execute_script(paste, "shot.png") is True
    tab.sees("#files a", "uploads/shot.png")
    assert (server.folder / "uploads" / "shot.png").read_text() == "bytes"
    assert tab.driver.execute_script(paste, "") is False
