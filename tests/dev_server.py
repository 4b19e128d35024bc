"""A model that starts a server in the background, asks it, searches its log and stops it; for tests of interfaces.

It understands `serve`, `stop the server` and `say words`. The server serves the workspace on a free port.
"""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

from deep_core import hookimpl
from examples.server.scripted import turn

__all__ = ["COMMAND", "DevServerModel", "dev_server_model"]

COMMAND = f"exec {sys.executable} -m http.server 0 --bind 127.0.0.1"
ASK = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())"


def step(messages: list[ModelMessage]) -> str | tuple[str, dict[str, Any]]:
    prompt, returned, _ = turn(messages)
    if prompt == "stop the server":
        return returned[0] if returned else ("stop_command", {"id": "c1"})
    if prompt != "serve":
        return prompt.removeprefix("say ")
    match len(returned):
        case 0:
            return "execute", {"command": COMMAND, "background": True}
        case 1:
            return "read_output", {"id": returned[0].split()[0], "wait": 60, "until": "Serving HTTP"}
        case 2:
            found = re.search(r"\((http://\S+/)\)", returned[1])
            address = found[1] if found else "no address"
            return "execute", {"command": f'{sys.executable} -c "{ASK}" {address}notes.txt'}
        case 3:  # its log may be a moment late
            return "read_output", {"id": returned[0].split()[0], "wait": 60, "until": "GET /notes"}
        case 4:
            log = returned[0].rpartition("; its log: ")[2]
            return "grep", {"pattern": "GET /notes", "path": log, "output_mode": "content"}
        case _:
            return f"It says {returned[2]!r}, and its log {returned[4]!r}."


def dev_server_model() -> FunctionModel:
    """Create the model."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        done = step(messages)
        return ModelResponse(parts=[TextPart(done) if isinstance(done, str) else ToolCallPart(*done)])

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        (part,) = answer(messages, info).parts
        if isinstance(part, ToolCallPart):
            call = DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id)
            yield {0: call}
        elif isinstance(part, TextPart):
            yield part.content

    return FunctionModel(answer, stream_function=stream, model_name="dev-server")


class DevServerModel:
    """A plugin: the models `serve:…`."""

    @hookimpl
    def deep_resolve_model(self, model_id: str) -> FunctionModel | None:
        return dev_server_model() if model_id.startswith("serve:") else None
