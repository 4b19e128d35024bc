"""The two names, and no service changed."""

import tomllib

from deep_trials.checking import Trial, read


def check(trial: Trial) -> dict[str, bool]:
    services = [tomllib.loads(path.read_text()) for path in trial.workspace.glob("regions/*/*/service.toml")]
    return {
        "found": read(trial.workspace, "clash.txt").split() == ["cedar-dune", "heath-dune"],
        "kept": len(services) == 72 and sum(each["port"] for each in services) == SUM,
    }


SUM = 580090
