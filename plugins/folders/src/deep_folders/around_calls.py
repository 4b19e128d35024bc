"""Run the hooks of folders around calls: programs that check a call before it runs, and that hear of it afterwards."""

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
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from deep_core import Ask, Deny
from deep_core.plugin_api import find_program, visible

from .environment import hook_environment
from .host import HOST
from .tool_names import call_as_others_see_it

if TYPE_CHECKING:
    import logging

    from pydantic_ai import RunContext

    from deep_core import ToolCall, ToolEvent

    from .folder import Folder, HookEntry

__all__ = [
    "ALLOWS",
    "CANNOT_RUN",
    "HookCall",
    "HookPrograms",
    "answer_of",
    "clip",
    "context_of",
    "fits",
    "message_of",
    "place_of",
    "run_hook",
]

REASON_CHARS = 1_000
OUTPUT_BYTES = 1_000_000
"""Of each stream of a hook. One that says more denies: its answer may stand in what is cut."""
DENIES, ASKS, ALLOWS = ("deny", "block"), ("ask", "defer"), ("allow", "approve")
_JSON = re.compile(r"^[\ufeff \t]*(?:\{|\[\s*(?:[\[{\"]|$))", re.M)
"""Where an answer begins. A line such as `[guard] ok` is text."""
_ONLY = re.compile(r"([A-Za-z]+)(?:\((.*)\))?", re.S)
_NAMED = {"Bash": "command", "Edit": "file_path", "MultiEdit": "file_path", "Read": "file_path", "Write": "file_path"}
"""The tools that a hook's `if` can narrow, and the argument that it is about."""
_COMPOUND = re.compile(r"[;&|<>`\n\r$(]")
_INLINE = re.compile(r"\bpython[\d.]*[\"']?\s+(?:-[A-Za-z]+\s+)*(?:-[A-Za-z]*[cm]\b|-(?:\s|$)|<<)")
"""Python without a script: its first place for imports is the working directory."""
MOST_CALLS = 1_000
"""Calls that wait for their end. One that is cancelled has none."""
CANNOT_RUN = (126, 127)
"""What a shell says of a program that it cannot start."""


@dataclass(frozen=True)
class HookCall:
    """A hook to run: what it gets on stdin, and where it runs."""

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
        self._after: OrderedDict[tuple[str, str], tuple[RunContext[Any], list[HookCall]]] = OrderedDict()

    async def check(self, call: ToolCall, ctx: RunContext[Any]) -> Ask | Deny | None:
        """Ask the hooks before the call. A hook can deny it, or make it ask; none can approve it.

        The strictest answer counts. A hook that cannot run, or takes too long, denies: it may be a guard.
        """
        place = place_of(ctx)
        seen = [*self._seen(call, ctx, "PreToolUse", place)]
        answers = await asyncio.gather(*(self._ask(each) for each in seen))
        denials = [answer for answer in answers if isinstance(answer, Deny)]
        after = [*self._seen(call, ctx, "PostToolUse", place)]
        if after and not denials:
            self._after[ctx.deps.session_id, call.call_id] = ctx, after
            while len(self._after) > MOST_CALLS:
                self._after.popitem(last=False)
        return next(iter([*denials, *(answer for answer in answers if answer is not None)]), None)

    async def tell(self, event: ToolEvent) -> None:
        """Tell the hooks that the call has ended well. What they have to say reaches the model after the result."""
        known = self._after.pop((event.session_id, event.call_id), None)
        if known is None or event.outcome != "success":
            return
        ctx, seen = known
        for each in seen:
            if told := self._told(each, await run_hook(each)):
                ctx.enqueue(told)

    def _told(self, seen: HookCall, outcome: tuple[int, str, str] | str) -> str:
        who = f"hook of folder {seen.folder.name}"
        try:
            if isinstance(outcome, str):
                raise ValueError(outcome)
            code, out, err = outcome
            if code == 2:
                return f"{who}: {clip(err)}"
            if code:
                raise ValueError(f"exit code {code}: {clip(err)}")
            answer = answer_of(out)
        except ValueError as error:
            self._logger.warning("hook PostToolUse of folder %s: %s", seen.folder.name, visible(str(error)))
            return ""
        if answer is None:
            return ""  # text for a person
        reason = clip(str(answer.get("reason") or "")) if answer.get("decision") == "block" else ""
        return "\n".join(f"{who}: {text}" for text in (reason, context_of(answer)) if text)

    def around_runs(self, *events: str) -> list[tuple[Folder, HookEntry]]:
        """Return the hooks of events that are not about calls."""
        return [(folder, hook) for folder, hook in self._hooks if hook.event in events]

    @property
    def about_calls(self) -> bool:
        """Whether one is about calls of tools."""
        return any(hook.event in ("PreToolUse", "PostToolUse") for _, hook in self._hooks)

    async def notify(self, session_id: str, kind: str, text: str) -> None:
        """Tell the hooks of `Notification` that a person is needed. What they say goes to the log."""
        place = str(Path.cwd())
        about = {"message": text, "notification_type": kind}
        for folder, hook in self.around_runs("Notification"):
            if fits(hook.matcher, kind):
                message = message_of("Notification", session_id, place) | about
                outcome = await run_hook(HookCall(folder, hook, message, place))
                if isinstance(outcome, str) or outcome[0]:
                    text = outcome if isinstance(outcome, str) else f"exit code {outcome[0]}: {clip(outcome[2])}"
                    self._logger.warning("hook Notification of folder %s: %s", folder.name, visible(text))

    def _seen(
        self, call: ToolCall, ctx: RunContext[Any], event: Literal["PreToolUse", "PostToolUse"], place: str
    ) -> Iterator[HookCall]:
        for folder, hook in self._hooks:
            if hook.event != event:
                continue
            for name, args in call_as_others_see_it(call.original, call.plugin, call.args, place):
                if fits(hook.matcher, name) and may_be(hook.only, name, args):
                    message = message_of(event, ctx.deps.session_id, place) | {
                        "tool_name": name,
                        "tool_input": args,
                        "tool_use_id": call.call_id,
                    }
                    if event == "PostToolUse":
                        message["tool_response"] = {"success": True}
                    yield HookCall(folder, hook, message, place)
                    break

    async def _ask(self, seen: HookCall) -> Ask | Deny | None:
        outcome = await run_hook(seen)
        who = f"hook of folder {seen.folder.name}"
        if isinstance(outcome, str):
            return Deny(f"{who}: {outcome}")
        code, out, err = outcome
        if code == 2:
            return Deny(f"{who}: {clip(err) or 'denied'}")
        if code < 0 or code in CANNOT_RUN:
            return Deny(f"{who} cannot run (exit code {code}): {clip(err)}; deep folders remove {seen.folder.name}")
        if code:
            self._logger.warning("%s: exit code %s: %s", who, code, visible(clip(err)))
        return _verdict(out, who)


def answer_of(out: str) -> dict[str, Any] | None:
    """Return the JSON object that a hook answers; None for text.

    Raises:
        ValueError: it begins like JSON and cannot be read, or is not an answer.
    """
    found = _JSON.search(out)
    if found is None:
        return None
    try:
        data: object = json.loads(out[found.start() :], object_pairs_hook=_once)
    except (ValueError, RecursionError):
        raise ValueError("its answer begins like JSON and cannot be read") from None
    if not isinstance(data, dict):
        raise ValueError("its answer is not one that a hook gives")
    return cast("dict[str, Any]", data)


def context_of(answer: Mapping[str, Any]) -> str:
    """Return what an answer wants the model to know beside its decision."""
    specific: object = answer.get("hookSpecificOutput")
    text = cast("dict[str, Any]", specific).get("additionalContext") if isinstance(specific, dict) else None
    return text.strip() if isinstance(text, str) else ""


def message_of(event: str, session_id: str, place: str) -> dict[str, Any]:
    """Return what each hook gets on stdin."""
    return {
        "session_id": session_id,
        "transcript_path": "",
        "cwd": place,
        "permission_mode": "default",
        "hook_event_name": event,
    }


def _verdict(out: str, who: str) -> Ask | Deny | None:
    """Return what a hook's output decides: what cannot be understood whole denies. Nothing in it can approve a call."""
    try:
        answer = answer_of(out)
    except ValueError as error:
        return Deny(f"{who}: {error}")
    if answer is None:
        return None  # text for a person
    specific: object = answer.get("hookSpecificOutput", {})
    if not isinstance(specific, dict):
        return Deny(f"{who}: its answer is not one that a hook gives")
    more = cast("dict[str, Any]", specific)
    said = [value for value in (more.get("permissionDecision"), answer.get("decision")) if value is not None]
    reason = more.get("permissionDecisionReason") or answer.get("reason") or answer.get("stopReason") or "denied"
    text = f"{who}: {clip(str(reason))}"
    if any(value in DENIES for value in said) or answer.get("continue", True) is not True:
        return Deny(text)
    if unknown := [value for value in said if value not in (*ASKS, *ALLOWS)]:
        return Deny(f"{who}: {clip(str(unknown[0]))!r} is no decision")
    if "updatedInput" in more:
        return Deny(f"{who} would change the arguments, which nothing may do after they were checked")
    return Ask(text) if any(value in ASKS for value in said) else None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object. Raises ValueError if it says one thing twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found


async def run_hook(seen: HookCall) -> tuple[int, str, str] | str:
    """Run a hook; return (exit code, stdout, stderr), or why it did not end by itself."""
    hook, folder = seen.hook, seen.folder
    shell = find_program("bash", outside=seen.place) or "/bin/sh"
    command = [shell, "-c", hook.command] if hook.args is None else [hook.command, *hook.args]
    environ = hook_environment(shell) | {
        "CLAUDE_PLUGIN_ROOT": str(folder.root),
        "CLAUDE_PLUGIN_DATA": str(folder.data),
        "CLAUDE_PROJECT_DIR": seen.place,
    }
    if _INLINE.search(" ".join([hook.command, *(hook.args or ())])):
        environ["PYTHONSAFEPATH"] = "1"  # else its imports are files of the workspace, which the model writes
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


def place_of(ctx: RunContext[Any]) -> str:
    """Return the workspace's directory, if it is one of this machine; else this process's."""
    ref = ctx.workspace.ref
    return ref.id if ref is not None and ref.provider in HOST and Path(ref.id).is_dir() else str(Path.cwd())


def fits(matcher: str, name: str) -> bool:
    """Whether a hook's matcher names a tool, or a kind of event."""
    if matcher in ("", "*"):
        return True
    try:
        return re.fullmatch(matcher, name) is not None
    except re.error:
        return True  # a guard that says this badly guards everything


def may_be(only: str, name: str, args: Mapping[str, Any]) -> bool:
    """Whether a call is one that a hook's `if` names, as `Bash(git push *)`. In doubt it is: it may be a guard."""
    rule = _ONLY.fullmatch(only)
    if rule is None:
        return True
    if rule[1] != name:
        return rule[1] not in _NAMED
    pattern, value = rule[2] or "*", args.get(_NAMED.get(name, ""), None)
    if not isinstance(value, str) or (name == "Bash" and _COMPOUND.search(value)):
        return True
    if name == "Bash":
        pattern = re.sub(r":\*$", "*", pattern)
        return fnmatchcase(value, pattern) or fnmatchcase(f"{value} ", pattern)
    return fnmatchcase(value, pattern) or fnmatchcase(value, f"*/{pattern}")


def clip(text: str) -> str:
    """Return a text without space around it, and not longer than a reason may be."""
    text = text.strip()
    return text if len(text) <= REASON_CHARS else f"{text[:REASON_CHARS]}…"
