"""Hold the smallest conversation: the agent plans, writes a file, and remembers the first turn in the second.

python examples/basic.py
"""

from __future__ import annotations

from scripted import model

from deep_core import create_deep_agent, create_default_deps

PLAN = [{"content": "Write the packing list", "status": "in_progress"}]


def main() -> None:
    """Run two turns of one session with every installed plugin."""
    agent = create_deep_agent(
        model(
            ("write_todos", {"todos": PLAN}),
            ("write_file", {"path": "packing.md", "content": "- passport\n- raincoat\n"}),
            "The packing list is in packing.md.",
            "Two things: a passport and a raincoat.",
        ),
        instructions="Be brief.",
        backend="memory",  # files live in the process, and there are no commands, so no call asks
    )
    deps = create_default_deps()  # the session holds everything that a run changes: files, todos
    first = agent.run_sync("Make me a packing list for Oslo.", deps=deps)
    print(first.output)
    second = agent.run_sync("What is on it?", deps=deps, message_history=first.all_messages())
    print(second.output)
    print("todos:", [f"{todo.content} ({todo.status})" for todo in deps.todos])
    print(f"{second.usage.requests} request in the second turn")


if __name__ == "__main__":
    main()
