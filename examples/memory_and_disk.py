"""Combine memory and disk in one tree: reports go to a folder, and notes end with the process.

python examples/memory_and_disk.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from deep_backends import composite_backend, local_backend, memory_backend
from scripted import model

from deep_core import create_deep_agent, create_default_deps


def main() -> None:
    """Show the agent one tree. The prefix of a path decides its backend."""
    agent = create_deep_agent(
        model(
            [
                ("write_file", {"path": "notes/draft.md", "content": "first thoughts\n"}),
                ("write_file", {"path": "report.md", "content": "# Report\n"}),
            ],
            "The draft is in notes/, the report beside it.",
        ),
        tool_filter="~execute",
    )
    with tempfile.TemporaryDirectory() as folder:
        notes = memory_backend()
        deps = create_default_deps(backend=composite_backend(local_backend(folder), {"notes/": notes}))
        print(agent.run_sync("Draft a report, then write it.", deps=deps).output)
        print("on disk:", sorted(path.name for path in Path(folder).iterdir()))
        print("in memory:", {path: data.decode() for path, data in notes.snapshot().items()})


if __name__ == "__main__":
    main()
