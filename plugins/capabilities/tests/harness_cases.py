"""The capabilities of Pydantic AI's harness, each as an entry would name it, and the table of what works.

Write the table into docs/reference/harness.md, with the oldest Pydantic AI that CI tests and its harness:

    .venv-oldest/bin/python -m plugins.capabilities.tests.harness_cases
"""

from __future__ import annotations

import contextlib
import re
import tempfile
import warnings
from pathlib import Path
from typing import Any

from deep_backends import local_backend
from deep_capabilities import named_capabilities
from deep_capabilities.catalog import Importable, find_importable
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

from deep_core import Explanation, Kernel
from tests.environments import REPOSITORY

PLUGIN = "named_capabilities"
PAGE = REPOSITORY / "docs" / "reference" / "harness.md"
BEGIN, END = "<!-- harness -->\n", "<!-- end -->"
HERE = "plugins.capabilities.tests.harness_cases"
WINDOW = {"use": "SlidingWindowCompaction", "options": {"max_messages": 100}}
OPTIONS: dict[str, dict[str, Any]] = {
    "Advisor": {"model": "test"},
    "ApprovalReviewer": {"model": "test", "question": "Is it harmless?"},
    "AskUser": {"answerer": {"use": f"{HERE}:answer"}},
    "BubblewrapSandbox": {"wrapped": {"use": "LocalWorkspace", "options": {"working_dir": "."}}},
    "CapabilityCreation": {"directory": "capabilities"},
    "ClampOversizedMessages": {"max_part_chars": 10_000},
    "ClearToolResults": {"max_messages": 100},
    "CompactOnRequest": {"strategy": WINDOW},
    "ConversationSearch": {"source": {"use": "pydantic_ai_harness.step_persistence:InMemoryStepStore", "options": {}}},
    "DeduplicateFileReads": {"file_key": {"use": f"{HERE}:no_file"}},
    "DynamicWorkflow": {"agents": [{"use": "pydantic_ai:Agent", "options": {"model": "test", "name": "helper"}}]},
    "FallbackCompaction": {"fallback_chain": [WINDOW]},
    "GoogleWorkspace": {"services": ["drive"]},
    "InputGuardrail": {"guard": {"use": f"{HERE}:allow"}},
    "OutputGuardrail": {"guard": {"use": f"{HERE}:allow"}},
    "RelevanceCompaction": {"model": "test", "max_tokens": 100_000},
    "SSHWorkspace": {"destination": "host.example"},
    "Skills": {"directories": ["skills"]},
    "SlidingWindowCompaction": {"max_messages": 100},
    "SmartSearch": {"model": "test"},
    "StackOne": {"account_id": "a"},
    "SummarizingCompaction": {"model": "test", "max_messages": 100},
    "SystemReminders": {
        "reminders": [{"use": "pydantic_ai_harness.system_reminders:Reminder", "options": {"content": "Be brief."}}]
    },
    "TieredCompaction": {"tiers": [WINDOW], "target_tokens": 100_000},
    "ToolCallJudge": {"model": "test", "question": "Is it harmless?"},
    "TrajectoryJudge": {"model": "test"},
    "WarnNearLimits": {"max_iterations": 10},
}
"""What the classes with required options get."""
RIGHTS: dict[str, list[str]] = {
    "approvers": [PLUGIN],
    "innermost": [PLUGIN],
    "native_tools": ["web_search", "web_fetch"],
}
"""What `[agent]` may name."""


async def answer(*args: Any) -> Any:
    """Answer no question."""
    return None


def no_file(*args: Any) -> None:
    """No result is a file's."""


def allow(*args: Any) -> Any:
    """Let everything pass."""
    from pydantic_ai_harness import GuardrailResult

    return GuardrailResult.allow()


def kernel_of(entry: dict[str, Any], *plugins: object, agent: dict[str, Any] | None = None) -> Kernel:
    """A kernel whose configuration has this entry alone."""
    config = {"agent": agent or {}, "plugins": {PLUGIN: {"options": {"entries": {"it": entry}}}}}
    return Kernel(plugins=[named_capabilities, *plugins], discover=False, config=config)


def agent_with(
    entry: dict[str, Any], *plugins: object, rights: dict[str, Any] | None = None, **how: Any
) -> tuple[Kernel, Agent[Any, Any], str]:
    """An agent with one capability, and why it is not there ("" if it is)."""
    model = how.pop("model", None) or TestModel(call_tools=[])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kernel = kernel_of(entry, *plugins, agent=rights)
        agent = kernel.create_agent(model, backend=local_backend(Path.cwd()), **how)
    return kernel, agent, next((incident.error for incident in kernel.incidents), "")


def needed_right(reason: str) -> dict[str, list[str]]:
    """The key of `[agent]` that a refusal asks for."""
    return {key: names for key, names in RIGHTS.items() if f"{key} in [agent]" in reason or f"{key} = [" in reason}


class Case:
    """One capability of the harness: whether it works by configuration alone, and with which."""

    def __init__(self, each: Importable) -> None:
        self.each = each
        self.entry = {"use": each.use, **({"options": OPTIONS[each.name]} if each.name in OPTIONS else {})}
        self.rights: dict[str, list[str]] = {}
        self.explanation: Explanation | None = None
        self.reason = each.detail
        if each.status in ("needs-extra", "needs-key", "needs-package", "incompatible"):
            return
        kernel, agent, self.reason = agent_with(self.entry)
        if right := needed_right(self.reason):
            self.rights = right
            kernel, agent, self.reason = agent_with(self.entry, rights=right)
        if self.reason:
            return
        try:
            self.explanation = kernel.explain(agent)
        except Exception as error:
            self.reason = f"{type(error).__name__}: {error}"

    def row(self) -> str:
        """Its line of the table."""
        name = f"`{self.each.use}`"
        if self.explanation is None:
            return f"| {name} | no | | | {_cell(self.reason)} |"
        tools = [tool for tool in self.explanation.tools if tool.plugin == PLUGIN]
        asks = ", ".join(f"`{tool.name}`" for tool in tools if tool.approval != "never")
        free = ", ".join(f"`{tool.name}`" for tool in tools if tool.approval == "never")
        needs = [f"`{key}`" for key in OPTIONS.get(self.each.name, {})]
        needs += [f"`{key}` in `[agent]`" for key in self.rights]
        cost = self.explanation.by_plugin().get(PLUGIN, 0)
        both = "; ".join(part for part in (free, f"asks: {asks}" if asks else "") if part)
        return f"| {name} | yes | {both} | {cost} | {', '.join(needs)} |"


def _cell(reason: str) -> str:
    text = " ".join(reason.split())
    if extra := re.search(r"pip install '([^'=]+)", text):
        return f"the extra `{extra[1]}`"
    if key := re.search(r"\b[A-Z0-9_]+_(?:KEY|TOKEN)\b", text):
        return f"a key: `{key[0]}`"
    return text.replace("|", "\\|")[:200]


def cases(folder: Path) -> list[Case]:
    """Every capability of the harness, in a folder of the caller's."""
    # Some tell the model where they work: with the same length everywhere, they cost the same.
    folder /= "x" * (120 - len(str(folder.resolve())) - 1)
    (folder / "skills").mkdir(parents=True)
    with contextlib.chdir(folder):
        return [Case(each) for each in find_importable() if each.home == "harness"]


def table(found: list[Case]) -> str:
    """The table for the page."""
    head = "| `use` | Works | Its tools | Tokens | Needs |\n|---|---|---|---|---|\n"
    return head + "".join(f"{case.row()}\n" for case in found)


def written_table(page: Path = PAGE) -> str:
    """The table as the page has it."""
    return page.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]


if __name__ == "__main__":
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    with tempfile.TemporaryDirectory() as folder:
        made = table(cases(Path(folder)))
    PAGE.write_text(before + BEGIN + made + END + rest.partition(END)[2], encoding="utf-8")
    print(written_table())
