"""The process that judges: `python -m deep_trials.check_process FD TESTS WORKSPACE SAID BWRAP`."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

from .checking import Broken, Call, Trial, hide

__all__ = ["main"]


def main(argv: list[str]) -> None:
    """Load `check.py`, call `check(trial)`, and write its scores to a pipe that no other process has."""
    pipe = int(argv[0])
    os.set_inheritable(pipe, False)
    tests, workspace, said = map(Path, argv[1:4])
    hide(tests, argv[4])
    spoken = json.loads(said.read_bytes())
    calls = tuple(Call(**each) for each in spoken["calls"])
    trial = Trial(workspace, tests, spoken["answer"], calls)
    spec = importlib.util.spec_from_file_location("check", tests / "check.py")
    if spec is None or spec.loader is None:
        raise ImportError(f"{tests / 'check.py'} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(tests))  # for what is beside check.py
    spec.loader.exec_module(module)
    try:
        scores: Any = module.check(trial)
        note = ""
    except Broken as error:
        scores, note = False, str(error)
    with os.fdopen(pipe, "w", encoding="utf-8") as out:
        json.dump({"scores": scores, "note": note}, out)


if __name__ == "__main__":
    main(sys.argv[1:])
