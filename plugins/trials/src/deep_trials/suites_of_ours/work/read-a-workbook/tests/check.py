"""The sums of both teams."""

import json

from deep_trials.checking import Trial, read

COSTS = {'north': 1200, 'south': 880}


def check(trial: Trial) -> bool:
    try:
        said = json.loads(read(trial.workspace, "costs.json"))
    except ValueError:
        return False
    return isinstance(said, dict) and said.keys() == COSTS.keys() and all(abs(said[team] - cost) < 0.005 for team, cost in COSTS.items())
