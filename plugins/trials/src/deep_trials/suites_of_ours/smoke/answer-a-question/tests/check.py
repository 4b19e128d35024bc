"""The corrected day, the new person, and no file."""

from deep_trials.checking import Trial


def check(trial: Trial) -> dict[str, bool]:
    answer = trial.answer
    return {
        "day": "19 March" in answer or "March 19" in answer,
        "person": "Cy" in answer and "17" not in answer,
        "no_file": sorted(path.name for path in trial.workspace.iterdir()) == ["minutes.md"],
    }
