"""The name."""

from deep_trials.checking import Trial


def check(trial: Trial) -> bool:
    return "Paris" in trial.answer
