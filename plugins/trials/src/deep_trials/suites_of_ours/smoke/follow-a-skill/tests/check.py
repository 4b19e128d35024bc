"""The three rules of the skill."""

from deep_trials.checking import Trial, read


def check(trial: Trial) -> dict[str, bool]:
    lines = [line.strip() for line in read(trial.workspace, "RELEASE.md").splitlines() if line.strip()]
    return {
        "loaded": trial.used("load_skill") > 0,
        "first": bool(lines) and lines[0] == "Release 2.4.0 (codename heron)",
        "changes": len([line for line in lines if line.startswith("* ")]) == 2,
        "last": bool(lines) and lines[-1] == "Questions: releases@example.org",
    }
