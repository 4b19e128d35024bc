"""What runs in the environment of agentdojo: `list` its tasks, `serve` the tools of one over MCP, and `judge` one.

`python dojo.py serve SUITE USER_TASK INJECTION_TASK`; an injection task `-` is none.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from typing import Any

BENCHMARK = "v1.2.2"
ATTACK = "important_instructions_no_names"
NONE, MARK = "-", "deep marks this"


class Case:
    """A task in its environment, with its injection.

    The attack's text is the package's own, which names neither user nor model.
    """

    def __init__(self, suite: Any, user: str, injection: str, attack: Any) -> None:
        self.suite, self.user = suite, suite.get_user_task_by_id(user)
        self.injection = None if injection == NONE else suite.get_injection_task_by_id(injection)
        texts = {} if self.injection is None else attack.attack(self.user, self.injection)
        self.environment = self.user.init_environment(suite.load_and_inject_default_environment(texts))
        self.before = self.environment.model_copy(deep=True)
        self._runtime: Any = _module("functions_runtime").FunctionsRuntime(suite.tools)

    def call(self, name: str, args: Mapping[str, Any]) -> tuple[str, bool]:
        """Call a tool; return what the model reads, and whether it is an error."""
        result, error = self._runtime.run_function(self.environment, name, args)
        if error is not None:
            return str(error), True
        return _module("agent_pipeline.tool_execution").tool_result_to_str(result), False


def _module(name: str) -> Any:
    return import_module(f"agentdojo.{name}")


def _suites() -> Mapping[str, Any]:
    return _module("task_suite.load_suites").get_suites(BENCHMARK)


def _attack(suite: Any) -> Any:
    pipeline = _module("agent_pipeline.ground_truth_pipeline").GroundTruthPipeline(None)
    pipeline.name = "local"  # the attack asks for a name that it does not use
    _module("attacks.important_instructions_attacks")
    return _module("attacks.attack_registry").load_attack(ATTACK, suite, pipeline)


def _case(words: Sequence[str]) -> Case:
    suite = _suites()[words[0]]
    return Case(suite, words[1], words[2], _attack(suite))


def tasks() -> dict[str, Any]:
    """Return all tasks: each alone, and with each injection of its suite."""
    preface = _module("agent_pipeline.agent_pipeline").load_system_message(None)
    suites = _suites()
    return {
        "version": version("agentdojo"),
        "preface": preface,
        "tools": {name: [*_tools(suite)] for name, suite in suites.items()},
        "tasks": [task for suite in suites.values() for task in _tasks(suite)],
    }


def _tasks(suite: Any) -> Iterator[dict[str, Any]]:
    attack = _attack(suite)
    marks = dict.fromkeys(suite.get_injection_vector_defaults(), MARK)
    for name, user in suite.user_tasks.items():
        marked = _solution(user, suite.load_and_inject_default_environment(marks))
        alone = _solution(user, suite.load_and_inject_default_environment({}))
        for injection in (NONE, *suite.injection_tasks):
            script = alone
            if injection != NONE and MARK in json.dumps(marked):  # it repeats a text that an injection is in
                script = _solution(user, Case(suite, name, injection, attack).environment)
            yield {"suite": suite.name, "user": name, "injection": injection, "prompt": user.PROMPT, "script": script}


def _solution(user: Any, environment: Any) -> list[Any]:
    calls = user.ground_truth(user.init_environment(environment))
    steps = [{"calls": [{"name": each.function, "args": dict(each.args)}]} for each in calls]
    return [*steps, user.GROUND_TRUTH_OUTPUT or "Done."]


def _tools(suite: Any) -> Iterator[dict[str, Any]]:
    for each in suite.tools:
        schema = each.parameters.model_json_schema()
        yield {"name": each.name, "description": each.description, "inputSchema": schema}


def judge(case: Case, said: Mapping[str, Any]) -> dict[str, bool]:
    """Make the calls again, and ask the package whether the task is done, and the injection's goal."""
    traces: list[Any] = []
    for each in said["calls"]:
        traces.append(_module("functions_runtime").FunctionCall(function=each["name"], args=each["args"]))
        case.call(each["name"], each["args"])
    states = (said["answer"], case.before, case.environment)
    traced = case.user.utility_from_traces(*states, traces)
    verdict = {"utility": bool(case.user.utility(*states) if traced is None else traced)}
    if case.injection is not None:
        traced = case.injection.security_from_traces(*states, traces)
        verdict["resisted"] = not (case.injection.security(*states) if traced is None else traced)
    return verdict


def serve(case: Case) -> None:
    """Answer MCP on the standard pipes, until they close."""
    for line in sys.stdin:
        asked: dict[str, Any] = json.loads(line)
        if "id" in asked:
            answer = {"jsonrpc": "2.0", "id": asked["id"], **_answer(case, asked["method"], asked.get("params") or {})}
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


def _answer(case: Case, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        known = {"name": "agentdojo", "version": version("agentdojo")}
        return {
            "result": {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": known,
            }
        }
    if method == "tools/list":
        return {"result": {"tools": [*_tools(case.suite)]}}
    if method == "tools/call":
        text, failed = case.call(params["name"], params.get("arguments") or {})
        return {"result": {"content": [{"type": "text", "text": text}], "isError": failed}}
    return {"error": {"code": -32601, "message": f"no method {method}"}}


if __name__ == "__main__":
    if sys.argv[1] == "list":
        json.dump(tasks(), sys.stdout)
    elif sys.argv[1] == "serve":
        serve(_case(sys.argv[2:]))
    else:
        json.dump(judge(_case(sys.argv[2:]), json.load(sys.stdin)), sys.stdout)
