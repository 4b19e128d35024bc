"""Stream the answer word by word, and every tool call as it happens.

python examples/streaming.py
"""

from __future__ import annotations

import asyncio

from pydantic_ai import (
    AgentRunResultEvent,
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
)
from scripted import model

from deep_core import create_deep_agent, create_default_deps


async def main() -> None:
    """Print events as they happen. They are Pydantic AI's."""
    agent = create_deep_agent(
        model(("write_file", {"path": "haiku.txt", "content": "Rain\n"}), "A short haiku about rain is in haiku.txt."),
        backend="memory",
    )
    pieces = 0
    async with agent.run_stream_events("Write a haiku about rain.", deps=create_default_deps()) as events:
        async for event in events:
            match event:
                case FunctionToolCallEvent(part=call):
                    print(f"-> {call.tool_name} {call.args_as_dict()}")
                case FunctionToolResultEvent(part=result):
                    print(f"<- {result.content}")
                case (
                    PartStartEvent(part=TextPart(content=text))
                    | PartDeltaEvent(delta=TextPartDelta(content_delta=text))
                ):
                    pieces += 1
                    print(text, end="", flush=True)
                case AgentRunResultEvent(result=end):
                    print(f"\n[the answer came in {pieces} pieces, after {end.usage.requests} requests]")
                case _:
                    pass


if __name__ == "__main__":
    asyncio.run(main())
