"""Ours, with every session in one SQLite file; and the same agent, whose sessions nobody stores."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deep_backends import local_backend
from deep_sessions import Runner, session_capabilities
from deep_sessions.stores.sqlite import SqliteStore
from pydantic_ai import Agent
from pydantic_ai.models import Model

from benchmarks.contenders.ours import kernel, session
from benchmarks.contenders.pydantic_ai_contender import PROMPT, UNLIMITED, PydanticAIContender
from benchmarks.scripted import work_model

__all__ = ["CONTENDER", "WITHOUT", "make_runner"]

STORE = SqliteStore(Path(tempfile.mkdtemp()) / "sessions.db")
"""In the child's temporary folder, which `measure.scratch` removes."""
NUMBERS = itertools.count()


def build(model: Model) -> Agent[Any, Any]:
    """Make an agent."""
    return kernel("sessions").create_agent(model, capabilities=session_capabilities())


def make_runner(agent: Agent[Any, Any], root: Path, store: Any = STORE) -> Runner:
    """Make a runner whose sessions work in a directory."""
    return Runner(agent, store, kernel=kernel("sessions"), backend=local_backend(root))


class StoredContender(PydanticAIContender):
    """Runs each session through its journal."""

    async def work(self, root: Path, turns: int, pause: Callable[[int], None], *, streamed: bool = False) -> None:
        """Run one session in a prepared directory; call `pause(n)` at request `n`."""
        runner = make_runner(self.build(work_model(turns, pause, self.calls)), root)
        outcome = await runner.run(f"s{next(NUMBERS)}", PROMPT, run_id=f"r{next(NUMBERS)}", usage_limits=UNLIMITED)
        if outcome.error is not None:
            raise outcome.error
        await asyncio.sleep(0)


CONTENDER = StoredContender(build, lambda root: None)
WITHOUT = PydanticAIContender(kernel("sessions").create_agent, session)
"""It has what the plugin does for every agent: the retries of a request, and the door."""
