"""The file holds the line and nothing else."""

from deep_trials.checking import Trial, read


def check(trial: Trial) -> bool:
    return read(trial.workspace, "greeting.txt").strip() == "Good morning, Oslo."
