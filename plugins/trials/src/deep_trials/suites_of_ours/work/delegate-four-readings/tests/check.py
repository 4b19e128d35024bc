"""The numbers; the diaries were read by others, and what came back was short."""

import json

from deep_trials.checking import Trial, read

STOCK = {"north": {"apples": 122, "pears": 133, "plums": 157}, "south": {"apples": 125, "pears": 105, "plums": 122}, "east": {"apples": 0, "pears": 135, "plums": 135}, "west": {"apples": 81, "pears": 107, "plums": 7}}


def check(trial: Trial) -> dict[str, bool]:
    try:
        said = json.loads(read(trial.workspace, "stock.json"))
    except ValueError:
        said = None
    return {
        "right": said == STOCK,
        "delegated": trial.used("task") > 0,
        "short": sum(len(each.result) for each in trial.calls) < 12_000,
    }
