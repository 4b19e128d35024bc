"""Any plan that keeps the order, with the shortest time without writes."""

import json

from deep_trials.checking import Trial, read

TAKES = {"dump": 20, "stop-writes": 1, "announce": 5, "new-server": 60, "schema": 10, "load": 40, "index": 30, "verify": 10, "switch": 2, "rehearse": 25, "start-writes": 1, "remove": 15, "backup": 35}
NEEDS = {"dump": ["stop-writes"], "stop-writes": ["announce"], "announce": [], "new-server": [], "schema": ["new-server"], "load": ["dump", "schema"], "index": ["load"], "verify": ["index"], "switch": ["verify", "rehearse"], "rehearse": ["new-server"], "start-writes": ["switch"], "remove": ["start-writes", "backup"], "backup": ["stop-writes"]}
SHORTEST = 104


def check(trial: Trial) -> dict[str, bool]:
    try:
        plan = json.loads(read(trial.workspace, "plan.json"))
    except ValueError:
        plan = None
    if not isinstance(plan, dict) or plan.keys() != TAKES.keys() or not all(type(at) is int and at >= 0 for at in plan.values()):
        return {"whole": False}
    ordered = all(plan[name] >= plan[each] + TAKES[each] for name, needs in NEEDS.items() for each in needs)
    without = plan["start-writes"] + TAKES["start-writes"] - plan["stop-writes"]
    return {"whole": True, "ordered": ordered, "shortest": without == SHORTEST}
