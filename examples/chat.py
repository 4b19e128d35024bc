"""Write your own chat with streamed answers, approvals, and one history for all turns.

python examples/chat.py        (an empty line or Ctrl-D ends it; `deep chat` is a finished chat)
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterable

from deep_backends import local_backend
from pydantic_ai import DeferredToolRequests, DeferredToolResults, ToolDenied
from pydantic_ai.messages import (
    FunctionToolResultEvent,
    ModelMessage,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
)
from scripted import model

from deep_core import create_deep_agent, create_default_deps


async def show(ctx: object, events: AsyncIterable[object]) -> None:
    """Print the answer as it arrives, and the results of tools."""
    async for event in events:
        match event:
            case PartStartEvent(part=TextPart(content=text)) | PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
                print(text, end="", flush=True)
            case FunctionToolResultEvent(part=result):
                print(f"[{result.tool_name}: {str(result.content).strip()}]")
            case _:
                pass


def decide(requests: DeferredToolRequests) -> DeferredToolResults:
    """Ask about each waiting call."""
    results = DeferredToolResults()
    for call in requests.approvals:
        yes = input(f"\nrun {call.tool_name} {call.args_as_dict()}? [y/N] ").strip().lower() == "y"
        results.approvals[call.tool_call_id] = True if yes else ToolDenied("The user said no.")
    return results


def chat(folder: str) -> None:
    """Read a message, run, ask until no call waits, print, and repeat."""
    agent = create_deep_agent(
        model(("execute", {"command": "echo 3 files"}), "So much for the shell.", "You are welcome.")
    )
    deps = create_default_deps(backend=local_backend(folder))
    history: list[ModelMessage] = []
    while text := input("\n> ").strip():
        result = agent.run_sync(text, deps=deps, message_history=history, event_stream_handler=show)
        while isinstance(result.output, DeferredToolRequests):
            decisions, history = decide(result.output), result.all_messages()
            result = agent.run_sync(
                deps=deps, message_history=history, deferred_tool_results=decisions, event_stream_handler=show
            )
        history = result.all_messages()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        try:
            chat(scratch)
        except EOFError:
            print("\nbye")
