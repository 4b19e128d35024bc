"""A day with the page in a real Chromium: modes, rules, a message that is changed, a queue after a stop, an outage."""

# selenium leaves arguments without types
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("selenium", reason="pip install selenium")

from selenium import webdriver

from tests.browser import browser

from .gated import gated_model
from .processes import WebProcess
from .served import Served, serving
from .tabs import Keys, Tab

pytestmark = [pytest.mark.needs("Chromium"), pytest.mark.slow]


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that lets `hold` go on."""
    return tmp_path_factory.mktemp("gate") / "open"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, gate: Path) -> Iterator[Served]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))  # what is kept for the folder
        root = tmp_path_factory.mktemp("server")
        with serving(root, models=lambda model_id: gated_model(gate), config="") as running:
            yield running


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    with browser(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture
def tab(server: Served, chromium: webdriver.Chrome, gate: Path) -> Iterator[Tab]:
    """A page with a new conversation."""
    gate.unlink(missing_ok=True)
    chromium.set_window_size(1280, 860)
    tab = Tab(chromium, server.page)
    tab.new()
    yield tab
    gate.touch()  # no run may hold the server


def holds(tab: Tab, path: Path, text: str) -> None:
    """Wait until a file holds this: a call that a mode or rule answers waits for a moment, as one that asks."""
    tab.until(lambda: path.exists() and path.read_text() == text, f"{path.name} does not hold {text!r}")
    tab.settled()


# -- modes -------------------------------------------------------------------------------------------------------------


def test_an_edit_asks_with_its_diff_and_accepting_edits_is_one_key_away(server: Served, tab: Tab) -> None:
    assert tab.js("return document.getElementById('mode').value") == "ask"
    tab.say("write day.txt: red")
    tab.sees("#approval .diff .add", "+ red")
    assert not (server.folder / "day.txt").exists()
    tab.sees_some("#approval .card.armed")
    tab.find("#approval .card").send_keys("e")
    tab.sees_no("#approval")
    tab.settled()
    holds(tab, server.folder / "day.txt", "red\n")
    tab.sees("#items .call .state", "done")
    assert tab.js("return document.body.dataset.mode") == "accept-edits"
    tab.say("edit day.txt: red -> blue")
    holds(tab, server.folder / "day.txt", "blue\n")
    tab.say("run echo no edit")
    tab.sees("#approval .ask", "The agent wants to use execute")
    tab.sees_no("#approval .edits")


def test_accepting_edits_is_kept_for_the_folder_until_it_is_taken_back(server: Served, tab: Tab) -> None:
    tab.sees_no("#keep-mode")
    tab.find("#text").send_keys(Keys.ALT, "m")
    tab.until(lambda: tab.js("return document.body.dataset.mode") == "accept-edits")
    tab.click("#keep-mode")
    tab.sees_no("#keep-mode")
    tab.new()
    tab.until(lambda: tab.js("return document.body.dataset.mode") == "accept-edits")
    tab.say("write kept.txt: red")
    holds(tab, server.folder / "kept.txt", "red\n")
    tab.js("document.getElementById('mode').value = 'ask'; document.getElementById('mode').onchange()")
    tab.click("#keep-mode")
    tab.sees_no("#keep-mode")
    tab.new()
    assert tab.js("return document.body.dataset.mode") == "ask"


def test_a_plan_is_made_without_a_change_and_carried_out_with_a_click(server: Served, tab: Tab) -> None:
    tab.js("document.getElementById('mode').value = 'plan'; document.getElementById('mode').onchange()")
    tab.until(lambda: tab.js("return document.body.dataset.mode") == "plan")
    tab.say("write planned.txt: red")
    tab.sees_no("#approval")
    tab.sees_no("#carry")  # it was not offered the tool, and answers: that is no plan
    assert not (server.folder / "planned.txt").exists()
    tab.say("say Plan: write planned.txt")
    tab.sees_some("#carry")
    tab.click("#carry-edits")
    tab.sees_no("#carry")
    tab.until(lambda: "The plan is approved. Carry it out." in tab.texts("article.user > p"))
    tab.settled()
    assert tab.js("return document.body.dataset.mode") == "accept-edits"
    tab.say("write planned.txt: red")
    holds(tab, server.folder / "planned.txt", "red\n")


# -- rules -------------------------------------------------------------------------------------------------------------


def test_always_has_the_narrow_rules_of_the_terminal(server: Served, tab: Tab) -> None:
    tab.say("run git status --short")
    tab.sees_some("#approval .card.armed")
    tab.click("#approval .always summary")
    words = "execute: a single command that begins with `git status`, with any words after it"
    tab.sees("#approval .always button", words, "execute: every call")
    tab.click("#approval .always button")
    tab.answered()
    tab.say("run git status --long")
    tab.sees_no("#approval")
    tab.say("run git push")
    tab.sees("#approval .ask", "The agent wants to use execute")
    tab.click("#approval .deny")
    tab.answered()
    tab.say("run git status; touch made.txt")
    tab.click("#approval .always summary")
    tab.sees("#approval .always button", "execute: every call")  # more than one command
    tab.click("#approval .deny")
    tab.answered()
    tab.click("#menu summary")
    tab.click("#forget")
    tab.sees_in("#asked-text", words)
    tab.click("#asked-yes")
    tab.until(lambda: not tab.js("return document.getElementById('asked').open"))
    tab.say("run git status --short")
    tab.sees_some("#approval .card")
    assert not (server.folder / "made.txt").exists()


def test_a_rule_that_is_kept_is_the_chats_own(server: Served, tab: Tab) -> None:
    from deep_sessions import rules_of

    tab.say("write some/where.txt: red")
    tab.sees_some("#approval .card.armed")
    tab.click("#approval .always summary")
    tab.sees(
        "#approval .always button",
        "write_file: the file some/where.txt",
        "write_file: any file below some/",
        "write_file: every call",
    )
    tab.click("#approval .always input")
    tab.click("#approval .always li:nth-child(2) button")
    tab.answered()
    kept = rules_of(str(server.folder.resolve())).kept  # as deep chat reads them
    assert [rule.about for rule in kept] == ["write_file: any file below some/"]
    tab.new()
    tab.say("write some/other.txt: red")
    holds(tab, server.folder / "some" / "other.txt", "red\n")
    rules_of(str(server.folder.resolve())).drop()
    tab.say("write some/third.txt: red")  # forgotten by another interface
    tab.sees_some("#approval .card")


# -- messages ----------------------------------------------------------------------------------------------------------


def test_a_message_is_edited_and_sent_again_in_its_place(tab: Tab) -> None:
    tab.say("say one")
    tab.say("say two")
    tab.say("say three")
    tab.js("document.querySelectorAll('article.user')[1].querySelector('.change button').click()")
    tab.sees_some("#editing")
    assert tab.find("#text").get_attribute("value") == "say two"
    tab.write("say deux")
    tab.find("#text").send_keys(Keys.ENTER)
    tab.sees("article.assistant .prose", "one", "deux")
    tab.settled()
    tab.sees("article.user > p", "say one", "say deux")
    tab.sees_no("#editing")
    tab.js("document.querySelectorAll('article.user')[0].querySelectorAll('.change button')[1].click()")
    tab.sees("article.user > p", "say one")
    tab.sees("article.assistant .prose", "one")
    tab.settled()
    tab.driver.refresh()
    tab.ready()
    tab.sees("article.user > p", "say one")
    tab.sees("article.assistant .prose", "one")
    tab.js("document.querySelector('.change button').click()")
    tab.find("#text").send_keys(Keys.ESCAPE)
    tab.sees_no("#editing")
    assert tab.find("#text").get_attribute("value") == ""


def test_what_was_queued_keeps_its_order_after_a_stop(tab: Tab) -> None:
    tab.send("hold one | two")
    tab.sees("article.assistant .prose", "one")
    tab.send("say first")
    tab.send("say second")
    tab.sees("#queue li", "Next:\nsay first", "Next:\nsay second")
    tab.find("#text").send_keys(Keys.ESCAPE)
    tab.sees_some("#held")
    tab.sees("#queue li", "Next:\nsay first", "Next:\nsay second")
    tab.send("say third")
    tab.sees("article.assistant .prose", "one", "first", "second", "third")
    tab.sees("article.user > p", "hold one | two", "say first", "say second", "say third")
    tab.sees("#queue li")


def test_what_waits_after_a_stop_is_sent_with_a_click(tab: Tab) -> None:
    tab.send("hold one | two")
    tab.sees("article.assistant .prose", "one")
    tab.send("say first")
    tab.sees("#queue li", "Next:\nsay first")
    tab.find("#text").send_keys(Keys.ESCAPE)
    tab.click("#go-on")
    tab.sees("article.assistant .prose", "one", "first")
    tab.sees_no("#held")


def test_a_message_sent_while_the_server_is_down_is_there_and_is_sent_once(
    chromium: webdriver.Chrome, tmp_path: Path
) -> None:
    with WebProcess(tmp_path) as process:
        process.start()
        tab = Tab(chromium, process.page)
        tab.new()
        tab.say("say before")
        process.kill()
        tab.sees("#connection", "Disconnected. Reconnecting …")
        tab.send("say lost?")
        tab.sees_in("article.sending .unsent", "Not sent: the server does not answer.")
        tab.send("say dropped")
        tab.sees("article.sending > p:first-child", "say lost?", "say dropped")
        tab.until(lambda: len(tab.texts("article.sending .unsent")) == 2)
        tab.js("document.querySelectorAll('.unsent')[1].querySelectorAll('button')[1].click()")
        assert tab.find("#text").get_attribute("value") == "say dropped"
        kept = json.loads(tab.js("return sessionStorage.getItem('sending')"))
        assert [each["text"] for each in kept] == ["say lost?"]
        process.start()
        tab.sees("article.assistant .prose", "before", "lost?")
        tab.sees("article.user > p", "say before", "say lost?")
        tab.driver.refresh()
        tab.ready()
        tab.sees("article.user > p", "say before", "say lost?")


# -- the list ----------------------------------------------------------------------------------------------------------


def test_conversations_stand_below_their_day_and_are_found_by_their_messages(server: Served, tab: Tab) -> None:
    tab.sees_in("#folder", server.folder.name)
    tab.say("say begin")
    tab.say("say pomegranate")
    assert "Today" in tab.texts("#session-list .day")
    tab.new()
    tab.find("#search").send_keys("pomegran")
    tab.until(lambda: len(tab.texts("#session-list a")) == 1)
    tab.sees("#session-list .name", "say begin")
    tab.sees_in("#session-list .excerpt", "pomegranate")
    tab.find("#search").clear()
    tab.find("#search").send_keys(" ", Keys.BACK_SPACE)
