"""The database's time-out, not the server's."""

import json

from deep_trials.checking import Trial, read


def check(trial: Trial) -> bool:
    try:
        said = json.loads(read(trial.workspace, "answer.json"))
    except ValueError:
        return False
    return said == {"service": "delivery", "seconds": 75}
