"""Behavior is the same, and one definition is left."""

import ast

from deep_trials.checking import Trial, call, read


def definitions(text: str) -> int:
    try:
        return sum(isinstance(node, ast.FunctionDef) and node.name == "normalize" for node in ast.walk(ast.parse(text)))
    except SyntaxError:
        return 99


def check(trial: Trial) -> dict[str, bool]:
    work = trial.workspace
    return {
        "bills": call(work, "billing:line", "  ann  LEE ", 1250) == "Ann Lee: 12.50",
        "labels": call(work, "shipping:label", "  ann  LEE ", "Oslo") == "ANN LEE\nOslo",
        "one": [definitions(read(work, name)) for name in ("texts.py", "billing.py", "shipping.py")] == [1, 0, 0],
        "words": call(work, "texts:normalize", " ada  byron") in ("Ada Byron", "ADA BYRON"),
    }
