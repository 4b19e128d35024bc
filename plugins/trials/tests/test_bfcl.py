"""BFCL: its entries as tasks, and its rules. With `make test-bfcl`, our verdicts beside those of the package itself."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from deep_trials.bfcl import category_file, load_bfcl
from deep_trials.errors import SuiteError
from deep_trials.finding import find_suite, suite_lines
from deep_trials.function_calls import problem, read_literal, write_literal
from deep_trials.rows import Row
from deep_trials.runs import Contender, jobs_of, run_jobs
from deep_trials.suites import Suite

from deep_core import Kernel

PACKAGE = os.environ.get("DEEP_BFCL", "")
"""Where `make test-bfcl` has put bfcl-eval: its data is never part of this repository."""
real = pytest.mark.skipif(not PACKAGE, reason="make test-bfcl compares with the package")
CATEGORIES = (
    "simple_python", "simple_java", "simple_javascript", "multiple", "parallel", "parallel_multiple", "irrelevance",
    "live_simple", "live_multiple", "live_parallel", "live_parallel_multiple", "live_irrelevance", "live_relevance",
)  # fmt: skip
"""The single-turn categories."""


def function(name: str, **kinds: str) -> dict[str, Any]:
    properties: dict[str, dict[str, Any]] = {each: {"type": kind, "description": each} for each, kind in kinds.items()}
    for each in properties.values():
        if each["type"] in ("array", "ArrayList"):
            each["items"] = {"type": "string" if each["type"] == "array" else "String"}
    parameters = {"type": "dict", "properties": properties, "required": [*kinds][:1]}
    return {"name": name, "description": f"{name}.", "parameters": parameters}


SHIP = function("harbor.ship", port="string", tons="float", names="array", when="dict")
ACCEPTED = {
    "harbor.ship": {
        "port": ["Saint-Malo", "St. Malo"],
        "tons": [3.0],
        "names": [["Ada"], ""],
        "when": [{"day": [1]}, ""],
    }
}


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ({"port": "Saint-Malo", "tons": 3.0}, None),
        ({"port": "saint malo", "tons": 3}, None),
        ({"port": "ST.MALO", "tons": 3, "names": ["ADA"], "when": {"day": 1}}, None),
        ({"port": "Brest", "tons": 3}, "port: 'Brest' is not accepted"),
        ({"port": "Saint-Malo"}, "tons is missing"),
        ({"tons": 3}, "port is missing"),
        ({"port": "Saint-Malo", "tons": "3"}, "tons: '3' is no float"),
        ({"port": "Saint-Malo", "tons": True}, "tons: True is no float"),
        ({"port": "Saint-Malo", "tons": 3, "flag": 1}, "flag is not expected"),
        ({"port": "Saint-Malo", "tons": 3, "names": ["Ada", "Bo"]}, "names: ['Ada', 'Bo'] is not accepted"),
        ({"port": "Saint-Malo", "tons": 3, "names": [1]}, "names: [1] is not accepted"),
        ({"port": "Saint-Malo", "tons": 3, "when": {"day": 2}}, "when: {'day': 2} is not accepted"),
        ({"port": "Saint-Malo", "tons": 3, "when": {}}, "when: {} is not accepted"),
    ],
)
def test_one_call_is_judged(args: dict[str, Any], why: str | None) -> None:
    assert problem([SHIP], [{"harbor.ship": args}], [ACCEPTED], "simple_python") == why


def test_the_number_of_calls_and_in_parallel_not_their_order_counts() -> None:
    go, stop = function("go", to="string"), function("stop", at="string")
    accepted = [{"go": {"to": ["a"]}}, {"stop": {"at": ["b"]}}]
    calls: list[Any] = [{"stop": {"at": "b"}}, {"go": {"to": "a"}}]
    assert problem([go, stop], calls, accepted, "parallel_multiple") is None
    assert problem([go, stop], calls[:1], accepted, "parallel_multiple") == "1 calls, not 2"
    twice: list[Any] = [calls[0], calls[0]]
    assert problem([go, stop], twice, accepted, "parallel_multiple") == "no call fits the accepted one of go"
    assert problem([go, stop], calls[:1], accepted[1:], "multiple") is None
    assert problem([go, stop], [], [], "irrelevance") is None
    assert problem([go, stop], calls, [], "live_irrelevance") == "it called a function, and none fits"
    assert problem([go, stop], [], [], "live_relevance") == "it called no function"
    assert problem([go, stop], calls, [], "live_relevance") is None


@pytest.mark.parametrize(
    ("language", "kind", "item", "value", "text"),
    [
        ("java", "long", None, 5, "5L"),
        ("java", "float", None, 2.5, "2.5f"),
        ("java", "boolean", None, True, "true"),
        ("java", "Array", "integer", [1, 2], "new Object[]{1, 2}"),
        ("java", "ArrayList", "String", ["a, b", "c"], 'new ArrayList<>(Arrays.asList("a, b", "c"))'),
        ("java", "HashMap", None, {"a": 1, "b": "x"}, 'new HashMap<>() {{ put("a", 1); put("b", "x"); }}'),
        ("java", "any", None, "new Path(1)", "new Path(1)"),
        ("javascript", "String", None, "a", '"a"'),
        ("javascript", "Bigint", None, 7, "7n"),
        ("javascript", "array", None, [1, [2, "x"]], '[1, [2, "x"]]'),
        ("javascript", "dict", None, {"a": 1, "b": [True]}, "{a: 1, b: [true]}"),
    ],
)
def test_texts_of_languages_are_read_and_written(
    language: Any, kind: str, item: str | None, value: Any, text: str
) -> None:
    schema = {"type": kind, **({"items": {"type": item}} if item else {})}
    assert write_literal(value, schema, language) == text
    assert read_literal(text, kind, item, language) == value


@pytest.mark.parametrize(("language", "kind", "text"), [("java", "integer", "5L"), ("javascript", "Boolean", "yes")])
def test_a_text_of_another_type_stays_a_text(language: Any, kind: str, text: str) -> None:
    assert read_literal(text, kind, None, language) == text


def entries(folder: Path, category: str, *lines: tuple[Any, Any]) -> Path:
    (folder / "possible_answer").mkdir(parents=True, exist_ok=True)
    path = folder / f"BFCL_v4_{category}.json"
    asked = [
        {"id": f"{category}_{number}", "question": [[{"role": "user", "content": "Ship it."}]], "function": functions}
        for number, (functions, _) in enumerate(lines)
    ]
    path.write_text("".join(f"{json.dumps(each)}\n" for each in asked), encoding="utf-8")
    answers = [{"id": each["id"], "ground_truth": answer} for each, (_, answer) in zip(asked, lines, strict=True)]
    (folder / "possible_answer" / path.name).write_text(
        "".join(f"{json.dumps(each)}\n" for each in answers), encoding="utf-8"
    )
    return path


def test_an_entry_is_a_task_whose_functions_are_tools(tmp_path: Path) -> None:
    with Kernel(read_config=False) as kernel:
        (task,) = find_suite(str(entries(tmp_path, "simple_python", ([SHIP], [ACCEPTED]))), kernel).tasks
    (offered,) = task.functions
    assert (task.name, task.instruction, offered["name"]) == ("simple_python_0", "Ship it.", "harbor_ship")
    assert offered["parameters"]["type"] == offered["parameters"]["properties"]["when"]["type"] == "object"
    assert offered["parameters"]["properties"]["tons"]["type"] == "number"
    assert task.solution.script == [
        {
            "calls": [
                {
                    "name": "harbor_ship",
                    "args": {"port": "Saint-Malo", "tons": 3.0, "names": ["Ada"], "when": {"day": 1}},
                }
            ]
        }
    ]


def test_what_is_no_single_turn_is_refused(tmp_path: Path) -> None:
    path = entries(tmp_path, "multi_turn_base", ([SHIP], []))
    path.write_text(json.dumps({"id": "a", "question": [[], []], "function": []}), encoding="utf-8")
    with pytest.raises(SuiteError, match="a has several turns"):
        load_bfcl(path)
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(SuiteError, match="has no entries of BFCL: KeyError"):
        load_bfcl(path)


def test_the_suite_calls_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deep_trials.bfcl.PACKAGE", "acme_absent")
    with Kernel(read_config=False) as kernel, pytest.raises(SuiteError, match="pip install --no-deps bfcl-eval"):
        find_suite("calls", kernel)
    with Kernel(read_config=False) as kernel:
        assert "calls  the suite calls reads the data of bfcl-eval: pip install --no-deps bfcl-eval" in [
            *suite_lines(kernel)
        ]


@real
def test_the_suite_calls_has_four_categories(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [PACKAGE, *sys.path])
    with Kernel(read_config=False) as kernel:
        suite = find_suite("calls", kernel)
        assert f"calls  {len(suite.tasks)} tasks  {suite.file.description}" in [*suite_lines(kernel)]
    categories = Counter(json.loads(task.tests["case.json"])["category"] for task in suite.tasks)
    assert [*categories] == ["simple_python", "multiple", "parallel", "irrelevance"]
    assert min(categories.values()) > 100


AGENT = """
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.models.function import FunctionModel

def answer(messages, info):
    assert [tool.name for tool in info.function_tools] == ["harbor_ship"], info.function_tools
    return ModelResponse([ToolCallPart("harbor_ship", {"port": "Brest", "tons": 3})])

plain = Agent(FunctionModel(answer))
"""


@pytest.mark.slow
def test_trials_end_with_the_first_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acme_agents.py").write_text(AGENT, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    suite = load_bfcl(entries(tmp_path / "data", "simple_python", ([SHIP], [ACCEPTED])))
    contenders = [
        Contender(model="trials:reference"),
        Contender("acme_agents:plain"),
        Contender(model="trials:nothing"),
    ]
    rows = run(suite, contenders, tmp_path / "run")
    assert [(each.end, each.calls, each.requests) for each in rows] == [
        ("solved", 1, 1),
        ("unsolved", 1, 1),
        ("unsolved", 0, 1),
    ]
    assert [each.note for each in rows] == ["", "port: 'Brest' is not accepted", "0 calls, not 1"]


def run(suite: Suite, contenders: Sequence[Contender], folder: Path) -> Sequence[Row]:
    return asyncio.run(run_jobs(jobs_of(suite, contenders, 1), folder, at_once=2)).rows


@real
@pytest.mark.parametrize("category", CATEGORIES)
def test_references_are_scored_as_by_the_package(category: str) -> None:
    """Each reference answer, and three changes of each: our verdict is the package's."""
    path = category_file(Path(PACKAGE) / "bfcl_eval" / "data", category)
    cases = [case for task in load_bfcl(path).tasks for case in _cases(task, category)]
    ours = [problem(*case) is None for case in cases]
    theirs = [*map(_relevant, cases)] if "relevance" in category else _verdicts(cases)
    wrong = [case for case, our, their in zip(cases, ours, theirs, strict=True) if our is not their]
    print(category, Counter(theirs))
    assert wrong == []
    assert len(cases) > 12


def _cases(task: Any, category: str) -> Iterator[tuple[Any, Any, Any, str]]:
    case = json.loads(task.tests["case.json"])
    step = task.solution.script[0]
    calls = [] if isinstance(step, str) else [{each["name"]: each["args"]} for each in step["calls"]]
    draw = random.Random(task.name)
    yield case["functions"], calls, case["accepted"], category
    yield case["functions"], calls[::-1], case["accepted"], category
    for _ in range(3):
        yield case["functions"], _changed(calls, draw), case["accepted"], category


OTHERS: tuple[Any, ...] = (1, 1.5, "a", True, [], {}, ["a"], [1], "1L", "true", "[1]", {"a": 1}, [{"a": 1}])


def _changed(calls: Sequence[Any], draw: random.Random) -> list[Any]:
    made = json.loads(json.dumps(calls))
    if not made:
        return made
    at = draw.randrange(len(made))
    ((name, args),) = made[at].items()
    how = draw.randrange(6)
    if how == 0 or not args:
        made.pop(at)
    elif how == 1:
        made.append(made[at])
    elif how == 2:
        made[at] = {f"{name}_": args}
    else:
        key = draw.choice([*args])
        args[key] = draw.choice(OTHERS) if how == 3 else _alike(args[key])
        if how == 4:
            del args[key]
    return made


def _alike(value: Any) -> Any:
    if isinstance(value, str):
        return f"{value.upper()} ."
    return cast("list[Any]", value)[:1] if isinstance(value, list) else value


def _relevant(case: tuple[Any, Any, Any, str]) -> bool:
    """The package's rule for entries without an accepted answer, which its checker of calls does not know."""
    return bool(case[1]) is ("irrelevance" not in case[3])


def _verdicts(cases: Sequence[Any]) -> list[bool]:
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("bfcl_oracle.py"))],
        input="".join(f"{json.dumps(case)}\n" for case in cases), env={**os.environ, "PYTHONPATH": PACKAGE},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
