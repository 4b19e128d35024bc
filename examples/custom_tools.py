"""Write tools: a plain function, one that uses your application's object, and one that asks.

python examples/custom_tools.py
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic_ai import DeferredToolRequests, RunContext, Tool
from scripted import model

from deep_core import DeepAgentDeps, create_deep_agent, create_default_deps


@dataclass
class Shop:
    """The application's own object. Tools reach it as `ctx.deps.app`."""

    stock: dict[str, int] = field(default_factory=lambda: {"umbrella": 3})


def celsius(fahrenheit: float) -> float:
    """Convert a temperature."""
    return round((fahrenheit - 32) / 1.8, 1)


def in_stock(ctx: RunContext[DeepAgentDeps[Shop]], article: str) -> int:
    """Count an article in stock."""
    return ctx.deps.app.stock.get(article, 0)


def order(article: str, number: int) -> str:
    """Order more of an article."""
    return f"ordered {number} {article}"


def main() -> None:
    """Use the tools beside the plugins' tools, under the same policy."""
    agent = create_deep_agent(
        model(
            [("celsius", {"fahrenheit": 50}), ("in_stock", {"article": "umbrella"})],
            ("order", {"article": "umbrella", "number": 20}),
        ),
        tools=[celsius, in_stock, Tool(order, requires_approval=True)],
        backend="memory",
    )
    result = agent.run_sync("It is 50 F. Do we have umbrellas enough?", deps=create_default_deps(app=Shop()))
    for message in result.all_messages():
        for part in message.parts:
            if part.part_kind == "tool-return":
                print(f"{part.tool_name}: {part.content}")
    if isinstance(result.output, DeferredToolRequests):
        print("waits for a person:", [(call.tool_name, call.args_as_dict()) for call in result.output.approvals])


if __name__ == "__main__":
    main()
