"""A plugin file with the model `typist:…`: it writes the files that it is asked for, and counts what it has read."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator

from pydantic_ai.messages import ModelMessage, ToolReturnPart, UserPromptPart
from pydantic_ai.models import Model
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

from deep_core import hookimpl


async def answer(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
    """Call `write_file` for `write PATH: TEXT`; say what the tool returned, and how many messages a person wrote."""
    parts = [part for message in messages for part in message.parts]
    # Live sections of plugins are user parts too, but never plain strings.
    said = [part.content for part in parts if isinstance(part, UserPromptPart) and isinstance(part.content, str)]
    last = messages[-1].parts[0]
    wanted = re.fullmatch(r"write (\S+): (.*)", said[-1])
    if wanted and not isinstance(last, ToolReturnPart):
        args = {"path": wanted[1], "content": wanted[2]}
        yield {0: DeltaToolCall("write_file", json.dumps(args), tool_call_id=f"call-{len(messages)}")}
    else:
        yield f"{last.outcome}, " if isinstance(last, ToolReturnPart) else ""
        yield f"message {len(said)}"


@hookimpl
def deep_resolve_model(model_id: str) -> Model | None:
    """Return the model."""
    return FunctionModel(stream_function=answer, model_name=model_id) if model_id.startswith("typist:") else None
