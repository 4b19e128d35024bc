"""Run the hooks of folders around runs: when a session starts, a message comes, a compaction or an end is near."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai import DeferredToolRequests
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import SkipModelRequest, UserError
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_graph import End

from deep_core.plugin_api import visible

from .answers import ALLOWS, answer_of, clip, context_of, refusal_of, told_to_people
from .matching import fits
from .running import CANNOT_RUN, HookCall, in_use, message_of, place_of, run_hook, spent_in
from .slot import BEFORE_COMPACTION, HEARD, JUDGING, VARIABLES
from .transcript import transcript

if TYPE_CHECKING:
    from pydantic_ai import RunContext, ToolCallPart, ToolDefinition
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.result import FinalResult
    from pydantic_ai.run import AgentRunResult

    from deep_core import AgentContext

    from .around_calls import HookPrograms
    from .folder import HookEntry
    from .running import Outcome

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
    """Runs the hooks around runs, and notes what calls return for those that hear of it.

    Args:
        programs: the hooks.
        context: of the agent: at depth 0 one that a person talks with, below a subagent.
    """

    id = "deep.folders.hooks"

    def __init__(self, programs: HookPrograms, context: AgentContext) -> None:
        self._programs = programs
        self._context = context

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Return None: it belongs to its agent."""
        return None

    async def before_run(self, ctx: RunContext[Any]) -> None:
        """Ask what the model should know, and whether the message may be sent.

        Raises:
            PromptBlocked: a hook refuses the message.
        """
        if JUDGING.get():
            return
        heard = ctx.deps.state[HEARD]
        heard.stopped = ""
        if self._context.depth:
            if ctx.prompt is not None:  # else it goes on
                kind = getattr(ctx.agent, "name", None) or ""
                about = {"agent_id": ctx.run_id or "", "agent_type": kind}
                heard.session = _joined(await self._ask(ctx, "SubagentStart", about, kind))
            return
        if self._programs.around_runs("PreCompact"):
            ctx.deps.state[BEFORE_COMPACTION] = self._before_compaction
        if not heard.started:
            heard.started = True
            self._programs.begun(ctx.deps.session_id, place_of(ctx))
            source = "resume" if ctx.messages else "startup"
            about = {"source": source, "model": ctx.model.model_name}
            with TemporaryDirectory(prefix="deep-folders-") as folder:
                file = Path(folder, "variables")
                given = {"CLAUDE_ENV_FILE": str(file)} if _runs_here(ctx) else {}
                heard.session = _joined(await self._ask(ctx, "SessionStart", about, source, given))
                if _is_written(file):
                    from .variables import variables_of

                    ctx.deps.state[VARIABLES] = await variables_of(file, place_of(ctx))
        if ctx.prompt and not _only_looks(ctx):  # a compaction by hand has none
            prompt = ctx.prompt if isinstance(ctx.prompt, str) else "\n".join(_texts(ctx.prompt))
            # Two guides of Claude Code, two names.
            said = await self._ask(ctx, "UserPromptSubmit", {"prompt": prompt, "user_prompt": prompt})
            for each in said:
                if each.blocks:
                    raise PromptBlocked(f"{each.who} blocks the message: {each.blocks}")
            heard.prompt, heard.late = "\n\n".join([*heard.late, *filter(None, [_joined(said)])]), []

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """End the run if a hook stopped the agent after a call: what it said is the answer."""
        heard = ctx.deps.state[HEARD]
        if heard.stopped and not JUDGING.get():
            raise SkipModelRequest(ModelResponse([TextPart(heard.stopped)]))
        return request_context

    async def after_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: Any, result: Any
    ) -> Any:
        """Note what the call returned."""
        self._programs.returned(ctx.deps.session_id, call.tool_call_id, result)
        return result

    async def after_node_run(self, ctx: RunContext[Any], *, node: Any, result: Any) -> Any:
        """Ask whether the agent may end. A hook that blocks gives the model its reason, and the run goes on."""
        output = cast("End[FinalResult[Any]]", result).data.output if isinstance(result, End) else None
        if output is None or isinstance(output, DeferredToolRequests) or JUDGING.get() or _only_looks(ctx):
            return cast("Any", result)
        if await self._programs.settle(ctx.run_id or ""):
            return cast("Any", result)  # the run goes on with what they said
        heard = ctx.deps.state[HEARD]
        if heard.stopped:
            return cast("Any", result)
        about: dict[str, Any] = {
            "stop_hook_active": heard.continued == ctx.run_id,
            "last_assistant_message": output if isinstance(output, str) else "",
        }
        event, kind = "Stop", ""
        if self._context.depth:
            event, kind = "SubagentStop", getattr(ctx.agent, "name", None) or ""
            about |= {"agent_id": ctx.run_id or "", "agent_type": kind}
        for each in await self._ask(ctx, event, about, kind):
            if each.blocks:
                heard.continued = ctx.run_id
                ctx.enqueue(f"{each.who}: {each.blocks}")
        return cast("Any", result)

    async def after_run(self, ctx: RunContext[Any], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        """Wait for hooks that run beside the run."""
        if not self._context.depth:
            await self._programs.settle(ctx.deps.session_id)
        return result

    async def _before_compaction(self, ctx: RunContext[Any], by_hand: bool, keep: str) -> tuple[str, str]:
        """Return why a compaction may not be, "" if it may; and what more the summary should keep."""
        kind = "manual" if by_hand else "auto"
        said = await self._ask(ctx, "PreCompact", {"trigger": kind, "custom_instructions": keep}, kind)
        why_not = "; ".join(f"{each.who} blocks it: {each.blocks}" for each in said if each.blocks)
        return why_not, _joined(said)

    async def _ask(
        self,
        ctx: RunContext[Any],
        event: str,
        about: dict[str, Any],
        kind: str = "",
        variables: dict[str, str] | None = None,
    ) -> list[_Said]:
        """Run the hooks of an event, one after the other, and return what they said."""
        place, ask = place_of(ctx), self._programs.asker(ctx, self._context)
        said: list[_Said] = []
        for folder, hook in self._programs.around_runs(event):
            if (kind and not fits(hook.matcher, kind)) or not in_use(hook, ctx):
                continue
            message = message_of(event, ctx.deps.session_id, place) | about
            seen = HookCall(folder, hook, message, place, ask, variables or {}, spent_in(hook, ctx))
            # At an end there is nothing to run beside of: it waits for those that may wake the agent.
            if not (hook.wakes and "Stop" in event) and self._programs.aside(seen, ctx):
                continue
            with transcript([seen], ctx.messages):
                outcome = await run_hook(seen)
            who = f"hook {event} of folder {folder.name}"
            try:
                said.append(_said(who, hook, outcome))
                self._programs.tell_people(who, outcome)
            except ValueError as error:
                # A guard that cannot decide refuses, as before a call; another one costs only itself.
                if event == "UserPromptSubmit":
                    said.append(_Said(who, blocks=f"{error}; deep folders remove {folder.name}"))
                self._context.logger.warning("%s: %s", who, visible(str(error)))
        return said


async def expanded(programs: HookPrograms, command: str, arguments: str, text: str) -> str:
    """Return the message of a chat's command, with what hooks of `UserPromptExpansion` add to it.

    Args:
        programs: the hooks.
        command: `folder:name`.
        arguments: what the person typed behind it.
        text: the message.

    Raises:
        ValueError: a hook blocks the command, or could not decide.
    """
    place = str(Path.cwd())
    about = {"command_name": command, "command_args": arguments, "command_source": "plugin"}
    typed = {"expansion_type": "slash_command", "prompt": f"/{command} {arguments}".rstrip()}
    added: list[str] = []
    for folder, hook in programs.around_runs("UserPromptExpansion"):
        if not fits(hook.matcher, command) or hook.skill is not None:
            continue
        message = message_of(hook.event, "", place) | about | typed
        who = f"hook {hook.event} of folder {folder.name}"
        outcome = await run_hook(HookCall(folder, hook, message, place))
        said = _said(who, hook, outcome)
        programs.tell_people(who, outcome)
        if said.blocks:
            raise ValueError(f"{who} blocks the command: {said.blocks}")
        added.append(said.context)
    return "\n\n".join(filter(None, [text, *added]))


def _only_looks(ctx: RunContext[Any]) -> bool:
    """Whether this is the run of `Kernel.explain`: nobody sent its message, and nobody reads its answer."""
    return (ctx.model.system, ctx.model.model_name) == ("function", "explain")


def _is_written(file: Path) -> bool:
    return file.exists()


def _runs_here(ctx: RunContext[Any]) -> bool:
    """Whether commands run as the hooks do: elsewhere, a path that a hook sets leads nowhere."""
    ref = ctx.workspace.ref
    return ref is not None and ref.provider in ("local", "deep-local")


def _said(who: str, hook: HookEntry, outcome: Outcome) -> _Said:
    """Read what a hook said. Raises ValueError: it did not run, or what it says cannot be understood whole."""
    if isinstance(outcome, str):
        raise ValueError(outcome)
    code, out, err = outcome
    if code == 2:
        return _Said(who, blocks=hook.before(refusal_of(out, err) or "it gives no reason"))
    if code < 0 or code in CANNOT_RUN:
        raise ValueError(f"it cannot run (exit code {code}): {clip(err)}")
    answer = {} if out.startswith('{"async"') else answer_of(out)  # it has gone on in the background, and says nothing
    if answer is None:
        return _Said(who, context="" if code else out.strip())
    reason = answer.get("reason") or answer.get("stopReason") or told_to_people(answer) or "it gives no reason"
    decides, ends = answer.get("decision") not in (None, *ALLOWS), answer.get("continue", True) is not True
    # At the end of a run, `continue: false` says that the agent may end.
    blocks = decides and not ends if "Stop" in hook.event else decides or ends
    return _Said(who, blocks=clip(str(reason)) if blocks else "", context=context_of(answer))


def _joined(said: Sequence[_Said]) -> str:
    return "\n\n".join(each.context for each in said if each.context)


def _texts(content: Sequence[Any]) -> list[str]:
    texts = (item if isinstance(item, str) else getattr(item, "content", None) for item in content)
    return [text for text in texts if isinstance(text, str)]
