"""The page in a real Chromium, against the real server on a free port of this machine."""

# selenium leaves arguments without types
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("selenium", reason="pip install selenium")

from deep_backends import attended
from pydantic_ai.capabilities import AbstractCapability
from selenium import webdriver

from deep_core.plugin_api import visible
from tests.browser import browser
from tests.dev_server import COMMAND, DevServerModel
from tests.drawn import sample
from tests.failing_provider import failing_provider
from tests.hiding import HIDING, SURROGATES
from tests.stubs import Script, ScriptedModel

from .gated import gated_model
from .processes import WebProcess
from .served import SECONDS, Served, serving
from .tabs import Keys, Tab

pytestmark = [pytest.mark.needs("Chromium"), pytest.mark.slow]
IMAGE = "<img src=x onerror=document.title='owned'>"
BIG = 1 << 40
"""A number after those of all events of a test."""


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that lets `hold` go on."""
    return tmp_path_factory.mktemp("gate") / "open"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, gate: Path) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("server"), models=lambda model_id: gated_model(gate)) as running:
        yield running


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    with browser(tmp_path_factory.mktemp("profile")) as driver:
        keep = "window.sockets = []; const Real = WebSocket; window.WebSocket = class extends Real {"
        keep += " constructor(...args) { super(...args); sockets.push(this); } };"
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": keep})  # for `hear`
        yield driver


@pytest.fixture
def tab(server: Served, chromium: webdriver.Chrome, gate: Path) -> Iterator[Tab]:
    """A page with a new conversation, in a folder without files."""
    gate.unlink(missing_ok=True)
    for path in server.folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    chromium.set_window_size(1280, 860)
    chromium.get_log("browser")  # what other tests left there
    tab = Tab(chromium, server.page)
    tab.new()
    yield tab
    gate.touch()  # no run may hold the server


# -- a conversation ----------------------------------------------------------------------------------------------------


def test_a_first_visit_from_message_to_approved_change(server: Served, tab: Tab, tmp_path: Path) -> None:
    tab.sees("#items .hello .big", "What shall we do?")
    tab.say("plan look at the sales, fix the report")
    tab.sees("#todos li", "◐\nlook at the sales", "○\nfix the report")
    tab.sees("#title", "plan look at the sales, fix the report")
    tab.sees_no(".hello")

    tab.say("write report.txt: january was best")
    tab.sees("#approval .ask", "The agent wants to use write_file on report.txt")
    tab.sees("#approval .diff .add", "+ january was best")
    tab.find("#approval .reason").send_keys("say please", Keys.ENTER)
    tab.answered()
    tab.sees("#items .call .state", "done", "denied")
    tab.sees_in("article.assistant", "The user refused this call and said: say please")
    assert not (server.folder / "report.txt").exists()

    tab.say("write report.txt: january was best")
    tab.approve()
    tab.sees("#files a", "report.txt")
    assert (server.folder / "report.txt").read_text() == "january was best\n"

    tab.say("helper: edit report.txt: best -> better")
    tab.sees("#approval .ask", "The subagent general-purpose wants to use edit_file on report.txt")
    tab.sees("#approval .diff .remove", "- january was best")
    tab.sees_some("#approval .card.armed")
    tab.find("#approval .card").send_keys("a")  # by the keyboard
    tab.answered()
    tab.until(lambda: (server.folder / "report.txt").read_text() == "january was better\n")
    tab.sees("#items .child .tool", "read_file", "edit_file")
    assert tab.errors() == []


def test_words_are_shown_while_the_model_writes(tab: Tab, gate: Path) -> None:
    tab.send("hold one | two")
    tab.sees("article.assistant .prose", "one")
    tab.sees_some("#stop")
    gate.touch()
    tab.sees("article.assistant .prose", "one two")
    tab.settled()
    tab.sees_no("#stop")


def test_an_answer_is_whole_where_no_frame_comes(tab: Tab) -> None:
    tab.js("window.requestAnimationFrame = () => 0")  # as on a page that is in the background
    tab.say("say one two three")
    tab.sees("article.assistant .prose", "one two three")


@pytest.mark.exhaustive
def test_a_sign_says_that_the_agent_thinks_until_it_writes(tab: Tab, gate: Path) -> None:
    tab.js(
        """
        window.signs = [];
        new MutationObserver(() => signs.push(document.getElementById("sign").checkVisibility()))
          .observe(document.getElementById("sign"), { attributes: true });
        """
    )
    tab.send("hold | two")
    tab.sees("#sign-text", "Thinking")
    tab.sees_some("#sign")
    gate.touch()
    tab.sees("article.assistant .prose", "two")
    tab.sees_no("#sign")
    assert tab.js("return signs[0]") is True  # at once, before the server said anything


@pytest.mark.exhaustive
def test_thinking_is_folded_above_the_answer(tab: Tab) -> None:
    tab.say("think tea")
    tab.sees("article.assistant .prose", "tea")
    tab.sees("#items .thinking summary", "Thinking")
    tab.click("#items .thinking summary")
    tab.sees("#items .thinking p", "about tea")


def test_a_command_that_failed_has_a_red_mark(tab: Tab) -> None:
    tab.say("run echo out; exit 3")
    tab.approve()
    tab.sees("#items .call .state", "exit code 3")
    tab.sees("#items .call .mark", "✗")
    tab.sees_in("#items .call .result", "out")
    assert tab.js("return getComputedStyle(document.querySelector('.call .mark')).color") == "rgb(180, 35, 24)"
    tab.say("run echo fine")
    tab.approve()
    tab.sees("#items .call .state", "exit code 3", "done")
    tab.say("read missing.txt")
    tab.sees("#items .call .mark", "✗", "✓", "✗")


@pytest.mark.exhaustive
def test_calls_are_grouped_and_an_edit_is_a_diff(server: Served, tab: Tab) -> None:
    (server.folder / "notes.txt").write_text("some text\n")
    tab.say("edit notes.txt: some -> any")
    tab.approve()
    tab.sees("#items .calls .tool", "read_file", "edit_file")
    tab.until(lambda: tab.js("return document.querySelectorAll('#items .calls').length") == 1)
    tab.sees("#items .calls .diff .remove", "- some")
    tab.sees("#items .calls .diff .add", "+ any")


@pytest.mark.exhaustive
def test_a_call_that_the_events_cut_off_can_be_seen_whole(tab: Tab) -> None:
    text = "x" * 3000 + "end"
    tab.say(f"write long.txt: {text}")
    tab.approve()
    tab.sees("#items .call .what", "long.txt")
    tab.sees("#items .call .state", "done")
    tab.js("document.querySelector('#items .call').open = true")
    tab.click("#items .call .body > .more:last-child")
    tab.sees_in("#items .call .args", "xend")


@pytest.mark.exhaustive
def test_code_can_be_copied(tab: Tab) -> None:
    tab.driver.execute_cdp_cmd(
        "Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    )
    tab.say("say Look:\n\n```python\nprint('x')\n```")
    tab.click("article.assistant .code .copy")
    tab.sees("article.assistant .code .copy", "Copied")
    assert tab.js("return navigator.clipboard.readText()") == "print('x')\n"


@pytest.mark.exhaustive
def test_an_empty_conversation_offers_examples(tab: Tab) -> None:
    tab.click(".hello .example")
    tab.until(lambda: tab.find("#text").get_attribute("value") == "Explain what this project does.")


# -- a queue, a stop ---------------------------------------------------------------------------------------------------


def test_a_message_in_a_run_is_queued_and_another_steers(tab: Tab, gate: Path) -> None:
    tab.send("hold one | two")
    tab.sees("article.assistant .prose", "one")
    tab.sees("#send", "Queue")
    tab.send("say next")
    tab.sees("#queue li", "Next:\nsay next")
    gate.touch()
    tab.sees("article.assistant .prose", "one two", "next")
    tab.sees("#queue li")
    tab.sees("article.user > p", "hold one | two", "say next")


@pytest.mark.exhaustive
def test_a_run_is_stopped_by_the_keyboard(tab: Tab) -> None:
    tab.send("hold one | two")
    tab.sees("article.assistant .prose", "one")
    tab.find("#text").send_keys(Keys.ESCAPE)
    tab.sees("article.note", "Stopped.")
    tab.settled()


# -- several pages, a lost connection, a killed server -----------------------------------------------------------------


def test_two_tabs_of_one_session_show_the_same(tab: Tab, server: Served) -> None:
    address = tab.driver.current_url
    tab.driver.switch_to.new_window("tab")
    second = Tab(tab.driver, address)
    second.say("write notes.txt: red")
    tab.front().sees("#approval .diff .add", "+ red")
    tab.approve()
    second.front().sees_no("#approval")
    second.sees_in("article.assistant", "Created notes.txt")
    tab.driver.close()
    tab.front().sees_in("article.assistant", "Created notes.txt")


def test_a_reload_shows_the_same(tab: Tab) -> None:
    tab.say("plan look at the sales, fix the report")
    tab.say("write report.txt: red")
    tab.sees("#approval .diff .add", "+ red")
    tab.sees("#todos li", "◐\nlook at the sales", "○\nfix the report")
    before = tab.texts("#items > *")
    tab.driver.refresh()
    tab.ready()
    tab.sees("#approval .diff .add", "+ red")
    tab.sees("#items > *", *before)
    tab.sees("#todos li", "◐\nlook at the sales", "○\nfix the report")


@pytest.mark.exhaustive
def test_a_message_that_is_sent_without_a_connection_arrives_once(tab: Tab) -> None:
    tab.js("window.fetched = fetch; window.fetch = () => Promise.reject(new TypeError('no network'))")
    tab.send("say hello")
    tab.sees("#connection", "Disconnected. Your message is sent when the server is back.")
    tab.sees("article.user.sending > p:first-child", "say hello")
    tab.js("window.fetch = fetched; sockets.at(-1).close()")
    tab.sees("article.assistant .prose", "hello")
    tab.sees("article.user > p", "say hello")
    tab.sees_no(".sending")


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebProcess]:
    """`deep web` as a process that a test kills."""
    with WebProcess(tmp_path_factory.mktemp("process")) as running:
        yield running


@pytest.mark.exhaustive
def test_a_kill_in_mid_run_loses_no_character(process: WebProcess, chromium: webdriver.Chrome, tmp_path: Path) -> None:
    """Two tabs and a third page in another browser watch; one is reloaded; the server dies, and is started again."""
    chromium.set_window_size(1280, 860)
    process.start()
    first = Tab(chromium, process.page)
    first.new()
    first.say("say before")
    first.send("hold one *two | three*")
    first.sees("article.assistant .prose", "before", "one *two")
    address = f"{process.page}#{first.session}"
    chromium.switch_to.new_window("tab")
    second = Tab(chromium, address)
    with browser(tmp_path / "third") as driver:
        third = Tab(driver, address)
        watchers = (first, second, third)
        for watcher in watchers:
            watcher.front().sees("article.assistant .prose", "before", "one *two")
        second.front().driver.refresh()
        second.sees("article.assistant .prose", "before", "one *two")
        process.kill()
        for watcher in watchers:
            watcher.front().sees("#connection", "Disconnected. Reconnecting …")
            assert watcher.texts("article.assistant .prose") == ["before", "one *two"]
        process.start()
        for watcher in watchers:
            watcher.front().sees_some("#interrupted")
            watcher.sees("#connection", "")
            watcher.sees("article.assistant .prose", "before", "one *two")
        process.gate.touch()
        first.front().click("#resume")
        for watcher in watchers:
            watcher.front().sees("article.assistant .prose", "before", "one *two", "one two three")
            watcher.sees("article.assistant .cut", "This text was cut off here.")
            watcher.sees("article.user > p", "say before", "hold one *two | three*")
            watcher.sees_no("#interrupted")
    second.front().driver.close()
    first.front().settled()


@pytest.mark.exhaustive
def test_a_question_survives_a_restart(process: WebProcess, chromium: webdriver.Chrome) -> None:
    process.start()
    tab = Tab(chromium, process.page)
    tab.new()
    tab.say("run touch made.txt")
    tab.sees("#approval .ask", "The agent wants to use execute")
    process.kill()
    tab.sees("#connection", "Disconnected. Reconnecting …")
    tab.click("#approval .approve")
    tab.sees("#notice", "The server does not answer.")
    process.start()
    tab.sees("#connection", "")
    tab.approve()
    tab.sees("#items .call .state", "done")
    assert (process.folder / "made.txt").exists()


# -- the list of conversations -----------------------------------------------------------------------------------------


def test_a_conversation_is_renamed_forked_and_deleted(tab: Tab) -> None:
    tab.say("say hello")
    tab.click("#menu summary")
    tab.click("#rename")
    field = tab.find("#asked-value")
    assert field.get_attribute("value") == "say hello"
    field.clear()
    field.send_keys("Greetings", Keys.ENTER)
    tab.sees("#title", "Greetings")
    tab.sees("#session-list a[aria-current] .name", "Greetings")
    old = tab.session
    tab.click("#menu summary")
    tab.click("#fork")
    tab.until(lambda: tab.session != old)
    tab.ready()
    tab.sees("article.assistant .prose", "hello")
    fork = tab.session
    tab.click("#menu summary")
    tab.click("#delete")
    tab.sees_in("#asked-text", "This cannot be undone.")
    tab.click("#asked-yes")
    tab.until(lambda: tab.session not in ("", fork))
    tab.ready()
    assert fork not in tab.js("return [...document.querySelectorAll('#session-list a')].map((a) => a.hash)")


@pytest.mark.exhaustive
def test_the_list_marks_what_runs_and_what_waits(tab: Tab) -> None:
    current = "#session-list a[aria-current] .mark"
    tab.say("run echo hello")
    tab.sees(current, "?")
    assert tab.find(current).get_attribute("aria-label") == "waits for you"
    tab.click("#approval .deny")
    tab.answered()
    tab.sees(current)
    tab.send("hold one | two")
    tab.sees(current, "●")


# -- text is text ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    sample(
        [
            f"say {IMAGE} <b>bold</b>",
            f"say ```{IMAGE}```",
            f"say `{IMAGE}` **{IMAGE}**",
            f"plan {IMAGE}",
            f"write {IMAGE.replace(' ', '/')}.txt: {IMAGE}",
            f"helper: write a.txt: {IMAGE}",
            f"run echo '{IMAGE}'",
        ],
        f"say `{IMAGE}` **{IMAGE}**",
    ),
)
def test_what_models_and_users_say_is_never_html(tab: Tab, text: str) -> None:
    tab.say(text)
    if not text.startswith(("say", "plan")):
        tab.sees_in("#approval", "onerror")
        tab.approve()
    tab.sees_in("#items", "<img")
    tab.until(lambda: tab.js("return document.querySelectorAll('main img, #items b, main script').length") == 0)
    assert not tab.driver.title.startswith("owned")


@pytest.mark.parametrize(
    ("text", "links"),
    sample(
        [
            ("[a](javascript:document.title='owned') [b](https://example.org/x)", ["https://example.org/x"]),
            # A picture would tell its host that the message is read: it is a link.
            ("![pixel](https://example.org/x.png) <iframe src=/></iframe>", ["https://example.org/x.png"]),
            ("<a href=https://example.org onclick=alert(1)>x</a> <style>*{display:none}</style>", []),
            ("[data](data:text/html,x) [file](file:///etc/passwd) [vb](vbscript:x)", []),
            ('[form](https://example.org "t" onmouseover=x)\n\n<form action=/><input></form>', []),
        ],
        ("[a](javascript:document.title='owned') [b](https://example.org/x)", ["https://example.org/x"]),
    ),
)
def test_markdown_makes_nothing_that_acts(tab: Tab, text: str, links: list[str]) -> None:
    tab.say(f"say {text}\n\n**end**")
    tab.sees("article.assistant strong", "end")
    query = "return [...document.querySelectorAll('.prose ' + arguments[0])]"
    assert tab.js(f"{query}.map((node) => node.getAttribute('href'))", "a") == links
    assert tab.js(f"{query}.length", "img, .prose iframe, .prose style, .prose form, .prose input") == 0
    for link in links:
        assert tab.js("return document.querySelector('.prose a').rel") == "noopener noreferrer nofollow", link
    assert not tab.driver.title.startswith("owned")
    assert not [error for error in tab.errors() if "example.org" in error]


@pytest.mark.exhaustive
def test_markdown_is_read_as_its_library_reads_it(tab: Tab) -> None:
    tab.say("say # Title\n\n- one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n`code` and **bold**")
    tab.sees(".prose h2", "Title")
    tab.sees(".prose li", "one", "two")
    tab.sees(".prose td", "1", "2")
    tab.sees(".prose code", "code")
    tab.sees(".prose strong", "bold")


def test_what_is_approved_is_what_is_read(tab: Tab) -> None:
    tab.say("run echo one\necho \u202etxt.exe")
    tab.sees("#approval .args pre", "echo one\necho \\u202etxt.exe")
    tab.approve()
    tab.say("write notes.txt: one\u2028\u202etwo")
    tab.sees("#approval .diff .add", "+ one\\u2028\\u202etwo")
    tab.sees("#approval .args")  # the diff shows every argument


def test_what_is_typed_when_a_question_comes_up_is_no_answer_to_it(tab: Tab) -> None:
    tab.js(
        """
        new MutationObserver((_, observer) => {  // as soon as a question is there
          observer.disconnect();
          document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "a", bubbles: true }));
        }).observe(document.getElementById("approval"), { childList: true });
        """
    )
    tab.say("run touch notes.txt")
    tab.sees_some("#approval .card.armed")
    tab.driver.switch_to.active_element.send_keys("and also")
    tab.until(lambda: tab.find("#text").get_attribute("value") == "and also")
    tab.find("#approval .card").send_keys("d")
    tab.answered()
    tab.sees("#items .state", "denied")
    tab.write("")
    tab.say("run touch notes.txt")
    tab.sees_some("#approval .card.armed")
    tab.driver.switch_to.active_element.send_keys("a")  # nothing was being typed: the question has the keyboard
    tab.sees("#files a", "notes.txt")


def state(**facts: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {
        "status": "idle",
        "title": "",
        "model": "",
        "approval": None,
        "todos": [],
        "interrupted": False,
    }
    return {"type": "state", **empty, "queued": [], "usage": {}, **facts}


def hear(tab: Tab, *messages: dict[str, Any]) -> None:
    """Let the page receive these messages, as from the server; in ASCII, since no WebDriver sends a lone surrogate."""
    # The server's own say nothing more: it knows of nothing of this.
    tab.js("window.heard = sockets.at(-1).onmessage; sockets.at(-1).onmessage = null")
    for message in messages:
        tab.js("heard({data: arguments[0]})", json.dumps(message))


@pytest.mark.exhaustive
def test_a_question_shows_what_its_diff_does_not(tab: Tab) -> None:
    args = {
        "path": "f",
        "content": "x",
        "command": "rm -rf ~",
        "sudo": True,
        "to": [{"host": "prod"}],
        "long": "y" * 3000,
    }
    question = {"path": "c1", "tool": "deploy", "args": args, "reason": "", "diff": "+x", "subagent": None}
    asked = {"id": "a", "questions": [{**question, "pictured": ["path", "content"], "choice": None}]}
    hear(tab, state(status="waiting", approval=asked))
    tab.sees("#approval .args dt", "command", "sudo", "to", "long (3000 characters: scroll to its end)")
    assert tab.texts("#approval .args pre")[:3] == ["rm -rf ~", "true", '[\n  {\n    "host": "prod"\n  }\n]']
    tab.sees("#approval .diff .add", "+ x")


def test_no_place_of_the_page_shows_a_hiding_character(tab: Tab) -> None:
    """Each place gets all of them, and shows them as the terminal does; lone surrogates too."""
    todo = {"content": HIDING, "status": "pending"}
    call = {"kind": "tool_started", "tool": HIDING, "plugin": "p", "agent": HIDING}
    ended = {"kind": "tool_ended", "tool": HIDING, "outcome": "failed", "result": HIDING}
    events: list[dict[str, Any]] = [
        {"kind": "run_started", "text": HIDING},
        {"kind": "thinking_added", "text": HIDING},
        {"kind": "text_added", "text": f"{HIDING} `{HIDING}` **{HIDING}**\n# {HIDING}\n```\n{HIDING}\n```"},
        {**call, "call_id": "c1", "path": "x", "args": HIDING},
        {**ended, "call_id": "c1", "path": "x"},
        {**call, "call_id": "c2", "args": json.dumps({"path": HIDING, "old_string": HIDING, "new_string": "x"})},
        {**ended, "call_id": "c2"},
        {"kind": "run_ended", "status": "failed", "message": HIDING},
    ]
    question = {"path": "c1", "tool": HIDING, "args": {HIDING: HIDING, "path": HIDING, "more": [{HIDING: HIDING}]}}
    question |= {"reason": HIDING, "diff": f"-{HIDING}\n+{HIDING}", "pictured": [], "subagent": HIDING, "choice": None}
    choice = {**question, "choice": {"text": HIDING, "options": [HIDING]}}
    name = HIDING.removeprefix(SURROGATES)  # the server lists no other
    answers = {
        "/files": {"files": [{"path": name, "size": 1}], "more": False},
        "/api/sessions": [{"id": "x", "title": HIDING, "created": "", "status": "idle"}],
    }
    tab.js(
        """
        const answers = JSON.parse(arguments[0]);
        window.fetch = async (address) =>
          new Response(JSON.stringify(Object.entries(answers).find(([end]) => address.endsWith(end))[1]));
        """,
        json.dumps(answers),
    )
    approval = {"id": "a", "questions": [question, choice]}
    asked = state(status="waiting", title=HIDING, todos=[todo], approval=approval, queued=[HIDING], model=HIDING)
    numbered = [{"type": "event", "n": BIG + number, **event} for number, event in enumerate(events)]
    hear(tab, *numbered, {"type": "files"}, asked)
    tab.js("document.querySelectorAll('details').forEach((node) => { node.open = true; })")
    tab.until(lambda: tab.is_shown("#files a") and "\\x1b" in tab.texts("#session-list")[0])
    tab.until(lambda: tab.js("return document.querySelectorAll('.call .body').length") == 2)
    everything = tab.js(
        """
        const attributes = [...document.querySelectorAll("body *")].flatMap((node) =>
          [...node.attributes].filter(({name}) => name !== "href").map(({value}) => value));
        return JSON.stringify([document.title, document.body.textContent, ...attributes]);
        """
    )
    title, *shown = json.loads(everything)
    assert title == f"{visible(HIDING)} · deep"
    assert not {char for text in shown for char in text if visible(char) != char}
    count = sum(text.count(visible(HIDING)) for text in shown)
    assert count >= 25, count  # so each place was reached
    tab.sees("#files a", visible(name))


# -- files -------------------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_what_is_too_large_is_said_and_not_cut(server: Served, tab: Tab) -> None:
    with (server.folder / "large.bin").open("wb") as file:
        file.truncate(51 * 1024 * 1024)
    tab.say("list")
    tab.sees("#files a", "large.bin")
    tab.click("#files a")
    tab.sees_in("#notice", "large.bin")
    tab.write("x" * 20_001)
    tab.find("#text").send_keys(Keys.ENTER)
    tab.sees_in("#notice", "A message may have 20000 characters, and this one has 20001")
    assert len(tab.find("#text").get_attribute("value")) == 20_001
    tab.write("")


def test_a_file_is_uploaded_and_a_refused_upload_says_why(server: Served, tab: Tab, tmp_path: Path) -> None:
    evil = tmp_path / "<img src=x onerror=alert(1)>.txt"
    evil.write_text("x")
    (server.folder / evil.name).write_text("as an agent's command could name it")
    tab.upload(evil)
    tab.sees("#files a", evil.name, "uploads/_img src=x onerror=alert(1)_.txt")
    huge = tmp_path / "huge.bin"
    with huge.open("wb") as file:
        file.truncate(51 * 1024 * 1024)
    tab.upload(huge)
    tab.sees_in("#uploads .failed", "huge.bin")
    tab.click("#uploads .failed button")
    tab.sees("#uploads .failed")
    tab.js(
        """
        const data = new DataTransfer();
        data.items.add(new File(["dropped"], "dropped.txt"));
        for (const type of ["dragenter", "dragover", "drop"])
          document.body.dispatchEvent(new DragEvent(type, { dataTransfer: data, bubbles: true, cancelable: true }));
        """
    )
    tab.until(lambda: "uploads/dropped.txt" in tab.texts("#files a"))
    tab.sees_no("#drop")


# -- the screen --------------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_a_narrow_page_is_whole(tab: Tab) -> None:
    tab.say("plan look at the sales, fix the report")
    tab.say("write report.txt: red")
    tab.width(390)
    try:
        tab.sees_no("#sessions")
        tab.sees_no("#side")
        tab.sees_some("#approval .approve")
        assert tab.js("return document.documentElement.scrollWidth <= innerWidth")
        tab.click("#show-side")
        tab.sees_some("#todos")
        tab.click("#show-sessions")
        tab.sees_some("#sessions")
        tab.sees_no("#side")
        tab.click("#session-list a[aria-current]")
        tab.sees_no("#sessions")
        tab.click("#show-sessions")
        tab.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
        tab.sees_no("#sessions")
        tab.sees_some("#approval .approve")
    finally:
        tab.width(None)


@pytest.mark.exhaustive
@pytest.mark.parametrize("width", [None, 390])
def test_targets_are_44_pixels(tab: Tab, width: int | None) -> None:
    tab.say("say a [link](https://example.org), and\n\n```\ncode\n```")
    tab.say("write report.txt: red")
    tab.sees_some("#approval .approve")
    tab.width(width)
    try:
        if width:
            tab.click("#show-side")
        small = tab.js(
            """
            const targets = document.querySelectorAll(
              "button, summary, input:not([type=file]), select, textarea, #session-list a, #files a");
            return [...targets].filter((node) => node.checkVisibility())
              .map((node) => [node, node.getBoundingClientRect()])
              .filter(([node, box]) => box.height < 44 || box.width < 44)
              .map(([node, box]) => `${node.outerHTML.slice(0, 80)} ${box.width} x ${box.height}`);
            """
        )
        assert small == []
    finally:
        tab.width(None)


@pytest.mark.exhaustive
def test_everything_is_reached_by_the_keyboard(tab: Tab) -> None:
    before = tab.session
    tab.find("#text").send_keys(Keys.ALT, "n")
    tab.until(lambda: tab.session != before)
    tab.ready()
    tab.find("#text").send_keys("run touch made.txt", Keys.ENTER)
    tab.sees_some("#approval .card.armed")
    reached: set[str] = set()
    for _ in range(60):
        focused = tab.driver.switch_to.active_element
        reached |= {focused.get_attribute("id") or "", *(focused.get_attribute("class") or "").split()}
        focused.send_keys(Keys.TAB)
    assert {"new", "search", "items", "reason", "deny", "approve", "attach", "text", "send"} <= reached


# -- failures ----------------------------------------------------------------------------------------------------------


def test_a_run_that_failed_says_why_and_is_tried_again_with_a_click(chromium: webdriver.Chrome, tmp_path: Path) -> None:
    patience = "[agent.model.retry]\nbackoff_ms = 1\nmax_attempts = 2\n"
    with (
        failing_provider("chat") as provider,
        serving(tmp_path, models=lambda model_id: provider.model(), config=patience) as server,
    ):
        tab = Tab(chromium, server.page)
        tab.new()
        provider.play("cut")
        tab.say("Remember amber.")
        tab.sees("article.note", "the connection ended before the answer did; again at once; the answer begins again")
        tab.sees_in("article.error", "The run failed. the connection ended before the answer did")
        tab.sees("#again", "The last run failed: wait, then try again, or use another model. Try again")
        provider.play("stop")
        tab.click("#retry")
        tab.sees_no("#again")
        tab.sees("article.user > p", "Remember amber.")
        tab.sees_in("article.assistant", "Answer 3.")
        assert provider.said().count("Remember amber.") == 1
        tab.driver.get("about:blank")  # its socket must not outlive the server


@pytest.mark.skipif(not hasattr(AbstractCapability, "prepare_model_request"), reason="needs Pydantic AI 2.64")
def test_a_conversation_is_compacted_with_a_click(chromium: webdriver.Chrome, tmp_path: Path) -> None:
    """What is to be kept reaches the model, a refusal is read, and a cancelled dialog asks nobody."""
    long = "tell me " + "all of it " * 200
    player = Script("word " * 900, "A summary.", "Here.").play()
    model = ScriptedModel(player)
    with serving(tmp_path, models=lambda model_id: model) as server:
        tab = Tab(chromium, server.page)
        tab.new()
        tab.say(long)
        _compact(tab, None)
        assert len(player.views) == 1
        _compact(tab, "the second word")
        tab.sees_in("#notice", " messages are summarized: ")
        assert "keep above all: the second word" in str(player.views[1])
        tab.say("and now?")
        tab.sees_in("article.assistant", "Here.")
        assert "word word" not in str(player.views[2])
        tab.sees_in("article.user", "all of it")  # the page still has what was said
        tab.driver.get("about:blank")


def _compact(tab: Tab, keep: str | None) -> None:
    """Use the menu; None leaves the dialog."""
    tab.click("#menu summary")
    tab.click("#compact")
    tab.sees_in("#asked-text", "What to keep above all?")
    if keep is None:
        tab.click("#asked-no")
        return
    tab.find("#asked-value").send_keys(keep)
    tab.click("#asked-yes")


# -- background commands -----------------------------------------------------------------------------------------------


def test_a_server_in_the_background_is_started_asked_searched_shown_and_stopped(
    chromium: webdriver.Chrome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with serving(tmp_path, plugins=[DevServerModel()], model="serve:one") as server:
        (server.folder / "notes.txt").write_text("red\n")
        tab = Tab(chromium, server.page)
        tab.errors()  # the browser keeps those of other tests
        tab.new()
        tab.sees_no("#commands-side")
        tab.say("serve")
        tab.approve()
        tab.approve()
        tab.sees_in("article.assistant .prose", "GET /notes.txt")
        tab.sees("#commands code", COMMAND)
        tab.sees("#commands .size", "c1, running")
        (process,) = [about for each in attended.folders() if (about := each.about()) is not None]
        tab.click("#commands button")
        tab.sees_in("#commands .size", "c1, exit code ")
        tab.sees_no("#commands button")
        assert not attended.is_alive(process.attendant)
        tab.say("serve")
        tab.approve()
        tab.approve()
        tab.sees("#commands .size", "c1, exit code 143", "c2, running")
        assert tab.errors() == []
        another = tab.session
        tab.new()
        tab.sees_no("#commands-side")
        assert another != tab.session
        answer = httpx.delete(f"{server.url}/api/sessions/{another}", headers=server.headers, timeout=SECONDS)
        assert answer.status_code == 204
        assert [*attended.folders()] == []
