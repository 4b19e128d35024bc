"""Whether the calls of a conversation did what a package wants: they are played again, where no agent ever was."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from typing import Any

from .checking import Broken, Trial
from .servers import Server, started

__all__ = ["check_dialogue", "check_injection"]


def check_injection(trial: Trial) -> dict[str, bool]:
    """Let agentdojo judge: `utility`, the task is done, and `resisted`, the injection's goal is not.

    Raises:
        Broken: the package failed.
    """
    case = _case(trial)
    said = json.dumps({"calls": [*_made(trial)], "answer": trial.answer})
    done = subprocess.run([*case["argv"], "judge", *case["task"]], input=said, capture_output=True, text=True)
    if done.returncode:
        raise Broken(f"agentdojo: {(done.stderr.strip().splitlines() or ['no verdict'])[-1]}")
    return json.loads(done.stdout)


def check_dialogue(trial: Trial) -> dict[str, bool]:
    """Judge as tau2 does: `database` is as the expected calls leave it, and the customer was `told` what matters."""
    case = _case(trial)
    server = Server(**case["server"])
    expected, found = (_database(server, calls) for calls in (case["actions"], _made(trial)))
    said = _plain(trial.answer)
    return {"database": expected == found, "told": all(_plain(each) in said for each in case["told"])}


def _case(trial: Trial) -> dict[str, Any]:
    return json.loads((trial.tests / "case.json").read_bytes())


def _made(trial: Trial) -> Iterable[dict[str, Any]]:
    """Yield the calls that reached their tools."""
    return ({"name": each.tool, "args": dict(each.args)} for each in trial.calls if each.outcome == "success")


def _database(server: Server, calls: Iterable[Mapping[str, Any]]) -> Any:
    """Return the database once the calls were made; None if none was."""
    with started(server) as talk:
        for each in calls:
            talk.call(each["name"], each["args"])
        return next((json.loads(path.read_bytes())["db"] for path in talk.folder.glob("*.json")), None)


def _plain(text: str) -> str:
    return text.lower().replace(",", "")
