"""The floor: a bare `pydantic_ai.Agent` with the eight tools of by_hand.py; once more with the tools as `async def`.

As plain functions, which is how the documentation of Pydantic AI shows tools, it runs them in threads, so that the
event loop is never blocked. As `async def` they run on the event loop, which is cheaper, and blocks it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

from pydantic_ai import Agent, RunContext
from pydantic_ai.models import Model

from benchmarks.contenders.by_hand import INSTRUCTIONS, Session
from benchmarks.contenders.pydantic_ai_contender import PydanticAIContender

__all__ = ["ASYNC", "ASYNC_TOOLS", "CONTENDER", "TOOLS"]


def ls(ctx: RunContext[Session], path: str = ".") -> str:
    """List a directory."""
    return ctx.deps.app.ls(path)


def read_file(ctx: RunContext[Session], path: str, offset: int = 0, limit: int = 2000) -> str:
    """Read lines of a file, numbered, after `offset` skipped ones."""
    return ctx.deps.app.read_file(path, offset, limit)


def write_file(ctx: RunContext[Session], path: str, content: str) -> str:
    """Create or replace a file."""
    return ctx.deps.app.write_file(path, content)


def edit_file(ctx: RunContext[Session], path: str, old_string: str, new_string: str, replace_all: bool = False) -> str:
    """Replace a text in a file."""
    return ctx.deps.app.edit_file(path, old_string, new_string, replace_all)


def glob(ctx: RunContext[Session], pattern: str, path: str = ".") -> str:
    """Find files by name."""
    return ctx.deps.app.glob(pattern, path)


def grep(ctx: RunContext[Session], pattern: str, path: str = ".", glob: str = "**/*") -> str:
    """Search files with a regular expression."""
    return ctx.deps.app.grep(pattern, path, glob)


def execute(ctx: RunContext[Session], command: str, timeout: int = 120) -> str:
    """Run a shell command."""
    return ctx.deps.app.execute(command, timeout)


def write_todos(ctx: RunContext[Session], todos: list[str]) -> str:
    """Replace the todo list."""
    return ctx.deps.app.write_todos(todos)


def _async(tool: Callable[..., str]) -> Callable[..., Awaitable[str]]:
    @wraps(tool)
    async def call(ctx: RunContext[Session], **args: Any) -> str:
        return tool(ctx, **args)

    return call


TOOLS = [ls, read_file, write_file, edit_file, glob, grep, execute, write_todos]
ASYNC_TOOLS = [_async(tool) for tool in TOOLS]


def build(model: Model) -> Agent[Session, str]:
    """Make the bare agent."""
    return Agent(model, deps_type=Session, instructions=INSTRUCTIONS, tools=TOOLS)


def build_async(model: Model) -> Agent[Session, str]:
    """Make the bare agent with async tools."""
    return Agent(model, deps_type=Session, instructions=INSTRUCTIONS, tools=ASYNC_TOOLS)


CONTENDER = PydanticAIContender(build, Session)
ASYNC = PydanticAIContender(build_async, Session)
