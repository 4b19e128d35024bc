"""The four lines; the zone is only in the table beside the skill."""

from deep_trials.checking import Trial, read


def check(trial: Trial) -> bool:
    lines = [line.strip() for line in read(trial.workspace, "label.txt").strip().splitlines()]
    return lines == ["5-NO", "MIA BERG", "Fjordveien 8, 5003", "W032*"]
