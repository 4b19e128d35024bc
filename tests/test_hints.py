"""What our programs tell people to type, typed: each hint is a command, a slash command or a key that works.

`tests/printed_hints.py` reads the hints from the source. A new one has no row here, and the first test fails.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from deep_cli.chat.slash_commands import COMMANDS
from deep_durable import open_queue

from deep_core import AgentConfig
from plugins.cli.tests.conftest import made
from plugins.cli.tests.plugins.test_install import SUN, Shop
from plugins.durable.tests.crew import Crew, finished
from plugins.folders.tests import layouts
from plugins.trials.tests.written import write_task
from tests import another_process
from tests.environments import REPOSITORY
from tests.printed_hints import hints, hints_of
from tests.stubs import Failure, OpenAIStub, Script, Turn

SERVER = REPOSITORY / "plugins/mcp/tests/server.py"
REFUSED = Failure(403, "not now")
LIMIT = 120
"""Seconds after which a program is killed that should have printed something."""


@cache
def printed() -> dict[str, str]:
    """Return the hints of our programs, and where one of each is."""
    return {hint.words: hint.where for hint in hints()}


class Person:
    """Somebody who types what is printed.

    Args:
        folder: where.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {**os.environ, "DEEP_MODEL": "demo:echo", "TERM": "dumb", "COLUMNS": "500"}

    def __call__(self, *words: str | Path, stdin: str = "", code: int = 0, env: dict[str, str] | None = None) -> str:
        """Type `deep WORDS`; return all that is printed."""
        variables = {**self.env, **(env or {})}
        done = another_process.run("deep_cli", *words, cwd=self.folder, env=variables, stdin=stdin)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def until(self, pattern: str, *words: str, stdin: str = "") -> None:
        """Start a command that goes on, and wait until it prints this."""
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        with another_process.start("-m", "deep_cli", *words, cwd=self.folder, env=self.env, **streams) as process:
            limit = threading.Timer(LIMIT, process.kill)
            limit.start()
            try:
                process.stdin.write(stdin)
                process.stdin.flush()
                seen = ""
                while not re.search(pattern, seen):
                    line = process.stdout.readline()
                    assert line, seen
                    seen += line
            finally:
                limit.cancel()
                process.kill()


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path)


Type = Callable[[Person], object]
TYPED: dict[str, Type] = {}


def typed(hint: str) -> Callable[[Type], Type]:
    """Decorate what types a hint."""

    def note(type_it: Type) -> Type:
        TYPED[f"deep {hint}"] = type_it
        return type_it

    return note


def prints(hint: str, words: str, pattern: str, *before: str, code: int = 0) -> None:
    """Add a hint whose command prints this, after commands that set the stage."""

    def type_it(person: Person) -> None:
        for each in before:
            person(*each.split())
        assert re.search(pattern, person(*words.split(), code=code))

    TYPED[f"deep {hint}"] = type_it


# -- commands that print and end ---------------------------------------------------------------------------------------

prints("config init", "config init", r"Wrote \S*deep\.toml")
prints("config init --user", "config init --user", r"Wrote \S*config\.toml")
prints("config schema", "config schema", r'"properties"')
prints("config show", "config show", r"(?m)^schema_version = 1 ")
prints("config trust", "config trust", r"deep\.toml", "config init")
prints("config trust …", "config trust deep.toml", r"deep\.toml", "config init")
prints("demo", "demo", r"Next: deep plugins list")
prints("doctor", "doctor", r"(?i)python")
prints("explain", "explain", r"read_file")
prints("plugins list", "plugins list", r"sessions +\S+ +active|sessions")
prints("plugins install", "plugins install", r"deep plugins install NAME, PATH or URL", code=2)
prints("plugins install --help", "plugins install --help", r"--editable")
prints("plugins bisect -- …", "plugins bisect -- true", r"No plugin breaks it", code=1)
prints("plugins check", "plugins check --help", r"fresh environment")
prints("plugins check --rows … …", "plugins check --rows rows ./nosuch", r"no name, folder or wheel", code=1)
prints("new …", "new weather", r"cd \S*weather")
prints("run", "run hello", r"^hello")
prints("run … --model …", "run hello --model demo:echo", r"^hello")
prints("call …", "call ls path=.", r"deep\.toml", "config init")
prints("call", "call ls path=.", r"deep\.toml", "config init")
prints("tools list", "tools list", r"read_file +filesystem")
prints("skills check", "skills check", r".")
prints("sessions list", "sessions list", r"talk", "run hello --session talk")
prints("sessions export …", "sessions export talk", r'"run_started"', "run hello --session talk")
prints("sessions import-chats", "sessions import-chats", r"no chats of earlier versions")
prints("eval", "eval", r"validate", code=2)
prints("workers", "workers --store sqlite:///q.db", r"no worker; start one with: deep worker")
prints("mcp list", "mcp list", r"no MCP server is configured")
prints("mcp add …", f"mcp add look {sys.executable} {SERVER} .", r"deep mcp test look")
prints("mcp remove …", "mcp remove look", r"look", f"mcp add look {sys.executable} {SERVER} .")
prints("mcp test …", "mcp test look", r"look", f"mcp add look {sys.executable} {SERVER} .")
prints("mcp test … --accept", "mcp test look --accept", r"accepted|look", f"mcp add look {sys.executable} {SERVER} .")
prints("mcp login …", "mcp login look", r"so there is no login", f"mcp add look {sys.executable} {SERVER} .", code=2)


# -- commands that read, or go on --------------------------------------------------------------------------------------


@typed("keys set …")
@typed("keys list")
def _(person: Person) -> None:
    person("keys", "set", "openai", stdin="sk-secret\n")
    assert "OPENAI_API_KEY" in person("keys", "list")


@typed("chat")
@typed("chat --resume")
@typed("chat --resume …")
@typed("chat --plan")
def _(person: Person) -> None:
    assert "hello" in person("chat", stdin="hello\n")
    assert "plan mode" in person("chat", "--plan", stdin="hello\n")
    shown = person("chat", "--resume", stdin="again\n")
    assert "hello" in shown
    [digits, *_] = re.findall(r"deep chat --resume ([0-9a-f]{8})", shown)
    assert "again" in person("chat", "--resume", digits, stdin="and again\n")


@typed("acp")
@typed("acp --model …")
def _(person: Person) -> None:
    params = '{"protocolVersion": 1, "clientCapabilities": {}}'
    asked = f'{{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {params}}}\n'
    person.until(r'"protocolVersion":\s*1', "acp", stdin=asked)
    person.until(r'"protocolVersion":\s*1', "acp", "--model", "demo:echo", stdin=asked)


@typed("mcp serve")
def _(person: Person) -> None:
    client = '{"name": "person", "version": "1"}'
    params = f'{{"protocolVersion": "2025-06-18", "capabilities": {{}}, "clientInfo": {client}}}'
    asked = f'{{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {params}}}\n'
    person.until(r'"serverInfo"', "mcp", "serve", stdin=asked)


@typed("web")
@typed("web --model …")
def _(person: Person) -> None:
    person.until(r"http://127\.0\.0\.1:\d+", "web", "--port", "0", "--no-browser")
    person.until(r"http://127\.0\.0\.1:\d+", "web", "--port", "0", "--no-browser", "--model", "demo:echo")


@typed("worker")
@typed("worker --model …")
def _(person: Person) -> None:
    store = ("--store", f"sqlite:///{person.folder}/q.db")
    for model in ((), ("--model", "demo:echo")):
        person.until("waits for sessions", "worker", *store, *model)


@typed("workers --release …")
def _(person: Person) -> None:
    store = f"sqlite:///{person.folder}/q.db"

    async def set_aside() -> None:
        queue = open_queue(store)
        await queue.enqueue("poison")
        crew = Crew(store, person.folder, "die")
        with crew.running() as (process,):
            for _ in range(4):
                process.wait()
                process = crew.start()
            await finished(queue)
        await queue.aclose()

    asyncio.run(set_aside())
    [hint] = [hint for hint in hints_of(person("workers", "--store", store)) if "--release" in hint]
    assert hint == "deep workers --release …"
    assert "poison waits" in person("workers", "--release", "poison", "--store", store)


@typed("worktree diff …")
@typed("worktree list")
@typed("run --worktree …")
def _(person: Person) -> None:
    git = ("git", "-c", "user.name=A", "-c", "user.email=a@example.org")
    for words in (("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "Begin")):
        subprocess.run([*git, *words], cwd=person.folder, check=True)
    shown = person("run", "--worktree", "hello")
    [name] = re.findall(r"deep worktree diff ([0-9a-f]{8});", shown)
    assert name in person("worktree", "list")
    person("worktree", "diff", name)
    assert "dropped" in person("worktree", "drop", name, "--yes")


# -- sessions ----------------------------------------------------------------------------------------------------------


def _hint(shown: str) -> list[str]:
    """The words of the command that a run of the session `talk` printed."""
    command = [*re.finditer(r"deep (run --session talk.*)", shown)][-1][1]
    return shlex.split(command)


@pytest.mark.parametrize(
    ("script", "hint"),
    [
        ((REFUSED, "The end."), "deep run --session …"),
        ((REFUSED, "The end."), "deep run --session … --retry"),
        ((Turn(text="The beg", finish="length"), "The end."), "deep run --session … …"),
    ],
)
@pytest.mark.slow
def test_what_a_run_that_is_not_done_prints_goes_on(person: Person, script: tuple[Any, ...], hint: str) -> None:
    with OpenAIStub(Script(*script)) as stub:
        env = {**stub.env, "DEEP_MODEL": "openai-chat:stub"}
        shown = person("run", "Begin.", "--session", "talk", code=1, env=env)
        if hint.endswith("--retry"):
            shown = person("sessions", "show", "talk")
        assert hint in hints_of(shown.replace("talk", "…"))
        assert "The end." in person(*_hint(shown), env=env)


ELSEWHERE = {"deep run --session …", "deep run --session … --retry", "deep run --session … …"}
"""Typed by the test above."""


@typed("run … --agent …")
def _(person: Person) -> None:
    (person.folder / "deep.toml").unlink(missing_ok=True)
    said = person("config", "export", "--agent", "mine.json")
    [how] = re.findall(r": deep (.*)", said)
    shown = person(*how.replace("TASK", "hello").split())
    [again] = re.findall(r"deep (chat --resume .* --agent mine.json)", shown)
    assert "hello" in person(*again.split(), stdin="/quit\n")


@typed("sessions rewind … --to …")
def _(person: Person) -> None:
    for word in ("one", "two"):
        person("run", word, "--session", "talk")
    shown = person("sessions", "rewind", "talk", "--to", "3")
    [undo] = re.findall(r"to undo: deep (.*)", shown)
    person(*undo.split())
    assert "two" in person("sessions", "show", "talk")


@typed("sessions show … --store …")
def _(person: Person) -> None:
    store = f"sqlite:///{person.folder}/s.db"
    person("run", "hello", "--session", "talk", "--store", store)
    assert "hello" in person("sessions", "show", "talk", "--store", store)


# -- folders, suites, installations ------------------------------------------------------------------------------------


@typed("folders add …")
@typed("folders list")
@typed("folders show …")
@typed("folders update …")
@typed("folders remove …")
def _(person: Person) -> None:
    layouts.write(person.folder / "methods", layouts.METHODS)
    person("folders", "add", "./methods", "--yes")
    assert "methods" in person("folders", "list")
    assert "tests-first" in person("folders", "show", "methods")
    person("folders", "update", "methods", "--yes")
    person("folders", "remove", "methods")
    assert "methods" not in person("folders", "list")
    person("skills", "add", "./methods", "--yes")
    assert "2 skills" in person("folders", "list")


@typed("eval replay …")
def _(person: Person) -> None:
    said = person("eval", "record", "smoke", "smoke.jsonl", "--task", "write-a-file", "--out", "recorded")
    [play] = re.findall(r"deep (eval replay \S+) plays", said)
    assert "1 of 1 trials as recorded" in person(*play.split(), "--out", "played")


@typed("eval validate … --write")
def _(person: Person) -> None:
    suite = person.folder / "suite"
    suite.mkdir()
    (suite / "suite.toml").write_text('license = "MIT"\nmodels = ["demo:echo"]\n', encoding="utf-8")
    write_task(suite / "one")
    assert "1 of 1 tasks are good" in person("eval", "validate", "suite", "--write")


@typed("plugins install …")
@typed("plugins restore")
def _(person: Person) -> None:
    shop = Shop(made(person.folder / "env"), person.folder / "wheels")
    shop.offer(SUN)
    assert shop("install", SUN.name).ok()
    assert shop.statuses["sun"] == "active"
    assert shop("restore").ok()


# -- slash commands and keys -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_slash_commands_of_hints_are_those_of_the_chat(person: Person) -> None:
    """Each is typed in one chat, and none is unknown."""
    named = [hint for hint in printed() if hint.startswith("/")]
    assert {*named} <= {*COMMANDS}
    words = {
        "/model": "/model demo:echo",
        "/rewind": "/rewind 1",
        "/compact": "/compact the number",
        "/search": "/search hello",
    }
    lines = ["hello", *(words.get(name, name) for name in named if name not in ("/quit", "/resume", "/new")), "/quit"]
    shown = person("chat", stdin="\n".join(lines) + "\n", code=1)  # in one short chat, some have nothing to do
    assert "no command" not in shown
    assert shown.count("Traceback") == 0
    person("chat", stdin="hello\n")  # the other one was taken back
    assert "hello" in person("chat", "--resume", stdin="/resume\n/new\n/quit\n")


VALUES = {
    "agent.model": '"demo:echo"',
    "agent.model.api_key_env": '"OPENAI_API_KEY"',
    "agent.model.base_url": '"http://localhost:11434/v1"',
    "agent.model.context_window": "32000",
    "agent.model.fallback": '["demo:tour"]',
    "agent.model.model": '"qwen3:8b"',
    "agent.model.stall_ms": "1000",
    "agent.model.timeout_ms": "1000",
    "agent.prompt": '{ system = "Be short." }',
    "agent.context": "{ max_history_messages = 40 }",
    "agent.runtime_policy": '{ sandbox_mode = "read_only" }',
    "agent.runtime_policy.profile": '"local"',
    "agent.runtime_policy.working_directory": '"."',
    "plugins.acp.options.models": '["demo:echo"]',
    "plugins.cli.options.attach_chars": "5000",
    "plugins.memory.options.project": '"tides"',
    "plugins.web.options.models": '["demo:echo"]',
}
"""Key that a hint names -> a value that it takes."""


@pytest.mark.slow
@pytest.mark.parametrize("key", VALUES)
def test_a_key_of_a_hint_is_one(person: Person, key: str) -> None:
    value = VALUES[key]
    (person.folder / "own.toml").write_text(f"{key} = {value}\n", encoding="utf-8")
    shown = person("config", "show", "--config", "own.toml", env={"DEEP_MODEL": ""})
    assert key.rpartition(".")[2] in shown
    assert "own.toml" in shown
    assert key.split(".")[1] in AgentConfig.model_fields or key.startswith("plugins.")


# -- all of them -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_hint_is_typed() -> None:
    where = printed()
    commands = {hint for hint in where if hint.startswith("deep ")}
    assert {where[hint]: hint for hint in commands - {*TYPED} - ELSEWHERE} == {}
    assert {*TYPED} | ELSEWHERE == commands, "no text has these any more"
    assert {hint for hint in where if not hint.startswith(("/", "deep "))} == {*VALUES}


def _once() -> Iterator[Any]:
    """Each function that types hints, once."""
    named: dict[Type, list[str]] = {}
    for hint, type_it in TYPED.items():
        named.setdefault(type_it, []).append(hint)
    for type_it, names in named.items():
        yield pytest.param(type_it, id=", ".join(sorted(names)))


@pytest.mark.slow
@pytest.mark.parametrize("type_it", [*_once()])
def test_a_hint_does_what_it_says(type_it: Type, person: Person) -> None:
    type_it(person)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("no key: deep keys set openai. Without one: deep demo", ["deep keys set …", "deep demo"]),
        ("see deep doctor, which says why", ["deep doctor"]),
        ("`deep chat --resume` takes the newest", ["deep chat --resume"]),
        ("to go on: deep chat --resume {id}", ["deep chat --resume …"]),
        ("deep run --session {name} --retry", ["deep run --session … --retry"]),
        ("a deep agent, and a deep copy; deep.toml", []),
        ("/retry tries again; /etc/hosts, /v1 and and/or are none", ["/retry"]),
        ("or set [agent] model, or agent.model.stall_ms", ["agent.model", "agent.model.stall_ms"]),
    ],
)
def test_hints_are_told_from_prose(text: str, found: list[str]) -> None:
    assert [*hints_of(text)] == found
