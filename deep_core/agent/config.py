"""`[agent]`: what an agent is, as data. Only what installed code honours is accepted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from ..errors import ConfigError, suggest
from ..plugins.config import model_parts
from ..plugins.options import Documented

__all__ = ["AgentConfig", "parse_agent_config"]

LATER = {
    "context": "deep-summarization and the agent runtime",
    "loop": "the agent runtime",
    "session": "deep-sessions",
    "observability": "the agent runtime",
    "prompt.variables": "the agent runtime",
    "prompt.append_time_hint": "the agent runtime",
    "prompt.append_runtime_hint": "the agent runtime",
    "model.tool_choice": "the agent runtime",
    "model.retry": "the agent runtime",
    "tools_policy.max_parallel": "the agent runtime",
    "tools_policy.max_calls_per_run": "the agent runtime",
    "runtime_policy.sandbox_mode": "the agent runtime",
    "runtime_policy.working_directory": "the agent runtime",
}
"""Fields that are known and that nothing honours yet: refused, naming what will."""


class Identity(Documented):
    """Who the agent is."""

    name: str = Field(default="agent", pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$")
    """The agent's name in traces and logs."""
    description: str | None = Field(default=None, max_length=1024)
    """What the agent is for, in traces."""


class Prompt(Documented):
    """The base prompt."""

    system: str = Field(default="", max_length=200_000)
    """The application's own instructions; plugins' sections follow it."""


class ModelSection(Documented):
    """Which model answers, and how."""

    provider: str | None = None
    """The part of a model id before the colon."""
    model: str | None = None
    """The part of a model id after the colon."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """Sampling temperature."""
    max_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    """Most tokens of one answer."""
    timeout_ms: int | None = Field(default=None, ge=1, le=3_600_000)
    """How long one request may take, in milliseconds."""

    @model_validator(mode="before")
    @classmethod
    def _from_id(cls, value: Any) -> Any:
        if isinstance(value, str):
            return model_parts(value)
        return value

    @property
    def id(self) -> str | None:
        """`provider:model`, as Pydantic AI takes it; None where no model is named."""
        if self.model is None:
            return None
        return f"{self.provider}:{self.model}" if self.provider else self.model

    def settings(self) -> dict[str, Any]:
        """The Pydantic AI model settings that this section asks for."""
        out: dict[str, Any] = {"temperature": self.temperature, "max_tokens": self.max_tokens}
        if self.timeout_ms is not None:
            out["timeout"] = self.timeout_ms / 1000
        return {key: value for key, value in out.items() if value is not None}


class ToolsPolicy(Documented):
    """Which tools there are."""

    enabled: bool = True
    """False: no tool reaches the model."""
    allow_list: list[str] | str | None = None
    """Tool names, or one tool expression. None means all, an empty list none."""
    require_approval_by_default: bool = False
    """True: every tool asks, but those that `interrupt_on` sets to false."""


class RuntimePolicy(Documented):
    """Where the agent works."""

    profile: str | None = None
    """The name of a backend that a plugin provides."""


class AgentConfig(Documented):
    """What an agent is and may do, as data."""

    schema_version: Literal[1] = 1
    """Version of this schema."""
    identity: Identity = Identity()
    """Who the agent is."""
    prompt: Prompt = Prompt()
    """The base prompt."""
    model: ModelSection = ModelSection()
    """Which model answers; text is taken as `provider:model`."""
    tools_policy: ToolsPolicy = ToolsPolicy()
    """Which tools there are."""
    runtime_policy: RuntimePolicy = RuntimePolicy()
    """Where the agent works."""
    tool_filter: str | None = None
    """A tool expression: only what it matches is shown, and only that is executed."""
    interrupt_on: dict[str, bool] | str | bool = Field(default_factory=dict[str, bool])
    """Tools that ask: name = true or false, or one tool expression; false un-asks all."""
    approvers: list[str] = Field(default_factory=list[str])
    """Plugins whose capabilities may answer approval requests."""
    native_tools: list[str] = Field(default_factory=list[str])
    """Kinds of provider-run tools that plugins may add, such as `web_search`. All others are refused."""

    @property
    def instructions(self) -> str | None:
        """The base prompt, None where it is empty."""
        return self.prompt.system or None


def parse_agent_config(data: Mapping[str, Any], sources: Mapping[str, str]) -> AgentConfig:
    """Validate `[agent]`.

    Args:
        data: the merged section.
        sources: where each dotted key came from, for messages.

    Raises:
        ConfigError: one clear error with the key's path, its source and a suggestion.
    """
    try:
        return AgentConfig.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join(str(part) for part in first["loc"])
        where = next(
            (source for key, source in sources.items() if path.startswith(key) or key.startswith(path)), "code"
        )
        raise ConfigError(f"{where}: agent.{path}: {_explain(path, first['type'], first['msg'])}") from None


def _explain(path: str, kind: str, message: str) -> str:
    for later, by in LATER.items():
        if path == later or path.startswith(later + "."):
            return f"nothing installed honours this yet; it comes with {by}. Remove it."
    if kind == "extra_forbidden":
        parent, _, key = path.rpartition(".")
        model: Any = AgentConfig
        for part in parent.split(".") if parent else []:
            model = model.model_fields[part].annotation
        return f"unknown key.{suggest(key, model.model_fields)} Known: {', '.join(model.model_fields)}"
    return message
