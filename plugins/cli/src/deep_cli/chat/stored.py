"""The conversations of `deep chat` in a store of sessions: their ids, finding one, and running its turns."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from deep_sessions import (
    AgentError,
    Commit,
    Fold,
    MemoryStore,
    NewEntry,
    NotPending,
    Runner,
    SessionBusy,
    SessionNotFound,
    SessionStore,
    StoreError,
    create,
    has_plan,
    load_session,
)
from pydantic_ai.messages import ModelMessage
from pydantic_ai.usage import RunUsage

from deep_core import Kernel
from deep_core.plugin_api import visible

from ..failure import FAILED, USAGE, Failure
from ..plugins.files import files_as_label, label_as_files
from ..run.attach import Message
from ..run.names import AGENT, DIGITS, WHOLE, chats_folder, new_id, project, short_id
from ..run.plan import MODE, PLAN, PlanModes, is_planned
from .mentions import text_of

if TYPE_CHECKING:
    from deep_sessions import Compacted, Outcome, Run
    from pydantic_ai import Agent, CancellationToken, RunContext
    from pydantic_ai.tools import DeferredToolResults
    from pydantic_ai.workspaces import WorkspaceBackend

__all__ = ["NEWEST", "ChatRuns", "StoredChat", "check_agent", "find_chat"]

NEWEST = "newest"
"""`--resume` without an id."""
PAGE = 500
TITLES = 200
"""Chats whose titles are read."""
IMPORT = "deep sessions import-chats"


# -- what is stored ----------------------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class StoredChat:
    """One conversation.

    Attributes:
        id: its id in the store.
        folder: the directory it began in, without symlinks.
        model: the model's id; None if the store does not know it.
        backend: the backend's name; None likewise.
        messages: the history.
        unfinished: what is left of its last turn: calls that wait for the user, a run that was interrupted, one that
            the user stopped and that did not end, or one that failed.
        prompt: the message of a turn that was interrupted.
        plan: whether its runs are in plan mode.
        is_new: whether this program began it; it may be one of an editor or a page.
        plugin_files: the files of `-p` that its runs used: path -> SHA-256 of what was loaded.
        agent: the agent of another program that runs it, as `--agent` names it; "" for deep's.
    """

    id: str
    folder: str
    model: str | None = None
    backend: str | None = None
    messages: Sequence[ModelMessage] = field(default_factory=list[ModelMessage])
    unfinished: Literal["", "waiting", "interrupted", "stopped", "failed"] = ""
    prompt: str = ""
    plan: bool = False
    is_new: bool = False
    plugin_files: Mapping[str, str] = field(default_factory=dict[str, str])
    agent: str = ""

    @property
    def labels(self) -> Mapping[str, str]:
        """What each run keeps of it."""
        labels = {"model": self.model or "", "backend": self.backend or "", "folder": visible(self.folder)}
        labels |= files_as_label(self.plugin_files) | ({AGENT: self.agent} if self.agent else {})
        return {**labels, MODE: PLAN} if self.plan else labels


async def find_chat(store: SessionStore, resume: str, folder: str) -> StoredChat:
    """Load a chat of this folder.

    Args:
        store: where chats are.
        resume: what was typed after `--resume`: eight digits, a whole id, or `NEWEST`.
        folder: the current directory, without symlinks.

    Raises:
        Failure: the id is unknown or belongs to another folder, there is no chat yet, or the store cannot be read.
    """
    try:
        session_id = await (_newest(store, folder) if resume == NEWEST else _named(store, resume, folder))
        return _stored_chat(await load_session(store, session_id), folder)
    except AgentError as error:
        raise Failure(f"--resume: this chat cannot be read: {error.message}", FAILED) from error


def _stored_chat(state: Fold, folder: str) -> StoredChat:
    run, info = state.run, state.info
    labels = {} if run is None else run.labels
    found = StoredChat(info.id, folder, labels.get("model") or None, labels.get("backend") or None, state.messages())
    found.plan, found.plugin_files = is_planned(labels), label_as_files(labels)
    found.agent = labels.get(AGENT, "")
    if run is not None and info.holder is None:
        if run.status == "paused":
            found.unfinished = "waiting"
        elif run.status == "running":
            found.unfinished = "stopped" if any(mail.kind == "cancel" for mail in state.mail) else "interrupted"
            found.prompt = run.prompt if isinstance(run.prompt, str) else ""
        elif run.status == "failed":
            found.unfinished = "failed"
    return found


async def _newest(store: SessionStore, folder: str) -> str:
    own = f"{project(folder)}."
    async for session_id in _ids(store):
        if session_id.startswith(own) and WHOLE.fullmatch(session_id):
            state = await load_session(store, session_id)
            if state.run is not None or state.messages():  # else a page opened it and sent nothing
                return session_id
    if any((chats_folder() / project(folder)).glob("*.json")):
        raise Failure(f"--resume: the chats of {folder} are in files of an earlier deep-cli; type: {IMPORT}", USAGE)
    raise Failure(f"--resume: there is no chat of {folder} yet; begin one with deep chat", USAGE)


async def _named(store: SessionStore, resume: str, folder: str) -> str:
    digits = short_id(resume) if WHOLE.fullmatch(resume) else resume
    if not DIGITS.fullmatch(digits):
        raise Failure(f"--resume {resume}: an id is eight digits and letters a to f, as deep chat printed it", USAGE)
    own = new_id(folder, digits)
    if resume in (digits, own):
        with suppress(SessionNotFound):
            return (await store.info(own)).id
    everywhere = store.root  # to say where it is, for the person whose store it is
    async for session_id in _ids(everywhere):
        if WHOLE.fullmatch(session_id) and resume in (session_id, short_id(session_id)):
            run = (await load_session(everywhere, session_id)).run
            place = run.labels.get("folder") if run is not None else None
            where = f"{place}: cd there, then deep chat --resume {digits}" if place else "another folder"
            raise Failure(f"--resume {resume}: it began in {where}", USAGE)
    if any(chats_folder().glob(f"*/{digits}.json")):
        raise Failure(f"--resume {resume}: it is in a file of an earlier deep-cli; type: {IMPORT}", USAGE)
    raise Failure(f"--resume {resume}: there is no such chat; deep chat --resume takes this folder's newest", USAGE)


async def _ids(store: SessionStore) -> AsyncIterator[str]:
    """Yield the ids of all sessions, the most recently used first."""
    offset = 0
    while page := await store.list(limit=PAGE, offset=offset):
        offset += len(page)
        for info in page:
            yield info.id


def check_agent(chat: StoredChat, name: str) -> None:
    """Check that a chat continues with the agent that began it: another one has other tools.

    Raises:
        Failure: it was begun with another `--agent`.
    """
    if chat.agent not in ("", name):
        how = shlex.join(["deep", "chat", "--resume", short_id(chat.id), "--agent", chat.agent])
        raise Failure(f"this chat is of another agent; type: {how}", USAGE)


# -- turns -------------------------------------------------------------------------------------------------------------


class ChatRuns:
    """Runs the turns of chats in a store; in memory, once the store cannot be opened or written.

    Args:
        store: where they are.
        kernel: who made the agent.
        modes: the agents, made for stored sessions.
        workspace: returns the workspace of a session.
        tell: receives why chats are not stored any more.
    """

    def __init__(
        self,
        store: SessionStore,
        kernel: Kernel,
        modes: PlanModes,
        workspace: Callable[[str], WorkspaceBackend | None],
        tell: Callable[[str], None],
    ) -> None:
        self.is_stored = True
        """Whether the store keeps the chat."""
        self._kernel = kernel
        self._workspace = workspace
        self._tell = tell
        self._modes = modes
        self._runner = self._make_runner(store)

    def _make_runner(self, store: SessionStore) -> Runner:
        def choose(run: Run) -> tuple[Agent[Any, Any], Mapping[str, Any]]:
            return self._modes.choose(run)

        how: dict[str, Any] = {"backend": self._workspace, "keep_partial": True, "choose": choose}
        return Runner(self._modes.agent, store, kernel=self._kernel, **how)

    def use(self, modes: PlanModes) -> None:
        """Run the next turn with other agents."""
        self._modes = modes

    async def plan(self, chat: StoredChat) -> Mapping[str, Any] | None:
        """Return the slots, as JSON, of a chat whose last answer is a plan; None if it is none."""
        with suppress(AgentError):
            state = await load_session(self._runner.store, chat.id)
            return state.root.slots if has_plan(state) else None
        return None

    async def send(self, chat: StoredChat, prompt: Message, **how: Any) -> Outcome:
        """Run the agent with a message. Arguments and errors as for `Runner.run`, but a store that fails is left.

        Raises:
            StoreError: the store failed after the model was asked, and cannot be read: nobody knows what was done.
                The chat continues in memory with the messages that came before.
        """
        new, was_asked = uuid4().hex, False
        on_events = how.pop("on_events", None)

        async def hear(ctx: RunContext[Any], events: AsyncIterable[Any]) -> None:
            nonlocal was_asked
            was_asked = True
            if on_events is not None:
                await on_events(ctx, events)

        how["on_events"] = hear
        try:
            return await self._runner.run(chat.id, prompt, run_id=new, labels=chat.labels, **how)
        except StoreError as error:
            state = await self._leave_store(chat, error)
            if state is not None and state.run is not None and state.run.id == new:
                return await self._runner.resume(chat.id, **how)
            if was_asked:
                raise
        return await self._runner.run(chat.id, prompt, run_id=new, labels=chat.labels, **how)

    @property
    def store(self) -> SessionStore:
        """Where the chats are."""
        return self._runner.store

    async def entry(self, chat: StoredChat) -> int:
        """Return the number of a chat's last entry; 0 if it has none."""
        with suppress(AgentError):
            return (await self.store.info(chat.id)).seq
        return 0

    async def follows(self, chat: StoredChat, entry: int, run_id: str) -> bool:
        """Whether a run began right after an entry: no other interface wrote between the two."""
        with suppress(AgentError):
            return not self.is_stored or all(
                each.run_id == run_id for each in await self.store.entries(chat.id, after=entry, limit=1)
            )
        return True

    async def rewind(self, chat: StoredChat, entry: int) -> None:
        """Set a chat back. Errors as for `deep_sessions.rewind`."""
        from deep_sessions import rewind

        await rewind(self.store, chat.id, to=entry)

    async def fork(self, chat: StoredChat, copy: str) -> None:
        """Copy a chat. Errors as for `deep_sessions.fork`."""
        from deep_sessions import fork

        await fork(self.store, chat.id, new_id=copy)

    async def titles(self, begin: str) -> list[tuple[str, str]]:
        """Return the ids that begin with a text, and their titles, the newest first; at most `TITLES`."""
        from deep_sessions import title_of

        found: list[tuple[str, str]] = []
        async for session_id in _ids(self.store):
            if session_id.startswith(begin) and WHOLE.fullmatch(session_id):
                with suppress(AgentError):  # one that is damaged has no title
                    found.append((session_id, await title_of(self.store, session_id)))
            if len(found) >= TITLES:
                break
        return found

    async def search(self, words: str) -> list[tuple[str, str, str]]:
        """Return messages of this folder's chats with these words: digits, who wrote it, an excerpt."""
        from deep_sessions import find_messages

        found = await find_messages(self.store, words, limit=TITLES)
        return [(short_id(each.session_id), each.role, each.text) for each in found if short_id(each.session_id)]

    async def steer(self, chat: StoredChat, message: Message) -> None:
        """Add a message to the run under way. Errors as for `Runner.post`."""
        await self._runner.post(chat.id, "steer", message)

    async def leave_message(self, chat: StoredChat, message: Message) -> None:
        """Add a message to those that the chat's runner sends next. Errors as for `Runner.post`."""
        await self._runner.post(chat.id, "prompt", message, chat.labels)

    async def waiting(self, chat: StoredChat) -> list[str]:
        """Return the messages that wait in the chat. A store that fails is left in the next turn."""
        with suppress(AgentError):
            return [text_of(message) for message in await self._runner.messages(chat.id)]
        return []

    async def sends(self, chat: StoredChat) -> str:
        """Return who sends them, as `SessionInfo.sends` says."""
        return (await self.store.info(chat.id)).sends

    async def next(self, chat: StoredChat, **how: Any) -> Outcome:
        """Run the agent with a message that another process left. Arguments and errors as for `Runner.run_next`."""
        return await self._runner.run_next(chat.id, run_id=uuid4().hex, labels=chat.labels, **how)

    async def resume(self, chat: StoredChat, **how: Any) -> Outcome:
        """Continue what is unfinished. Arguments and errors as for `Runner.resume`."""
        try:
            return await self._runner.resume(chat.id, **how)
        except StoreError as error:
            await self._leave_store(chat, error)
        return await self._runner.resume(chat.id, **how)

    async def retry(self, chat: StoredChat, **how: Any) -> Outcome:
        """Try the last run again, from its last step. Arguments and errors as for `Runner.retry`."""
        try:
            return await self._runner.retry(chat.id, **how)
        except StoreError as error:
            await self._leave_store(chat, error)
        return await self._runner.retry(chat.id, **how)

    async def compact(self, chat: StoredChat, keep: str, token: CancellationToken) -> Compacted:
        """Make the conversation shorter. Arguments and errors as for `Runner.compact`."""
        done = await self._runner.compact(chat.id, keep=keep, token=token)
        await self.load(chat)
        return done

    async def answer(self, chat: StoredChat, approval: str, results: DeferredToolResults, **how: Any) -> Outcome:
        """Decide the calls that wait, and continue. Errors as for `Runner.decide` and `Runner.resume`."""
        try:
            await self._runner.decide(chat.id, results, approval=approval)
            return await self._runner.resume(chat.id, **how)
        except StoreError as error:
            await self._leave_store(chat, error)
        with suppress(NotPending):  # the decisions were stored; in the other store the question has another name
            await self._runner.decide(chat.id, results)
        return await self._runner.resume(chat.id, **how)

    async def cancel(self, chat: StoredChat) -> None:
        """Stop the chat's run, or end the calls that wait. Errors as for `Runner.cancel`."""
        try:
            with suppress(SessionNotFound):  # Ctrl-C came before the first run began
                await self._runner.cancel(chat.id)
        except StoreError as error:
            if await self._leave_store(chat, error) is not None:
                await self._runner.cancel(chat.id)

    async def load(self, chat: StoredChat) -> None:
        """Read the history again; a chat that is not stored has none."""
        try:
            chat.messages = (await load_session(self._runner.store, chat.id)).messages()
        except SessionNotFound:
            chat.messages = []

    async def usage(self, chat: StoredChat) -> RunUsage:
        """Return what all turns used."""
        try:
            return await self._runner.usage(chat.id)
        except SessionNotFound:
            return RunUsage()

    async def drop_empty(self, chat: StoredChat) -> None:
        """Delete a chat if nothing was said in it, here or elsewhere."""
        with suppress(SessionNotFound):
            if not (await load_session(self._runner.store, chat.id)).messages():
                await self.drop(chat)

    async def drop(self, chat: StoredChat) -> None:
        """Delete a chat, if it is stored."""
        from deep_sessions import delete

        with suppress(SessionNotFound, SessionBusy):  # another process has taken it up
            await delete(self._runner.store, chat.id, kernel=self._kernel)

    async def close(self) -> None:
        """Close the store."""
        await self._runner.store.aclose()

    async def _leave_store(self, chat: StoredChat, error: StoreError) -> Fold | None:
        """Continue in memory, with what the store can still read; return the chat's state there."""
        if not self.is_stored:
            raise error
        self.is_stored = False
        self._tell(error.message)
        old, new = self._runner.store, MemoryStore()
        self._runner = self._make_runner(new)
        try:
            stored = await old.load(chat.id)
        except AgentError:  # the history is the one of the last turn
            stored = None
        await old.aclose()
        if stored is not None and stored.entries:
            copies = [NewEntry(e.kind, e.data, e.run_id, e.version, e.base) for e in stored.entries]
            lease = await new.acquire(chat.id)
            await new.commit(lease, Commit(copies, put=stored.ledger, status=stored.info.status))
            await new.release(lease)
            for mail in stored.mail:
                await new.post(chat.id, mail.kind, mail.data)
        elif chat.messages:
            await create(new, chat.id, chat.messages)
        else:
            return None
        return await load_session(new, chat.id)
