"""bfcl-eval's own verdicts: reads lines of JSON, `[functions, calls, accepted, category]`; prints `true` or `false`.

Started with the package on PYTHONPATH, without its dependencies: the table of models, which wants all of their
clients, is replaced by one that no rule depends on.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any


class Models(dict[str, Any]):
    """Any model; none changes the names of functions."""

    def __missing__(self, key: str) -> SimpleNamespace:
        return SimpleNamespace(underscore_to_dot=False)


def main() -> None:
    """Judge each line."""
    table: Any = ModuleType("bfcl_eval.constants.model_config")
    table.MODEL_CONFIG_MAPPING = Models()
    sys.modules[table.__name__] = table
    ast_checker: Any = import_module("bfcl_eval.eval_checker.ast_eval.ast_checker").ast_checker
    languages: Any = import_module("bfcl_eval.constants.enums").Language
    for line in sys.stdin:
        functions, calls, accepted, category = json.loads(line)
        name = "JAVASCRIPT" if "javascript" in category else "JAVA" if "java" in category else "PYTHON"
        said = ast_checker(functions, calls, accepted, languages[name], category, "any")
        print(json.dumps(bool(said["valid"])))


if __name__ == "__main__":
    main()
