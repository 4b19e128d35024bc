"""The notice of the one skill that fits, without the cause that it forbids."""

from deep_trials.checking import Trial, read


def check(trial: Trial) -> dict[str, bool]:
    text = read(trial.workspace, "message.txt")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return {
        "right": lines == ["We are on it (billing)", "since 13:55 UTC", "Next word from us by 15:05 UTC"],
        "no_cause": bool(lines) and "disk" not in text.lower(),
    }
