"""The process of a peer's trial: `python process.py FD PEER`, in the peer's environment, which does not have deep.

It reads the job that deep's own trials read, runs the peer's default agent in the workspace, and reports as they do.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

MAX_RESULT = 20_000
PYDANTIC_DEEP_TOOLS = (
    "include_todo", "include_filesystem", "include_subagents", "include_skills", "include_plan", "include_memory",
    "include_monitoring", "include_history_archive", "context_manager",
)  # fmt: skip
"""Its switches of what brings tools."""
RULE = "Work in the current directory with your tools. All paths are relative to it. Answer when the work is done."


def main(pipe: int, peer: str) -> None:
    """Run the job on stdin, and report to the pipe."""
    os.set_inheritable(pipe, False)
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    job: dict[str, Any] = json.load(sys.stdin)
    with os.fdopen(pipe, "w", encoding="utf-8") as out:
        try:
            with _endpoint(job) as address:
                said: dict[str, Any] = {"result": asyncio.run(_run(job, peer, address))}
        except Exception as error:  # noqa: BLE001 - the harness reports it as its own failure
            import traceback

            traceback.print_exc()
            said = {"failed": f"{peer}: {type(error).__name__}: {error}"}
        out.write(json.dumps(said) + "\n")
        out.flush()
        os._exit(0)  # a peer may have left threads that never end


def _endpoint(job: Mapping[str, Any]) -> AbstractContextManager[str]:
    model: str = job["model"]
    if not model.startswith("trials:"):
        return nullcontext(os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1")
    script = ["I did nothing."] if model == "trials:nothing" else job["script"]
    stub = _module("stub")  # beside this file
    return stub.serve(script)


def _module(name: str) -> Any:
    """Import what only an environment of a peer has, or this folder."""
    return import_module(name)


async def _run(job: Mapping[str, Any], peer: str, address: str) -> dict[str, Any]:
    kind, _, name = job["model"].partition(":")
    scripted = kind == "trials"
    key = "none" if scripted else os.environ.get("OPENAI_API_KEY") or "none"
    runs: Callable[..., Any] = {"bare": _bare, "pydantic-deep": _pydantic_deep, "deepagents": _deepagents}[peer]
    async with asyncio.timeout(job["seconds"]):
        report: dict[str, Any] = await runs(job, "scripted" if scripted else name, address, key)
    return report


# -- peers on Pydantic AI ----------------------------------------------------------------------------------------------


async def _bare(job: Mapping[str, Any], name: str, address: str, key: str) -> dict[str, Any]:
    """Run an agent of Pydantic AI with file tools written by hand."""
    from pydantic_ai import Agent

    model = _pydantic_model(name, address, key)
    if job["functions"]:
        return await _pydantic(job, Agent(model, **_functions(job)), {})
    root = Path(job["workspace"])
    tools = [*_tools(root)] + ([_execute(root)] if job["file"]["deep"]["approve"] else [])
    return await _pydantic(job, Agent(model, instructions=RULE, tools=tools), {})


def _functions(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an agent takes for functions that nobody runs: a call of one ends the run."""
    from pydantic_ai import DeferredToolRequests, Tool
    from pydantic_ai.exceptions import CallDeferred

    async def offered(**arguments: object) -> str:
        raise CallDeferred

    tools = [
        Tool[Any].from_schema(offered, each["name"], each["description"], each["parameters"])
        for each in job["functions"]
    ]
    return {"tools": tools, "output_type": [str, DeferredToolRequests]} if tools else {}


def _tools(root: Path) -> Sequence[Callable[..., str]]:
    def inside(path: str) -> Path:
        found = (root / path).resolve()
        if found != root.resolve() and root.resolve() not in found.parents:
            raise ValueError(f"{path} is outside")
        return found

    def said(work: Callable[[], str]) -> str:
        try:
            return work()
        except (OSError, ValueError) as error:
            return f"Error: {error}"

    def ls(path: str = ".") -> str:
        """List a directory."""
        return said(lambda: "\n".join(sorted(each.name for each in inside(path).iterdir())))

    def read_file(path: str) -> str:
        """Read a text file."""
        return said(lambda: inside(path).read_text(encoding="utf-8"))

    def write_file(path: str, content: str) -> str:
        """Create or replace a file."""

        def work() -> str:
            inside(path).parent.mkdir(parents=True, exist_ok=True)
            inside(path).write_text(content, encoding="utf-8")
            return "Written."

        return said(work)

    def edit_file(path: str, old_string: str, new_string: str) -> str:
        """Replace a text that a file has once."""

        def work() -> str:
            text = inside(path).read_text(encoding="utf-8")
            if text.count(old_string) != 1:
                raise ValueError(f"the file has the text {text.count(old_string)} times")
            inside(path).write_text(text.replace(old_string, new_string), encoding="utf-8")
            return "Edited."

        return said(work)

    def grep(pattern: str, path: str = ".") -> str:
        """Search files below a directory with a regular expression."""
        words = ["grep", "-rnE", "--", pattern, str(inside(path))]
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
        return done.stdout.replace(f"{root}/", "")[:MAX_RESULT] or "Nothing found."

    return ls, read_file, write_file, edit_file, grep


def _execute(root: Path) -> Callable[[str], str]:
    def execute(command: str) -> str:
        """Run a shell command."""
        words = ["sh", "-c", command]
        done = subprocess.run(words, cwd=root, capture_output=True, text=True, errors="replace", check=False)
        return f"Exit code {done.returncode}\n{done.stdout}{done.stderr}"[:MAX_RESULT]

    return execute


async def _pydantic_deep(job: Mapping[str, Any], name: str, address: str, key: str) -> dict[str, Any]:
    """Run the default agent of pydantic-deep. Its edits by line hashes are off: scripts name the text itself.

    Functions take the place of its tools.
    """
    from pydantic_ai.workspaces import LocalWorkspaceBackend

    peer = _module("pydantic_deep")
    may = bool(job["file"]["deep"]["approve"])
    network = bool(job["file"]["deep"]["network"])
    agent = peer.create_deep_agent(
        _pydantic_model(name, address, key),
        include_execute=may,
        interrupt_on={"execute": False} if may else None,
        edit_format="str_replace",
        web_search=network,
        web_fetch=network,
        **(dict.fromkeys(PYDANTIC_DEEP_TOOLS, False) if job["functions"] else {}),
        **_functions(job),
    )
    deps, workspace = peer.create_default_deps(), LocalWorkspaceBackend(Path(job["workspace"]))
    return await _pydantic(job, agent, {"deps": deps, "workspace": workspace})


def _pydantic_model(name: str, address: str, key: str) -> Any:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    return OpenAIChatModel(name, provider=OpenAIProvider(base_url=address, api_key=key))


async def _pydantic(job: Mapping[str, Any], agent: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    from pydantic_ai import capture_run_messages
    from pydantic_ai.usage import RunUsage, UsageLimits

    deep = job["file"]["deep"]
    usage = RunUsage()
    limits = UsageLimits(request_limit=deep["requests"], total_tokens_limit=deep["tokens"])
    error = None
    with capture_run_messages() as messages:
        try:
            result = await agent.run(job["instruction"], usage=usage, usage_limits=limits, **given)
            answer, seen = result.output if isinstance(result.output, str) else "", result.all_messages()
        except Exception as raised:  # noqa: BLE001 - whatever a peer raises ends its run
            answer, seen, error = "", [*messages], raised
    calls, shown = _of_pydantic(seen)
    used = (usage.input_tokens, usage.output_tokens, usage.requests)
    return _report(answer, error, used, calls, shown)


def _of_pydantic(messages: Sequence[Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    results = {
        part.tool_call_id: (part.part_kind, part)
        for message in messages
        for part in message.parts
        if part.part_kind in ("tool-return", "retry-prompt") and part.tool_name
    }
    calls: list[dict[str, Any]] = []
    shown: list[dict[str, Any]] = []
    for message in messages:
        for part in message.parts:
            if part.part_kind == "tool-call":
                kind, back = results.get(part.tool_call_id, ("", None))
                said = "" if back is None else str(back.content)
                outcome = {"tool-return": "success", "retry-prompt": "retried"}.get(kind, "lost")
                call = {"tool": part.tool_name, "args": part.args_as_dict(), "outcome": outcome, "result": said}
                calls.append(call)
                shown.append({"kind": "call", **call})
            elif part.part_kind in ("user-prompt", "text"):
                kind = "user" if part.part_kind == "user-prompt" else "agent"
                shown.append({"kind": kind, "text": str(part.content)})
    return calls, shown


# -- peers on LangChain ------------------------------------------------------------------------------------------------


async def _deepagents(job: Mapping[str, Any], name: str, address: str, key: str) -> dict[str, Any]:
    """Run the default agent of deepagents, on its own backend of files, or of a shell where the task approves one.

    Functions take the place of its tools, and the run ends before they are called.
    """
    deep = job["file"]["deep"]
    backends = _module("deepagents.backends")
    backend = backends.LocalShellBackend if deep["approve"] else backends.FilesystemBackend
    root = str(Path(job["workspace"]))
    agent = _module("deepagents").create_deep_agent(
        _module("langchain_openai").ChatOpenAI(model=name, base_url=address, api_key=key),
        backend=backend(root_dir=root, virtual_mode=True),
        **_langchain_functions(job),
    )
    prompt = {"messages": [("user", job["instruction"])]}
    messages: list[Any] = []
    error = None
    try:
        # A turn of its graph is a step of the model and one of the tools, and it has nodes of its own around them.
        async for state in agent.astream(prompt, {"recursion_limit": 4 * deep["requests"] + 10}, stream_mode="values"):
            messages = state["messages"]
            if job["functions"] and getattr(messages[-1], "tool_calls", ()):
                break
    except Exception as raised:  # noqa: BLE001 - whatever a peer raises ends its run
        error = raised
    calls, shown = _of_langchain(messages)
    said = [each for each in messages if each.type == "ai"]
    used: list[dict[str, Any]] = [each.usage_metadata or {} for each in said]
    sums = (sum(each.get("input_tokens", 0) for each in used), sum(each.get("output_tokens", 0) for each in used))
    return _report(str(said[-1].text) if said and error is None else "", error, (*sums, len(said)), calls, shown)


def _langchain_functions(job: Mapping[str, Any]) -> dict[str, Any]:
    if not job["functions"]:
        return {}
    made = _module("langchain_core.tools").StructuredTool.from_function
    tools = [
        made(lambda **_: "", name=each["name"], description=each["description"], args_schema=each["parameters"])
        for each in job["functions"]
    ]

    async def only(request: Any, handler: Callable[[Any], Any]) -> Any:
        return await handler(request.override(tools=tools))

    return {"tools": tools, "middleware": [_module("langchain.agents.middleware").wrap_model_call(only)]}


def _of_langchain(messages: Sequence[Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    results = {each.tool_call_id: each for each in messages if each.type == "tool"}
    calls: list[dict[str, Any]] = []
    shown: list[dict[str, Any]] = []
    for message in messages:
        if message.type in ("human", "ai") and str(message.text):
            shown.append({"kind": "user" if message.type == "human" else "agent", "text": str(message.text)})
        for each in getattr(message, "tool_calls", ()):
            back = results.get(each["id"])
            outcome = "lost" if back is None else "failed" if back.status == "error" else "success"
            result = "" if back is None else str(back.text)
            call = {"tool": each["name"], "args": each["args"], "outcome": outcome, "result": result}
            calls.append(call)
            shown.append({"kind": "call", **call})
    return calls, shown


def _report(
    answer: str,
    error: Exception | None,
    used: tuple[int, int, int],
    calls: Sequence[Mapping[str, Any]],
    shown: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return what deep's own trials report."""
    said = None
    name = "" if error is None else type(error).__name__
    if error is not None:
        limits = {"UsageLimitExceeded": "limit_exceeded", "GraphRecursionError": "limit_exceeded"}
        said = {"code": limits.get(name, "agent"), "message": f"{name}: {error}"}
    provider = any(name.endswith(each) for each in ("APIError", "HTTPError", "ConnectionError", "StatusError"))
    return {
        "answer": answer,
        "error": said,
        "kind": "provider" if provider else None,
        "cause": name or None,
        "tokens_in": used[0],
        "tokens_out": used[1],
        "requests": used[2],
        "calls": [*calls],
        "transcript": [*shown],
    }


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
