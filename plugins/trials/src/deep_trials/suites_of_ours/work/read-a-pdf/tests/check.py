"""The number and the total, which no text of the file has."""

from deep_trials.checking import Trial, read


def check(trial: Trial) -> bool:
    return read(trial.workspace, "wrong.txt").split() == ["2026-106", "607.19"]
