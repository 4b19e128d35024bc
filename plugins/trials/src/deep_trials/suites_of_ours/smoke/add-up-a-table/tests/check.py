"""The sum is computed here from the task's own copy."""

from deep_trials.checking import Trial, read


def check(trial: Trial) -> bool:
    return read(trial.workspace, "south.txt").strip() == "664"
