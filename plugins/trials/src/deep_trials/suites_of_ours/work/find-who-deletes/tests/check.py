"""The handlers, and an unchanged tree."""

import hashlib

from deep_trials.checking import Trial, read

REACH = ["h01", "h09", "h19", "h23", "h25", "h28"]
TREE = "7bbb36ba5f9cdef57973979832264c11681aa8d1265b98657391b1456b3ef698"


def digest(trial: Trial) -> str:
    paths = sorted(path for folder in ("core", "handlers") for path in (trial.workspace / folder).glob("*.py"))
    return hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in paths)).hexdigest()


def check(trial: Trial) -> dict[str, bool]:
    return {"right": read(trial.workspace, "reach.txt").split() == REACH, "kept": digest(trial) == TREE}
