"""The sum, to the cent."""

from deep_trials.checking import Trial, read


def check(trial: Trial) -> bool:
    return read(trial.workspace, "bill.txt").strip() == "142.50"
