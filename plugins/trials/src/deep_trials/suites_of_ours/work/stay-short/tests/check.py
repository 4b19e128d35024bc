"""The number and the day, and little was read."""

from deep_trials.checking import Trial, read


def check(trial: Trial) -> dict[str, bool]:
    return {
        "right": read(trial.workspace, "again.txt").split() == ["418302977", "2026-05-24"],
        "short": sum(len(each.result) for each in trial.calls) < 8000,
    }
