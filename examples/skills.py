"""Use your own skill: the agent finds it by its description, reads it and its resource, and runs its script.

The skill is the folder examples/skills/invoice-numbers.

    python examples/skills.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from deep_backends import local_backend
from deep_skills import SkillsOptions
from pydantic_ai import DeferredToolRequests, DeferredToolResults
from pydantic_ai.messages import ToolReturnPart
from scripted import model

from deep_core import create_deep_agent, create_default_deps

SKILLS = Path(__file__).resolve().parent / "skills"
NAME = "invoice-numbers"
CHECK = f"cd '{SKILLS / NAME}' && python3 scripts/check.py 2026-0417-5"


def main() -> None:
    """Run a skill's script. It asks, like every command."""
    agent = create_deep_agent(
        model(
            ("load_skill", {"skill_name": NAME}),
            ("execute", {"command": CHECK}),
            ("read_skill_resource", {"skill_name": NAME, "resource_name": "references/format.md"}),
            "2026-0417-5 is wrong: its check digit must be 1.",
        ),
        plugins=[SkillsOptions(directories=[SKILLS], user=False)],
    )
    with tempfile.TemporaryDirectory() as folder:
        deps = create_default_deps(backend=local_backend(folder))
        result = agent.run_sync("Is 2026-0417-5 a number of ours?", deps=deps)
        while isinstance(result.output, DeferredToolRequests):
            decisions = DeferredToolResults()
            for call in result.output.approvals:
                print("approved:", str(call.args_as_dict()["command"]).partition("&& ")[2])
                decisions.approvals[call.tool_call_id] = True
            history = result.all_messages()
            result = agent.run_sync(deps=deps, message_history=history, deferred_tool_results=decisions)
        for message in result.all_messages():
            for part in message.parts:
                if isinstance(part, ToolReturnPart):
                    print(f"{part.tool_name}: {str(part.content).strip().splitlines()[-1]}")
        print(result.output)
        print("in use:", list(deps.skills))


if __name__ == "__main__":
    main()
