"""The index in the conversation: one line for each topic, as it was when the run began."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyio.to_thread import run_sync

from deep_core.plugin_api import visible

from .errors import MemoryRefused
from .place import store_of
from .slot import INDEX
from .topic import Topic, one_line

if TYPE_CHECKING:
    from pydantic_ai import RunContext

    from .options import MemoryOptions

__all__ = ["IndexSection", "index_text"]

HEAD = "Notes on this project from earlier conversations, by topic (their number). Maybe outdated; recall shows all:"
LINE_CHARS = 110
TAIL_CHARS = 40
"""Room for the line about topics that are not shown."""


class IndexSection:
    """The live section `memory.index`. It is read once a run: within one, the model knows what it wrote itself.

    Attributes:
        options: of its agent.
    """

    def __init__(self, options: MemoryOptions, data_dir: Callable[[], Path]) -> None:
        self.options = options
        self._data_dir = data_dir

    async def __call__(self, ctx: RunContext[Any]) -> str | None:
        """The index; None if there is no topic."""
        shown = ctx.deps.state[INDEX]
        if shown.run_id != ctx.run_id:
            try:
                store = store_of(ctx, self.options, self._data_dir)
            except MemoryRefused:
                return None  # the tools say why
            shown.text = index_text(await run_sync(store.topics), self.options.index_chars)
            shown.run_id = ctx.run_id
        return shown.text


def index_text(topics: Sequence[Topic], limit: int) -> str | None:
    """Format one line for each topic in at most `limit` characters, by name; the oldest are left out first."""
    lines = {topic.name: _line(topic) for topic in topics}
    if not lines:
        return None
    room = limit - len(HEAD) - 1
    if sum(map(len, lines.values())) + len(lines) > room:
        room -= TAIL_CHARS
    kept: set[str] = set()
    for topic in sorted(topics, key=lambda topic: (-topic.changed, topic.name)):
        room -= len(lines[topic.name]) + 1
        if room < 0:
            break
        kept.add(topic.name)
    shown = [line for name, line in lines.items() if name in kept]
    more = [f"and {len(lines) - len(shown)} more: recall lists them"] if len(shown) < len(lines) else []
    return "\n".join([HEAD, *shown, *more])


def _line(topic: Topic) -> str:
    line = visible(one_line(f"- {topic.name} ({len(topic.notes)}): {topic.summary[: 2 * LINE_CHARS]}"))
    return line if len(line) <= LINE_CHARS else f"{line[: LINE_CHARS - 1]}…"
