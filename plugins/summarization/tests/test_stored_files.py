"""What a session stores: in a folder of its own, limited in size, and gone some day."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deep_backends import local_backend, memory_backend
from deep_summarization import StoredLimits
from deep_summarization.stored_files import StoredFiles, files_of
from pydantic_ai import Agent, Tool
from pydantic_ai.usage import UsageLimits
from pydantic_ai.workspaces import ReadOnlyWorkspace, Workspace

from deep_core import DeepAgentDeps, Kernel, create_default_deps
from tests import another_process
from tests.stubs import Call, RequestView, Script, function_model

pytestmark = pytest.mark.anyio
MakeAgent = Callable[..., Agent[Any, Any]]
NO_LIMIT = UsageLimits(request_limit=None)
OLD = "20250101T000000000000-x-00000000.txt"


def tree(root: Path) -> dict[str, int]:
    """Files of all sessions, below `.deep/sessions`, with their sizes."""
    folder = root / ".deep" / "sessions"
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".gitignore")
    return {path.relative_to(folder).as_posix(): path.stat().st_size for path in files}


def storing(make_agent: MakeAgent, *sizes: int, **settings: Any) -> Agent[Any, Any]:
    """An agent that calls a tool with results of these many characters."""
    results = iter(sizes)
    script = Script(*(Call("big") for _ in sizes), "done")
    return make_agent(function_model(script), tools=[Tool(lambda: "x" * next(results), name="big")], **settings)


@pytest.mark.slow
async def test_the_oldest_files_go_when_a_session_has_stored_too_much(make_agent: MakeAgent, tmp_path: Path) -> None:
    agent = storing(make_agent, *range(21_000, 21_100), summarization={"stored_bytes": 200_000})
    result = await agent.run("go", deps=create_default_deps(local_backend(tmp_path)), usage_limits=NO_LIMIT)
    sizes = list(dict(sorted(tree(tmp_path).items())).values())
    assert 100_000 < sum(sizes) <= 200_000
    assert sizes == list(range(21_100 - len(sizes), 21_100)), "the newest ones stay, in their order"
    assert str(result.all_messages()).count(".deep/sessions/") == 100


async def test_a_file_that_is_too_large_by_itself_removes_nothing(make_agent: MakeAgent, tmp_path: Path) -> None:
    agent = storing(make_agent, 40_000, 60_000, summarization={"stored_bytes": 50_000})
    result = await agent.run("go", deps=create_default_deps(local_backend(tmp_path)))
    assert list(tree(tmp_path).values()) == [40_000]
    assert "the middle is lost" in str(result.all_messages())


async def test_the_model_reads_that_a_stored_file_is_gone(make_agent: MakeAgent, tmp_path: Path) -> None:
    def first(view: RequestView) -> Any:
        found = re.search(r"\.deep/sessions/\S+\.txt", str(view.messages))
        assert found
        return Call("read_file", {"path": found[0]})

    script = Script(Call("big"), Call("big"), first, "done")
    texts = iter(["a" * 30_000, "b" * 30_000])
    agent = make_agent(
        function_model(script),
        tools=[Tool(lambda: next(texts), name="big")],
        summarization={"stored_bytes": 50_000},
    )
    result = await agent.run("go", deps=create_default_deps(local_backend(tmp_path)))
    assert "it was removed for newer ones, or with its session" in str(result.all_messages())


async def test_sessions_of_one_folder_have_folders_of_their_own_and_their_own_limit(
    make_agent: MakeAgent, tmp_path: Path
) -> None:
    sessions = [create_default_deps(local_backend(tmp_path)) for _ in range(2)]
    for deps in sessions:
        await storing(make_agent, 30_000, 30_000, summarization={"stored_bytes": 70_000}).run("go", deps=deps)
    files = tree(tmp_path)
    assert sorted(path.partition("/")[0] for path in files) == sorted([deps.session_id for deps in sessions] * 2)
    assert (tmp_path / ".deep/sessions/.gitignore").read_text() == "*\n"


async def test_a_subagent_stores_in_its_session(make_agent: MakeAgent, tmp_path: Path) -> None:
    deps = create_default_deps(local_backend(tmp_path))
    agent = storing(make_agent, 30_000)
    await agent.run("go", deps=deps.clone_for_subagent())
    assert files_of(deps) is files_of(deps.clone_for_subagent())
    assert {path.partition("/")[0] for path in tree(tmp_path)} == {deps.session_id}


async def test_a_resumed_session_finds_its_files_and_continues_counting(make_agent: MakeAgent, tmp_path: Path) -> None:
    deps = create_default_deps(local_backend(tmp_path))
    await storing(make_agent, 30_000, 31_000).run("go", deps=deps)
    resumed = DeepAgentDeps[None].load(deps.dump(), backend=local_backend(tmp_path))
    limits = {"stored_bytes": 90_000}
    await storing(make_agent, 29_000, summarization=limits).run("go", deps=resumed)
    assert sorted(tree(tmp_path).values()) == [29_000, 30_000, 31_000]
    await storing(make_agent, 2_500, summarization={**limits, "large_result_chars": 2_000}).run("go", deps=resumed)
    assert sorted(tree(tmp_path).values()) == [2_500, 29_000, 31_000]


async def test_the_application_removes_what_a_session_stored(make_agent: MakeAgent, tmp_path: Path) -> None:
    gone, stays = (create_default_deps(local_backend(tmp_path)) for _ in range(2))
    for deps in (gone, stays):
        await storing(make_agent, 30_000).run("go", deps=deps)
    for _ in range(2):
        await gone.remove_stored_files()
        assert {path.partition("/")[0] for path in tree(tmp_path)} == {stays.session_id}
    await storing(make_agent, 30_000).run("go", deps=gone)
    assert len(tree(tmp_path)) == 2
    await create_default_deps(kernel=gone.state.kernel).remove_stored_files()  # it never had a backend


async def test_files_of_sessions_that_have_stored_nothing_for_a_month_go(make_agent: MakeAgent, tmp_path: Path) -> None:
    stale, active, empty, foreign, mixed = (tmp_path / ".deep/sessions" / name for name in "abcde")
    outside = tmp_path / "outside"
    for folder in (stale, active, empty, foreign, mixed, outside):
        folder.mkdir(parents=True)
    for folder in (stale, active, mixed, outside):
        (folder / OLD).write_text("old")
    (stale / ".deep-0123456789abcdef.tmp").write_text("of a killed process")
    (active / OLD.replace("2025", "2999")).write_text("new")
    (foreign / "notes.txt").write_text("of the user")
    (mixed / "notes.txt").write_text("of the user")
    (tmp_path / ".deep/sessions/link").symlink_to(outside)
    (tmp_path / ".deep/sessions/file").write_text("")
    await storing(make_agent, 30_000).run("go", deps=create_default_deps(local_backend(tmp_path)))
    assert not stale.exists()
    assert all(folder.exists() for folder in (active, empty, foreign, mixed, outside / OLD))


async def test_the_own_files_of_a_session_that_is_resumed_late_stay(make_agent: MakeAgent, tmp_path: Path) -> None:
    deps = create_default_deps(local_backend(tmp_path))
    own = tmp_path / ".deep/sessions" / deps.session_id
    own.mkdir(parents=True)
    (own / OLD).write_text("old")
    await storing(make_agent, 30_000).run("go", deps=deps)
    assert len(tree(tmp_path)) == 2


async def test_what_a_killed_process_left_goes_by_its_age(tmp_path: Path) -> None:
    code = """
import asyncio, os, signal, sys
from deep_backends import local_backend
from deep_summarization.stored_files import StoredFiles
from pydantic_ai.workspaces import Workspace
path = asyncio.run(StoredFiles("killed").store(Workspace(local_backend(sys.argv[1])), "x", b"left"))
os.kill(os.getpid(), signal.SIGKILL)
"""
    another_process.run(code, tmp_path)
    [left] = tree(tmp_path)
    workspace = Workspace(local_backend(tmp_path))
    await StoredFiles("other").store(workspace, "x", b"1")
    assert left in tree(tmp_path), "it may be resumed"
    path = tmp_path / ".deep/sessions" / left
    path.rename(path.with_name(OLD))
    await StoredFiles("another").store(workspace, "x", b"2")
    assert not any(name.startswith("killed/") for name in tree(tmp_path))


@pytest.mark.slow
async def test_two_processes_of_one_session_lose_and_overwrite_nothing(tmp_path: Path) -> None:
    code = """
import asyncio, sys
from deep_backends import local_backend
from deep_summarization import StoredLimits
from deep_summarization.stored_files import StoredFiles
from pydantic_ai.workspaces import Workspace
async def main():
    files, workspace = StoredFiles("one", StoredLimits(bytes=int(sys.argv[2]))), Workspace(local_backend(sys.argv[1]))
    for number in range(150):
        await files.store(workspace, "same", b"x" * 100)
asyncio.run(main())
"""
    for limit in (100_000, 5_000):
        work = tmp_path / str(limit)
        work.mkdir()
        both = [another_process.start("-c", code, work, str(limit)) for _ in range(2)]
        assert [process.wait() for process in both] == [0, 0]
        assert len(tree(work)) == 300 if limit == 100_000 else sum(tree(work).values()) <= 2 * limit


async def test_parallel_calls_of_one_session_are_all_stored(tmp_path: Path) -> None:
    files, workspace = StoredFiles("one", StoredLimits(bytes=10_000)), Workspace(local_backend(tmp_path))
    paths = await asyncio.gather(*(files.store(workspace, "same", b"x" * 100) for _ in range(60)))
    assert len(set(paths)) == 60
    assert len(tree(tmp_path)) == 60


@pytest.mark.parametrize("hostile", ["../../up", "a/b", "a\0b", "." * 300, "ü", "x" * 33, ""])
async def test_a_hostile_session_id_names_a_folder_of_its_own(tmp_path: Path, hostile: str) -> None:
    folder = StoredFiles(hostile).folder
    assert re.fullmatch(r"\.deep/sessions/[a-z0-9_-]{1,64}(\.[0-9a-f]{32})?", folder)
    assert folder not in {StoredFiles(other).folder for other in ("___up", "a_b", "a__b", "_", "x" * 32, "_" * 32)}


async def test_a_stored_file_costs_no_listing_of_all_the_others(tmp_path: Path) -> None:
    """Thousands of results of one session would take the square of their number."""
    backend = memory_backend()
    lists = 0
    real = backend.list_dir

    async def counted(path: str) -> Any:
        nonlocal lists
        lists += 1
        return await real(path)

    backend.list_dir = counted
    files = StoredFiles("one", StoredLimits(bytes=10_000))
    for number in range(1_000):
        await files.store(Workspace(backend), "x", f"{number:0100}".encode())
    assert lists < 60


async def test_a_workspace_that_cannot_store_says_so_at_each_call(tmp_path: Path) -> None:
    files = StoredFiles("one")
    for _ in range(2):
        with pytest.raises(Exception, match="read-only"):
            await files.store(ReadOnlyWorkspace(Workspace(memory_backend())), "x", b"1")


async def test_a_commands_output_follows_the_limits_of_the_configuration(tmp_path: Path) -> None:
    import deep_backends
    import deep_filesystem
    import deep_summarization

    options = {"plugins": {"summarization": {"options": {"stored_bytes": 30_000}}}}
    with Kernel(plugins=[deep_backends, deep_filesystem, deep_summarization], discover=False, config=options) as kernel:
        script = Script(*(Call("execute", {"command": f"seq {n} 9000"}) for n in (1, 2, 3)), "done")
        agent = kernel.create_agent(function_model(script), interrupt_on=False)
        deps = create_default_deps(local_backend(tmp_path))
        await agent.run("go", deps=deps)
    assert len(tree(tmp_path)) <= 1
