"""Large tool results: all of it stored and readable, little of it in the conversation."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deep_summarization
import pytest
from deep_backends import local_backend, memory_backend
from deep_summarization import StoreLargeResults
from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent, Tool, ToolReturn
from pydantic_ai.exceptions import ModelRetry, ToolFailed
from pydantic_ai.messages import ModelMessage, ToolReturnPart
from pydantic_ai.workspaces import ReadOnlyWorkspace, Workspace, WorkspaceBackend

from deep_core import ConfigError, Kernel, create_default_deps
from tests import another_process
from tests.stubs import Call, Script, function_model

pytestmark = pytest.mark.anyio
LINES = "".join(f"{number:07} some output of a long command\n" for number in range(140_000))  # 5.3 MB
BACKENDS: dict[str, Callable[[Path], WorkspaceBackend]] = {
    "local": local_backend,
    "memory": lambda _: memory_backend(),
}
MakeAgent = Callable[..., Agent[Any, Any]]


@pytest.fixture(params=sorted(BACKENDS))
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> WorkspaceBackend:
    return BACKENDS[request.param](tmp_path)


def returns(messages: list[ModelMessage]) -> list[ToolReturnPart]:
    return [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]


def stored_path(text: str) -> str:
    found = re.search(r"\.deep/sessions/\S+\.txt", text)
    assert found, text[:500]
    return found[0]


async def call(make_agent: MakeAgent, backend: Any, result: Any, *steps: Any, **settings: Any) -> list[ToolReturnPart]:
    def big() -> Any:
        if isinstance(result, Exception):
            raise result
        return result

    agent = make_agent(function_model(Script(Call("big"), *steps, "done")), tools=[Tool(big)], **settings)
    outcome = await agent.run("go", deps=create_default_deps(backend))
    return returns(outcome.all_messages())


async def test_five_megabytes_cost_two_thousand_characters_and_nothing_is_lost(
    make_agent: MakeAgent, backend: WorkspaceBackend
) -> None:
    assert len(LINES) > 5_000_000
    [part] = await call(make_agent, backend, LINES)
    text = str(part.content)
    assert len(text) <= 2_000
    assert "0000000 some output" in text
    assert "0139999 some output" in text
    assert "read what you need with read_file" in text
    data = await Workspace(backend).read_bytes(stored_path(text))
    assert hashlib.sha256(data).hexdigest() == hashlib.sha256(LINES.encode()).hexdigest()


@pytest.mark.slow
async def test_the_model_can_read_all_of_it_with_read_file(make_agent: MakeAgent, backend: WorkspaceBackend) -> None:
    text = LINES[:120_000]

    def page(offset: int) -> Any:
        return lambda view: Call("read_file", {"path": stored_path(str(view.messages)), "offset": offset})

    parts = await call(make_agent, backend, text, *map(page, range(0, 3_000, 750)))
    read = "".join(str(part.content) for part in parts[1:])
    assert all(line in read for line in text.splitlines()), "no page was itself stored"
    assert len(list(filter(lambda part: ".deep/sessions" in str(part.content)[:300], parts))) >= 1
    assert max(len(str(part.content)) for part in parts) > 20_000, "and pages are larger than what is stored"


async def test_what_a_command_says_is_kept_whole_and_once(make_agent: MakeAgent, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(LINES)
    script = Script(Call("execute", {"command": "cat log"}), "done")
    agent = make_agent(function_model(script), interrupt_on=False)
    outcome = await agent.run("go", deps=create_default_deps(local_backend(tmp_path)))
    text = str(returns(outcome.all_messages())[0].content)
    assert len(text) <= 20_000
    assert "0000000 some output" in text
    assert text.endswith("0139999 some output of a long command")
    assert (tmp_path / stored_path(text)).read_text() == LINES
    assert len(list((tmp_path / ".deep/sessions").glob("*/*.txt"))) == 1


class Row(BaseModel):
    name: str
    cells: list[int]


@pytest.mark.parametrize(
    ("result", "as_json"),
    [
        ([{"n": n, "text": "ä" * 30} for n in range(2_000)], None),
        ({"rows": {str(n): n for n in range(9_000)}}, None),
        (Row(name="r", cells=[1] * 30_000), {"name": "r", "cells": [1] * 30_000}),
    ],
)
async def test_structured_results_are_stored_as_json(make_agent: MakeAgent, result: Any, as_json: Any) -> None:
    backend = memory_backend()
    [part] = await call(make_agent, backend, result)
    assert len(str(part.content)) <= 2_000
    data = await Workspace(backend).read_bytes(stored_path(str(part.content)))
    assert json.loads(data) == (as_json or result)


@pytest.mark.slow
async def test_small_results_and_files_are_left_alone(make_agent: MakeAgent) -> None:
    image = BinaryContent(b"\x89PNG" * 50_000, media_type="image/png")
    for result in ("x" * 20_000, {"a": [1, 2]}, 7, None, image, [image, "a caption"], b"bytes"):
        backend = memory_backend()
        [part] = await call(make_agent, backend, result)
        assert part.content == result or part.content == [image, "a caption"] or result == b"bytes"
        assert not any(".deep" in path for path in backend.snapshot())


async def test_a_text_beside_a_file_is_stored_and_the_file_stays(make_agent: MakeAgent) -> None:
    image = BinaryContent(b"\x89PNG", media_type="image/png")
    backend = memory_backend()
    [part] = await call(make_agent, backend, ["long " * 9_000, image])
    assert isinstance(part.content, list)
    assert part.content[1] == image
    assert await Workspace(backend).read_text(stored_path(str(part.content[0]))) == "long " * 9_000


async def test_what_a_tool_returns_beside_its_value_is_bounded_too(make_agent: MakeAgent) -> None:
    backend = memory_backend()
    made = ToolReturn("v" * 30_000, content="c" * 30_000, metadata={"kept": 1})
    [part] = await call(make_agent, backend, made)
    assert part.metadata == {"kept": 1}
    assert sorted(data[:1] for path, data in backend.snapshot().items() if path.endswith(".txt")) == [b"c", b"v"]


@pytest.mark.parametrize(("kind", "outcome"), [(ToolFailed, "failed"), (ModelRetry, "retried")])
async def test_a_failure_with_a_huge_message_is_bounded_and_stays_a_failure(
    make_agent: MakeAgent, kind: Any, outcome: str
) -> None:
    backend = memory_backend()
    [part] = await call(make_agent, backend, kind("trace\n" * 50_000))
    assert part.outcome == outcome
    assert len(str(part.content)) <= 2_000
    assert await Workspace(backend).read_text(stored_path(str(part.content))) == "trace\n" * 50_000


async def test_bytes_that_are_no_utf8_are_stored_as_they_were(make_agent: MakeAgent) -> None:
    raw = b"caf\xe9 \xff\n" * 4_000
    backend = memory_backend()
    [part] = await call(make_agent, backend, raw.decode("utf-8", "surrogateescape"))
    assert len(str(part.content)) <= 2_000
    assert await Workspace(backend).read_bytes(stored_path(str(part.content))) == raw


async def test_calls_of_one_id_never_overwrite_each_other(make_agent: MakeAgent) -> None:
    backend = memory_backend()
    for letter in "ab":
        await call(make_agent, backend, letter * 30_000)
    texts = [data.decode() for path, data in backend.snapshot().items() if path.endswith(".txt")]
    assert sorted(text[0] for text in texts) == ["a", "b"]
    assert [data for path, data in backend.snapshot().items() if path.endswith(".gitignore")] == [b"*\n"]


@pytest.mark.parametrize("call_id", ["../../etc/passwd", "a/b\0c", "." * 300, "ü", ""])
async def test_a_hostile_call_id_cannot_name_a_path(make_agent: MakeAgent, tmp_path: Path, call_id: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    script = Script(Call("big", id=call_id or None), "done")
    agent = make_agent(function_model(script), tools=[Tool(lambda: "x" * 30_000, name="big")])
    await agent.run("go", deps=create_default_deps(local_backend(root)))
    assert [path.name for path in tmp_path.iterdir()] == ["root"]
    assert len(list((root / ".deep" / "sessions").glob("*/*.txt"))) == 1


async def test_where_nothing_can_be_stored_the_model_and_the_log_say_so(
    make_agent: MakeAgent, caplog: pytest.LogCaptureFixture
) -> None:
    backend = ReadOnlyWorkspace(Workspace(memory_backend()))
    [part] = await call(make_agent, backend, LINES)
    assert "the middle is lost" in str(part.content)
    assert 15_000 < len(str(part.content)) <= 20_000
    assert "could not be stored" in caplog.text


@pytest.mark.slow
async def test_options_turn_it_off_and_exempt_tools(kernel: Kernel) -> None:
    def run(**options: Any) -> Any:
        agent = kernel.create_agent(
            function_model(Script(Call("big"), "done")),
            backend="memory",
            tools=[Tool(lambda: LINES, name="big")],
            summarization=options,
        )
        return agent.run("go", deps=create_default_deps())

    for options in ({"large_result_chars": None}, {"whole_results_of": ["big"]}):
        result = await run(**options, max_input_tokens=10_000_000)
        assert returns(result.all_messages())[0].content == LINES


async def test_in_a_plain_agent_with_a_tool_that_says_so_itself() -> None:
    agent = Agent(
        function_model(Script([Call("big"), Call("whole")], "done")),
        tools=[
            Tool(lambda: "x" * 30_000, name="big"),
            Tool(lambda: "y" * 30_000, name="whole", metadata={"whole_result": True}),
        ],
        capabilities=[StoreLargeResults(shown_chars=1_000)],
    )
    backend = memory_backend()
    first, second = returns((await agent.run("go", workspace=backend)).all_messages())
    assert len(str(first.content)) <= 1_000
    assert "read what you need" not in str(first.content), "it has no read_file"
    assert second.content == "y" * 30_000


def test_wrong_limits_are_said_at_once() -> None:
    with pytest.raises(ValueError, match="shown_chars"):
        StoreLargeResults(1_000, shown_chars=2_000)


def test_options_that_contradict_each_other_are_an_error_of_the_configuration() -> None:
    """Not the plugin's: it would be left out with the advice to upgrade it."""
    options = {"large_result_chars": 3_000, "shown_result_chars": 5_000}
    config = {"plugins": {"summarization": {"options": options}}}
    said = r"options\.shown_result_chars: .*at most large_result_chars, which is 3000"
    kernel = Kernel(plugins=[deep_summarization], discover=False, config=config)
    with kernel, pytest.raises(ConfigError, match=said):
        kernel.create_agent("test")


@pytest.mark.slow
def test_a_deeply_nested_result_with_a_file_takes_linear_time() -> None:
    # Of the processor, not of the clock. Looking for the file at every depth again takes minutes.
    script = """
import asyncio, resource
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
from deep_summarization import StoreLargeResults
from pydantic_ai import BinaryContent
value = BinaryContent(b"x", media_type="image/png")
for _ in range(300):
    value = [{"a": 1}] * 300 + [value]
assert asyncio.run(StoreLargeResults()._fitted(None, None, value)) is value
"""
    another_process.run(script).check_returncode()
