"""The files are there, and the list was kept: written early, updated, and done at the end."""

from deep_trials.checking import Trial, read


def check(trial: Trial) -> dict[str, bool]:
    lists = [each.args.get("todos", []) for each in trial.calls if each.tool == "write_todos" and each.outcome == "success"]
    states = [[item.get("status") for item in todos] for todos in lists]
    return {
        "files": all(read(trial.workspace, f"{name}.txt").strip() == name.upper() for name in "abc"),
        "planned": bool(states) and len(states[0]) >= 3 and any(state != "completed" for state in states[0]),
        "finished": bool(states) and len(states[-1]) >= 3 and all(state == "completed" for state in states[-1]),
    }
