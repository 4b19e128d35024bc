"""Serve many sessions at once with one agent. Each has its own files, todos and conversation.

Between requests, a session is text that a server would keep in its database. Nothing stays in the agent.

    python examples/embed_server_sessions.py
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from pydantic_ai.messages import ModelMessagesTypeAdapter
from scripted import model

from deep_core import DeepAgentDeps, Kernel, create_default_deps


@dataclass
class Stored:
    """One session as a database row: the state of the slots and the conversation, both as JSON."""

    deps: str
    messages: bytes


@dataclass
class Server:
    """The one agent, and the sessions of all users."""

    kernel: Kernel
    rows: dict[str, Stored] = field(default_factory=dict[str, Stored])

    def __post_init__(self) -> None:
        self.agent = self.kernel.create_agent(
            model(
                ("write_todos", {"todos": [{"content": "book a flight", "status": "in_progress"}]}),
                "I have started a list.",
                "Your list has one open item.",
            ),
            interrupt_on=False,
        )

    async def handle(self, user: str, text: str) -> str:
        """Handle one request of one user, as an HTTP handler would."""
        row = self.rows.get(user)
        deps: DeepAgentDeps[None]
        if row is None:
            deps, history = create_default_deps(kernel=self.kernel), []
        else:
            deps = self.kernel.load_deps(row.deps)
            history = ModelMessagesTypeAdapter.validate_json(row.messages)
        result = await self.agent.run(text, deps=deps, message_history=history)
        self.rows[user] = Stored(deps.dump(), result.all_messages_json())
        return str(result.output)


async def main() -> None:
    """Run two requests for each of five users, all at once."""
    async with Kernel() as kernel:
        server = Server(kernel)
        users = ["ann", "ben", "cem", "dua", "eva"]
        first = await asyncio.gather(*(server.handle(user, "Plan my trip") for user in users))
        second = await asyncio.gather(*(server.handle(user, "What is open?") for user in users))
        print(f"{len(users)} sessions, {len(set(first))} kind of first answer: {first[0]}")
        print(f"then: {second[0]}")
        for user in ("ann", "eva"):
            deps = kernel.load_deps(server.rows[user].deps)
            print(f"{user}: {[todo.content for todo in deps.state['todos']]}")


if __name__ == "__main__":
    asyncio.run(main())
