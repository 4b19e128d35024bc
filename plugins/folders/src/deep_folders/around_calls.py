"""Run the hooks of folders around calls: programs that check a call before it runs, and that hear of it afterwards."""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from deep_core import Ask, Deny
from deep_core.plugin_api import visible

from .answers import ALLOWS, ASKS, DENIES, answer_of, clip, context_of, refusal_of, stop_of, told_to_people
from .folder import ABOUT_CALLS, AFTER_CALLS
from .matching import fits, may_be
from .running import CANNOT_RUN, HookCall, in_use, message_of, place_of, run_hook, spent_in
from .slot import FAILED_COMMANDS, HEARD
from .tool_names import call_as_others_see_it
from .transcript import transcript

if TYPE_CHECKING:
    import logging

    from pydantic_ai import RunContext

    from deep_core import AgentContext, ToolCall, ToolEvent

    from .asking import Judge
    from .folder import Folder, HookEntry, HookEvent
    from .running import Ask as AskModel
    from .running import Outcome

__all__ = ["HookPrograms"]

MOST_CALLS = 1_000
"""Calls that wait for their end, and sessions. A call that is cancelled has no end."""
_EXIT_CODE = re.compile(r"\AExit code -?\d+(?:, no output\Z|\n)")
"""What `execute` says before what the command printed."""
END_SECONDS = 10.0
"""For each hook of `SessionEnd`: a person waits for the end of the process."""


@dataclass
class _Pending:
    """A call under way: its run, the hooks that hear of its end, what hooks said before it, and what it returned."""

    ctx: RunContext[Any]
    hooks: list[HookCall]
    said: list[str]
    result: str = ""


class HookPrograms:
    """The hooks of one kernel's folders.

    Args:
        folders: with hooks that may run.
        logger: of the plugin.
    """

    def __init__(self, folders: Sequence[Folder], logger: logging.Logger) -> None:
        self._hooks = [(folder, hook) for folder in folders for hook in folder.hooks]
        self._logger = logger
        self._calls: OrderedDict[tuple[str, str], _Pending] = OrderedDict()
        self._sessions: OrderedDict[str, str] = OrderedDict()
        self._judges: WeakKeyDictionary[AgentContext, Judge] = WeakKeyDictionary()
        self._aside: dict[str, set[asyncio.Task[bool]]] = {}
        """What runs beside the runs of a session; of hooks that wake, beside one run."""

    async def check(
        self, call: ToolCall, ctx: RunContext[Any], context: AgentContext | None = None
    ) -> Ask | Deny | None:
        """Ask the hooks before the call. A hook can deny it, or make it ask; none can approve it.

        The strictest answer counts. A hook that cannot run, or takes too long, denies: it may be a guard.
        """
        place, ask = place_of(ctx), self.asker(ctx, context)
        said: list[str] = []
        seen = [each for each in self._seen(call, ctx, "PreToolUse", place, ask) if not self.aside(each, ctx)]
        # A guard answers about a call that belongs to no conversation too.
        with transcript(seen, getattr(ctx, "messages", ())):
            answers = await asyncio.gather(*(self._ask(each, said) for each in seen))
        denials = [answer for answer in answers if isinstance(answer, Deny)]
        after = [each for event in AFTER_CALLS for each in self._seen(call, ctx, event, place, ask)]
        if (after or said) and not denials:
            self._calls[ctx.deps.session_id, call.call_id] = _Pending(ctx, after, said)
            while len(self._calls) > MOST_CALLS:
                self._calls.popitem(last=False)
        return next(iter([*denials, *(answer for answer in answers if answer is not None)]), None)

    def asker(self, ctx: RunContext[Any], context: AgentContext | None) -> AskModel | None:
        """Return what asks a run's model a question of a hook; None if no hook is a question."""
        if context is None or not any(hook.prompt for _, hook in self._hooks):
            return None
        if context not in self._judges:
            from .asking import Judge

            self._judges[context] = Judge(context)
        return partial(self._judges[context].ask, ctx)

    def returned(self, session_id: str, call_id: str, result: object) -> None:
        """Note what a call returned, for the hooks that hear of its end."""
        if (pending := self._calls.get((session_id, call_id))) is not None:
            pending.result = str(getattr(result, "return_value", result))

    async def tell(self, event: ToolEvent) -> None:
        """Tell the hooks that the call has ended. What they have to say reaches the model after the result."""
        pending = self._calls.pop((event.session_id, event.call_id), None)
        if pending is None:
            return
        for text in pending.said:  # with the result: a call that waits for approval has no place for it
            pending.ctx.enqueue(text)
        failed = pending.ctx.deps.state[FAILED_COMMANDS]
        error = pending.result if event.call_id in failed else event.error or ""
        good = event.outcome == "success" and event.call_id not in failed
        failed.discard(event.call_id)
        happened = "PostToolUse" if good else "PostToolUseFailure"
        hooks = [each for each in pending.hooks if each.hook.event == happened]
        for each in hooks:
            if happened == "PostToolUse":
                response = _response(each.message["tool_name"], pending.result)
                each.message.update(tool_response=response, tool_result=pending.result)  # two guides, two names
            else:
                each.message.update(error=error, is_interrupt=False)
        hooks = [each for each in hooks if not self.aside(each, pending.ctx)]
        with transcript(hooks, pending.ctx.messages):
            for each in hooks:
                outcome = await run_hook(each)
                if told := self._told(each, outcome):
                    pending.ctx.enqueue(told)
                if why := stop_of(outcome):
                    pending.ctx.deps.state[HEARD].stopped = f"hook of folder {each.folder.name} stops the agent: {why}"

    def aside(self, seen: HookCall, ctx: RunContext[Any]) -> bool:
        """Start a hook that runs beside the run, and decides nothing; return whether it is one."""
        if not seen.hook.background:
            return False
        owner = (ctx.run_id if seen.hook.wakes else None) or seen.message["session_id"]
        task = asyncio.create_task(self._run_beside(seen, ctx))
        self._aside.setdefault(owner, set()).add(task)
        task.add_done_callback(partial(self._forget, owner))
        return True

    def _forget(self, owner: str, task: asyncio.Task[bool]) -> None:
        tasks = self._aside.get(owner, set())
        tasks.discard(task)
        if not tasks:
            self._aside.pop(owner, None)

    async def settle(self, owner: str) -> bool:
        """Wait for what still runs beside a run or a session; return whether it has something for the model now.

        The end of the process would kill it, and who ends has nobody to wake.
        """
        return True in await asyncio.gather(*self._aside.pop(owner, ()), return_exceptions=True)

    async def _run_beside(self, seen: HookCall, ctx: RunContext[Any]) -> bool:
        with transcript([seen], ctx.messages):
            outcome = await run_hook(seen)
        refuses = not isinstance(outcome, str) and outcome[0] == 2
        if refuses and not seen.hook.wakes:
            self._log_failure(seen, outcome)
            return False
        if not (told := self._told(seen, outcome)):
            return False
        if refuses:
            ctx.enqueue(told)
        else:  # of one that wakes nobody: with the next message
            ctx.deps.state[HEARD].late.append(told)
        return refuses

    async def _only_run(self, seen: HookCall) -> None:
        outcome = await run_hook(seen)
        if isinstance(outcome, str) or outcome[0]:
            self._log_failure(seen, outcome)
        else:
            self.tell_people(f"hook {seen.hook.event} of folder {seen.folder.name}", outcome)

    def _log_failure(self, seen: HookCall, outcome: Outcome) -> None:
        text = outcome if isinstance(outcome, str) else f"exit code {outcome[0]}: {clip(outcome[2])}"
        self._logger.warning("hook %s of folder %s: %s", seen.hook.event, seen.folder.name, visible(text))

    def begun(self, session_id: str, place: str) -> None:
        """Note that this process has begun a session, which ends with it."""
        self._sessions[session_id] = place
        while len(self._sessions) > MOST_CALLS:
            self._sessions.popitem(last=False)

    async def end(self) -> None:
        """Tell the hooks of `SessionEnd`, for each session that this process began."""
        ended = [
            HookCall(folder, hook, message_of("SessionEnd", session_id, place) | {"reason": "other"}, place)
            for session_id, place in self._sessions.items()
            for folder, hook in self.around_runs("SessionEnd")
            if fits(hook.matcher, "other") and hook.skill is None
        ]
        self._sessions.clear()
        for each in ended:
            with suppress(TimeoutError):
                async with asyncio.timeout(END_SECONDS):
                    await self._only_run(each)

    def _told(self, seen: HookCall, outcome: tuple[int, str, str] | str) -> str:
        who = f"hook of folder {seen.folder.name}"
        try:
            if isinstance(outcome, str):
                raise ValueError(outcome)
            code, out, err = outcome
            if code == 2:
                said = refusal_of(out, err)
                return f"{who}: {seen.hook.before(said)}" if said else ""
            if code:
                raise ValueError(f"exit code {code}: {clip(err)}")
            answer = answer_of(out)
        except ValueError as error:
            self._logger.warning("hook %s of folder %s: %s", seen.hook.event, seen.folder.name, visible(str(error)))
            return ""
        self.tell_people(who, outcome)
        if answer is None:
            return ""  # text for a person
        reason = clip(str(answer.get("reason") or "")) if answer.get("decision") == "block" else ""
        return "\n".join(f"{who}: {text}" for text in (reason, context_of(answer)) if text)

    def around_runs(self, *events: str) -> list[tuple[Folder, HookEntry]]:
        """Return the hooks of events that are not about calls."""
        return [(folder, hook) for folder, hook in self._hooks if hook.event in events]

    @property
    def about_calls(self) -> bool:
        """Whether one is about calls of tools."""
        return any(hook.event in ABOUT_CALLS for _, hook in self._hooks)

    @property
    def beside(self) -> bool:
        """Whether one runs beside a run: what it says may come late."""
        return any(hook.background for _, hook in self._hooks)

    @property
    def hear(self) -> bool:
        """Whether one hears what calls return, or runs beside a run."""
        return self.beside or any(hook.event in AFTER_CALLS for _, hook in self._hooks)

    async def notify(self, session_id: str, kind: str, text: str) -> None:
        """Tell the hooks of `Notification` that a person is needed. What they say goes to the log."""
        place = str(Path.cwd())
        about = {"message": text, "notification_type": kind}
        for folder, hook in self.around_runs("Notification"):
            if fits(hook.matcher, kind) and hook.skill is None:
                message = message_of("Notification", session_id, place) | about
                await self._only_run(HookCall(folder, hook, message, place))

    def _seen(
        self, call: ToolCall, ctx: RunContext[Any], event: HookEvent, place: str, ask: AskModel | None
    ) -> Iterator[HookCall]:
        for folder, hook in self._hooks:
            if hook.event != event or not in_use(hook, ctx):
                continue
            for name, args in call_as_others_see_it(call.original, call.plugin, call.args, place):
                if fits(hook.matcher, name) and may_be(hook.only, name, args):
                    message = message_of(event, ctx.deps.session_id, place) | {
                        "tool_name": name,
                        "tool_input": args,
                        "tool_use_id": call.call_id,
                    }
                    yield HookCall(folder, hook, message, place, ask, spent=spent_in(hook, ctx))
                    break

    async def _ask(self, seen: HookCall, said: list[str]) -> Ask | Deny | None:
        outcome = await run_hook(seen)
        who = f"hook of folder {seen.folder.name}"
        if isinstance(outcome, str):
            return Deny(f"{who}: {outcome}")
        code, out, err = outcome
        if code == 2:
            return Deny(f"{who}: {refusal_of(out, err) or 'denied'}")
        if code < 0 or code in CANNOT_RUN:
            return Deny(f"{who} cannot run (exit code {code}): {clip(err)}; deep folders remove {seen.folder.name}")
        if code:
            self._logger.warning("%s: exit code %s: %s", who, code, visible(clip(err)))
        self.tell_people(who, outcome)
        with suppress(ValueError):
            if context := context_of(answer_of(out) or {}):
                said.append(f"{who}: {context}")
        return _verdict(out, who)

    def tell_people(self, who: str, outcome: Outcome) -> None:
        """Log what a hook says to people; an unreadable answer says nothing. At a good end, stderr is detail."""
        if not isinstance(outcome, str) and not outcome[0] and outcome[2].strip():
            self._logger.debug("%s: %s", who, visible(clip(outcome[2])))
        with suppress(ValueError):
            out = "" if isinstance(outcome, str) or outcome[1].startswith('{"async"') else outcome[1]
            if said := told_to_people(answer_of(out) or {}):
                self._logger.warning("%s: %s", who, visible(said))


def _response(tool: str, result: str) -> dict[str, Any]:
    """Return what a call returned, as others' hooks expect it."""
    if tool == "Bash":
        stdout, _, stderr = f"\n{_EXIT_CODE.sub('', result)}".partition("\n[stderr]\n")
        return {"stdout": stdout[1:], "stderr": stderr, "interrupted": False}
    return {"success": True, "content": result}


def _verdict(out: str, who: str) -> Ask | Deny | None:
    """Return what a hook's output decides: what cannot be understood whole denies. Nothing in it can approve a call."""
    try:
        answer = answer_of(out)
    except ValueError as error:
        return Deny(f"{who}: {error}")
    if answer is None:
        return None  # text for a person
    specific: object = answer.get("hookSpecificOutput", {})
    if not isinstance(specific, dict):
        return Deny(f"{who}: its answer is not one that a hook gives")
    more = cast("dict[str, Any]", specific)
    said = [value for value in (more.get("permissionDecision"), answer.get("decision")) if value is not None]
    reason = more.get("permissionDecisionReason") or answer.get("reason") or answer.get("stopReason")
    text = f"{who}: {clip(str(reason or told_to_people(answer) or 'denied'))}"
    if any(value in DENIES for value in said) or answer.get("continue", True) is not True:
        return Deny(text)
    if unknown := [value for value in said if value not in (*ASKS, *ALLOWS)]:
        return Deny(f"{who}: {clip(str(unknown[0]))!r} is no decision")
    if "updatedInput" in more:
        return Deny(f"{who} would change the arguments, which nothing may do after they were checked")
    return Ask(text) if any(value in ASKS for value in said) else None
