"""Stamps the first message with the time, so that it differs in every request."""

import time
from dataclasses import replace
from typing import Any

from deep_core import Processor, hookimpl


def stamp(messages: list[Any]) -> list[Any]:
    from pydantic_ai.messages import UserPromptPart

    first = messages[0]
    stamped = UserPromptPart(f"It is {time.time_ns()}.")
    return [replace(first, parts=[*first.parts, stamped]), *messages[1:]]


@hookimpl
def deep_history_processors() -> list[Processor]:
    return [Processor("stamp", stamp, phase="annotate", persist=False)]
