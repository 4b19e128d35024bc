"""The process of one trial: `python -m deep_trials.trial_process FD`. It reads a job, runs the agent, and reports."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage

    from .subjects import Finished
    from .tapes import Player, Recorder

__all__ = ["main"]


def main(pipe: int) -> None:
    """Run the job on stdin; write events and the result to a pipe that no command of the agent has."""
    os.set_inheritable(pipe, False)
    _die_with_parent()
    job: dict[str, Any] = json.load(sys.stdin)
    with os.fdopen(pipe, "w", encoding="utf-8") as out:
        tell = _Teller(out)
        try:
            tell({"result": asyncio.run(_run(job, tell))})
        except Exception as error:  # noqa: BLE001 - the harness reports it as its own failure
            import traceback

            traceback.print_exc()
            from .errors import TrialsError

            named = "" if isinstance(error, TrialsError) else f"{type(error).__name__}: "
            tell({"failed": f"{named}{error}"})


class _Teller:
    def __init__(self, out: Any) -> None:
        self._out = out

    def __call__(self, said: Mapping[str, Any]) -> None:
        self._out.write(json.dumps(said) + "\n")
        self._out.flush()


def _die_with_parent() -> None:
    """End when the harness does, also after `kill -9`: a trial without its harness must end."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


async def _run(job: Mapping[str, Any], tell: _Teller) -> dict[str, Any]:
    from .errors import TrialsError
    from .scripted import play
    from .servers import Server, started
    from .subjects import Place, find_subject, run_subject
    from .tapes import Player
    from .tasks import TaskFile

    play(job["script"])
    tape = _tape(job, tell)
    agent: str = job["agent"]
    place = Place(
        workspace=Path(job["workspace"]),
        store=job["store"],
        session=job["session"],
        instruction=job["instruction"],
        file=TaskFile.model_validate(job["file"]),
        model=job["model"],
        config=job["config"],
        disable=job["disable"],
        hide=job["hide"],
        usd=job["usd"],
        seconds=job["seconds"],
        tape=tape,
        functions=job["functions"],
        turns=job["turns"],
    )
    subject = find_subject(agent, job["typed_in"])
    with nullcontext() if job["server"] is None else started(Server(**job["server"])) as talk:
        place = replace(place, talk=talk)
        finished = await run_subject(subject, place, lambda read, written: tell({"tokens": [read, written]}))
    if isinstance(tape, Player) and tape.problem:
        raise TrialsError(tape.problem)
    return _report(finished)


def _tape(job: Mapping[str, Any], tell: _Teller) -> Recorder | Player | None:
    from .tapes import Cleaner, Player, Recorder

    if job["tape"] is None:
        return None
    cleaner = Cleaner(str(Path(job["workspace"]).parent))
    if "record" in job["tape"]:
        return Recorder(cleaner, tell)
    from pydantic_ai import models

    models.ALLOW_MODEL_REQUESTS = False  # where bubblewrap does not take the network away
    return Player(cleaner, job["tape"])


def _report(finished: Finished) -> dict[str, Any]:
    usage, error = finished.usage, finished.error
    end = getattr(error, "end", None)
    calls = _calls(finished.messages)
    return {
        "answer": finished.answer,
        "error": None if error is None else {"code": error.code, "message": error.message},
        "kind": None if end is None else end.kind,
        "cause": None if error is None or error.__cause__ is None else type(error.__cause__).__name__,
        "tokens_in": usage.input_tokens,
        "tokens_out": usage.output_tokens,
        "tokens_cached": usage.cache_read_tokens,
        "usd": None if usage.cost is None else float(usage.cost),
        "requests": usage.requests,
        "calls": calls,
        "transcript": _transcript(finished.messages, calls),
        "explained": dict(finished.explained),
        "contributing": [*finished.contributing],
    }


def _calls(messages: Sequence[ModelMessage]) -> list[dict[str, Any]]:
    results: dict[str, tuple[str, str]] = {}
    for message in messages:
        for part in message.parts:
            if part.part_kind == "tool-return":
                results[part.tool_call_id] = part.outcome, part.model_response_str()
            elif part.part_kind == "retry-prompt":
                results[part.tool_call_id] = "retried", part.model_response()
    found: list[dict[str, Any]] = []
    for message in messages:
        for part in message.parts:
            if part.part_kind == "tool-call":
                outcome, said = results.get(part.tool_call_id, ("lost", ""))
                found.append({"tool": part.tool_name, "args": _args(part), "outcome": outcome, "result": said})
    return found


def _args(part: Any) -> dict[str, Any]:
    try:
        return part.args_as_dict()
    except ValueError:
        return {"": str(part.args)}


def _transcript(messages: Sequence[ModelMessage], calls: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the conversation as people read it."""
    shown: list[dict[str, Any]] = []
    rest = iter(calls)
    for message in messages:
        part: Any
        for part in message.parts:
            if part.part_kind in ("user-prompt", "text", "thinking"):
                kind = {"user-prompt": "user", "text": "agent"}.get(part.part_kind, "thought")
                shown.append({"kind": kind, "text": _text(part.content)})
            elif part.part_kind == "tool-call":
                shown.append({"kind": "call", **next(rest)})
    return shown


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(map(_text, cast("list[Any]", content)))
    inner = getattr(content, "content", None)
    return inner if isinstance(inner, str) else f"({type(content).__name__})"


if __name__ == "__main__":
    main(int(sys.argv[1]))
