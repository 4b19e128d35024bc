"""The function and the three rules."""

from deep_trials.checking import Broken, Trial, call, read


def refuses(trial: Trial, word: str, *arguments: int) -> bool:
    try:
        call(trial.workspace, "shapes:area", *arguments)
    except Broken as error:
        return f"ValueError: bad {word}" in str(error)
    return False


def check(trial: Trial) -> dict[str, bool]:
    return {
        "area": call(trial.workspace, "shapes:area", 3, 4) == 12 and call(trial.workspace, "shapes:area", 0, 4) == 0,
        "errors": refuses(trial, "width", -1, 2) and refuses(trial, "height", 1, -2),
        "all": call(trial.workspace, "shapes:__all__.__contains__", "area"),
        "changes": "added: area" in read(trial.workspace, "CHANGES.txt").splitlines(),
    }
