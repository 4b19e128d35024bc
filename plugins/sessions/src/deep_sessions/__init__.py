"""Sessions for deep agents: stored, resumed after `kill -9`, forked, and never doing a thing twice.

Importing this module loads neither pydantic nor Pydantic AI: names load on first use, hooks import inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deep_core import hookimpl, lazy_exports

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    from pydantic_ai import RunContext
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.models import Model

    from deep_core import AgentConfig, AgentContext, Ask, PluginContext, PromptSection, StateSlot, ToolCall

    from .advice import PROVIDER_KEYS, advice_on, advice_on_stored, key_variable, provider_of
    from .agent import DeepAgent, tools_of
    from .background import BackgroundCommands, RunningCommand
    from .branching import fork, rewind
    from .capability import session_capabilities
    from .compaction import Compacted
    from .conversations import (
        folder_key,
        folder_owner,
        folder_store,
        is_conversation,
        is_person,
        new_conversation_id,
    )
    from .decisions import WaitingCalls
    from .deps import AgentDeps, NoopObserver, Observer
    from .digest import config_digest
    from .door.media import recognized
    from .endings import finish_reason
    from .entries import write_prompt
    from .errors import (
        AgentClosed,
        AgentError,
        DecisionsPending,
        InternalError,
        LeaseLost,
        LimitExceeded,
        MessageRefused,
        MissingDependencyError,
        ModelError,
        NotCompacted,
        NothingToResume,
        NotPending,
        RunAborted,
        RunTimedOut,
        RuntimePermissionDenied,
        RuntimeUnavailable,
        SessionBusy,
        SessionNotFound,
        StoreError,
        ToolNotFound,
        UsageError,
        as_agent_error,
    )
    from .events import Event, event_from_json
    from .exit_codes import exit_code, split_exit_code
    from .explained_window import explained_window
    from .files import FileHistory, RestoredFiles, restore_files, save_files
    from .fold import Fold, Run
    from .folder_agents import AgentChoice, BackendMaker, FolderAgents, FolderSettings
    from .full_text import Found, find_messages
    from .handing_back import hand_back
    from .holder import is_dead, this_process
    from .ledger import effect_key, transaction
    from .manage import create, load_session, rename
    from .outcome import Outcome
    from .own_agents import OwnAgent, Planning, find_object, load_agent, make_own
    from .planning import CARRY_OUT, MODE, PLAN, has_plan, is_planned, planner_parameters
    from .private_files import replace_private
    from .questions import Question, answer_questions, questions_of
    from .reading import export, title_of
    from .registry import ToolContext, ToolDefinition, ToolRegistry, ToolSpec
    from .removing import delete, retain
    from .requests.breaker import Breaker, BreakerState, breaker_of, breakers
    from .requests.ends import (
        NOT_WHOLE,
        End,
        address_of_error,
        end_of_error,
        end_of_response,
        words_of_end,
        words_of_error,
    )
    from .requests.patience import patience
    from .requests.sending import wait_words
    from .results import AgentState, Delta, Message, RunResult, ToolSummary
    from .rules import Always, Rule, Rules, is_edit, rules_for, rules_of
    from .run_request import RunRequest
    from .runner import Runner
    from .service import Sessions
    from .slash import ChatCommand, chat_commands
    from .slot import session_in
    from .small import SmallProfile
    from .store import Commit, Entry, Lease, Mail, NewEntry, SessionInfo, SessionStatus, SessionStore, Stored
    from .stores.memory import MemoryStore
    from .stores.open import default_store, open_conversations, open_store
    from .stores.postgresql import PostgresqlStore
    from .stores.sqlite import SqliteStore

__all__ = [
    "CARRY_OUT",
    "MODE",
    "NOT_WHOLE",
    "PLAN",
    "PROVIDER_KEYS",
    "AgentChoice",
    "AgentClosed",
    "AgentDeps",
    "AgentError",
    "AgentState",
    "Always",
    "BackendMaker",
    "BackgroundCommands",
    "Breaker",
    "BreakerState",
    "ChatCommand",
    "Commit",
    "Compacted",
    "DecisionsPending",
    "DeepAgent",
    "Delta",
    "End",
    "Entry",
    "Event",
    "FileHistory",
    "Fold",
    "FolderAgents",
    "FolderSettings",
    "Found",
    "InternalError",
    "Lease",
    "LeaseLost",
    "LimitExceeded",
    "Mail",
    "MemoryStore",
    "Message",
    "MessageRefused",
    "MissingDependencyError",
    "ModelError",
    "NewEntry",
    "NoopObserver",
    "NotCompacted",
    "NotPending",
    "NothingToResume",
    "Observer",
    "Outcome",
    "OwnAgent",
    "Planning",
    "PostgresqlStore",
    "Question",
    "RestoredFiles",
    "Rule",
    "Rules",
    "Run",
    "RunAborted",
    "RunRequest",
    "RunResult",
    "RunTimedOut",
    "Runner",
    "RunningCommand",
    "RuntimePermissionDenied",
    "RuntimeUnavailable",
    "SessionBusy",
    "SessionInfo",
    "SessionNotFound",
    "SessionStatus",
    "SessionStore",
    "Sessions",
    "SmallProfile",
    "SqliteStore",
    "StoreError",
    "Stored",
    "ToolContext",
    "ToolDefinition",
    "ToolNotFound",
    "ToolRegistry",
    "ToolSpec",
    "ToolSummary",
    "UsageError",
    "WaitingCalls",
    "address_of_error",
    "advice_on",
    "advice_on_stored",
    "answer_questions",
    "as_agent_error",
    "breaker_of",
    "breakers",
    "chat_commands",
    "config_digest",
    "create",
    "default_store",
    "delete",
    "effect_key",
    "end_of_error",
    "end_of_response",
    "event_from_json",
    "exit_code",
    "explained_window",
    "export",
    "find_messages",
    "find_object",
    "finish_reason",
    "folder_key",
    "folder_owner",
    "folder_store",
    "fork",
    "hand_back",
    "has_plan",
    "is_conversation",
    "is_dead",
    "is_edit",
    "is_person",
    "is_planned",
    "key_variable",
    "load_agent",
    "load_session",
    "make_own",
    "new_conversation_id",
    "open_conversations",
    "open_store",
    "patience",
    "planner_parameters",
    "provider_of",
    "questions_of",
    "recognized",
    "rename",
    "replace_private",
    "restore_files",
    "retain",
    "rewind",
    "rules_for",
    "rules_of",
    "save_files",
    "session_capabilities",
    "session_in",
    "split_exit_code",
    "this_process",
    "title_of",
    "tools_of",
    "transaction",
    "wait_words",
    "words_of_end",
    "words_of_error",
    "write_prompt",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "agent": ["DeepAgent", "tools_of"],
        "capability": ["session_capabilities"],
        "compaction": ["Compacted"],
        "conversations": [
            "folder_key",
            "folder_owner",
            "folder_store",
            "is_conversation",
            "is_person",
            "new_conversation_id",
        ],
        "decisions": ["WaitingCalls"],
        "deps": ["AgentDeps", "NoopObserver", "Observer"],
        "digest": ["config_digest"],
        "door.media": ["recognized"],
        "endings": ["finish_reason"],
        "entries": ["write_prompt"],
        "errors": [
            "AgentClosed",
            "AgentError",
            "DecisionsPending",
            "InternalError",
            "LeaseLost",
            "LimitExceeded",
            "MessageRefused",
            "MissingDependencyError",
            "ModelError",
            "NotCompacted",
            "NotPending",
            "NothingToResume",
            "RunAborted",
            "RunTimedOut",
            "RuntimePermissionDenied",
            "RuntimeUnavailable",
            "SessionBusy",
            "SessionNotFound",
            "StoreError",
            "ToolNotFound",
            "UsageError",
            "as_agent_error",
        ],
        "events": ["Event", "event_from_json"],
        "exit_codes": ["exit_code", "split_exit_code"],
        "explained_window": ["explained_window"],
        "files": ["FileHistory", "RestoredFiles", "restore_files", "save_files"],
        "fold": ["Fold", "Run"],
        "full_text": ["Found", "find_messages"],
        "folder_agents": ["AgentChoice", "BackendMaker", "FolderAgents", "FolderSettings"],
        "handing_back": ["hand_back"],
        "holder": ["is_dead", "this_process"],
        "ledger": ["effect_key", "transaction"],
        "planning": ["CARRY_OUT", "MODE", "PLAN", "has_plan", "is_planned", "planner_parameters"],
        "private_files": ["replace_private"],
        "questions": ["Question", "answer_questions", "questions_of"],
        "registry": ["ToolContext", "ToolDefinition", "ToolRegistry", "ToolSpec"],
        "requests.breaker": ["Breaker", "BreakerState", "breaker_of", "breakers"],
        "requests.patience": ["patience"],
        "requests.ends": [
            "NOT_WHOLE",
            "End",
            "address_of_error",
            "end_of_error",
            "end_of_response",
            "words_of_end",
            "words_of_error",
        ],
        "requests.sending": ["wait_words"],
        "results": ["AgentState", "Delta", "Message", "RunResult", "ToolSummary"],
        "manage": ["create", "load_session", "rename"],
        "advice": ["PROVIDER_KEYS", "advice_on", "advice_on_stored", "key_variable", "provider_of"],
        "branching": ["fork", "rewind"],
        "reading": ["export", "title_of"],
        "outcome": ["Outcome"],
        "own_agents": ["OwnAgent", "Planning", "find_object", "load_agent", "make_own"],
        "removing": ["delete", "retain"],
        "rules": ["Always", "Rule", "Rules", "is_edit", "rules_for", "rules_of"],
        "run_request": ["RunRequest"],
        "runner": ["Runner"],
        "service": ["Sessions"],
        "slot": ["session_in"],
        "small": ["SmallProfile"],
        "background": ["BackgroundCommands", "RunningCommand"],
        "slash": ["ChatCommand", "chat_commands"],
        "store": [
            "Commit",
            "Entry",
            "Lease",
            "Mail",
            "NewEntry",
            "SessionInfo",
            "SessionStatus",
            "SessionStore",
            "Stored",
        ],
        "stores.memory": ["MemoryStore"],
        "stores.open": ["default_store", "open_conversations", "open_store"],
        "stores.postgresql": ["PostgresqlStore"],
        "stores.sqlite": ["SqliteStore"],
    },
)


@hookimpl
def deep_state() -> list[StateSlot[Any]]:
    """Add the slots of a run, the title of a session, the window of the model, and that histories must be shorter."""
    from .door.slot import PASSED
    from .slot import COMPACTION, JOURNAL, SEATS, STEPS, TITLE, WINDOW

    return [JOURNAL, STEPS, SEATS, TITLE, WINDOW, COMPACTION, PASSED]


@hookimpl
def deep_prompt_sections(context: AgentContext) -> list[PromptSection]:
    """Add the hints that `[agent.prompt]` sets."""
    if not context.sets("prompt.append_time_hint", "prompt.append_runtime_hint"):
        return []
    from .hints import hints

    return hints(context)


@hookimpl(before=["prompted_tools"])  # what wraps a model stands inside of what sends its requests again
def deep_capabilities(context: AgentContext) -> list[AbstractCapability[Any]]:
    """Add the request layer, and what honors the keys of `[agent]` that are set."""
    from .honoring import capabilities

    context.idle("deep_check_call", unless="asking")
    return capabilities(context)


@hookimpl
def deep_resolve_model(model_id: str, config: AgentConfig | None) -> Model[Any] | None:
    """Make the model at `agent.model.base_url` one that knows what its server takes."""
    if config is None or config.model.base_url is None or model_id != config.model.id:
        return None
    from .requests.served import served_model

    return served_model(config)


@hookimpl
def deep_check_call(call: ToolCall, ctx: RunContext[Any]) -> Ask | None:
    """Add to what a call asks for that it may have run before a crash."""
    from .capability import check_call

    return check_call(ctx, call)


@hookimpl
def deep_hookspecs() -> list[ModuleType]:
    """Add the hooks through which other plugins add stores and chat commands, and erase what they keep of a session."""
    from . import hookspecs

    return [hookspecs]


@hookimpl
def deep_session_stores(context: PluginContext) -> Mapping[str, Callable[[str], SessionStore]]:
    """Add the stores `memory:`, `sqlite:` and `postgresql:`."""
    from .stores.open import STORES

    return STORES
