"""The page of examples/server in a real Chromium, against a real server process on a free port of this machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

pytest.importorskip("selenium", reason="pip install selenium")

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from deep_core.plugin_api import visible
from tests.browser import browser
from tests.drawn import sample
from tests.hiding import HIDING, SURROGATES
from tests.server_process import Server

pytestmark = pytest.mark.needs("Chromium")
T = TypeVar("T")
SECONDS = 60
IMAGE = "<img src=x onerror=document.title='owned'>"


class Tab:
    """A page, as its user sees it."""

    def __init__(self, driver: webdriver.Chrome, url: str) -> None:
        self.driver = driver
        driver.get(url)
        self.ready()

    def ready(self) -> None:
        """Wait until the page has been told all that there is."""
        told = "return document.body.dataset.session"
        self.until(lambda: self.session and self.driver.execute_script(told) == self.session)
        self.until(lambda: not self.shown("#connection"))

    def until(self, condition: Callable[[], T]) -> T:
        """Wait until this is so."""
        wait = WebDriverWait(self.driver, SECONDS, 0.05, [StaleElementReferenceException])
        return wait.until(lambda driver: condition())

    @property
    def session(self) -> str:
        return self.driver.execute_script("return location.hash.slice(1)")

    def find(self, selector: str) -> Any:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[Any]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def steady(self, look: Callable[[], T]) -> T:
        """What a look at the page gives, again where the page put something new there meanwhile."""
        return self.until(lambda: (look(),))[0]

    def texts(self, selector: str) -> list[str]:
        return self.steady(lambda: [found.text for found in self.all(selector)])

    def shown(self, selector: str) -> bool:
        return self.steady(lambda: any(found.is_displayed() for found in self.all(selector)))

    def click(self, selector: str) -> None:
        self.steady(lambda: self.find(selector).click())

    def write(self, text: str) -> None:
        """Put a text into the composer at once, as pasting it does."""
        self.driver.execute_script("arguments[0].value = arguments[1]", self.find("#text"), text)

    def say(self, text: str) -> None:
        """Send a message, and wait for the answer or for a question."""
        before = len(self.all("#items article.user"))
        self.write(text)
        self.find("#text").send_keys(Keys.ENTER)
        self.until(lambda: len(self.all("#items article.user")) > before)
        # Something came after it, so the page knows by now that the run began.
        self.until(lambda: self.all("#items > *:last-child:not(.user)"))
        self.settled()

    def settled(self) -> None:
        self.until(lambda: self.shown("#send"))

    def upload(self, path: Path) -> None:
        self.find("#picker").send_keys(str(path))

    def approve(self) -> None:
        self.click("#approval .approve")
        self.answered()

    def answered(self) -> None:
        """Wait until the question was heard, which also shows that the run goes on, and for its end."""
        self.until(lambda: not self.shown("#approval"))
        self.settled()

    def errors(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    def screenshot(self, path: Path, scheme: str) -> bytes:
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        assert self.driver.save_screenshot(str(path))
        return path.read_bytes()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("server") / "data")
    running.start()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    with browser(tmp_path_factory.mktemp("profile")) as driver:
        keep = "window.sockets = []; const Real = WebSocket; window.WebSocket = class extends Real {"
        keep += " constructor(...args) { super(...args); sockets.push(this); } };"
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": keep})  # for `hear`
        yield driver


@pytest.fixture
def tab(server: Server, chromium: webdriver.Chrome) -> Tab:
    """A page with a session that is as new as on a first visit."""
    chromium.set_window_size(1280, 860)
    chromium.get_log("browser")  # what other tests left there
    tab = Tab(chromium, server.url)
    before = tab.session
    tab.find("#new").click()
    tab.until(lambda: tab.session != before)
    tab.ready()
    return tab


def test_a_first_visit_from_message_to_approved_change(server: Server, tab: Tab, tmp_path: Path) -> None:
    # Streamed: the page shows a part of the answer before it has all of it, and more and more.
    words = " ".join(f"word{number}" for number in range(120))
    tab.driver.execute_script(
        """
        window.shown = new Set();
        new MutationObserver(() => {
          const article = document.querySelector("article.assistant");
          if (article) shown.add(article.textContent.length);
        }).observe(document.getElementById("items"), { childList: true, subtree: true });
        """
    )
    tab.find("#text").send_keys(f"say {words}", Keys.ENTER)
    tab.until(lambda: tab.texts("article.assistant") == [words])
    assert len(tab.driver.execute_script("return [...shown]")) > 2
    tab.settled()

    tab.say("plan look at the sales, mend the report")
    assert [text.splitlines()[-1] for text in tab.texts("#todos li")] == ["look at the sales", "mend the report"]

    upload = tmp_path / "sales 2026.csv"
    upload.write_text("month,amount\njanuary,120\n")
    tab.upload(upload)
    tab.until(lambda: tab.texts("#files a") == ["uploads/sales 2026.csv"])
    assert server.file(tab.session, "uploads/sales 2026.csv").read_bytes() == upload.read_bytes()

    tab.say("write report.txt: january was best")
    assert tab.texts("#approval .diff .add") == ["+january was best"]
    assert tab.find("#approval .ask").text == "The agent wants to use write_file on report.txt"
    tab.find("#approval .reason").send_keys("say please", Keys.ENTER)
    tab.answered()
    assert not server.file(tab.session, "report.txt").exists()
    assert "The user refused this call and said: say please" in tab.texts("article.assistant")[-1]
    assert tab.texts("#items .state")[-1] == "denied"

    tab.say("write report.txt: january was best")
    tab.approve()
    assert server.file(tab.session, "report.txt").read_text() == "january was best\n"
    tab.until(lambda: "report.txt" in tab.texts("#files a"))

    tab.say("helper: edit report.txt: best -> better")
    assert tab.find("#approval .ask").text == "The subagent general-purpose wants to use edit_file on report.txt"
    assert tab.texts("#approval .diff .remove") == ["-january was best"]
    tab.until(lambda: tab.shown("#approval .card.armed"))
    tab.find("#approval .card").send_keys("a")  # by the keyboard
    tab.answered()
    assert server.file(tab.session, "report.txt").read_text() == "january was better\n"
    assert tab.texts("#items .child .tool") == ["read_file", "edit_file"]

    tab.say("run echo $((6 * 7)) > answer.txt")
    assert "answer.txt" in tab.find("#approval pre").text
    assert not server.file(tab.session, "answer.txt").exists()
    tab.approve()
    assert server.file(tab.session, "answer.txt").read_text() == "42\n"
    assert tab.errors() == []


@pytest.mark.exhaustive
def test_at_the_end_of_a_run_its_answer_is_whole_where_no_frame_came(tab: Tab) -> None:
    tab.driver.execute_script("window.requestAnimationFrame = () => 0")  # as on a page that is in the background
    tab.say("say one two three")
    assert tab.texts("article.assistant") == ["one two three"]


@pytest.mark.exhaustive
def test_a_reload_and_a_restart_show_the_same_and_go_on(server: Server, tab: Tab) -> None:
    tab.say("plan look at the sales, mend the report")
    tab.say("write report.txt: red")

    def everything() -> tuple[list[str], ...]:
        return tab.texts("#items > *"), tab.texts("#todos li"), tab.texts("#approval .diff span")

    before = everything()
    assert "+red" in before[2]
    tab.driver.refresh()
    tab.until(lambda: everything() == before)
    tab.ready()
    server.stop()
    tab.until(lambda: tab.find("#connection").text == "Reconnecting …")
    tab.find("#approval .approve").click()
    assert tab.find("#notice").text == "Not connected. This was not sent."
    server.start()
    tab.until(lambda: not tab.shown("#connection"))
    tab.until(lambda: everything() == before)
    tab.approve()
    assert server.file(tab.session, "report.txt").read_text() == "red\n"
    tab.say("say still here")
    assert tab.texts("article.assistant")[-1] == "still here"


def test_a_server_that_is_killed_in_the_middle_says_so_and_goes_on(server: Server, tab: Tab) -> None:
    tab.say("say before")
    tab.write("say " + "word " * 3000)
    tab.find("#text").send_keys(Keys.ENTER)
    tab.until(lambda: len(tab.all("article.assistant")) == 2)  # its text is written anew at each word
    server.stop(kill=True)
    server.start()
    tab.until(lambda: "The server was stopped while it worked on this." in "".join(tab.texts("article.error")))
    assert tab.texts("article.assistant") == ["before"]
    tab.ready()
    assert tab.shown("#resume")
    tab.say("say after")
    assert tab.texts("article.assistant")[-1] == "after"
    assert not tab.shown("#resume")


@pytest.mark.exhaustive
def test_a_run_that_a_kill_interrupted_continues_when_its_user_says_so(server: Server, tab: Tab) -> None:
    tab.write("say " + "word " * 300 + "end")
    tab.find("#text").send_keys(Keys.ENTER)
    tab.until(lambda: tab.texts("article.assistant"))
    server.stop(kill=True)
    server.start()
    tab.until(lambda: tab.shown("#resume"))
    tab.click("#resume")
    tab.until(lambda: "".join(tab.texts("article.assistant")).endswith("end"))
    tab.settled()
    assert not tab.shown("#resume")
    assert len(tab.texts("article.user")) == 1


def test_two_users_interleaved_never_see_each_other(server: Server, tmp_path: Path) -> None:
    with browser(tmp_path / "ann") as one, browser(tmp_path / "ben") as other:
        tabs = {"ann": Tab(one, server.url), "ben": Tab(other, server.url)}
        for name, tab in tabs.items():
            path = tmp_path / f"canary-{name}.txt"
            path.write_text(f"canary-{name}")
            tab.upload(path)
            tab.say(f"plan canary-{name} first, canary-{name} second")
        for name, tab in tabs.items():
            tab.say(f"write notes.txt: canary-{name}")
        for name, tab in tabs.items():
            assert tab.texts("#approval .diff .add") == [f"+canary-{name}"]
        for tab in reversed(tabs.values()):
            tab.approve()
        for name, tab in tabs.items():
            tab.driver.refresh()
            tab.until(lambda tab=tab: len(tab.texts("#files a")) == 2 and len(tab.texts("#todos li")) == 2)
            assert server.file(tab.session, "notes.txt").read_text() == f"canary-{name}\n"
            stranger = "canary-ben" if name == "ann" else "canary-ann"
            assert f"canary-{name}" in tab.driver.page_source
            assert stranger not in tab.driver.page_source
            assert len(tab.texts("#session-list a")) == 1
        # The address of another's session opens one's own instead.
        own, strange = tabs["ben"].session, tabs["ann"].session
        tabs["ben"].driver.execute_script(f"location.hash = '{strange}'")
        tabs["ben"].until(lambda: tabs["ben"].session == own)
        assert "canary-ann" not in tabs["ben"].driver.page_source


def test_two_tabs_of_one_session_show_the_same(server: Server, tab: Tab) -> None:
    first = tab.driver.current_window_handle
    address = tab.driver.current_url
    tab.driver.switch_to.new_window("tab")
    second = Tab(tab.driver, address)
    second.say("write notes.txt: red")
    tab.driver.switch_to.window(first)
    tab.until(lambda: tab.texts("#approval .diff .add") == ["+red"])
    tab.approve()
    tab.driver.switch_to.window(next(handle for handle in tab.driver.window_handles if handle != first))
    second.until(lambda: not second.shown("#approval") and "Created notes.txt" in second.find("#items").text)
    tab.driver.close()
    tab.driver.switch_to.window(first)


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
        f"helper: write a.txt: {IMAGE}",
    ),
)
def test_what_models_and_users_say_is_never_html(tab: Tab, text: str) -> None:
    tab.say(text)
    if tab.shown("#approval"):
        assert "onerror" in tab.find("#approval").text
        tab.approve()
    assert "<img" in tab.find("#items").text
    assert tab.driver.find_elements(By.CSS_SELECTOR, "img, #items b, main script") == []
    assert not tab.driver.title.startswith("owned")


def test_what_is_typed_when_a_question_comes_up_is_no_answer_to_it(tab: Tab) -> None:
    tab.driver.execute_script(
        """
        new MutationObserver((_, observer) => {  // as soon as a question is there
          observer.disconnect();
          document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "a", bubbles: true }));
        }).observe(document.getElementById("approval"), { childList: true });
        """
    )
    tab.say("run touch notes.txt")
    tab.until(lambda: tab.shown("#approval .card.armed"))
    tab.driver.switch_to.active_element.send_keys("and also")
    assert tab.find("#text").get_attribute("value") == "and also"
    tab.find("#approval .card").send_keys("d")
    tab.answered()
    assert tab.texts("#items .state") == ["denied"]
    tab.write("")
    tab.say("run touch notes.txt")
    tab.until(lambda: tab.shown("#approval .card.armed"))
    tab.driver.switch_to.active_element.send_keys("a")  # nothing was being typed: the question has the keyboard
    tab.until(lambda: "notes.txt" in tab.texts("#files a"))


def test_what_is_approved_is_what_is_read(tab: Tab) -> None:
    tab.say("run echo one\necho \u202etxt.exe")
    assert tab.texts("#approval .args pre") == ["echo one\necho \\u202etxt.exe"]
    tab.approve()
    tab.say("write notes.txt: one\u2028\u202etwo")
    assert tab.texts("#approval .diff .add") == ["+one\\u2028\\u202etwo"]
    assert tab.all("#approval .args") == []  # the diff shows every argument


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
    for pictured in (["path", "content"], None):  # None: asked by an older server
        asked = {"id": "a", "questions": [question | ({"pictured": pictured} if pictured else {})]}
        hear(tab, snapshot(approval=asked))
        names = ["command", "sudo", "to", "long (3000 characters: scroll to its end)"]
        assert tab.texts("#approval .args dt") == (names if pictured else ["path", "content", *names])
        assert tab.texts("#approval .args pre")[-4:-1] == ["rm -rf ~", "true", '[\n  {\n    "host": "prod"\n  }\n]']
        assert tab.texts("#approval .diff .add") == ["+x"]


def test_no_place_of_the_page_shows_a_hiding_character(tab: Tab) -> None:
    """Each place gets all of them, and shows them as the terminal does; lone surrogates too."""
    todo = {"content": HIDING, "status": "pending"}
    call = {"kind": "tool", "id": "c1", "tool": HIDING, "state": "failed", "depth": 1, "text": HIDING}
    items = [{**call, "args": HIDING}, {**call, "args": json.dumps({"path": HIDING})}]
    items += [{"kind": kind, "text": HIDING} for kind in ("user", "note", "error")]
    items += [{"kind": "assistant", "text": f"{HIDING} `{HIDING}` **{HIDING}**\n# {HIDING}\n```\n{HIDING}\n```"}]
    question = {"path": "c1", "tool": HIDING, "args": {HIDING: HIDING, "path": HIDING, "more": [{HIDING: HIDING}]}}
    question |= {"reason": HIDING, "diff": f"-{HIDING}\n+{HIDING}", "pictured": [], "subagent": HIDING}
    name = HIDING.removeprefix(SURROGATES)  # the server lists no other
    answers = {
        "/files": {"files": [{"path": name, "size": 1}], "more": False},
        "/api/sessions": [{"id": "x", "title": HIDING, "created": ""}],
    }
    tab.driver.execute_script(
        """
        const answers = JSON.parse(arguments[0]);
        window.fetch = async (address) =>
          new Response(JSON.stringify(Object.entries(answers).find(([end]) => address.endsWith(end))[1]));
        """,
        json.dumps(answers),
    )
    approval = {"id": "a", "questions": [question]}
    hear(tab, snapshot(title=HIDING, todos=[todo], items=items, approval=approval))
    hear(tab, {"type": "state", "title": HIDING, "todos": [todo], "running": False, "approval": approval})
    hear(tab, {"type": "refused", "code": "malformed", "text": HIDING})
    tab.until(lambda: tab.all("#files a") and "\\x1b" in tab.find("#session-list").text)
    everything = tab.driver.execute_script(
        """
        const attributes = [...document.querySelectorAll("body *")].flatMap((node) =>
          [...node.attributes].filter(({name}) => name !== "href").map(({value}) => value));
        return JSON.stringify([document.title, document.body.textContent, ...attributes]);
        """
    )
    title, *shown = json.loads(everything)
    assert title == f"{visible(HIDING)} · deep"
    assert not {char for text in shown for char in text if visible(char) != char}
    assert sum(text.count(visible(HIDING)) for text in shown) == 27  # so each place was reached
    assert tab.texts("#files a") == [visible(name)]


def hear(tab: Tab, event: dict[str, Any]) -> None:
    """Let the page receive this event, as from the server; in ASCII, since no WebDriver sends a lone surrogate."""
    tab.driver.execute_script("sockets.at(-1).onmessage({data: arguments[0]})", json.dumps(event))


def snapshot(**facts: Any) -> dict[str, Any]:
    empty = {"id": "x", "title": "", "items": [], "approval": None, "running": False, "todos": []}
    return {"type": "snapshot", **empty, **facts}


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("text", "blocks", "inline"),
    [
        ("one ```x```\n```y```\nlast", [], ["x", "y"]),
        ("```py\na = `1`\n```\nlast", ["a = `1`"], []),
        ("- item\n  ````sh\n  ```\n  ````\nlast", ["  ```"], []),
        ("last\n```\nno end", ["no end"], []),
        ("`a` *b* ** ` c\n# last", [], ["a"]),
    ],
)
def test_code_of_an_answer_is_set_apart_and_nothing_is_lost(
    tab: Tab, text: str, blocks: list[str], inline: list[str]
) -> None:
    tab.say(f"say {text}")
    spoken = "article.assistant"
    assert [node.get_attribute("textContent") for node in tab.all(f"{spoken} pre")] == blocks
    assert tab.texts(f"{spoken} code") == inline
    assert "last" in tab.find(f"{spoken} p:last-of-type").text


def test_what_is_too_large_is_said_and_not_cut(server: Server, tab: Tab) -> None:
    server.file(tab.session, "").mkdir(parents=True, exist_ok=True)
    with server.file(tab.session, "large.bin").open("wb") as file:
        file.truncate(11 * 1024 * 1024)
    tab.say("list")
    tab.until(lambda: tab.texts("#files a") == ["large.bin"])
    tab.click("#files a")
    tab.until(lambda: "large.bin: a file of 11,534,336 bytes" in tab.find("#notice").text)
    tab.write("x" * 20_001)
    tab.find("#text").send_keys(Keys.ENTER)
    assert "A message may have 20000 characters, and this one has 20001" in tab.find("#notice").text
    assert len(tab.find("#text").get_attribute("value")) == 20_001
    tab.write("")


@pytest.mark.exhaustive
def test_names_of_files_are_never_html(server: Server, tab: Tab, tmp_path: Path) -> None:
    evil = tmp_path / "<img src=x onerror=alert(1)>.txt"
    evil.write_text("x")
    server.file(tab.session, "").mkdir(parents=True, exist_ok=True)
    server.file(tab.session, evil.name).write_text("as an agent's command could name it")
    tab.upload(evil)
    tab.until(lambda: len(tab.texts("#files a")) == 2)
    assert evil.name in tab.texts("#files a")
    assert tab.driver.find_elements(By.TAG_NAME, "img") == []


def test_a_run_can_be_stopped_by_the_keyboard(tab: Tab) -> None:
    tab.write("say " + "word " * 3000)
    tab.find("#text").send_keys(Keys.ENTER)
    tab.until(lambda: tab.texts("article.assistant"))
    tab.find("#text").send_keys("me too", Keys.ENTER)
    assert tab.find("#notice").text == "The agent is still working: wait for it, or stop it."
    tab.find("#text").send_keys(Keys.ESCAPE)
    tab.settled()
    assert tab.texts("article.note") == ["Stopped."]


def test_a_refused_upload_says_why(tab: Tab, tmp_path: Path) -> None:
    huge = tmp_path / "huge.bin"
    with huge.open("wb") as file:
        file.truncate(51 * 1024 * 1024)
    tab.upload(huge)
    tab.until(lambda: "huge.bin: an upload may have 52,428,800 bytes." in "".join(tab.texts("#uploads .failed")))
    assert tab.texts("#files a") == []
    tab.driver.set_window_size(480, 800)
    assert tab.shown("#uploads .failed")  # on a telephone too, where the files are out of sight
    tab.find("#uploads .failed button").click()
    assert tab.texts("#uploads .failed") == []


def test_a_dropped_file_is_uploaded(tab: Tab) -> None:
    tab.driver.execute_script(
        """
        const data = new DataTransfer();
        data.items.add(new File(["dropped"], "dropped.txt"));
        for (const type of ["dragenter", "dragover", "drop"])
          document.body.dispatchEvent(new DragEvent(type, { dataTransfer: data, bubbles: true, cancelable: true }));
        """
    )
    tab.until(lambda: tab.texts("#files a") == ["uploads/dropped.txt"])
    assert not tab.shown("#drop")


@pytest.mark.exhaustive
def test_dark_and_light_and_narrow(tab: Tab, tmp_path: Path) -> None:
    tab.say("plan look at the sales, mend the report")
    tab.say("write report.txt: red")
    light, dark = (tab.screenshot(tmp_path / f"{scheme}.png", scheme) for scheme in ("light", "dark"))
    assert light != dark
    ground = tab.driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert ground == "rgb(20, 21, 23)"
    tab.driver.set_window_size(480, 800)
    tab.until(lambda: not tab.shown("#sessions") and not tab.shown("#side"))
    assert tab.shown("#approval .approve")
    assert tab.driver.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    tab.find("#show-side").click()
    assert tab.shown("#todos")
    tab.find("#show-sessions").click()
    assert tab.shown("#sessions")
    assert not tab.shown("#side")
    tab.click("#session-list a.current")
    assert not tab.shown("#sessions")
    tab.find("#show-sessions").click()
    tab.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert not tab.shown("#sessions")
    assert tab.shown("#approval .approve")
    tab.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
