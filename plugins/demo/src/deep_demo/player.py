"""Play a script: a generator that yields tool calls and receives their results.

The model stores nothing. At each request the script starts from the top and receives the results in the
conversation, up to the first call without one. So one model serves any number of sessions, and a session
continues after an approval, a restart or a dump.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TypeAlias

from .transcript import Call, Result, Transcript

__all__ = ["Answer", "IdCall", "Script", "Step", "Steps", "play"]


@dataclass(frozen=True)
class Step:
    """The script's next step.

    Attributes:
        thought: why, in few words.
        calls: at least one, of available tools.
    """

    thought: str
    calls: tuple[Call, ...]


Steps: TypeAlias = Generator[Step, list[Result], str]
"""A running script; it returns the final text."""
Script: TypeAlias = Callable[[Transcript], Steps]


@dataclass(frozen=True)
class IdCall:
    """A call to send: the tool's final name, the arguments, the call's id."""

    tool: str
    call: Call
    id: str


@dataclass(frozen=True)
class Answer:
    """The model's answer: a final text, or a thought and calls."""

    text: str = ""
    thought: str = ""
    calls: tuple[IdCall, ...] = ()


def play(script: Script, transcript: Transcript) -> Answer:
    """Compute the script's next answer in this conversation."""
    steps = script(transcript)
    number = 0
    try:
        step = next(steps)
        while True:
            calls = tuple(
                IdCall(transcript.tools.get(call.tool, call.tool), call, transcript.call_id(number, index))
                for index, call in enumerate(step.calls)
            )
            # A later step in the conversation means that this one is over, even if its results were removed.
            if not transcript.went_past(number) and not any(call.id in transcript.results for call in calls):
                return Answer(thought=step.thought, calls=calls)
            step = steps.send([_result(transcript, call) for call in calls])
            number += 1
    except StopIteration as end:
        return Answer(text=end.value)


def _result(transcript: Transcript, call: IdCall) -> Result:
    if transcript.calls.get(call.id, call.tool) != call.tool:
        return Result("lost")  # the tools have changed since, and the steps with them
    return transcript.results.get(call.id, Result("lost"))
