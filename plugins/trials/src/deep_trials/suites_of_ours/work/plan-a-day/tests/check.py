"""Every rule of the page, for any plan."""

import json
import re

from deep_trials.checking import Trial, read

TALKS = {"keynote": [60, 300, ["ada"]], "types": [40, 80, ["bo"]], "agents": [40, 200, ["cy"]], "tests": [30, 60, ["di", "bo"]], "maps": [30, 40, ["ed"]], "speed": [40, 120, ["flo"]], "color": [30, 50, ["gus"]], "panel": [60, 150, ["ada", "cy", "flo"]], "lint": [30, 30, ["hal"]], "close": [20, 280, ["ada"]]}
ROOMS = {"hall": 300, "oak": 120, "elm": 60}


def minutes(text: object) -> int:
    found = re.fullmatch(r"(\d{1,2}):(\d\d)", text) if isinstance(text, str) else None
    return -1 if found is None else int(found[1]) * 60 + int(found[2])


def check(trial: Trial) -> dict[str, bool]:
    try:
        said = json.loads(read(trial.workspace, "plan.json"))
        plan = {name: (room, minutes(at), minutes(at) + TALKS[name][0]) for name, (room, at) in said.items()}
    except (ValueError, TypeError, AttributeError, KeyError):
        plan = {}
    if plan.keys() != TALKS.keys():
        return {"whole": False}
    pairs = [(a, b) for a in plan for b in plan if a < b]

    def apart(a: str, b: str, gap: int) -> bool:
        return plan[a][2] + gap <= plan[b][1] or plan[b][2] + gap <= plan[a][1]

    first, last = plan["keynote"], plan["close"]
    return {
        "whole": True,
        "times": all(540 <= begin and end <= 780 for _, begin, end in plan.values()),
        "seats": all(ROOMS.get(room, 0) >= TALKS[name][1] for name, (room, _, _) in plan.items()),
        "rooms": all(apart(a, b, 10) for a, b in pairs if plan[a][0] == plan[b][0]),
        "speakers": all(apart(a, b, 10) for a, b in pairs if {*TALKS[a][2]} & {*TALKS[b][2]}),
        "ends": all(each[1] >= first[2] for name, each in plan.items() if name != "keynote") and all(each[2] <= last[1] for name, each in plan.items() if name != "close"),
        "people": plan["lint"][2] <= 645 and plan["maps"][1] >= 660 and apart("tests", "color", 0) and apart("tests", "lint", 0),
        "order": plan["panel"][1] >= max(plan["agents"][2], plan["speed"][2]),
    }
