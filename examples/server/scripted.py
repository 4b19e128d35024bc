"""The model without a key: it understands a few fixed commands and uses the real tools.

It stores nothing between requests: it reads its progress from the conversation, so it serves any number of sessions,
and subagents too.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeAlias

import anyio
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

__all__ = ["scripted_model"]

Call: TypeAlias = tuple[str, dict[str, Any]]
HELP = """I am a script that stands in for a model: set `DEEP_MODEL` to talk to a real one. I understand:

- `plan buy milk, bake bread`
- `write notes.txt: some text`
- `edit notes.txt: some -> any`
- `read notes.txt`
- `list`
- `run ls -l` (where commands are offered)
- `ask Which color?: red, blue`
- `helper: edit notes.txt: some -> any` (a subagent does it)
- `say anything at all`"""


def plan(text: str) -> list[Call]:
    todos = [{"content": item.strip(), "status": "pending"} for item in text.split(",")]
    todos[0]["status"] = "in_progress"
    return [("write_todos", {"todos": todos})]


def write(path: str, content: str) -> list[Call]:
    return [("write_file", {"path": path, "content": content + "\n"})]


def edit(path: str, old: str, new: str) -> list[Call]:
    return [("read_file", {"path": path}), ("edit_file", {"path": path, "old_string": old, "new_string": new})]


def read(path: str) -> list[Call]:
    return [("read_file", {"path": path})]


def run(command: str) -> list[Call]:
    return [("execute", {"command": command})]


def ask(question: str, options: str) -> list[Call]:
    return [("ask_user", {"question": question, "options": [option.strip() for option in options.split(",")]})]


def delegate(text: str) -> list[Call]:
    return [("task", {"description": text, "subagent_type": "general-purpose"})]


COMMANDS: list[tuple[str, Callable[..., list[Call]]]] = [
    (r"plan (.+)", plan),
    (r"write (\S+): (.+)", write),
    (r"edit (\S+): (.+) -> (.*)", edit),
    (r"read (\S+)", read),
    (r"list", lambda: [("ls", {"path": "."})]),
    (r"run (.+)", run),
    (r"ask (.+?): (.+)", ask),
    (r"helper: (.+)", delegate),
]


def turn(messages: list[ModelMessage]) -> tuple[str, list[str], int]:
    """Return the user's last message, the tools' answers since, and the number of the model's answers since."""
    prompt, returned, spoken = "", list[str](), 0
    for message in messages:
        if isinstance(message, ModelResponse):
            spoken += 1
            continue
        for part in message.parts:
            # Live sections of plugins are user parts too, but never plain strings.
            if isinstance(part, UserPromptPart) and isinstance(part.content, str):
                prompt, returned, spoken = part.content, [], 0
            elif isinstance(part, ToolReturnPart):
                returned.append(part.model_response_str())
    return prompt.strip(), returned, spoken


def step(messages: list[ModelMessage], info: AgentInfo) -> str | Call:
    """Choose the next tool call of the turn, or its last words."""
    prompt, returned, spoken = turn(messages)
    if prompt.startswith("say "):
        return prompt.removeprefix("say ")
    for pattern, calls_of in COMMANDS:
        found = re.fullmatch(pattern, prompt, re.S)
        if found is None:
            continue
        calls = calls_of(*found.groups())
        if spoken >= len(calls):
            answer = returned[-1].replace("```", "").strip() if returned else "nothing"
            return f"Done with `{prompt.split()[0].rstrip(':')}`. The last tool answered:\n```\n{answer}\n```"
        tool = calls[spoken][0]
        if tool not in {tool.name for tool in info.function_tools}:
            return f"I would need the tool `{tool}`, which is not offered here."
        return calls[spoken]
    return HELP


def scripted_model(pause: float = 0.02) -> FunctionModel:
    """Create the model.

    Args:
        pause: seconds between two words, to show streaming.
    """

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        said = step(messages, info)
        return ModelResponse([TextPart(said) if isinstance(said, str) else ToolCallPart(*said)])

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        said = step(messages, info)
        if isinstance(said, str):
            for word in re.findall(r"\S*\s*", said):
                if word:
                    yield word
                    await anyio.sleep(pause)
        else:
            yield {0: DeltaToolCall(name=said[0], json_args=json.dumps(said[1]))}

    return FunctionModel(answer, stream_function=stream, model_name="scripted")
