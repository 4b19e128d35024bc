"""What a plugin does while an agent runs: each check makes its runs and tells what is wrong with them."""

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
    """Another plugin, of every kind that is assembled with it."""

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
    """The contribution is the same each time, alone, before and after another plugin."""
    alone, again = _contribution(bench), _contribution(bench)
    changing = [what for what, value in alone.items() if again[what] != value]
    for what in changing:
        yield Problem(
            what,
            f"is {alone[what]!r} for one agent and {again[what]!r} for the next",
            "let a hook's result depend on its options alone, not on a clock, a counter or chance: a session that goes "
            "on with another agent would pay for its whole prompt again",
        )
    for place, order in (("before", -10), ("after", 10)):
        beside = _contribution(bench, Neighbour(), order=order)
        for what, value in alone.items():
            if beside[what] != value and what not in changing:
                yield Problem(
                    what,
                    f"is {value!r} alone and {beside[what]!r} {place} another plugin",
                    "let a hook's result depend on its options alone; order what comes from a set or a folder",
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
    """Two sessions in step on one agent: nothing crosses, and nothing of them stays."""
    bench.sound(bench.first)
    canaries = ("canary-first-session", "canary-second-session")
    with _older_objects_left_alone():
        # The first round makes what is made once: caches, compiled patterns, modules loaded on first use.
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
        # Twice through the tools: what one session's first round wrote, the other's second round would read.
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
            yield Problem(where, f"showed one session what another had said ({canary!r})", SESSION_CHANGE)
            return
    if canary in run.deps.dump():
        yield Problem("the session's state", f"has what another session said ({canary!r})", SESSION_CHANGE)
    for path in run.folder.rglob("*"):
        if canary in path.name or (path.is_file() and canary.encode() in path.read_bytes()):
            yield Problem(f"the file {path.name!r}", "of one session has what another said", SESSION_CHANGE)


SESSION_CHANGE = (
    "keep what belongs to a session in a StateSlot (deep_state) and reach it as ctx.deps.state[SLOT]; one agent serves "
    "many sessions at a time"
)


def _stayed(before: Mapping[str, str], after: Mapping[str, str], canaries: Sequence[str]) -> Iterator[Problem]:
    said = [where for where, text in after.items() if any(canary in text for canary in canaries)]
    # A list that grew and what stands in it are one matter: the shortest path names the owner.
    for where in sorted(said, key=len)[:1]:
        owner = where.partition("[")[0].partition(".key[")[0]
        yield Problem(owner, f"keeps what a session said: {after[where]}", SESSION_CHANGE)
        return
    for where in sorted((where for where in after if after[where] != before.get(where, after[where])), key=len)[:1]:
        yield Problem(where, f"changed while sessions ran: {before[where]} became {after[where]}", SESSION_CHANGE)


# -- the event loop ----------------------------------------------------------------------------------------------------

REPEATS, ENOUGH = 8, 3
"""A busy machine holds a loop now and then, and seldom in the plugin's code; a plugin that blocks does it each time."""


def about_blocking(bench: Bench) -> Iterator[Problem]:
    """No step of a run stays in the plugin's code longer than the limit."""
    limit = bench.suite.max_hold_ms
    reported: set[tuple[str, str]] = set()
    for calls in [[], *([call] for call in bench.calls("canary"))]:
        bench.sound(bench.run(*calls))  # what is done once, as imports on first use, is no matter of each call
        hold = _held_each_time(bench, calls, limit)
        if hold is not None and (hold.place.file, hold.place.function) not in reported:
            reported.add((hold.place.file, hold.place.function))
            yield Problem(
                str(hold.place),
                f"held the event loop for {hold.milliseconds:.0f} ms; {limit} ms is the limit",
                "await what waits (asyncio.sleep, an async client), or do the work in a thread: "
                "await anyio.to_thread.run_sync(function); a tool that is a plain function runs in one by itself",
            )


def _held_each_time(bench: Bench, calls: Sequence[Call], limit: float) -> Hold | None:
    holds = Holds(limit, bench.subject.wrote)

    async def repeatedly() -> Hold | None:
        found: dict[tuple[str, str], list[Hold]] = {}
        for _ in range(REPEATS):
            # In one loop, so that worker threads are there already: to start one takes long on a busy machine.
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
"""Places at which a run is cancelled, each in a run of its own."""


def about_cancellation(bench: Bench) -> Iterator[Problem]:
    """Wherever the plugin waits, a task that is cancelled there ends as cancelled."""
    calls = bench.calls("canary")
    seen: set[Place] = set()
    for _ in range(MOST_CANCELLED):
        watch = Suspensions(seen, bench.subject.wrote)
        run = bench.run(*calls, watch=watch)
        if watch.place is None or watch.task is None:
            return
        # A task of anyio's never ends as cancelled; then the run does.
        if not watch.task.cancelled() and not isinstance(run.error, asyncio.CancelledError):
            yield Problem(
                str(watch.place),
                "was cancelled while it waited there, and went on",
                "let asyncio.CancelledError through: end `except asyncio.CancelledError`, `except BaseException` or a "
                "bare `except` with `raise`; a run that a user stops must stop",
            )


# -- the prompt --------------------------------------------------------------------------------------------------------


def about_prefix(bench: Bench) -> Iterator[Problem]:
    """What was sent is sent again as it was: tools, prompt, and every earlier message."""
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
            # A reducer may rewrite what was sent, and then the next request goes on from there.
            problem = rewritten
        if problem is not None:
            yield problem
            return
        just_rewritten = rewritten is not None


PREFIX_CHANGE = "say what changes in a live section (PromptSection.live): it is appended, so a provider's cache holds"


def _changed(where: str, one: Request, other: Request) -> Problem | None:
    if one.instructions != other.instructions:
        what = f"the prompt changed: {_difference(one.instructions, other.instructions)}"
        return Problem(where, what, PREFIX_CHANGE)
    if _shown(one) != _shown(other):
        return Problem(where, "the tools' definitions changed", "make names, descriptions and schemas fixed text")
    return None


def _rewritten(where: str, one: Request, other: Request) -> Problem | None:
    before, after = plain_messages(one.messages), plain_messages(other.messages)
    if after[: len(before)] == before:
        return None
    index = next(i for i, text in enumerate(before) if i >= len(after) or after[i] != text)
    what = f"message {index + 1} changed: {_difference(before[index], after[index] if index < len(after) else '')}"
    change = (
        f"{PREFIX_CHANGE}; a history processor leaves earlier messages as they are, or reduces them rarely and much, "
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
    """A run goes on, whatever the model sends to the tools."""
    first = bench.first
    yield from _ended(first, "a run in which nothing is called")
    if first.error is not None:
        return
    calls = bench.calls("canary")
    run = bench.run(*calls)
    yield from _ended(run, f"a run that calls {', '.join(call.tool for call in calls)}")
    for incident in (*bench.made, *first.incidents, *run.incidents):
        # A tool may raise at arguments that nobody promised to be good; at an author's own example it may not.
        tool = incident.where.removeprefix("tool ")
        if tool == incident.where or tool in bench.suite.examples:
            what = f"raises {incident.error} ({incident.effect})"
            yield Problem(incident.where, what, "catch what can be expected, and say it: pydantic_ai.ModelRetry(…)")
    for tool in bench.tools if run.error is None else ():
        for arguments in garbage(tool.parameters_json_schema) if bench.callable(tool) else ():
            yield from _after_garbage(bench, tool.name, arguments)


def _after_garbage(bench: Bench, tool: str, arguments: dict[str, Any]) -> Iterator[Problem]:
    run = bench.run(Call(tool, arguments))
    told = f"a call of {tool} with {json.dumps(arguments)[:80]}"
    yield from _ended(run, told)
    if run.error is None and not _answers(run):
        yield Problem(told, "was not answered", "return a text, or raise pydantic_ai.ModelRetry with what to do")


def _answers(run: Run) -> list[object]:
    return [part for request in run.requests for part in request.results]


def _ended(run: Run, told: str) -> Iterator[Problem]:
    if isinstance(run.error, PluginError):
        yield Problem(told, f"is refused: {run.error}", "mend what the message names")
    elif run.error is not None:
        change = (
            "raise an Exception of your own, or pydantic_ai.ModelRetry: the model is told, and the run goes on; "
            "SystemExit and KeyboardInterrupt end the application, a tool with retries=0 the run"
        )
        yield Problem(told, f"ended with {one_line(run.error)}", change)


# -- the end -----------------------------------------------------------------------------------------------------------


def about_unload(bench: Bench) -> Iterator[Problem]:
    """Closing a kernel leaves nothing behind, and twice is as good as once."""
    with _older_objects_left_alone():
        _lived(bench)  # what is made once for the process is no matter of a kernel
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
            change = "end it in a function given to context.on_close(…)"
            yield Problem("kernel.close()", f"left the thread {thread.name!r}", change)
    for file in sorted(_open_files() - files):
        yield Problem("kernel.close()", f"left {file} open", "close it in a function given to context.on_close(…)")


def _lived(bench: Bench) -> tuple[tuple[str, ...], list[Problem]]:
    kernel = bench.make_kernel()
    agent = bench.make_agent(kernel)
    run = bench.sound(bench.run(*bench.calls("canary"), agent=agent))
    kernel.close()
    problems = [
        Problem(
            "on_close",
            f"raises {incident.error} at {_raised_at(incident.traceback)}",
            "a function given to context.on_close(…) is called once, with nothing, when all runs are over: let it "
            "expect that what it closes was never opened, or is gone",
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
    return ":".join(frames[-1]) if frames else "an unknown place"


def _open_files() -> set[str]:
    """What this process has open, as the system tells it; nothing where it does not."""
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
