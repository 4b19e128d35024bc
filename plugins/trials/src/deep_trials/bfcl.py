"""Read BFCL's entries as tasks: the functions of an entry are the agent's tools, and its first calls are judged."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from .errors import SuiteError
from .function_calls import Language, language_of, write_literal
from .suites import Suite, SuiteFile
from .tasks import DeepTable, Solution, Task, TaskFile, Timeout

__all__ = ["CALLS", "calls_folder", "calls_suite", "category_file", "is_bfcl", "load_bfcl"]

CALLS = "calls"
"""The suite of four categories, from the data of an installed package."""
CATEGORIES = ("simple_python", "multiple", "parallel", "irrelevance")
PACKAGE, DISTRIBUTION = "bfcl_eval", "bfcl-eval"
LICENSE = "Apache-2.0"
_FILE = re.compile(r"BFCL_v\d+_(\w+)\.json")
_NAME = re.compile(r"[^A-Za-z0-9_-]")
"""What providers refuse in a function's name."""
CHECK = b'"""The calls are those that the entry accepts."""\n\nfrom deep_trials.function_calls import check as check\n'
SCHEMA_TYPES = {
    "dict": "object", "HashMap": "object", "Hashtable": "object", "float": "number", "double": "number",
    "tuple": "array", "list": "array", "Array": "array", "ArrayList": "array", "String": "string", "char": "string",
    "any": "string", "Boolean": "boolean", "bool": "boolean", "byte": "integer", "short": "integer", "long": "integer",
    "Bigint": "integer",
}  # fmt: skip
"""Types of BFCL -> of JSON Schema, where they differ."""


def is_bfcl(path: Path) -> bool:
    """Whether a file is named like one of BFCL's."""
    return path.is_file() and _FILE.fullmatch(path.name) is not None


def calls_folder() -> Path | None:
    """Return the data of the installed package, which is not imported; None without it."""
    spec = find_spec(PACKAGE)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent / "data"


def calls_suite() -> Suite:
    """Return the suite `calls`.

    Raises:
        SuiteError: the package with its data is not installed.
    """
    folder = calls_folder()
    if folder is None:
        raise SuiteError(f"the suite {CALLS} reads the data of {DISTRIBUTION}: pip install --no-deps {DISTRIBUTION}")
    return _suite(CALLS, folder, [category_file(folder, each) for each in CATEGORIES])


def category_file(folder: Path, category: str) -> Path:
    """Return the file of a category, whatever its version.

    Raises:
        SuiteError: there is none.
    """
    for path in sorted(folder.glob(f"BFCL_v*_{category}.json"), reverse=True):
        if (found := _FILE.fullmatch(path.name)) is not None and found[1] == category:
            return path
    raise SuiteError(f"{folder} has no entries of {category}: install {DISTRIBUTION} of 2026")


def load_bfcl(path: Path) -> Suite:
    """Read one file of entries, with the answers in `possible_answer/` beside it.

    Raises:
        SuiteError: it has no single-turn entries.
    """
    return _suite(path.stem, path.parent, [path])


def _suite(name: str, folder: Path, files: Sequence[Path]) -> Suite:
    tasks = tuple(task for path in files for task in _tasks(path, folder))
    file = SuiteFile(
        description="Calls of functions, judged by BFCL's rules.",
        license=LICENSE,
        sources=(f"{DISTRIBUTION}: {LICENSE}",),
    )
    return Suite(name, folder, file, tasks)


def _tasks(path: Path, folder: Path) -> Iterator[Task]:
    found = _FILE.fullmatch(path.name)
    category = "" if found is None else found[1]
    answers = path.parent / "possible_answer" / path.name
    try:
        accepted = {each["id"]: each["ground_truth"] for each in _lines(answers)} if answers.is_file() else {}
        for entry in _lines(path):
            if len(entry["question"]) != 1:
                raise SuiteError(f"{path}: {entry['id']} has several turns; only single-turn entries are tasks")
            yield _task(entry, accepted.get(entry["id"], []), category, folder)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SuiteError(f"{path} has no entries of BFCL: {type(error).__name__}: {error}") from error


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        yield from (json.loads(line) for line in lines if line.strip())


def _task(entry: Mapping[str, Any], accepted: Sequence[Any], category: str, folder: Path) -> Task:
    language = language_of(category)
    functions = [{**each, "name": _NAME.sub("_", each["name"])} for each in entry["function"]]
    answers = [{_NAME.sub("_", name): values for name, values in each.items()} for each in accepted]
    case = json.dumps({"category": category, "functions": functions, "accepted": answers}).encode()
    instruction = "\n\n".join(each["content"] for each in entry["question"][0])
    return Task(
        name=entry["id"],
        folder=folder,
        instruction=instruction,
        file=TaskFile(agent=Timeout(timeout_sec=300.0), deep=DeepTable(requests=4)),
        files={},
        tests={"check.py": CHECK, "case.json": case},
        solution=Solution(_script(functions, answers, category), {}),
        digest=hashlib.sha256(instruction.encode() + CHECK + case).hexdigest(),
        functions=tuple(_offered(each, language) for each in functions),
    )


def _offered(function: Mapping[str, Any], language: Language) -> dict[str, Any]:
    """Return a function as a provider takes it. Arguments of Java and JavaScript are texts in that language."""
    parameters: dict[str, Any] = _schema(function["parameters"])
    if language != "python":
        parameters["properties"] = {
            name: {"type": "string", "description": f"{each.get('description', '')} ({language} {each['type']})"}
            for name, each in function["parameters"]["properties"].items()
        }
    return {"name": function["name"], "description": function["description"], "parameters": parameters}


def _schema(value: Any) -> Any:
    if isinstance(value, list):
        return [*map(_schema, cast("list[Any]", value))]
    if not isinstance(value, dict):
        return value
    made = {key: _schema(inner) for key, inner in cast("dict[str, Any]", value).items()}
    if isinstance(made.get("type"), str):
        made["type"] = SCHEMA_TYPES.get(made["type"], made["type"])
    return made


def _script(functions: Sequence[Mapping[str, Any]], accepted: Sequence[Any], category: str) -> list[Any]:
    """Return the reference: the first accepted value of each argument that cannot be left out."""
    language, offered = language_of(category), {each["name"]: each["parameters"]["properties"] for each in functions}
    calls: list[dict[str, Any]] = []
    for answer in accepted:
        ((name, values),) = answer.items()
        args = {each: _first(listed) for each, listed in values.items() if not _may_lack(listed)}
        if language != "python":
            args = {each: write_literal(value, offered[name][each], language) for each, value in args.items()}
        calls.append({"name": name, "args": args})
    if not calls and "irrelevance" not in category:  # any call of any function will do
        calls = [{"name": functions[0]["name"], "args": {}}]
    return [{"calls": calls}] if calls else ["None of these functions fits."]


def _first(accepted: Any) -> Any:
    """Return the first accepted value. The fields of an object have accepted values of their own."""
    return _value(cast("list[Any]", accepted)[0]) if isinstance(accepted, list) else accepted


def _value(value: Any) -> Any:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {key: _first(each) for key, each in fields.items() if not _may_lack(each)}
    return [_value(each) for each in cast("list[Any]", value)] if isinstance(value, list) else value


def _may_lack(accepted: Any) -> bool:
    return isinstance(accepted, list) and cast("list[Any]", accepted)[:1] in ([""], [])
