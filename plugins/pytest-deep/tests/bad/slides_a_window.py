"""A plugin that sends only the last three messages, so they differ each time."""

from __future__ import annotations

from typing import Any

from deep_core import Processor, hookimpl


def last_three(messages: list[Any]) -> list[Any]:
    return messages[-3:]


@hookimpl
def deep_history_processors() -> list[Processor]:
    return [Processor("last_three", last_three)]
