"""axe-core finds no violation on the page: in each state, light and dark, wide and on a telephone."""

# selenium leaves arguments without types
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("selenium", reason="pip install selenium")

from selenium import webdriver

from tests.browser import browser
from tests.npm import install

from .gated import gated_model
from .served import Served, serving
from .tabs import Tab

pytestmark = [pytest.mark.exhaustive, pytest.mark.needs("Chromium"), pytest.mark.needs("npm")]
CHECK = """
const done = arguments[arguments.length - 1];
axe.run(document, { resultTypes: ["violations"] }).then(({ violations, passes }) => done({
  passes: passes.length,
  violations: violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map((node) => node.html).join(" ")}`),
}));
"""


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The source of axe-core."""
    return (install(tmp_path_factory, "axe-core@4.14.1") / "axe-core" / "axe.min.js").read_text("utf-8")


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("gate") / "open"
    yield path
    path.touch()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, gate: Path) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("server"), models=lambda model_id: gated_model(gate)) as running:
        yield running


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    with browser(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


def empty(tab: Tab) -> None:
    tab.sees_some(".hello .example")


def conversation(tab: Tab) -> None:
    tab.say("plan look at the sales, fix the report")
    tab.say("think # Title\n\n- one\n- [two](https://example.org)\n\n```\ncode\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |")
    tab.sees(".prose h2", "Title")
    tab.say("read missing.txt")
    tab.sees_some(".call.bad")


def approval(tab: Tab) -> None:
    tab.say("write report.txt: red")
    tab.sees_some("#approval .card.armed")


def always(tab: Tab) -> None:
    tab.say("write some/report.txt: red")
    tab.click("#approval .always summary")
    tab.sees_some("#approval .always button")


def plan_bar(tab: Tab) -> None:
    tab.js("document.getElementById('mode').value = 'plan'; document.getElementById('mode').onchange()")
    tab.until(lambda: tab.js("return document.body.dataset.mode") == "plan")
    tab.say("plan look at the sales, fix the report")
    tab.sees_some("#carry")


def edit_bar(tab: Tab) -> None:
    tab.say("say hello")
    tab.js("document.querySelector('article.user .change button').click()")
    tab.sees_some("#editing")


def question(tab: Tab) -> None:
    tab.say("ask Which color?: red, blue")
    tab.sees_some("#approval .option")


def running(tab: Tab) -> None:
    tab.send("hold one | two")
    tab.sees_some("#stop")
    tab.sees("article.assistant .prose", "one")
    tab.send("say next")
    tab.sees_some("#queue li")


def error(tab: Tab) -> None:
    tab.say("say hello")
    tab.write("x" * 20_001)
    tab.click("#send")
    tab.sees_in("#notice", "A message may have")
    tab.click("#menu summary")
    tab.click("#rename")
    tab.sees_some("#asked")


@pytest.mark.parametrize("reach", [empty, conversation, approval, always, plan_bar, edit_bar, question, running, error])
def test_axe_finds_no_violation(
    server: Served, chromium: webdriver.Chrome, axe: str, gate: Path, reach: Callable[[Tab], None]
) -> None:
    gate.unlink(missing_ok=True)
    tab = Tab(chromium, server.page)
    tab.new()
    reach(tab)
    tab.js(axe)
    found: dict[str, Any] = {}
    for dark in (False, True):
        for width in (None, 390):
            tab.emulate(dark=dark)
            tab.width(width)
            result = chromium.execute_async_script(CHECK)
            assert result["passes"] > 10
            found |= {f"{'dark' if dark else 'light'} {width}: {each}": None for each in result["violations"]}
    tab.width(None)
    tab.emulate()
    gate.touch()
    assert [*found] == []
