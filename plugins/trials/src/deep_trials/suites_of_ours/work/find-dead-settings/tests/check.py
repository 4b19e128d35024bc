"""The names, the rest of the settings, and unchanged code."""

import hashlib
import tomllib

from deep_trials.checking import Trial, read

DEAD = ["export.max_count", "login.retry_count", "mail.idle_count", "queue.min_size", "search.idle_size"]
LEFT = "0d53574dfd63c2fda6cab174ddc8c093983b0508a09292495f085f9a42b0ad2e"
TREE = "fda1c422a3465e663ffc3ea92cc6ae55c0e9af42511da56ffd45be744934d9ac"


def check(trial: Trial) -> dict[str, bool]:
    paths = sorted((trial.workspace / "app").glob("*.py"))
    tree = hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in paths)).hexdigest()
    try:
        said = tomllib.loads(read(trial.workspace, "settings.toml"))
    except tomllib.TOMLDecodeError:
        said = {}
    rest = ",".join(f"{group}.{key}={value}" for group in sorted(said) for key, value in sorted(said[group].items()))
    return {
        "found": read(trial.workspace, "dead.txt").split() == DEAD,
        "taken_out": hashlib.sha256(rest.encode()).hexdigest() == LEFT,
        "kept": tree == TREE,
    }
