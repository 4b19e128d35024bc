"""Run the hooks of folders: programs that check a call of a tool before it runs, and that hear of it afterwards."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from deep_core import Ask, Deny
from deep_core.plugin_api import find_program, visible

from .environment import ENVIRONMENT, NO_BYTE_CODE
from .host import HOST
from .tool_names import call_as_others_see_it

if TYPE_CHECKING:
    import logging

    from pydantic_ai import RunContext

    from deep_core import ToolCall, ToolEvent

    from .folder import Folder, HookEntry

__all__ = ["HookPrograms"]

REASON_CHARS = 1_000
OUTPUT_BYTES = 1_000_000
"""Of each stream of a hook. One that says more denies: its answer may stand in what is cut."""
DENIES, ASKS, ALLOWS = ("deny", "block"), ("ask", "defer"), ("allow", "approve")
_JSON = re.compile(r"^[\ufeff \t]*(?:\{|\[\s*(?:[\[{\"]|$))", re.M)
"""Where an answer begins. A line such as `[guard] ok` is text."""
MOST_CALLS = 1_000
"""Calls that wait for their end. One that is cancelled has none."""
CANNOT_RUN = (126, 127)
"""What a shell says of a program that it cannot start."""


@dataclass(frozen=True)
class _Seen:
    """A call as one hook sees it: what it gets on stdin, and where it runs."""

    folder: Folder
    hook: HookEntry
    message: Mapping[str, Any]
    place: str


class HookPrograms:
    """The hooks of one kernel's folders.

    Args:
        folders: with hooks that may run.
        logger: of the plugin.
    """

    def __init__(self, folders: Sequence[Folder], logger: logging.Logger) -> None:
        self._hooks = [(folder, hook) for folder in folders for hook in folder.hooks]
        self._logger = logger
        self._after: OrderedDict[tuple[str, str], list[_Seen]] = OrderedDict()

    async def check(self, call: ToolCall, ctx: RunContext[Any]) -> Ask | Deny | None:
        """Ask the hooks before the call. A hook can deny it, or make it ask; none can approve it.

        The strictest answer counts. A hook that cannot run, or takes too long, denies: it may be a guard.
        """
        place = _place(ctx)
        seen = [*self._seen(call, ctx, "PreToolUse", place)]
        answers = await asyncio.gather(*(self._ask(each) for each in seen))
        denials = [answer for answer in answers if isinstance(answer, Deny)]
        after = [*self._seen(call, ctx, "PostToolUse", place)]
        if after and not denials:
            self._after[ctx.deps.session_id, call.call_id] = after
            while len(self._after) > MOST_CALLS:
                self._after.popitem(last=False)
        return next(iter([*denials, *(answer for answer in answers if answer is not None)]), None)

    async def tell(self, event: ToolEvent) -> None:
        """Tell the hooks that the call has ended well."""
        seen = self._after.pop((event.session_id, event.call_id), [])
        for each in seen if event.outcome == "success" else ():
            outcome = await _run(each)
            if isinstance(outcome, str) or outcome[0] != 0:
                text = outcome if isinstance(outcome, str) else f"exit code {outcome[0]}: {_clip(outcome[2])}"
                self._logger.warning("hook PostToolUse of folder %s: %s", each.folder.name, visible(text))

    def _seen(
        self, call: ToolCall, ctx: RunContext[Any], event: Literal["PreToolUse", "PostToolUse"], place: str
    ) -> Iterator[_Seen]:
        for folder, hook in self._hooks:
            if hook.event != event:
                continue
            for name, args in call_as_others_see_it(call.original, call.plugin, call.args, place):
                if _fits(hook.matcher, name):
                    message: dict[str, Any] = {
                        "session_id": ctx.deps.session_id,
                        "transcript_path": "",
                        "cwd": place,
                        "permission_mode": "default",
                        "hook_event_name": event,
                        "tool_name": name,
                        "tool_input": args,
                        "tool_use_id": call.call_id,
                    }
                    if event == "PostToolUse":
                        message["tool_response"] = {"success": True}
                    yield _Seen(folder, hook, message, place)
                    break

    async def _ask(self, seen: _Seen) -> Ask | Deny | None:
        outcome = await _run(seen)
        who = f"hook of folder {seen.folder.name}"
        if isinstance(outcome, str):
            return Deny(f"{who}: {outcome}")
        code, out, err = outcome
        if code == 2:
            return Deny(f"{who}: {_clip(err) or 'denied'}")
        if code < 0 or code in CANNOT_RUN:
            return Deny(f"{who} cannot run (exit code {code}): {_clip(err)}; deep folders remove {seen.folder.name}")
        if code:
            self._logger.warning("%s: exit code %s: %s", who, code, visible(_clip(err)))
        return _verdict(out, who)


def _verdict(out: str, who: str) -> Ask | Deny | None:
    """Return what a hook's output decides: what cannot be understood whole denies. Nothing in it can approve a call."""
    found = _JSON.search(out)
    if found is None:
        return None  # text for a person
    try:
        data: object = json.loads(out[found.start() :], object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return Deny(f"{who}: its answer begins like JSON and cannot be read")
    answer = cast("dict[str, Any]", data if isinstance(data, dict) else {"hookSpecificOutput": None})
    specific: object = answer.get("hookSpecificOutput", {})
    if not isinstance(specific, dict):
        return Deny(f"{who}: its answer is not one that a hook gives")
    more = cast("dict[str, Any]", specific)
    said = [value for value in (more.get("permissionDecision"), answer.get("decision")) if value is not None]
    reason = more.get("permissionDecisionReason") or answer.get("reason") or answer.get("stopReason") or "denied"
    text = f"{who}: {_clip(str(reason))}"
    if any(value in DENIES for value in said) or answer.get("continue", True) is not True:
        return Deny(text)
    if unknown := [value for value in said if value not in (*ASKS, *ALLOWS)]:
        return Deny(f"{who}: {_clip(str(unknown[0]))!r} is no decision")
    if "updatedInput" in more:
        return Deny(f"{who} would change the arguments, which nothing may do after they were checked")
    return Ask(text) if any(value in ASKS for value in said) else None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object. Raises ValueError if it says one thing twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found


async def _run(seen: _Seen) -> tuple[int, str, str] | str:
    """Run a hook; return (exit code, stdout, stderr), or why it did not end by itself."""
    hook, folder = seen.hook, seen.folder
    shell = find_program("bash", outside=seen.place) or "/bin/sh"
    command = [shell, "-c", hook.command] if hook.args is None else [hook.command, *hook.args]
    environ = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
    environ |= {
        "CLAUDE_PLUGIN_ROOT": str(folder.root),
        "CLAUDE_PLUGIN_DATA": str(folder.data),
        "CLAUDE_PROJECT_DIR": seen.place,
        **NO_BYTE_CODE,
    }
    try:
        folder.data.mkdir(parents=True, exist_ok=True)
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=seen.place,
            env=environ,
            start_new_session=True,
        )
    except OSError as error:
        return f"it does not start: {error}; deep folders remove {folder.name}"
    try:
        message = json.dumps(seen.message, default=str).encode()
        async with asyncio.timeout(hook.timeout):
            stdin, stdout, stderr = process.stdin, process.stdout, process.stderr
            if stdin is None or stdout is None or stderr is None:
                raise _NotReadable("it has no pipes")
            _, out, err = await asyncio.gather(_give(stdin, message), _read(stdout), _read(stderr))
            await process.wait()
        return process.returncode or 0, _decode(out), _decode(err)
    except TimeoutError:
        return f"it took more than {hook.timeout:g} seconds"
    except _NotReadable as error:
        return str(error)
    finally:
        if process.returncode is None:  # too slow, it says too much, or the run was cancelled
            _kill(process.pid)
            await process.wait()
        # What a hook started may hold its pipes, an unread pipe never ends, and one whose other end
        # is gone stays open.
        if process.stdin is not None and process.stdin.transport.get_write_buffer_size():
            process.stdin.transport.abort()
        process._transport.close()  # type: ignore # asyncio has no public name for it
        await asyncio.sleep(0)  # the loop closes the pipes in its next turn


class _NotReadable(Exception):
    """A hook's output that is not whole, or no text. The message says so to the model."""


async def _give(stdin: asyncio.StreamWriter, message: bytes) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):  # a hook need not read
        stdin.write(message)
        await stdin.drain()
    stdin.close()
    with suppress(BrokenPipeError, ConnectionResetError):
        await stdin.wait_closed()


async def _read(stream: asyncio.StreamReader) -> bytes:
    found = bytearray()
    while block := await stream.read(65_536):
        found += block
        if len(found) > OUTPUT_BYTES:
            raise _NotReadable(f"it says more than {OUTPUT_BYTES:,} bytes, so what it says is not known")
    return bytes(found)


def _decode(output: bytes) -> str:
    if b"\0" in output:
        raise _NotReadable("what it says is no text")
    return output.decode(errors="replace")


def _kill(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _place(ctx: RunContext[Any]) -> str:
    """Return the workspace's directory, if it is one of this machine; else this process's."""
    ref = ctx.workspace.ref
    return ref.id if ref is not None and ref.provider in HOST and Path(ref.id).is_dir() else str(Path.cwd())


def _fits(matcher: str, name: str) -> bool:
    if matcher in ("", "*"):
        return True
    try:
        return re.fullmatch(matcher, name) is not None
    except re.error:
        return True  # a guard that says this badly guards everything


def _clip(text: str) -> str:
    text = text.strip()
    return text if len(text) <= REASON_CHARS else f"{text[:REASON_CHARS]}…"
