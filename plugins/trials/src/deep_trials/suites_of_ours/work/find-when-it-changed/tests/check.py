"""The one version."""

from deep_trials.checking import Trial, read


def check(trial: Trial) -> bool:
    return read(trial.workspace, "since.txt").strip().removeprefix("v") == "3.7.0"
