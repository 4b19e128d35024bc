"""`deep tools`, as people type it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from deep_universe.tool_commands import tools

HARBOR = '''
from pydantic_ai import FunctionToolset

from deep_core import hookimpl

print("harbor is loaded")
tools = FunctionToolset(id="harbor")


@tools.tool_plain(metadata={"tags": ["read", "a \\x1b[2J tag"]})
def depth(port: str) -> dict[str, str]:
    """Read the depth of a port."""
    print("depth prints")
    return {"port": port, "depth": "9 m"}


@hookimpl
def deep_toolsets(context):
    return [tools]
'''

Deep = Callable[..., Result]


@pytest.fixture
def deep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deep:
    for key in os.environ:
        if key.startswith(("DEEP_", "XDG_")):
            monkeypatch.delenv(key)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    monkeypatch.setenv("DEEP_PLUGINS_ALLOW", "backends,cli,filesystem,sessions,todo,universe")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    Path("harbor.py").write_text(HARBOR)

    def run(*words: str, code: int = 0, stdin: str = "") -> Result:
        done = CliRunner().invoke(tools, words, input=stdin)
        assert done.exit_code == code, done.output + repr(done.exception)
        return done

    return run


def reply(*calls: tuple[str, dict[str, Any]]) -> str:
    """A message of Anthropic's API."""
    blocks = [{"type": "tool_use", "id": f"t{n}", "name": name, "input": args} for n, (name, args) in enumerate(calls)]
    return json.dumps({"type": "message", "role": "assistant", "content": blocks, "stop_reason": "tool_use"})


# -- list --------------------------------------------------------------------------------------------------------------


def test_list_shows_the_tools_that_an_expression_selects(deep: Deep) -> None:
    assert deep("list", "plugin:filesystem & read").stdout.splitlines()[:2] == [
        "ls         filesystem  read",
        "read_file  filesystem  read",
    ]
    assert [line.split()[0] for line in deep("list", "^write_").stdout.splitlines()] == ["write_file", "write_todos"]
    assert {"execute", "write_todos"} <= {line.split()[0] for line in deep("list").stdout.splitlines()}


def test_list_hides_nothing_and_prints_only_tools_on_stdout(deep: Deep) -> None:
    done = deep("list", "plugin:harbor", "-p", "harbor.py")
    assert done.stdout == "depth  harbor  read, a \\x1b[2J tag\n"
    assert "harbor is loaded" in done.stderr


def test_list_prints_json(deep: Deep) -> None:
    told = json.loads(deep("list", "name:ls | plugin:todo", "--output", "json").stdout)
    assert (told["schema"], told["expression"]) == (1, "name:ls | plugin:todo")
    assert [tool["name"] for tool in told["tools"]] == ["ls", "read_todos", "write_todos"]
    assert told["tools"][0] == {
        "name": "ls",
        "plugin": "filesystem",
        "tags": ["read"],
        "deferred": False,
        "description": "List a directory.",
    }


def test_list_says_when_no_tool_matches(deep: Deep) -> None:
    done = deep("list", "finance")
    assert (done.stdout, done.stderr.splitlines()[-1]) == ("", "no tool matches finance; deep tools list shows all")
    assert json.loads(deep("list", "finance", "--output", "json").stdout)["tools"] == []


def test_an_expression_with_a_mistake_is_a_usage_error_with_its_place(deep: Deep) -> None:
    for words in (("list", "read &"), ("render", "--for", "gpt-5.2", "read &"), ("why", "ls", "read &")):
        assert "line 1, column 7: expected a tag, found the end" in deep(*words, code=2).stderr


# -- render ------------------------------------------------------------------------------------------------------------


def test_render_prints_what_is_sent_to_a_model(deep: Deep) -> None:
    (openai,) = json.loads(deep("render", "--for", "gpt-5.2", "name:ls").stdout)
    assert openai["function"]["name"] == "ls"
    (anthropic,) = json.loads(deep("render", "--for", "anthropic:claude-sonnet-4-5", "name:ls").stdout)
    assert anthropic["input_schema"]["properties"].keys() == {"path", "offset"}
    assert '"name": "ls"' in deep("render", "--for", "hermes", "name:ls").stdout
    told = json.loads(deep("render", "--for", "hermes", "name:ls", "--output", "json").stdout)
    assert (told["schema"], told["for"], told["driver"], told["tools"]) == (1, "hermes", "hermes", ["ls"])
    assert "<tools>" in told["rendered"]
    assert "Missing option '--for'" in deep("render", code=2).stderr


# -- why ---------------------------------------------------------------------------------------------------------------


def test_why_shows_the_part_that_decides(deep: Deep) -> None:
    done = deep("why", "execute", "plugin:filesystem & ~network", code=1)
    assert "no  ~network: the part below selects it" in done.stdout
    assert deep("why", "ls", "read").stdout == "yes read: its tags are read\n"
    told = json.loads(deep("why", "ls", "read & ~network", "--output", "json").stdout)
    assert (told["tool"], told["matched"]) == ("ls", True)
    assert [part["node"] for part in told["trace"]["children"]] == ["Tag", "Not"]
    assert "no tool 'lss'. Did you mean 'ls'?" in deep("why", "lss", "read", code=2).stderr


# -- dispatch ----------------------------------------------------------------------------------------------------------


def test_dispatch_executes_a_raw_answer(deep: Deep) -> None:
    Path("answer.json").write_text(reply(("write_todos", {"todos": []}), ("depth", {"port": "Bergen"})))
    done = deep("dispatch", "answer.json", "-p", "harbor.py")
    assert done.stdout.splitlines()[-2:] == ["depth: done", '{"port": "Bergen", "depth": "9 m"}']
    assert "depth prints" in done.stderr
    assert "write_todos: done" in done.stdout
    text = 'Sure.\n<tool_call>\n{"name": "depth", "arguments": {"port": "Bergen"}}\n</tool_call>'
    assert "depth: done" in deep("dispatch", "-", "-p", "harbor.py", stdin=text).stdout


@pytest.mark.parametrize(
    ("approve", "code", "made"), [(["--approve", "allow"], 0, True), (["--approve", "deny"], 3, False), ([], 3, False)]
)
def test_dispatch_runs_what_asks_only_when_approved(deep: Deep, approve: list[str], code: int, made: bool) -> None:
    answer = reply(("execute", {"command": "printf made >> made.txt"}), ("ls", {}))
    done = deep("dispatch", "-", "--output", "json", *approve, stdin=answer, code=code)
    told = json.loads(done.stdout)
    assert (told["exit_code"], told["status"]) == (code, "done" if made else "refused")
    assert (told["approvals"][0]["tool"], told["approvals"][0]["approved"]) == ("execute", made)
    assert [result["error_code"] for result in told["results"]] == [None if made else "FILTER_DENIED", None]
    assert Path("made.txt").exists() is made
    assert not made or Path("made.txt").read_text() == "made"


def test_dispatch_says_what_is_wrong_with_each_call(deep: Deep) -> None:
    answer = reply(("ls", {}), ("lss", {}), ("read_file", {"path": "no.txt"}), ("write_file", {}))
    done = deep("dispatch", "-", "--tools", "~name:ls", stdin=answer, code=1)
    assert [line for line in done.stdout.splitlines() if line.partition(": ")[2].isupper()] == [
        "ls: FILTER_DENIED",
        "lss: TOOL_NOT_FOUND",
        "read_file: TOOL_EXECUTION_ERROR",
        "write_file: TOOL_EXECUTION_ERROR",
    ]


def test_dispatch_says_when_there_is_nothing_to_execute(deep: Deep) -> None:
    assert "the answer has no calls" in deep("dispatch", "-", stdin=reply()).stderr
    assert "PROTOCOL_DETECTION_FAILED" in deep("dispatch", "-", stdin="Hello.", code=1).stdout
    done = deep("dispatch", "-", "--driver", "opnai", stdin=reply(), code=2)
    assert "--driver opnai: there is no driver 'opnai'. Did you mean 'openai'?" in done.stderr
    assert "No such file" in deep("dispatch", "no.json", code=2).stderr
