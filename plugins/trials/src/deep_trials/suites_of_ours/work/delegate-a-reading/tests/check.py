"""The name, and the letters were read by another."""

from deep_trials.checking import Trial, read


def check(trial: Trial) -> dict[str, bool]:
    opened = [each for each in trial.calls if each.tool == "read_file" and "letters/" in str(each.args.get("path"))]
    return {
        "right": read(trial.workspace, "who.txt").strip() == "Omar Vance",
        "delegated": trial.used("task") > 0,
        "short": not opened,
    }
