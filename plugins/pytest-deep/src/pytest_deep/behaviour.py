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
    "about_blocking",
    "about_cancellation",
    "about_containment",
    "about_order",
    "about_prefix",
    "about_sessions",
    "about_unload",
]


# -- order -------------------------------------------------------------------------------------------------------------


class Neighbour:
    """Another plugin, with every kind of contribution."""

    @hookimpl
    def deep_toolsets(self) -> list[Any]:
        """One tool."""
        from pydantic_ai import FunctionToolset

        toolset = FunctionToolset[Any](id="neighbour")

        @toolset.tool_plain(metadata={"tags": ["read"]})
        def neighbour_tool() -> str:  # pyright: ignore[reportUnusedFunction]
            """Say hello."""
            return "hello"

        return [toolset]

    @hookimpl
    def deep_prompt_sections(self) -> list[Any]:
        """One section."""
        from deep_core import PromptSection

        return [PromptSection.static("neighbour_section", "There is a neighbour.")]

    @hookimpl
    def deep_history_processors(self) -> list[Any]:
        """One processor that changes nothing."""
        from deep_core import Processor

        def unchanged(messages: list[ModelMessage]) -> list[ModelMessage]:
            return messages

        return [Processor("neighbour_processor", unchanged)]


def about_order(bench: Bench) -> Iterator[Problem]:
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
        beside = _contribution(bench, Neighbour(), order=order)
        for what, value in alone.items():
            if beside[what] != value and what not in changing:
                yield Problem(
                    what,
                    f"is {value!r} alone and {beside[what]!r} {place} another plugin",
                    "let a hook's result depend only on its options; sort values from a set or a folder",
                )


def _contribution(bench: Bench, *neighbours: object, order: int = 0) -> dict[str, Any]:
    kernel = bench.make_kernel(*neighbours, order=order)
    agent = bench.make_agent(kernel)
    parts, name = bench.parts(agent), bench.subject.name
    first = bench.sound(bench.run(agent=agent)).requests[0]
    tools = {tool.name: (tool.description, tool.parameters_json_schema) for tool in bench.own_tools(first)}
    return {
        "the tools": tools,
        "the order of the tools": list(tools),
        "the static sections": [(s.value.name, s.value.text) for s in parts.static if s.plugin == name],
        "the live sections": [s.value.name for s in parts.live if s.plugin == name],
        "the history processors": [(p.value.name, p.value.phase) for p in parts.processors if p.plugin == name],
        "the slots": [slot.name for slot in bench.contributed("deep_state")],
        "the backends": sorted(backend for backend, _ in bench.contributed("deep_backends")),
        "the capabilities": [type(capability).__name__ for capability in bench.contributed("deep_capabilities")],
    }


# -- sessions ----------------------------------------------------------------------------------------------------------


def about_sessions(bench: Bench) -> Iterator[Problem]:
    """Two sessions run in step on one agent: no data crosses, and none remains."""
    bench.sound(bench.first)
    canaries = ("canary-first-session", "canary-second-session")
    with _older_objects_left_alone():
        # The first round creates what is created once: caches, compiled patterns, modules loaded on first use.
        _together(bench, "warmup-one", "warmup-two")
        before = _held(bench)
        runs = dict(zip(canaries, _together(bench, *canaries), strict=True))
        problems = [*_crossed(runs[canaries[0]], canaries[1]), *_crossed(runs[canaries[1]], canaries[0])]
        del runs
        problems += _stayed(before, _held(bench), canaries)
    yield from problems


@contextmanager
def _older_objects_left_alone() -> Generator[None]:
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
    return bench.sound(first), bench.sound(second)


def _held(bench: Bench) -> dict[str, str]:
    gc.collect()
    hooks = sorted({call.hook for call in bench.recorder.hook_calls if call.plugin == bench.subject.name})
    made = {hook: bench.contributed(hook) for hook in hooks if hook not in ("deep_agent_created", "deep_run_event")}
    return holdings(bench.subject, made)


def _crossed(run: Run, canary: str) -> Iterator[Problem]:
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


def _stayed(before: Mapping[str, str], after: Mapping[str, str], canaries: Sequence[str]) -> Iterator[Problem]:
    said = [where for where, text in after.items() if any(canary in text for canary in canaries)]
    # A list that grew and its new items are one problem: the shortest path is the owner.
    for where in sorted(said, key=len)[:1]:
        owner = where.partition("[")[0].partition(".key[")[0]
        yield Problem(owner, f"keeps the text of a session: {after[where]}", SESSION_CHANGE)
        return
    for where in sorted((where for where in after if after[where] != before.get(where, after[where])), key=len)[:1]:
        yield Problem(where, f"changed while sessions ran: {before[where]} became {after[where]}", SESSION_CHANGE)


# -- the event loop ----------------------------------------------------------------------------------------------------

REPEATS, ENOUGH = 8, 3
"""A busy machine holds a loop now and then, but seldom in the plugin's code; a plugin that blocks does it each time."""


def about_blocking(bench: Bench) -> Iterator[Problem]:
    """No step of a run stays in the plugin's code longer than the limit."""
    limit = bench.suite.max_hold_ms
    reported: set[tuple[str, str]] = set()
    for calls in [[], *([call] for call in bench.calls("canary"))]:
        bench.sound(bench.run(*calls))  # work done once, such as imports on first use, does not count
        hold = _held_each_time(bench, calls, limit)
        if hold is not None and (hold.place.file, hold.place.function) not in reported:
            reported.add((hold.place.file, hold.place.function))
            yield Problem(
                str(hold.place),
                f"held the event loop for {hold.milliseconds:.0f} ms; the limit is {limit} ms",
                "await slow operations (asyncio.sleep, an async client), or work in a thread: "
                "await anyio.to_thread.run_sync(function); a tool that is a plain function runs in one automatically",
            )


def _held_each_time(bench: Bench, calls: Sequence[Call], limit: float) -> Hold | None:
    holds = Holds(limit, bench.subject.wrote)

    async def repeatedly() -> Hold | None:
        found: dict[tuple[str, str], list[Hold]] = {}
        for _ in range(REPEATS):
            # In one loop, so that worker threads already exist: starting one takes long on a busy machine.
            await bench.run_async(bench.agent, *calls)
            seen, over = holds.taken()
            if not over:
                return None
            for place, hold in {(hold.place.file, hold.place.function): hold for hold in seen}.items():
                found.setdefault(place, []).append(hold)
                if len(found[place]) >= ENOUGH:
                    return min(found[place], key=lambda hold: hold.milliseconds)
        return None

    with holds.watching():
        return run_watched(repeatedly(), holds)


MOST_CANCELLED = 60
"""Maximum places at which to cancel a run, each in its own run."""


def about_cancellation(bench: Bench) -> Iterator[Problem]:
    """Wherever the plugin waits, a task that is cancelled there ends as cancelled."""
    calls = bench.calls("canary")
    seen: set[Place] = set()
    for _ in range(MOST_CANCELLED):
        watch = Suspensions(seen, bench.subject.wrote)
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


def about_prefix(bench: Bench) -> Iterator[Problem]:
    """Tools, prompt and every earlier message are sent again unchanged."""
    run = bench.sound(bench.run(*bench.calls("canary")))
    heard = len(bench.recorder.events)
    requests = [*run.requests]
    for _ in range(3):
        again = asyncio.run(bench.run_async(bench.agent, history=run.messages, continued=run))
        run = bench.sound(again)
        requests += run.requests
    compacted = any(isinstance(event, CompactionEvent) for event in bench.recorder.events[heard:])
    just_rewritten = False
    for number, (one, other) in enumerate(pairwise(requests), 1):
        where = f"request {number + 1} of a conversation"
        problem = _changed(where, one, other)
        rewritten = _rewritten(where, one, other)
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


def _changed(where: str, one: Request, other: Request) -> Problem | None:
    if one.instructions != other.instructions:
        what = f"the prompt changed: {_difference(one.instructions, other.instructions)}"
        return Problem(where, what, PREFIX_CHANGE)
    if _shown(one) != _shown(other):
        return Problem(where, "the tools' definitions changed", "keep names, descriptions and schemas constant")
    return None


def _rewritten(where: str, one: Request, other: Request) -> Problem | None:
    before, after = plain_messages(one.messages), plain_messages(other.messages)
    if after[: len(before)] == before:
        return None
    index = next(i for i, text in enumerate(before) if i >= len(after) or after[i] != text)
    what = f"message {index + 1} changed: {_difference(before[index], after[index] if index < len(after) else '')}"
    change = (
        f"{PREFIX_CHANGE}; a history processor keeps earlier messages unchanged, or reduces them rarely and much, "
        "not at every request"
    )
    return Problem(where, what, change)


def _shown(request: Request) -> list[str]:
    tools = [(tool.name, tool.description, tool.parameters_json_schema) for tool in request.tools]
    return [json.dumps(tool, sort_keys=False) for tool in tools]


def _difference(one: str, other: str) -> str:
    start = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    begin = max(0, start - 20)
    return f"{one[begin : start + 40]!r} became {other[begin : start + 40]!r}"


# -- failures ----------------------------------------------------------------------------------------------------------


def about_containment(bench: Bench) -> Iterator[Problem]:
    """A run continues, whatever the model sends to the tools."""
    first = bench.first
    yield from _ended(first, "a run without calls")
    if first.error is not None:
        return
    calls = bench.calls("canary")
    run = bench.run(*calls)
    yield from _ended(run, f"a run that calls {', '.join(call.tool for call in calls)}")
    for incident in (*bench.made, *first.incidents, *run.incidents):
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
    told = f"a call of {tool} with {json.dumps(arguments)[:80]}"
    yield from _ended(run, told)
    if run.error is None and not _answers(run):
        yield Problem(told, "got no answer", "return text, or raise pydantic_ai.ModelRetry with what to do")


def _answers(run: Run) -> list[object]:
    return [part for request in run.requests for part in request.results]


def _ended(run: Run, told: str) -> Iterator[Problem]:
    if isinstance(run.error, PluginError):
        yield Problem(told, f"is refused: {run.error}", "fix what the message names")
    elif run.error is not None:
        change = (
            "raise your own Exception, or pydantic_ai.ModelRetry: the model reads it, and the run continues; "
            "SystemExit and KeyboardInterrupt end the application, a tool with retries=0 the run"
        )
        yield Problem(told, f"ended with {one_line(run.error)}", change)


# -- the end -----------------------------------------------------------------------------------------------------------


def about_unload(bench: Bench) -> Iterator[Problem]:
    """Closing a kernel, once or twice, leaves nothing open."""
    with _older_objects_left_alone():
        _lived(bench)  # objects created once per process do not count
        gc.collect()
        threads, files = set(threading.enumerate()), _open_files()
        left, problems = _lived(bench)
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


def _lived(bench: Bench) -> tuple[tuple[str, ...], list[Problem]]:
    kernel = bench.make_kernel()
    agent = bench.make_agent(kernel)
    run = bench.sound(bench.run(*bench.calls("canary"), agent=agent))
    kernel.close()
    problems = [
        Problem(
            "on_close",
            f"raises {incident.error} at {_raised_at(incident.traceback)}",
            "the kernel calls a function passed to context.on_close(…) once, without arguments, after all runs: it "
            "must accept that its resource was never opened, or is already closed",
        )
        for incident in kernel.incidents
        if incident.where == "on_close"
    ]
    known = len(kernel.incidents)
    kernel.close()
    problems += [
        Problem("on_close", f"runs again when the kernel is closed twice: {incident}", "register it with on_close once")
        for incident in kernel.incidents[known:]
    ]
    return run.left, problems


def _raised_at(traceback: str) -> str:
    frames = re.findall(r'File "([^"]+)", line (\d+)', traceback)
    return ":".join(frames[-1]) if frames else "an unknown line"


def _open_files() -> set[str]:
    """The files that this process has open; empty if the system does not list them."""
    folder = "/proc/self/fd"
    if not os.path.isdir(folder):
        return set()
    found: set[str] = set()
    for number in os.listdir(folder):
        try:
            found.add(f"{os.readlink(f'{folder}/{number}')} (file descriptor {number})")
        except OSError:  # the one that listed the folder
            continue
    return found
