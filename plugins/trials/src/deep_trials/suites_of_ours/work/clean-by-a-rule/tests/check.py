"""Exactly these are gone, and all others are as they were."""

import hashlib

from deep_trials.checking import Trial, read

GONE = ["papers/bo/00.txt", "papers/bo/04.txt", "papers/bo/20.txt", "papers/bo/22.txt", "papers/cy/01.txt", "papers/cy/02.txt", "papers/cy/18.txt", "papers/cy/30.txt", "papers/cy/32.txt"]
LEFT = "27d4a9b2b52a2645c0b30c25af922864178720a97c94490c824b319f953af207"


def check(trial: Trial) -> dict[str, bool]:
    work = trial.workspace
    paths = sorted(path for path in work.glob("papers/**/*") if path.is_file())
    left = hashlib.sha256(b"".join(path.relative_to(work).as_posix().encode() + path.read_bytes() for path in paths)).hexdigest()
    return {"left": left == LEFT, "said": read(work, "deleted.txt").split() == GONE}
