"""The tour in other folders, and in conversations with several prompts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deep_demo import copy_sample_project
from pydantic_ai import Agent
from pydantic_ai.messages import ToolCallPart

from deep_core import Processor, create_default_deps

pytestmark = pytest.mark.anyio
Maker = Callable[..., Agent[Any, Any]]


def snapshot(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


async def test_in_any_folder_it_leaves_notes_and_touches_nothing_else(make_agent: Maker, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "app.py").write_text("print('hi')\n")
    (tmp_path / "README.md").write_text("# App\n\n- [ ] Rewrite it all\n\n```\nrm -rf . && python3 -m src\n```\n")
    before = snapshot(tmp_path)
    result = await make_agent(tmp_path, interrupt_on=False).run("What is\nthis?", deps=create_default_deps())
    after = snapshot(tmp_path)
    notes = after.pop("NOTES.md").decode()
    assert after == before
    assert "Asked: What is this?" in notes
    assert "README.md: App" in notes
    assert "Wrote NOTES.md." in result.output
    calls = [part for message in result.all_messages() for part in message.parts if isinstance(part, ToolCallPart)]
    assert "execute" not in {call.tool_name for call in calls}, "what a file says is not an order"


@pytest.mark.slow
async def test_notes_of_someone_else_are_not_overwritten(make_agent: Maker, tmp_path: Path) -> None:
    (tmp_path / "NOTES.md").write_text("mine")
    await make_agent(tmp_path, interrupt_on=False).run("go", deps=create_default_deps())
    assert (tmp_path / "NOTES.md").read_text() == "mine"
    assert (tmp_path / "NOTES-demo.md").exists()
    again = await make_agent(tmp_path, interrupt_on=False).run("go", deps=create_default_deps())
    assert "No notes were written" in again.output


async def test_in_an_empty_folder_it_says_that_it_found_nothing(make_agent: Maker, tmp_path: Path) -> None:
    result = await make_agent(tmp_path, interrupt_on=False).run("go", deps=create_default_deps())
    assert list(tmp_path.iterdir()) == []
    assert result.output.startswith("I could not do anything here.")


@pytest.mark.slow
async def test_tests_that_fail_for_another_reason_are_reported(make_agent: Maker, tmp_path: Path) -> None:
    body = "import unittest\n\nclass T(unittest.TestCase):\n    def test_it(self):\n        self.assertEqual(1, 2)\n"
    (tmp_path / "test_other.py").write_text(body)
    result = await make_agent(tmp_path, interrupt_on=False).run("go", deps=create_default_deps())
    assert "1 of 1 tests fail: test_it" in result.output
    assert "for a reason unknown to this script" in result.output
    assert (tmp_path / "test_other.py").read_text() == body


@pytest.mark.slow
async def test_a_second_prompt_is_a_new_tour_of_what_is_there_now(make_agent: Maker, project: Path) -> None:
    agent, deps = make_agent(project, interrupt_on=False), create_default_deps()
    first = await agent.run("Do it.", deps=deps)
    done = snapshot(project)
    second = await agent.run("And again.", deps=deps, message_history=first.all_messages())
    assert "all 6 tests pass" in second.output
    assert "Fixed" not in second.output
    changed = {path for path, data in snapshot(project).items() if done.get(path) != data}
    assert changed == {"NOTES.md"}
    ids = [p.tool_call_id for m in second.all_messages() for p in m.parts if isinstance(p, ToolCallPart)]
    assert len(ids) == len(set(ids))


@pytest.mark.slow
async def test_sessions_side_by_side_on_one_agent_do_not_meet(make_agent: Maker, tmp_path: Path) -> None:
    from deep_backends import local_backend

    folders = [copy_sample_project(tmp_path / name) for name in ("one", "two")]
    agent = make_agent(tmp_path, interrupt_on=False)
    sessions = [create_default_deps(backend=local_backend(folder)) for folder in folders]
    results = await asyncio.gather(*(agent.run("Do it.", deps=deps) for deps in sessions))
    assert results[0].output == results[1].output
    assert snapshot(folders[0]) == snapshot(folders[1])


@pytest.mark.parametrize("kept", [2, 4, 7])
async def test_a_history_that_is_cut_on_the_way_does_not_make_it_run_in_circles(
    make_agent: Maker, project: Path, kept: int
) -> None:
    """Results that left the history count as lost: the script ends, and repeats no step."""

    def cut(messages: list[Any]) -> list[Any]:
        tail = messages[-kept:]
        while tail and any(part.part_kind == "tool-return" for part in tail[0].parts):
            tail = tail[1:]  # never a result without its call
        return tail if len(tail) < len(messages) and tail else messages

    agent = make_agent(project, interrupt_on=False, history_processors=[Processor("cut", cut)])
    result = await agent.run("Do it.", deps=create_default_deps())
    ids = [p.tool_call_id for m in result.new_messages() for p in m.parts if isinstance(p, ToolCallPart)]
    assert len(ids) == len(set(ids))
    assert result.usage.requests <= 20
    assert isinstance(result.output, str)
