"""The rows, in order, whatever spaces the table has."""

from deep_trials.checking import Trial, read

WANTED = [["Note", "Owner", "Due"], ["lamps", "Ben", "2026-04-02"], ["floor", "Zoe", "2026-04-30"], ["paint", "Mia", "2026-05-20"]]


def check(trial: Trial) -> bool:
    lines = [line.strip() for line in read(trial.workspace, "plan.md").splitlines() if line.strip().startswith("|")]
    rows = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in rows if not all(set(cell) <= set("-: ") for cell in row)] == WANTED
