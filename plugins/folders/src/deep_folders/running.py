"""Run one hook: a program of a folder, with a message on stdin."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from deep_core.plugin_api import find_program

from .environment import hook_environment
from .host import HOST

if TYPE_CHECKING:
    from pydantic_ai import RunContext

    from .folder import Folder, HookEntry

__all__ = ["CANNOT_RUN", "Ask", "HookCall", "Outcome", "in_use", "message_of", "place_of", "run_hook", "spent_in"]

Outcome: TypeAlias = "tuple[int, str, str] | str"
Ask: TypeAlias = "Callable[[HookEntry, Mapping[str, Any]], Awaitable[Outcome]]"

OUTPUT_BYTES = 1_000_000
"""Of each stream of a hook. One that says more denies: its answer may stand in what is cut."""
_INLINE = re.compile(r"\bpython[\d.]*[\"']?\s+(?:-[A-Za-z]+\s+)*(?:-[A-Za-z]*[cm]\b|-(?:\s|$)|<<)")
"""Python without a script: its first place for imports is the working directory."""
CANNOT_RUN = (126, 127)
"""What a shell says of a program that it cannot start."""


@dataclass(frozen=True)
class HookCall:
    """A hook to run.

    Attributes:
        folder: whose hook it is.
        hook: the hook.
        message: what it gets on stdin.
        place: the folder in which it runs.
        ask: asks the model, if the hook is a question.
        variables: more of its environment.
        spent: the hooks that have run once in the session, and need not again.
    """

    folder: Folder
    hook: HookEntry
    message: dict[str, Any]
    place: str
    ask: Ask | None = None
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    spent: set[HookEntry] = field(default_factory=set["HookEntry"])


def message_of(event: str, session_id: str, place: str) -> dict[str, Any]:
    """Return what each hook gets on stdin."""
    return {
        "session_id": session_id,
        "transcript_path": "",
        "cwd": place,
        "permission_mode": "default",
        "hook_event_name": event,
    }


def place_of(ctx: RunContext[Any]) -> str:
    """Return the workspace's directory, if it is one of this machine; else this process's."""
    ref = ctx.workspace.ref
    return ref.id if ref is not None and ref.provider in HOST and Path(ref.id).is_dir() else str(Path.cwd())


def in_use(hook: HookEntry, ctx: RunContext[Any]) -> bool:
    """Whether a hook counts now: that of a skill does once the skill was loaded."""
    if hook.skill is None:
        return True
    from deep_skills import SKILLS

    return any(Path(skill.path) == hook.skill for skill in ctx.deps.state[SKILLS].values())


def spent_in(hook: HookEntry, ctx: RunContext[Any]) -> set[HookEntry]:
    """Return the hooks that ran once in the session; of others none, as their calls may belong to no conversation."""
    from .slot import HEARD

    return ctx.deps.state[HEARD].spent if hook.once else set()


async def run_hook(seen: HookCall) -> Outcome:
    """Run a hook; return (exit code, stdout, stderr), or why it did not end by itself."""
    if seen.hook in seen.spent:
        return 0, "", ""
    if seen.hook.once:
        seen.spent.add(seen.hook)  # before it runs: calls run side by side
    outcome = await _run(seen)
    if isinstance(outcome, str) or outcome[0]:
        seen.spent.discard(seen.hook)
    return outcome


async def _run(seen: HookCall) -> Outcome:
    hook, folder = seen.hook, seen.folder
    if hook.prompt:
        return "no model can be asked here" if seen.ask is None else await seen.ask(hook, seen.message)
    shell = find_program("bash", outside=seen.place) or "/bin/sh"
    command = [shell, "-c", hook.command] if hook.args is None else [hook.command, *hook.args]
    environ = hook_environment(shell, folder.hook_env) | {
        "CLAUDE_PLUGIN_ROOT": str(folder.root),
        "CLAUDE_PLUGIN_DATA": str(folder.data),
        "CLAUDE_PROJECT_DIR": seen.place,
        # Some read these two here, and not from stdin.
        "CLAUDE_HOOK_EVENT_NAME": hook.event,
        "CLAUDE_SESSION_ID": seen.message["session_id"],
        **seen.variables,
    }
    if hook.skill is not None:
        environ["CLAUDE_SKILL_DIR"] = str(hook.skill)
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
