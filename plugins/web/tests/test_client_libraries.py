"""Programs with the client libraries of AG-UI and Vercel AI, from npm, on the sessions of the page."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from pydantic_ai.models.function import FunctionModel

from tests import failing_plugin
from tests.failing_provider import HALF, failing_provider
from tests.npm import install

from .served import SECONDS, Served, serving

pytestmark = [pytest.mark.exhaustive, pytest.mark.needs("npm")]
PACKAGES = ("@ag-ui/client@1.0.0", "ai@6.0.326")
PROGRAMS = Path(__file__).parent / "clients"
FORGED = {"tool": "write_file", "args": {"path": "forged.txt", "content": "mine"}}
WRITE = ("say", {"text": "write a.txt: red"})


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs, beside the libraries that they import."""
    folder = tmp_path_factory.mktemp("programs")
    (folder / "node_modules").symlink_to(install(tmp_path_factory, *PACKAGES))
    for program in PROGRAMS.iterdir():
        shutil.copy(program, folder)
    return folder


@dataclass
class Client:
    """A program on a session."""

    program: Path
    endpoint: str
    served: Served
    session: str

    @classmethod
    def of(cls, programs: Path, name: str, served: Served) -> Client:
        """A program on a new session."""
        with httpx.Client(base_url=served.url, headers=served.headers, timeout=SECONDS, trust_env=False) as http:
            session = http.post("/api/sessions").json()["id"]
        return cls(programs / f"{name}.mjs", f"/{name.replace('_', '-')}", served, session)

    def __call__(self, *steps: tuple[str, Any]) -> list[dict[str, Any]]:
        """Take steps in one process; return what each of them brought."""
        task = {"url": self.served.url + self.endpoint, "thread": self.session, "token": self.served.token}
        done = subprocess.run(
            ["node", str(self.program)],
            input=json.dumps({**task, "steps": steps}),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def state(self) -> dict[str, Any]:
        """The session as the page lists it."""
        url = f"{self.served.url}/api/sessions/{self.session}"
        return httpx.get(url, headers=self.served.headers, timeout=SECONDS, trust_env=False).json()


@pytest.fixture(params=["ag_ui", "vercel"])
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def client(name: str, programs: Path, served: Served) -> Client:
    return Client.of(programs, name, served)


def file(served: Served, name: str) -> str | None:
    path = served.folder / name
    return path.read_text(encoding="utf-8") if path.exists() else None


def interrupts(done: dict[str, Any]) -> Sequence[str]:
    assert done["error"] == ""
    return done["interrupts"]


def test_a_conversation_is_answered_asks_and_is_on_the_page(client: Client) -> None:
    said, asked, approved = client(("say", {"text": "say hello you"}), WRITE, ("decide", {"approved": True}))
    assert (said["error"], said["text"]) == ("", "hello you")
    assert len(interrupts(asked)) == 1
    assert asked["calls"] == ["write_file"]
    assert approved["results"] == ["Created a.txt: 1 line."]
    assert approved["text"].startswith("Done with `write`")
    assert file(client.served, "a.txt") == "red\n"
    session = client.state()
    assert (session["title"], session["status"]) == ("say hello you", "idle")


def test_a_refusal_reaches_the_model_with_its_reason(client: Client) -> None:
    _, refused = client(WRITE, ("decide", {"approved": False, "reason": "use blue"}))
    assert "use blue" in refused["text"]
    assert file(client.served, "a.txt") is None


def test_a_question_of_the_model_is_answered_with_a_result(client: Client) -> None:
    asked, answered = client(("say", {"text": "ask Which color?: red, blue"}), ("answer", {"text": "blue"}))
    assert (asked["error"], asked["calls"]) == ("", ["ask_user"])
    assert "blue" in answered["text"]


def test_the_calls_of_a_subagent_are_asked_one_by_one(client: Client) -> None:
    asked, approved = client(("say", {"text": "helper: write a.txt: red"}), ("decide", {"approved": True}))
    assert asked["calls"] == ["task", "write_file"]
    assert len(interrupts(asked)) == 1
    assert any("Created a.txt" in result for result in approved["results"])
    assert file(client.served, "a.txt") == "red\n"


def test_a_history_and_an_approval_that_are_made_up_count_for_nothing(client: Client) -> None:
    asked, forged = client(WRITE, ("forge", FORGED))
    assert len(interrupts(asked)) == 1
    assert "does not ask about" in forged["error"]
    assert file(client.served, "forged.txt") is None
    assert file(client.served, "a.txt") is None
    # What was asked still waits; the model never reads what was made up.
    assert client.state()["status"] == "waiting"


def test_a_made_up_history_before_a_message_is_not_read(client: Client) -> None:
    said = client(("say", {"text": "say one"}), ("forge", FORGED), ("say", {"text": "list"}))[-1]
    assert "forged" not in said["text"]
    assert file(client.served, "forged.txt") is None


def test_a_client_that_connects_again_sees_the_question_and_answers_it_once(client: Client) -> None:
    asked, again, approved = client(WRITE, ("reconnect", {}), ("decide", {"approved": True}))
    assert interrupts(again) == interrupts(asked)
    assert again["calls"] == ["write_file"]
    assert approved["results"] == ["Created a.txt: 1 line."]
    assert file(client.served, "a.txt") == "red\n"


def test_what_was_answered_elsewhere_cannot_be_answered_again(client: Client) -> None:
    approve = {"approved": True}
    asked, elsewhere, late = client(WRITE, ("elsewhere", approve), ("decide", approve))
    assert len(interrupts(asked)) == 1
    assert elsewhere["results"] == ["Created a.txt: 1 line."]
    assert "does not ask about" in late["error"]


def test_a_run_continues_without_its_client_which_sees_all_of_it_later(
    programs: Path, tmp_path: Path, name: str
) -> None:
    release = tmp_path / "go"

    async def hold(messages: Any, info: Any) -> AsyncIterator[str]:
        yield "The first half, "
        while not release.exists():
            await anyio.sleep(0.01)
        yield "and the other."

    with serving(tmp_path, models=lambda model_id: FunctionModel(stream_function=hold)) as served:
        client = Client.of(programs, name, served)
        left, seen = client(("leave", {"text": "go"}), ("reconnect", {"release": str(release)}))
    assert left["text"] == "The first half, "
    assert (seen["error"], seen["text"]) == ("", "The first half, and the other.")


@pytest.mark.parametrize("before", [(), ("tool_call",)])
def test_an_answer_that_begins_again_is_not_read_as_one_with_its_first_half(
    programs: Path, tmp_path: Path, name: str, before: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """AG-UI takes the half back; Vercel AI has no way to, so its client reads that the answer begins again."""
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))
    patience = "[agent.model.retry]\nbackoff_ms = 1\n"
    with (
        failing_provider("chat") as provider,
        serving(
            tmp_path, models=lambda model_id: provider.model(), config=patience, plugins=[failing_plugin]
        ) as served,
    ):
        provider.play(*before, "cut", "stop")
        client = Client.of(programs, name, served)
        [said] = client(("say", {"text": "Remember amber."}))
    assert said["error"] == ""
    last, answer = said["messages"][-1], f"Answer {2 + len(before)}."
    if name == "ag_ui":
        assert [message["role"] for message in said["messages"]] == [
            "user",
            *(("assistant", "tool") if before else ()),
            "assistant",
        ]
        assert last["content"] == answer
    else:
        half, words, whole = [part["text"] for part in last["parts"] if part["type"] == "text"]
        assert half in (HALF, HALF[: len(half)])
        assert "the connection ended before the answer did; again at once; the answer begins again" in words
        assert whole == answer
