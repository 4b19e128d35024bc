"""Run commands in a container without a network, so that they need no approval.

pip install 'deep-backends[docker]' && python examples/docker_sandbox.py
"""

from __future__ import annotations

import asyncio

from deep_backends import docker_backend
from pydantic_ai.messages import ToolReturnPart
from scripted import model

from deep_core import create_deep_agent, create_default_deps


async def main() -> None:
    """Run a program that the agent wrote. The first operation creates the container, and it stays."""
    agent = create_deep_agent(
        model(
            ("write_file", {"path": "sum.py", "content": "print(sum(range(101)))\n"}),
            ("execute", {"command": "python sum.py"}),
            "The sum is 5050.",
        ),
        interrupt_on={"execute": False},  # the container confines it
    )
    backend = docker_backend("python:3.12-slim", network_mode="none", mem_limit="256m")
    result = await agent.run("What is the sum of 1 to 100?", deps=create_default_deps(backend=backend))
    for message in result.all_messages():
        for part in message.parts:
            if isinstance(part, ToolReturnPart):
                print(f"{part.tool_name}: {part.content}")
    print(result.output)
    if backend.ref:
        print(f"remove it with: docker rm -f {backend.ref.id}")


if __name__ == "__main__":
    asyncio.run(main())
