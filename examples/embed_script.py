"""Let an agent read a file of a directory, and print its answer.

python examples/embed_script.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from deep_backends import local_backend
from scripted import model

from deep_core import create_deep_agent, create_default_deps

SALES = "month,amount\njanuary,120\nfebruary,80\n"


def main() -> None:
    """Ask about a file."""
    agent = create_deep_agent(
        model(("read_file", {"path": "sales.csv"}), "January was best: 120."),
        instructions="Answer in one sentence.",
        tool_filter="read",  # the agent can only read
    )
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "sales.csv").write_text(SALES, encoding="utf-8")
        deps = create_default_deps(backend=local_backend(folder))
        result = agent.run_sync("Which month was best in sales.csv?", deps=deps)
        for message in result.all_messages():
            for part in message.parts:
                if part.part_kind == "tool-return":
                    print(part.content)
    print(result.output)


if __name__ == "__main__":
    main()
