"""A server of tools: a program that speaks MCP over its pipes, for one trial, or to play the calls of one again."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

__all__ = ["Server", "Talk", "started"]

PROTOCOL = "2025-06-18"


@dataclass(frozen=True)
class Server:
    """How a server is started.

    Attributes:
        argv: its program.
        env: further variables; `{folder}` stands for an empty folder of its own.
        reads: folders that it needs to see.
    """

    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    reads: Sequence[str] = ()


class Talk:
    """A conversation with a server that runs. Its calls are made one after the other."""

    def __init__(self, to: IO[str], back: IO[str], folder: Path) -> None:
        self._to, self._back, self._asked = to, back, 0
        self.folder = folder
        self._ask("initialize", protocolVersion=PROTOCOL, capabilities={}, clientInfo={"name": "deep", "version": "1"})
        self._write({"method": "notifications/initialized"})

    def tools(self) -> list[dict[str, Any]]:
        """Return its tools: `name`, `description` and `parameters`, a JSON Schema."""
        found = self._ask("tools/list")["tools"]
        return [{"name": e["name"], "description": e["description"], "parameters": e["inputSchema"]} for e in found]

    def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Call a tool, and return what the model reads, an error too."""
        said = self._ask("tools/call", name=name, arguments=arguments)
        return "\n".join(each.get("text", "") for each in said["content"])

    def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._asked += 1
        self._write({"id": self._asked, "method": method, "params": params})
        for line in self._back:
            answer: dict[str, Any] = json.loads(line)
            if answer.get("id") == self._asked:
                return answer["result"] if "result" in answer else _failed(answer["error"])
        raise ChildProcessError("the server of the tools ended")

    def _write(self, message: Mapping[str, Any]) -> None:
        self._to.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._to.flush()


def _failed(error: Mapping[str, Any]) -> dict[str, Any]:
    return {"content": [{"text": f"Error: {error.get('message', error)}"}]}


@contextmanager
def started(server: Server) -> Generator[Talk]:
    """Start a server in an empty folder; end it afterwards."""
    with tempfile.TemporaryDirectory(prefix="deep-server-") as folder:
        env = {name: value.replace("{folder}", folder) for name, value in server.env.items()}
        with subprocess.Popen(
            server.argv,
            env={**os.environ, **env},
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        ) as process:
            try:
                yield Talk(cast("IO[str]", process.stdin), cast("IO[str]", process.stdout), Path(folder))
            finally:
                process.kill()
