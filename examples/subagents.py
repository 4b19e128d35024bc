"""Run two subagents side by side, and a third that you prepared. Each sees only its task.

python examples/subagents.py
"""

from __future__ import annotations

from deep_subagents import SubAgentConfig, SubagentsOptions
from pydantic_ai import Agent
from pydantic_ai.messages import ToolReturnPart
from scripted import model

from deep_core import create_deep_agent, create_default_deps

READER = SubAgentConfig(
    name="reader",
    description="Reads one file and reports what is in it.",
    instructions="Read the file you are told, and report in one sentence.",
    tools="read",  # a tool expression; it can only narrow what the caller has
    model=model(("read_file", {"path": "notes.md"}), "The notes are about umbrellas."),
)
COUNTER = SubAgentConfig(
    name="counter",
    description="Counts things in the workspace.",
    instructions="Count, and report a number.",
    tools=["ls", "glob"],
    model=model(("glob", {"pattern": "**/*"}), "There is 1 file."),
)


def main() -> None:
    """Run three subagents. Without `model=`, a subagent uses its caller's model."""
    agent = create_deep_agent(
        model(
            ("write_file", {"path": "notes.md", "content": "Umbrellas sell best in May.\n"}),
            [  # these calls run at once
                ("task", {"description": "What is in notes.md?", "subagent_type": "reader"}),
                ("task", {"description": "How many files are there?", "subagent_type": "counter"}),
                ("task", {"description": "A title for notes about umbrellas.", "subagent_type": "poet"}),
            ],
            "The notes, one file, are about umbrellas. Title: Under One Roof.",
        ),
        plugins=[SubagentsOptions(types=(READER, COUNTER))],
        backend="memory",
    )
    deps = create_default_deps()
    deps.subagents["poet"] = Agent(model("Under One Roof"), description="Invents titles.")
    result = agent.run_sync("What do we have?", deps=deps)
    for message in result.all_messages():
        for part in message.parts:
            if isinstance(part, ToolReturnPart) and part.tool_name == "task":
                print("report:", part.content)
    print(result.output)
    print(f"{result.usage.requests} requests, the subagents' included")


if __name__ == "__main__":
    main()
