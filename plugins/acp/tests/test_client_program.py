"""A client that others wrote drives `deep acp`: acpx, from npm. Its conversations go on in `deep chat`, and back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.npm import install

pytestmark = [pytest.mark.exhaustive, pytest.mark.needs("npm")]
DEEP = str(Path(sys.executable).with_name("deep"))
TYPIST = Path(__file__).with_name("typist.py")
DENIED = 5
"""The exit code of acpx if it denied all that was asked."""
CONFIG = '[plugins.filesystem]\nrequire_approval = "name:write_file"\n'


class Acpx:
    """The program, in a folder and a home of the test's own.

    Args:
        program: where it is.
        root: gets the folder, the home and the configuration.
    """

    def __init__(self, program: Path, root: Path) -> None:
        self.folder = root / "work"
        self.folder.mkdir()
        self._root, self._program = root, program
        (root / "config.toml").write_text(CONFIG, encoding="utf-8")
        (root / "home").mkdir()
        self._env = {"PATH": os.environ["PATH"], "HOME": str(root / "home")}
        self._agent = ["-m", "typist:one", "--config", str(root / "config.toml"), "-p", str(TYPIST)]

    def __call__(self, *words: str, code: int = 0) -> list[dict[str, Any]]:
        """Run it, which ends with this code; return what it prints, as JSON."""
        agent = " ".join([DEEP, "acp", *self._agent])
        command = [str(self._program), "--cwd", str(self.folder), "--format", "json", "--agent", agent, *words]
        return [json.loads(line) for line in self._run(command, code=code).splitlines() if line.startswith("{")]

    def prompt(self, *words: str, code: int = 0) -> tuple[str, list[str]]:
        """Send a message; return the answer, and the requests of both sides."""
        messages = self(*words, code=code)
        assert messages[-1]["result"]["stopReason"] == "end_turn"
        updates = [message["params"]["update"] for message in messages if message.get("method") == "session/update"]
        chunks = [update for update in updates if update["sessionUpdate"] == "agent_message_chunk"]
        requests = [message["method"] for message in messages if "method" in message and "id" in message]
        return "".join(chunk["content"]["text"] for chunk in chunks), requests

    def session(self) -> str:
        """The id that the agent gave to its session."""
        return self("sessions", "show")[0]["acpSessionId"]

    def chat(self, session_id: str, *lines: str) -> str:
        """Go on with a session in `deep chat`; return what it prints."""
        command = [DEEP, "chat", *self._agent, "--resume", session_id]
        return self._run(command, "".join(f"{line}\n" for line in lines))

    def _run(self, command: list[str], text: str = "", *, code: int = 0) -> str:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, cwd=self.folder, env=self._env, check=False
        )
        assert done.returncode == code, (done.stdout, done.stderr)
        return done.stdout


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory, "acpx@0.19.1") / ".bin" / "acpx"


@pytest.fixture
def acpx(program: Path, tmp_path: Path) -> Iterator[Acpx]:
    acpx = Acpx(program, tmp_path.resolve())
    acpx("sessions", "new")
    yield acpx
    acpx("sessions", "close")  # its process in the background ends, and the agent with it


def test_a_conversation_continues_in_the_terminal_and_back(acpx: Acpx) -> None:
    text, _ = acpx.prompt("--approve-all", "write a.txt: red")
    assert text == "success, message 1"
    assert (acpx.folder / "a.txt").read_text() == "red"
    session = acpx.session()
    acpx("sessions", "close")

    shown = acpx.chat(session, "what did I say?")
    assert shown.endswith("message 2\n"), shown

    acpx("sessions", "new", "--resume-session", session)
    text, methods = acpx.prompt("and now?")
    assert text == "message 3"
    assert methods[:2] == ["initialize", "session/resume"]
    assert acpx.session() == session
    listed = acpx("sessions", "list")[0]["sessions"]
    assert [(known["sessionId"], known["title"]) for known in listed] == [(session, "write a.txt: red")]


def test_the_client_answers_approvals(acpx: Acpx) -> None:
    text, methods = acpx.prompt("--deny-all", "write a.txt: red", code=DENIED)
    assert text == "denied, message 1"
    assert methods[-1] == "session/request_permission"
    assert not (acpx.folder / "a.txt").exists()
    assert acpx.prompt("--approve-all", "write a.txt: blue")[0] == "success, message 2"
    assert (acpx.folder / "a.txt").read_text() == "blue"
