"""Empty carts, through both functions: the next line would crash too."""

from deep_trials.checking import Trial, call


def check(trial: Trial) -> dict[str, bool]:
    work = trial.workspace
    empty = call(work, "cart:summary", [])
    return {
        "empty": (empty["total"], empty["average"]) == (0, 0) and empty["dearest"] in (0, None),
        "average": call(work, "cart:average", []) == 0,
        "full": call(work, "cart:summary", [100, 251]) == {"total": 351, "average": 175, "dearest": 251},
    }
