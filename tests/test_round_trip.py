"""One conversation in the editor, in the terminal and on the page, and approvals that one asks and another answers."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from plugins.acp.tests.editor import CONFIG, Editor, connected
from plugins.web.tests.served import SECONDS, Served, serving
from tests.environments import REPOSITORY

pytestmark = pytest.mark.slow

MODEL = """
from deep_core import hookimpl
from examples.server.scripted import scripted_model


@hookimpl
def deep_resolve_model(model_id):
    return scripted_model(0) if model_id.startswith("script:") else None
"""


class Folder:
    """A project with the store of a user of its own, which all three have.

    Args:
        root: gets the project, the home and the configuration.
    """

    def __init__(self, root: Path) -> None:
        self.root, self.path = root, root / "project"
        (self.path / ".git").mkdir(parents=True)  # files of the test beside it are no configuration
        self._home = root / "home"
        data = self._home / ".local" / "share" / "deep"
        data.mkdir(parents=True)
        self._store = f"sqlite:///{data / 'sessions.db'}"
        self._model = root / "a_script.py"
        self._model.write_text(MODEL, encoding="utf-8")
        (root / "config.toml").write_text(CONFIG, encoding="utf-8")

    def text(self, name: str) -> str | None:
        """What a file has, if it exists."""
        file = self.path / name
        return file.read_text(encoding="utf-8") if file.exists() else None

    def edit(self, work: Callable[[Editor], Awaitable[Any]]) -> Any:
        """Connect an editor, and let it work."""

        async def run() -> Any:
            async with connected(self.root, store=self._store) as editor:
                return await work(editor)

        return asyncio.run(run())

    def chat(self, session: str, *lines: str, approve: str = "deny") -> str:
        """Go on in `deep chat`; return what it prints."""
        program = str(Path(sys.executable).with_name("deep"))
        command = [program, "chat", "--resume", session, "--approve", approve, "-p", str(self._model)]
        env = {"PATH": os.environ["PATH"], "HOME": str(self._home), "PYTHONPATH": str(REPOSITORY)}
        done = subprocess.run(
            [*command, "--config", str(self.root / "config.toml")],
            input="".join(f"{line}\n" for line in lines),
            capture_output=True,
            text=True,
            cwd=self.path,
            env=env,
            check=False,
        )
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stdout + done.stderr

    @contextmanager
    def page(self, session: str = "") -> Iterator[Page]:
        """Serve the page of a session; a new one without an id."""
        with serving(self.root, store=self._store) as served:
            how: Any = {"headers": served.headers, "timeout": SECONDS, "trust_env": False}
            with httpx.Client(base_url=served.url, **how) as http:
                yield Page(served, http, session)


class Page:
    """What the page does, by the interface that it uses."""

    def __init__(self, served: Served, http: httpx.Client, session: str) -> None:
        self._served, self._http = served, http
        self.session = session or self._post("/api/sessions")["id"]
        self._place = f"/api/sessions/{self.session}"

    def _post(self, path: str, **body: Any) -> Any:
        answer = self._http.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def list(self) -> Any:
        return self._http.get("/api/sessions").json()

    def send(self, text: str) -> None:
        self._post(f"{self._place}/messages", id=f"message-{time.time_ns()}", text=text)

    def until(self, status: str) -> tuple[list[str], Any]:
        """Watch until the session has a status; return the messages that began its runs, and its state."""
        said = list[str]()
        url = f"{self._served.url.replace('http', 'ws')}{self._place}/socket?after=0"
        with connect(url, additional_headers=self._served.headers, proxy=None) as socket:
            while True:
                message = json.loads(socket.recv(timeout=SECONDS))
                if message["type"] == "event" and message["kind"] == "run_started":
                    said += [message["text"]] if message.get("attempt", 1) == 1 else []
                elif message["type"] == "state" and message["status"] == status:
                    return said, message

    def approve(self) -> None:
        """Approve all that waits."""
        approval = self.until("waiting")[1]["approval"]
        verdicts = {question["path"]: {"approve": True} for question in approval["questions"]}
        self._post(f"{self._place}/decisions", approval=approval["id"], verdicts=verdicts)
        self.until("idle")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.chdir(tmp_path)  # `deep acp` goes to the project, and this returns
    return Folder(tmp_path.resolve())


async def begin(editor: Editor, folder: Folder) -> str:
    return (await editor.connection.new_session(cwd=str(folder.path), mcp_servers=[])).session_id


def test_a_conversation_goes_from_the_editor_to_the_terminal_to_the_page_and_back(folder: Folder) -> None:
    async def start(editor: Editor) -> str:
        session = await begin(editor, folder)
        editor.answers = ["allow"]
        await editor.prompt(session, "say one")
        await editor.prompt(session, "write a.txt: red")
        return session

    session = folder.edit(start)
    assert folder.text("a.txt") == "red\n"

    shown = folder.chat(session, "say two")
    assert "> say one" in shown
    assert "two" in shown

    with folder.page(session) as page:
        [listed] = page.list()
        assert (listed["id"], listed["title"]) == (session, "say one")
        assert page.until("idle")[0] == ["say one", "write a.txt: red", "say two"]
        page.send("say three")
        assert page.until("idle")[0][-1] == "say three"

    async def load(editor: Editor) -> None:
        await editor.connection.load_session(cwd=str(folder.path), session_id=session, mcp_servers=[])
        for text in ("one", "two", "three"):
            assert f"say {text}" in editor.text("user_message_chunk")
        editor.clear()
        await editor.prompt(session, "say four")
        assert editor.text() == "four"

    folder.edit(load)


def test_the_page_answers_what_the_editor_asked(folder: Folder) -> None:
    async def ask(editor: Editor) -> str:
        session = await begin(editor, folder)
        asked = asyncio.Event()

        async def hold() -> None:
            asked.set()
            await asyncio.Event().wait()

        editor.answers = [hold]
        prompt = asyncio.ensure_future(editor.prompt(session, "write a.txt: red"))
        await asked.wait()
        prompt.cancel()  # the editor is closed
        return session

    session = folder.edit(ask)
    assert folder.text("a.txt") is None
    with folder.page(session) as page:
        page.approve()
    assert folder.text("a.txt") == "red\n"


def test_the_terminal_answers_what_the_page_asked(folder: Folder) -> None:
    with folder.page() as page:
        page.send("write a.txt: red")
        page.until("waiting")
    assert "Done with `write`" in folder.chat(page.session, approve="allow")
    assert folder.text("a.txt") == "red\n"


def test_the_editor_answers_what_the_page_asked(folder: Folder) -> None:
    with folder.page() as page:
        page.send("write a.txt: red")
        page.until("waiting")

    async def answer(editor: Editor) -> None:
        await editor.connection.resume_session(cwd=str(folder.path), session_id=page.session, mcp_servers=[])
        editor.answers = ["allow"]
        await editor.prompt(page.session, "say more")
        assert editor.text().endswith("more")

    folder.edit(answer)
    assert folder.text("a.txt") == "red\n"
