"""Read a dataset of pydantic-evals, a file of YAML or JSON, as a suite: each case is a task."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from deep_core import MissingExtra

from .errors import SuiteError
from .evaluators import EVALUATORS, Evaluator, arguments_of
from .suites import Suite, SuiteFile
from .tasks import Solution, Task, TaskFile, Timeout

__all__ = ["is_dataset", "load_dataset"]

CHECK = (
    b'"""The answer is what the case\'s evaluators accept."""\n\nfrom deep_trials.evaluators import check as check\n'
)
MAX_NAME = 60


def is_dataset(path: Path) -> bool:
    """Whether a file is named as datasets are."""
    return path.suffix in (".yaml", ".yml", ".json") and path.is_file()


def load_dataset(path: Path) -> Suite:
    """Read a dataset.

    Raises:
        SuiteError: it has no cases, or a case that no trial can be judged by; the message names it.
    """
    whole = _mapping(_parse(path), f"{path}: a dataset is a table with `cases`")
    listed = whole.get("cases")
    if not isinstance(listed, list) or not listed:
        raise SuiteError(f"{path} has no cases: is it a dataset of pydantic-evals?")
    of_all = _list(whole, "evaluators", str(path))
    tasks: dict[str, Task] = {}
    for number, given in enumerate(cast("list[object]", listed), 1):
        where = f"{path}: case {number}"
        case = _mapping(given, f"{where} is no table")
        task = _task(case, _name(case, number, tasks), of_all, where, path)
        tasks[task.name] = task
    name = whole.get("name")
    description = f"{name}, a dataset of pydantic-evals." if name else "A dataset of pydantic-evals."
    return Suite(path.stem, path.parent, SuiteFile(description=description, license="not stated"), (*tasks.values(),))


def _parse(path: Path) -> object:
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            return json.loads(text)
        import yaml
    except ImportError:
        raise SuiteError(f"{path}: {MissingExtra('sessions[yaml]')}") from None
    except (OSError, ValueError) as error:
        raise SuiteError(f"{path}: {error}") from error
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise SuiteError(f"{path}: {error}") from error


def _mapping(given: object, words: str) -> Mapping[str, Any]:
    if not isinstance(given, dict):
        raise SuiteError(words)
    return cast("Mapping[str, Any]", given)


def _list(table: Mapping[str, Any], key: str, where: str) -> list[object]:
    found: object = table.get(key) or []
    if not isinstance(found, list):
        raise SuiteError(f"{where}: {key} is no list")
    return cast("list[object]", found)


def _name(case: Mapping[str, Any], number: int, taken: Mapping[str, Task]) -> str:
    """Return a name that is a folder's too."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", str(case.get("name") or "")).strip("-")[:MAX_NAME] or f"case-{number}"
    return plain if plain not in taken else f"{plain}-{number}"


def _task(case: Mapping[str, Any], name: str, of_all: Sequence[object], where: str, path: Path) -> Task:
    inputs, expected = case.get("inputs"), case.get("expected_output")
    if not isinstance(inputs, str) or not inputs.strip():
        raise SuiteError(f"{where} ({name}): its inputs are no text, and a text is what an agent is told")
    given = [*_evaluators([*_list(case, "evaluators", where), *of_all], f"{where} ({name})")]
    judges = [
        each for each in given if each[0] != "MaxDuration" and (each[0] != "EqualsExpected" or expected is not None)
    ]
    if not judges:
        raise SuiteError(f"{where} ({name}) has no evaluator that judges the answer")
    times = [each[1]["seconds"] for each in given if each[0] == "MaxDuration"]
    data = json.dumps({"expected": expected, "evaluators": judges}, default=str).encode()
    file = TaskFile(agent=Timeout(timeout_sec=min(times))) if times else TaskFile()
    return Task(
        name=name,
        folder=path,
        instruction=inputs.strip(),
        file=file,
        files={},
        tests={"check.py": CHECK, "case.json": data},
        solution=Solution([_reference(expected, judges)], {}),
        digest=hashlib.sha256(inputs.encode() + CHECK + data + json.dumps(times).encode()).hexdigest(),
    )


def _evaluators(listed: Sequence[object], where: str) -> Iterator[Evaluator]:
    for each in listed:
        table = cast("dict[str, Any]", each) if isinstance(each, dict) else {each: None}
        if {"name", "arguments"} == table.keys():
            table = {table["name"]: table["arguments"]}
        name = next(iter(table), None)
        if len(table) != 1 or not isinstance(name, str):
            raise SuiteError(f"{where}: an evaluator is a name, or a name with its arguments")
        if name not in EVALUATORS:
            raise SuiteError(f"{where}: the evaluator {name} is not read here, only {', '.join(EVALUATORS)}")
        try:
            args = arguments_of(name, table[name])
        except ValueError as error:
            raise SuiteError(f"{where}: {error}") from error
        seconds = args.get("seconds", 1)
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds <= 0:
            raise SuiteError(f"{where}: MaxDuration takes seconds, a number above 0")
        yield name, args


def _reference(expected: object, judges: Sequence[Evaluator]) -> str:
    """Return an answer that an agent could have given: what is expected, or what one evaluator names."""
    wanted = expected
    if wanted is None:
        wanted = next((args["value"] for name, args in judges if name in ("Equals", "Contains")), "")
    return wanted if isinstance(wanted, str) else json.dumps(wanted, default=str)
