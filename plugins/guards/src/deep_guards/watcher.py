"""Watches a run before each request: what the last calls returned, and how much of its limits is used."""

from __future__ import annotations

import json
from hashlib import blake2b
from itertools import takewhile
from logging import Logger
from typing import TYPE_CHECKING, Any

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, ToolReturnPart
from pydantic_ai.tools import RunContext

from deep_core import ToolFacts, tool_facts
from deep_core.plugin_api import as_expression

from .slot import WATCH, Seen, Watch

if TYPE_CHECKING:
    from pydantic_ai.models import ModelRequestContext

    from .options import GuardsOptions

__all__ = ["Watcher"]

LIMITS = (
    ("request_limit", "requests", "model requests"),
    ("tool_calls_limit", "tool_calls", "tool calls"),
    ("input_tokens_limit", "input_tokens", "input tokens"),
    ("output_tokens_limit", "output_tokens", "output tokens"),
    ("total_tokens_limit", "total_tokens", "tokens"),
)
"""A run's limit, the usage that counts towards it, and its name for the model."""


class Watcher(AbstractCapability[Any]):
    """Counts equal results, and ends a run that is stuck.

    It implements one hook, so the kernel calls it at that one only.
    """

    shares_context = True
    """It emits no events, so it needs no context of its own."""

    def __init__(self, options: GuardsOptions, logger: Logger) -> None:
        self.id, self.description, self.defer_loading = "guards", None, False
        self._options, self._logger = options, logger
        self._may_repeat = None if options.may_repeat is None else as_expression(options.may_repeat)

    async def before_model_request(self, ctx: RunContext[Any], request_context: ModelRequestContext) -> Any:
        """Look at the results that came since the last request.

        Raises:
            StuckLoop: a call returned the same result too often.
        """
        watch = ctx.deps.state[WATCH]
        if watch.run_id != ctx.run_id:
            watch.run_id, watch.budget = ctx.run_id, ""
            if ctx.prompt is not None:  # what a user asks for may be asked for again
                watch.calls.clear()
                watch.loop = ""
        self._count(ctx, watch)
        if not watch.budget:
            watch.budget = self._spent(ctx)
        return request_context

    def _count(self, ctx: RunContext[Any], watch: Watch) -> None:
        response, returns = _last_returns(ctx.messages)
        if response is None or not returns:
            return
        if watch.response == response.timestamp:  # the request is sent again
            return
        watch.response, watch.loop = response.timestamp, ""
        calls = {call.tool_call_id: call for call in response.tool_calls}
        for part in returns:
            call = calls.get(part.tool_call_id)
            if call is None or self._repeats(ctx, call.tool_name):
                continue
            seen = Seen(
                _digest(call.tool_name, _canonical(call.args_as_json_str())),
                _digest(part.outcome, part.model_response_str()),
            )
            times = self._times(watch, seen)
            if times >= self._options.stop_after:
                from .errors import StuckLoop

                raise StuckLoop(call.tool_name, times)
            if times >= self._options.warn_after:
                watch.loop = (
                    f"You called {call.tool_name} {times} times with the same arguments and got the same result. "
                    "Do not repeat it: try something else, or say what is missing."
                )

    def _times(self, watch: Watch, seen: Seen) -> int:
        """Note a call, and return how often it returned this result since it returned another one."""
        watch.calls.append(seen)
        while len(watch.calls) > self._options.window:
            watch.calls.popleft()
        same = [each.result for each in reversed(watch.calls) if each.call == seen.call]
        return len(list(takewhile(lambda result: result == seen.result, same)))

    def _repeats(self, ctx: RunContext[Any], tool: str) -> bool:
        if self._may_repeat is None:
            return False
        known = ctx.tool_manager.tools.get(tool) if ctx.tool_manager and ctx.tool_manager.tools else None
        facts = ToolFacts(tool, tool) if known is None else tool_facts(known.tool_def)
        return self._may_repeat.matches(facts)

    def _spent(self, ctx: RunContext[Any]) -> str:
        """Return what to tell of the first limit of which the share is used, and log it; "" for none."""
        if ctx.usage_limits is None or self._options.budget_share >= 1:
            return ""
        for limit, used, name in LIMITS:
            most, now = getattr(ctx.usage_limits, limit), getattr(ctx.usage, used)
            if most is not None and now >= most * self._options.budget_share:
                self._logger.warning("run %s has used %s of its %s %s", ctx.run_id, now, most, name)
                share = round(self._options.budget_share * 100)
                return f"{share} % of this run's {name} are used ({most} at most). Finish now, or report what is left."
        return ""


def _last_returns(messages: list[ModelMessage]) -> tuple[ModelResponse | None, list[ToolReturnPart]]:
    """Return the last response, and the results that came after it."""
    returns: list[ToolReturnPart] = []
    for message in reversed(messages):
        if isinstance(message, ModelResponse):
            return message, returns
        returns[:0] = _returns(message)
    return None, returns


def _returns(message: ModelRequest) -> list[ToolReturnPart]:
    return [part for part in message.parts if isinstance(part, ToolReturnPart)]


def _canonical(args: str) -> str:
    """Return JSON arguments without what makes no difference."""
    try:
        return json.dumps(json.loads(args), sort_keys=True)
    except ValueError:
        return args


def _digest(*texts: str) -> str:
    return blake2b("\0".join(texts).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
