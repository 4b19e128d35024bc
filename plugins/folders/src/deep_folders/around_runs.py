"""Run the hooks of folders around runs: when a session starts, when a message comes, and before an agent ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai import DeferredToolRequests
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import UserError
from pydantic_graph import End

from deep_core.plugin_api import visible

from .around_calls import (
    ALLOWS,
    CANNOT_RUN,
    HookCall,
    answer_of,
    clip,
    context_of,
    fits,
    message_of,
    place_of,
    run_hook,
)
from .slot import HEARD
from .transcript import transcript

if TYPE_CHECKING:
    import logging

    from pydantic_ai import RunContext
    from pydantic_ai.result import FinalResult

    from .around_calls import HookPrograms

__all__ = ["HooksAroundRuns", "PromptBlocked"]


class PromptBlocked(UserError):
    """A hook of `UserPromptSubmit` refused the message, or could not decide. No model got it."""

    refuses_message = True
    """deep-sessions takes the message out of the conversation: the next request would send it."""


@dataclass(frozen=True)
class _Said:
    """What one hook said.

    Attributes:
        who: the hook, for people and the model.
        blocks: why it does not let the message be sent, or the agent end; "" if it does.
        context: what the model should know.
    """

    who: str
    blocks: str = ""
    context: str = ""


class HooksAroundRuns(AbstractCapability[Any]):
    """Runs the hooks of `SessionStart`, `UserPromptSubmit`, `Stop` and `SubagentStop`.

    Args:
        programs: the hooks.
        depth: of the agent: 0 for one that a person talks with, more for a subagent.
        logger: of the plugin.
    """

    id = "deep.folders.hooks"

    def __init__(self, programs: HookPrograms, depth: int, logger: logging.Logger) -> None:
        self._programs = programs
        self._depth = depth
        self._logger = logger

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Return None: it belongs to its agent."""
        return None

    async def before_run(self, ctx: RunContext[Any]) -> None:
        """Ask what the model should know, and whether the message may be sent.

        Raises:
            PromptBlocked: a hook refuses the message.
        """
        if self._depth:
            return
        heard = ctx.deps.state[HEARD]
        if not heard.started:
            heard.started = True
            source = "resume" if ctx.messages else "startup"
            about = {"source": source, "model": ctx.model.model_name}
            heard.session = _joined(await self._ask(ctx, "SessionStart", about, source))
        if ctx.prompt is not None:
            prompt = ctx.prompt if isinstance(ctx.prompt, str) else "\n".join(_texts(ctx.prompt))
            said = await self._ask(ctx, "UserPromptSubmit", {"prompt": prompt})
            for each in said:
                if each.blocks:
                    raise PromptBlocked(f"{each.who} blocks the message: {each.blocks}")
            heard.prompt = _joined(said)

    async def after_node_run(self, ctx: RunContext[Any], *, node: Any, result: Any) -> Any:
        """Ask whether the agent may end. A hook that blocks gives the model its reason, and the run goes on."""
        output = cast("End[FinalResult[Any]]", result).data.output if isinstance(result, End) else None
        if output is None or isinstance(output, DeferredToolRequests):
            return cast("Any", result)
        heard = ctx.deps.state[HEARD]
        about = {
            "stop_hook_active": heard.continued == ctx.run_id,
            "last_assistant_message": output if isinstance(output, str) else "",
        }
        for each in await self._ask(ctx, "SubagentStop" if self._depth else "Stop", about):
            if each.blocks:
                heard.continued = ctx.run_id
                ctx.enqueue(f"{each.who}: {each.blocks}")
        return cast("Any", result)

    async def _ask(self, ctx: RunContext[Any], event: str, about: dict[str, Any], kind: str = "") -> list[_Said]:
        """Run the hooks of an event, one after the other, and return what they said."""
        place = place_of(ctx)
        said: list[_Said] = []
        for folder, hook in self._programs.around_runs(event):
            if not fits(hook.matcher, kind) and kind:
                continue
            with transcript(folder.data, ctx.messages) as path:
                message = message_of(event, ctx.deps.session_id, place) | about | {"transcript_path": path}
                outcome = await run_hook(HookCall(folder, hook, message, place))
            who = f"hook {event} of folder {folder.name}"
            try:
                said.append(_said(who, event, outcome))
            except ValueError as error:
                # A guard that cannot decide refuses, as before a call; another one costs only itself.
                if event == "UserPromptSubmit":
                    said.append(_Said(who, blocks=f"{error}; deep folders remove {folder.name}"))
                self._logger.warning("%s: %s", who, visible(str(error)))
        return said


def _said(who: str, event: str, outcome: tuple[int, str, str] | str) -> _Said:
    """Read what a hook said. Raises ValueError: it did not run, or what it says cannot be understood whole."""
    if isinstance(outcome, str):
        raise ValueError(outcome)
    code, out, err = outcome
    if code == 2:
        return _Said(who, blocks=clip(err) or "it gives no reason")
    if code < 0 or code in CANNOT_RUN:
        raise ValueError(f"it cannot run (exit code {code}): {clip(err)}")
    answer = {} if out.startswith('{"async"') else answer_of(out)  # it has gone on in the background, and says nothing
    if answer is None:
        return _Said(who, context="" if code else out.strip())
    reason = clip(str(answer.get("reason") or answer.get("stopReason") or "it gives no reason"))
    decides, ends = answer.get("decision") not in (None, *ALLOWS), answer.get("continue", True) is not True
    # At the end of a run, `continue: false` says that the agent may end.
    blocks = decides and not ends if "Stop" in event else decides or ends
    return _Said(who, blocks=reason if blocks else "", context=context_of(answer))


def _joined(said: Sequence[_Said]) -> str:
    return "\n\n".join(each.context for each in said if each.context)


def _texts(content: Sequence[Any]) -> list[str]:
    texts = (item if isinstance(item, str) else getattr(item, "content", None) for item in content)
    return [text for text in texts if isinstance(text, str)]
