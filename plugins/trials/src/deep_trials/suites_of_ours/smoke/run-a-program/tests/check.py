"""The number, computed here from the task's own program."""

from deep_trials.checking import Trial, read


def check(trial: Trial) -> dict[str, bool]:
    number = 168 * 10000 + 76127 % 9973
    return {"right": read(trial.workspace, "result.txt").strip() == str(number), "ran": any(str(number) in each.result for each in trial.calls)}
