"""The evaluators of pydantic-evals that judge an answer without a model: what each accepts, and what it says.

An answer is a text. Where an evaluator expects anything else, the answer is read as JSON first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from .checking import Trial

__all__ = ["EVALUATORS", "Evaluator", "arguments_of", "check", "verdicts"]

Evaluator: TypeAlias = tuple[str, Mapping[str, Any]]
"""A name and its arguments."""
_TEXTS = ("str", "object")


def check(trial: Trial) -> dict[str, bool]:
    """Judge a trial by the `case.json` beside its `check.py`."""
    case = json.loads((trial.tests / "case.json").read_bytes())
    return verdicts(trial.answer, case["expected"], case["evaluators"])


def verdicts(answer: str, expected: Any, evaluators: Sequence[Evaluator]) -> dict[str, bool]:
    """Return what each evaluator says of an answer, by its name; a second one of a name is `NAME_2`."""
    found: dict[str, bool] = {}
    for name, given in evaluators:
        args = {"expected": expected, **given} if name == "EqualsExpected" else given
        shown = str(given.get("evaluation_name") or name)
        number, free = 1, shown
        while free in found:
            number += 1
            free = f"{shown}_{number}"
        found[free] = _JUDGES[name](answer, args)
    return found


def arguments_of(name: str, given: object) -> Mapping[str, Any]:
    """Return the arguments of an evaluator as a file writes them: none, by name, or the first one alone.

    Raises:
        ValueError: one is missing or unknown; the message says which.
    """
    known = EVALUATORS[name]
    if given is None and "value" not in known:
        args: dict[str, Any] = {}
    elif isinstance(given, dict) and all(isinstance(key, str) for key in cast("dict[Any, Any]", given)):
        args = cast("dict[str, Any]", given)
    elif known:
        args = {known[0]: given}
    else:
        args = {"": given}
    if unknown := sorted(args.keys() - {*known, "evaluation_name"}):
        raise ValueError(f"{name} has no argument {unknown[0]!r}")
    if known and known[0] not in args:
        raise ValueError(f"{name} needs {known[0]}")
    return args


def _equals(answer: str, args: Mapping[str, Any]) -> bool:
    return bool(_read(answer, args["value"]) == args["value"])


def _equals_expected(answer: str, args: Mapping[str, Any]) -> bool:
    return bool(_read(answer, args["expected"]) == args["expected"])


def _contains(answer: str, args: Mapping[str, Any]) -> bool:
    value = args["value"]
    if args.get("as_strings") or isinstance(value, str):
        said, wanted = answer, str(value)
        if not args.get("case_sensitive", True):
            said, wanted = said.lower(), wanted.lower()
        return wanted in said
    read = _read(answer, value)
    if isinstance(read, dict) and isinstance(value, dict):
        fields = cast("dict[Any, Any]", read)
        return all(key in fields and fields[key] == inner for key, inner in cast("dict[Any, Any]", value).items())
    try:
        return value in read
    except TypeError:
        return False


def _is_instance(answer: str, args: Mapping[str, Any]) -> bool:
    kind = args["type_name"]
    value = answer if kind in _TEXTS else _read(answer, None)
    return any(kind == each.__name__ for each in cast("type[Any]", type(value)).__mro__)


def _read(answer: str, expected: object) -> Any:
    """Return an answer as it is, or what it says as JSON where no text is expected."""
    if isinstance(expected, str):
        return answer
    try:
        return json.loads(answer)
    except ValueError:
        return answer


EVALUATORS: Mapping[str, Sequence[str]] = {
    "Equals": ("value",),
    "EqualsExpected": (),
    "Contains": ("value", "case_sensitive", "as_strings"),
    "IsInstance": ("type_name",),
    "MaxDuration": ("seconds",),
}
"""Name -> its arguments, the first of which it needs."""
_JUDGES: Mapping[str, Callable[[str, Mapping[str, Any]], bool]] = {
    "Equals": _equals,
    "EqualsExpected": _equals_expected,
    "Contains": _contains,
    "IsInstance": _is_instance,
}
"""All but `MaxDuration`, which is the time of a trial."""
