"""Check a plugin while an agent runs: each check makes its runs and reports problems."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import re
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from pydantic_ai.messages import ModelMessage

from deep_core import CompactionEvent, PluginError, hookimpl

from .arguments import garbage
from .bench import Bench, Run, one_line, plain_messages
from .holdings import holdings
from .problem import Problem
from .script import Call, Request
from .stepping import Hold, Holds, Place, Suspensions, run_watched

__all__ = [
    "check_blocking",
    "check_cancellation",
    "check_containment",
    "check_order",
    "check_prefix",
    "check_sessions",
    "check_unload",
]


# -- order -------------------------------------------------------------------------------------------------------------


class Neighbor:
    """Another plugin, with every kind of contribution."""

    @hookimpl
    def deep_toolsets(self) -> list[Any]:
        """One tool."""
        from pydantic_ai import FunctionToolset

        toolset = FunctionToolset[Any](id="neighbor")

        @toolset.tool_plain(metadata={"tags": ["read"]})
        def neighbor_tool() -> str:  # pyright: ignore[reportUnusedFunction]
            """Say hello."""
            return "hello"

        return [toolset]

    @hookimpl
    def deep_prompt_sections(self) -> list[Any]:
        """One section."""
        from deep_core import PromptSection

        return [PromptSection.static("neighbor_section", "There is a neighbor.")]

    @hookimpl
    def deep_history_processors(self) -> list[Any]:
        """One processor that changes nothing."""
        from deep_core import Processor

        def same(messages: list[ModelMessage]) -> list[ModelMessage]:
            return messages

        return [Processor("neighbor_processor", same)]


def check_order(bench: Bench) -> Iterator[Problem]:
    """The contribution is the same each time: alone, before and after another plugin."""
    alone, again = _contribution(bench), _contribution(bench)
    changing = [what for what, value in alone.items() if again[what] != value]
    for what in changing:
        yield Problem(
            what,
            f"is {alone[what]!r} for one agent and {again[what]!r} for the next",
            "let a hook's result depend only on its options, not on a clock, a counter or chance: a session that "
            "continues with another agent would pay for its whole prompt again",
        )
    for place, order in (("before", -10), ("after", 10)):
        beside = _contribution(bench, Neighbor(), order=order)
        for what, value in alone.items():
            if beside[what] != value and what not in changing:
                yield Problem(
                    what,
                    f"is {value!r} alone and {beside[what]!r} {place} another plugin",
                    "let a hook's result depend only on its options; sort values from a set or a folder",
                )


def _contribution(bench: Bench, *neighbors: object, order: int = 0) -> dict[str, Any]:
    kernel = bench.make_kernel(*neighbors, order=order)
    agent = bench.make_agent(kernel)
    parts, name = bench.parts(agent), bench.subject.name
    first = bench.require_success(bench.run(agent=agent)).requests[0]
    tools = {tool.name: (tool.description, tool.parameters_json_schema) for tool in bench.own_tools(first)}
    return {
        "the tools": tools,
        "the order of the tools": list(tools),
        "the static sections": [(s.value.name, s.value.text) for s in parts.static if s.plugin == name],
        "the live sections": [s.value.name for s in parts.live if s.plugin == name],
        "the history processors": [(p.value.name, p.value.phase) for p in parts.processors if p.plugin == name],
        "the slots": [slot.name for slot in bench.contributions("deep_state")],
        "the backends": sorted(backend for backend, _ in bench.contributions("deep_backends")),
        "the capabilities": [type(capability).__name__ for capability in bench.contributions("deep_capabilities")],
    }


# -- sessions ----------------------------------------------------------------------------------------------------------


def check_sessions(bench: Bench) -> Iterator[Problem]:
    """Two sessions run in step on one agent: no data crosses, and none remains."""
    bench.require_success(bench.first)
    canaries = ("canary-first-session", "canary-second-session")
    with _frozen_heap():
        # The first round creates what is created once: caches, compiled patterns, modules loaded on first use.
        _together(bench, "warmup-one", "warmup-two")
        before = _stored_values(bench)
        runs = dict(zip(canaries, _together(bench, *canaries), strict=True))
        problems = [*_find_crossing(runs[canaries[0]], canaries[1]), *_find_crossing(runs[canaries[1]], canaries[0])]
        del runs
        problems += _find_leftovers(before, _stored_values(bench), canaries)
    yield from problems


@contextmanager
def _frozen_heap() -> Generator[None]:
    """Let the collector look at new objects only: a framework's hundred thousand cost a tenth of a second each time."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _together(bench: Bench, one: str, other: str) -> tuple[Run, Run]:
    async def both() -> list[Run]:
        barrier = asyncio.Barrier(2)
        # Call the tools twice: the second round of one session would read what the first of the other wrote.
        runs = [
            bench.run_async(bench.agent, *(bench.calls(canary) * 2), canary=canary, barrier=barrier)
            for canary in (one, other)
        ]
        return await asyncio.gather(*runs)

    first, second = asyncio.run(both())
    return bench.require_success(first), bench.require_success(second)


def _stored_values(bench: Bench) -> dict[str, str]:
    gc.collect()
    hooks = sorted({call.hook for call in bench.recorder.hook_calls if call.plugin == bench.subject.name})
    notifications = ("deep_agent_created", "deep_run_event")
    return holdings(bench.subject, {hook: bench.contributions(hook) for hook in hooks if hook not in notifications})


def _find_crossing(run: Run, canary: str) -> Iterator[Problem]:
    for request in run.requests:
        if canary in request.text:
            parts = [part for part in request.results if canary in str(part.content)]
            where = f"tool {parts[0].tool_name!r}" if parts else "a section, processor or capability"
            yield Problem(where, f"showed one session the text of another ({canary!r})", SESSION_CHANGE)
            return
    if canary in run.deps.dump():
        yield Problem("the session's state", f"has the text of another session ({canary!r})", SESSION_CHANGE)
    for path in run.folder.rglob("*"):
        if canary in path.name or (path.is_file() and canary.encode() in path.read_bytes()):
            yield Problem(f"the file {path.name!r}", "of one session has the text of another", SESSION_CHANGE)


SESSION_CHANGE = (
    "keep a session's data in a StateSlot (deep_state), as ctx.deps.state[SLOT]; one agent serves "
    "many sessions at a time"
)


def _find_leftovers(before: Mapping[str, str], after: Mapping[str, str], canaries: Sequence[str]) -> Iterator[Problem]:
    leaks = [where for where, text in after.items() if any(canary in text for canary in canaries)]
    # A list that grew and its new items are one problem: the shortest path is the owner.
    for where in sorted(leaks, key=len)[:1]:
        owner = where.partition("[")[0].partition(".key[")[0]
        yield Problem(owner, f"keeps the text of a session: {after[where]}", SESSION_CHANGE)
        return
    for where in sorted((where for where in after if after[where] != before.get(where, after[where])), key=len)[:1]:
        yield Problem(where, f"changed while sessions ran: {before[where]} became {after[where]}", SESSION_CHANGE)


# -- the event loop ----------------------------------------------------------------------------------------------------

REPEATS, ENOUGH = 8, 3
"""A busy machine holds a loop now and then, but seldom in the plugin's code; a plugin that blocks does it each time."""


def check_blocking(bench: Bench) -> Iterator[Problem]:
    """No step of a run stays in the plugin's code longer than the limit."""
    limit = bench.suite.max_hold_ms
    reported: set[tuple[str, str]] = set()
    for calls in [[], *([call] for call in bench.calls("canary"))]:
        bench.require_success(bench.run(*calls))  # work done once, such as imports on first use, does not count
        hold = _repeated_hold(bench, calls, limit)
        if hold is not None and (hold.place.file, hold.place.function) not in reported:
            reported.add((hold.place.file, hold.place.function))
            yield Problem(
                str(hold.place),
                f"held the event loop for {hold.milliseconds:.0f} ms; the limit is {limit} ms",
                "await slow operations (asyncio.sleep, an async client), or work in a thread: "
                "await anyio.to_thread.run_sync(function); a tool that is a plain function runs in one automatically",
            )


def _repeated_hold(bench: Bench, calls: Sequence[Call], limit: float) -> Hold | None:
    holds = Holds(limit, bench.subject.wrote)

    async def repeatedly() -> Hold | None:
        holds_by_place: dict[tuple[str, str], list[Hold]] = {}
        for _ in range(REPEATS):
            # In one loop, so that worker threads already exist: starting one takes long on a busy machine.
            await bench.run_async(bench.agent, *calls)
            new_holds, over = holds.take()
            if not over:
                return None
            for place, hold in {(hold.place.file, hold.place.function): hold for hold in new_holds}.items():
                holds_by_place.setdefault(place, []).append(hold)
                if len(holds_by_place[place]) >= ENOUGH:
                    return min(holds_by_place[place], key=lambda hold: hold.milliseconds)
        return None

    with holds.watching():
        return run_watched(repeatedly(), holds)


MAX_CANCELLATIONS = 60
"""Maximum places at which to cancel a run, each in its own run."""


def check_cancellation(bench: Bench) -> Iterator[Problem]:
    """Wherever the plugin waits, a task that is cancelled there ends as cancelled."""
    calls = bench.calls("canary")
    places: set[Place] = set()
    for _ in range(MAX_CANCELLATIONS):
        watch = Suspensions(places, bench.subject.wrote)
        run = bench.run(*calls, watch=watch)
        if watch.place is None or watch.task is None:
            return
        # A task of anyio never ends as cancelled; then the run does.
        if not watch.task.cancelled() and not isinstance(run.error, asyncio.CancelledError):
            yield Problem(
                str(watch.place),
                "was cancelled while it waited there, and continued",
                "re-raise asyncio.CancelledError: end `except asyncio.CancelledError`, `except BaseException` or a "
                "bare `except` with `raise`; a user must be able to stop a run",
            )


# -- the prompt --------------------------------------------------------------------------------------------------------


def check_prefix(bench: Bench) -> Iterator[Problem]:
    """Tools, prompt and every earlier message are sent again unchanged."""
    run = bench.require_success(bench.run(*bench.calls("canary")))
    events_before = len(bench.recorder.events)
    requests = [*run.requests]
    for _ in range(3):
        again = asyncio.run(bench.run_async(bench.agent, history=run.messages, previous=run))
        run = bench.require_success(again)
        requests += run.requests
    compacted = any(isinstance(event, CompactionEvent) for event in bench.recorder.events[events_before:])
    just_rewritten = False
    for number, (one, other) in enumerate(pairwise(requests), 1):
        where = f"request {number + 1} of a conversation"
        problem = _prefix_change(where, one, other)
        rewritten = _history_change(where, one, other)
        if problem is None and (just_rewritten or not compacted):
            # A reducer may rewrite earlier messages; the next request then starts from those.
            problem = rewritten
        if problem is not None:
            yield problem
            return
        just_rewritten = rewritten is not None


PREFIX_CHANGE = (
    "put changing text in a live section (PromptSection.live): it is appended, so a provider's cache stays valid"
)


def _prefix_change(where: str, one: Request, other: Request) -> Problem | None:
    if one.instructions != other.instructions:
        what = f"the prompt changed: {_first_difference(one.instructions, other.instructions)}"
        return Problem(where, what, PREFIX_CHANGE)
    if _tool_texts(one) != _tool_texts(other):
        return Problem(where, "the tools' definitions changed", "keep names, descriptions and schemas constant")
    return None


def _history_change(where: str, one: Request, other: Request) -> Problem | None:
    before, after = plain_messages(one.messages), plain_messages(other.messages)
    if after[: len(before)] == before:
        return None
    index = next(i for i, text in enumerate(before) if i >= len(after) or after[i] != text)
    difference = _first_difference(before[index], after[index] if index < len(after) else "")
    what = f"message {index + 1} changed: {difference}"
    change = (
        f"{PREFIX_CHANGE}; a history processor keeps earlier messages unchanged, or reduces them rarely and much, "
        "not at every request"
    )
    return Problem(where, what, change)


def _tool_texts(request: Request) -> list[str]:
    tools = [(tool.name, tool.description, tool.parameters_json_schema) for tool in request.tools]
    return [json.dumps(tool, sort_keys=False) for tool in tools]


def _first_difference(one: str, other: str) -> str:
    start = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    begin = max(0, start - 20)
    return f"{one[begin : start + 40]!r} became {other[begin : start + 40]!r}"


# -- failures ----------------------------------------------------------------------------------------------------------


def check_containment(bench: Bench) -> Iterator[Problem]:
    """A run continues, whatever the model sends to the tools."""
    first = bench.first
    yield from _check_end(first, "a run without calls")
    if first.error is not None:
        return
    calls = bench.calls("canary")
    run = bench.run(*calls)
    yield from _check_end(run, f"a run that calls {', '.join(call.tool for call in calls)}")
    for incident in (*bench.creation_incidents, *first.incidents, *run.incidents):
        # A tool may raise for invalid arguments, but not for the author's examples.
        tool = incident.where.removeprefix("tool ")
        if tool == incident.where or tool in bench.suite.examples:
            what = f"raises {incident.error} ({incident.effect})"
            yield Problem(incident.where, what, "catch expected errors, and raise pydantic_ai.ModelRetry(…)")
    for tool in bench.tools if run.error is None else ():
        for arguments in garbage(tool.parameters_json_schema) if bench.callable(tool) else ():
            yield from _after_garbage(bench, tool.name, arguments)


def _after_garbage(bench: Bench, tool: str, arguments: dict[str, Any]) -> Iterator[Problem]:
    run = bench.run(Call(tool, arguments))
    label = f"a call of {tool} with {json.dumps(arguments)[:80]}"
    yield from _check_end(run, label)
    if run.error is None and not _answers(run):
        yield Problem(label, "got no answer", "return text, or raise pydantic_ai.ModelRetry with what to do")


def _answers(run: Run) -> list[object]:
    return [part for request in run.requests for part in request.results]


def _check_end(run: Run, label: str) -> Iterator[Problem]:
    if isinstance(run.error, PluginError):
        yield Problem(label, f"is refused: {run.error}", "fix what the message names")
    elif run.error is not None:
        change = (
            "raise your own Exception, or pydantic_ai.ModelRetry: the model reads it, and the run continues; "
            "an error in a hook of a capability, and a tool with retries=0, end it"
        )
        yield Problem(label, f"ended with {one_line(run.error)}", change)


# -- the end -----------------------------------------------------------------------------------------------------------


def check_unload(bench: Bench) -> Iterator[Problem]:
    """Closing a kernel, once or twice, leaves nothing open."""
    with _frozen_heap():
        _run_and_close(bench)  # objects created once per process do not count
        gc.collect()
        threads, files = set(threading.enumerate()), _open_files()
        left, problems = _run_and_close(bench)
        gc.collect()
    yield from problems
    for task in left:
        yield Problem("a run", f"left the task {task}", "await it, or cancel it, before the tool or capability returns")
    for thread in set(threading.enumerate()) - threads:
        thread.join(2)
        if thread.is_alive():
            change = "end it in a function passed to context.on_close(…)"
            yield Problem("kernel.close()", f"left the thread {thread.name!r}", change)
    for file in sorted(_open_files() - files):
        yield Problem("kernel.close()", f"left {file} open", "close it in a function passed to context.on_close(…)")


def _run_and_close(bench: Bench) -> tuple[tuple[str, ...], list[Problem]]:
    kernel = bench.make_kernel()
    agent = bench.make_agent(kernel)
    run = bench.require_success(bench.run(*bench.calls("canary"), agent=agent))
    kernel.close()
    problems = [
        Problem(
            "on_close",
            f"raises {incident.error} at {_last_frame(incident.traceback)}",
            "the kernel calls a function passed to context.on_close(…) once, without arguments, after all runs: it "
            "must accept that its resource was never opened, or is already closed",
        )
        for incident in kernel.incidents
        if incident.where == "on_close"
    ]
    closed_once = len(kernel.incidents)
    kernel.close()
    problems += [
        Problem("on_close", f"runs again when the kernel is closed twice: {incident}", "register it with on_close once")
        for incident in kernel.incidents[closed_once:]
    ]
    return run.left, problems


def _last_frame(traceback: str) -> str:
    frames = re.findall(r'File "([^"]+)", line (\d+)', traceback)
    return ":".join(frames[-1]) if frames else "an unknown line"


def _open_files() -> set[str]:
    """The files that this process has open; empty if the system does not list them."""
    folder = "/proc/self/fd"
    if not os.path.isdir(folder):
        return set()
    files: set[str] = set()
    for number in os.listdir(folder):
        try:
            files.add(f"{os.readlink(f'{folder}/{number}')} (file descriptor {number})")
        except OSError:  # the one that listed the folder
            continue
    return files
