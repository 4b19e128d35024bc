"""The time, from the note."""

from deep_trials.checking import Trial


def check(trial: Trial) -> dict[str, bool]:
    return {"read": trial.used("read_file") > 0, "right": "17:45" in trial.answer}
