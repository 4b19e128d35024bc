"""Let an agent fix a file in a folder that it cannot leave. It cannot overwrite a file that it has not read.

python examples/real_files.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from deep_backends import local_backend
from pydantic_ai.messages import ToolReturnPart
from scripted import model

from deep_core import create_deep_agent, create_default_deps

EDIT = {"path": "settings.ini", "old_string": "port = 80", "new_string": "port = 8080"}


def main() -> None:
    """Run one task on a folder of this machine."""
    agent = create_deep_agent(
        model(
            ("edit_file", EDIT),  # refused: the agent has not read it
            ("read_file", {"path": "settings.ini"}),
            ("edit_file", EDIT),
            ("read_file", {"path": "../secret.txt"}),  # refused: outside
            "The port is 8080 now.",
        ),
        tool_filter="~execute",  # files only, no commands
    )
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home, "project")
        folder.mkdir()
        Path(home, "secret.txt").write_text("1234", encoding="utf-8")
        Path(folder, "settings.ini").write_bytes(b"[server]\r\nport = 80\r\n")
        result = agent.run_sync(
            "Set the port in settings.ini to 8080.", deps=create_default_deps(backend=local_backend(folder))
        )
        for message in result.all_messages():
            for part in message.parts:
                if isinstance(part, ToolReturnPart):
                    print(f"{part.tool_name} ({part.outcome}): {str(part.content).splitlines()[0]}")
        print(result.output)
        print("on disk:", Path(folder, "settings.ini").read_bytes())


if __name__ == "__main__":
    main()
