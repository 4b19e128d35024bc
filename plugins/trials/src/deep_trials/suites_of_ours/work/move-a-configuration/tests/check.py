"""What a parser of TOML reads; as JSON, because True equals 1 in Python."""

import json
import tomllib

from deep_trials.checking import Trial, read

WANTED = {
    "server": {"host": "0.0.0.0", "port": 8080, "debug": False},
    "mail": {
        "senders": ["ann@example.org", "bo@example.org"],
        "retries": 3,
        "tls": True,
        "subject": "yes and no",
        "code": "007x",
    },
}


def check(trial: Trial) -> dict[str, bool]:
    try:
        said = tomllib.loads(read(trial.workspace, "app.toml"))
    except tomllib.TOMLDecodeError:
        said = {}
    return {"right": json.dumps(said, sort_keys=True) == json.dumps(WANTED, sort_keys=True), "kept": (trial.workspace / "app.ini").exists()}
