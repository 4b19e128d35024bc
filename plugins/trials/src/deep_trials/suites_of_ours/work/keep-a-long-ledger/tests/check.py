"""The four balances: early entries are corrected late, when a long conversation may have lost them."""

import json

from deep_trials.checking import Trial, read

BALANCE = {"ivy": -208, "jon": -641, "kim": 924, "lou": -75}


def check(trial: Trial) -> bool:
    try:
        return bool(json.loads(read(trial.workspace, "balance.json")) == BALANCE)
    except ValueError:
        return False
