"""The keys of `[agent]`: types, defaults, and what an untrusted project's file may set.

A key that no installed code honors is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, TypeGuard, cast

from pydantic import BaseModel, Field, ValidationError, model_validator

from ..errors import ConfigError, suggest
from ..plugins.config import Config, model_parts, put_at, table_at
from ..plugins.options import Documented


@dataclass(frozen=True)
class Narrows:
    """Mark of a field that an untrusted project may set. Its value joins the policy and can only narrow it.

    The kernel ignores fields without the mark in an untrusted project's file.

    Attributes:
        never: the value that would widen the policy. The kernel ignores it, also as a table's value.
    """

    never: bool | None = None


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
"""Planned keys, and what will honor each. Until then the kernel rejects them."""


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
        """`provider:model`, as Pydantic AI takes it. None without a model."""
        if self.model is None:
            return None
        return f"{self.provider}:{self.model}" if self.provider else self.model

    def settings(self) -> dict[str, Any]:
        """Return this section as Pydantic AI model settings."""
        out: dict[str, Any] = {"temperature": self.temperature, "max_tokens": self.max_tokens}
        if self.timeout_ms is not None:
            out["timeout"] = self.timeout_ms / 1000
        return {key: value for key, value in out.items() if value is not None}


class ToolsPolicy(Documented):
    """Which tools the agent has."""

    enabled: Annotated[bool, Narrows(never=True)] = True
    """False: no tool reaches the model."""
    allow_list: Annotated[list[str] | str | None, Narrows()] = None
    """Tool names, or one tool expression. None means all, an empty list none."""
    require_approval_by_default: Annotated[bool, Narrows(never=False)] = False
    """True: every tool asks, except those that `interrupt_on` sets to false."""


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
    """Which model answers. A text is read as `provider:model`."""
    tools_policy: ToolsPolicy = ToolsPolicy()
    """Which tools the agent has."""
    runtime_policy: RuntimePolicy = RuntimePolicy()
    """Where the agent works."""
    tool_filter: Annotated[str | None, Narrows()] = None
    """A tool expression: the model sees only the tools that it matches, and only these run."""
    interrupt_on: Annotated[dict[str, bool] | str | bool, Narrows(never=False)] = Field(default_factory=dict[str, bool])
    """Tools that ask: name = true or false, or one tool expression. false: no call waits for approval."""
    approvers: list[str] = Field(default_factory=list[str])
    """Plugins whose capabilities may answer approval requests."""
    innermost: list[str] = Field(default_factory=list[str])
    """Plugins whose capabilities may stand behind the kernel's last check, as those for durable execution do."""
    native_tools: list[str] = Field(default_factory=list[str])
    """Kinds of provider-run tools that plugins may add, such as `web_search`. The kernel refuses all others."""

    @property
    def instructions(self) -> str | None:
        """The base prompt. None if it is empty."""
        return self.prompt.system or None


def read_agent_config(config: Config) -> AgentConfig:
    """Validate `[agent]`, merged from the trusted layers.

    Raises:
        ConfigError: the first wrong key, with its path, its source and a suggestion.
    """
    return _parse(*agent_values(config))


def agent_values(config: Config) -> tuple[dict[str, Any], dict[str, str]]:
    """Merge `[agent]` of the trusted layers, without validation. Return it and the source of each dotted key."""
    merged: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for layer in config.layers:
        section: dict[str, Any] = {**layer.data.get("agent", {})}
        if isinstance(section.get("model"), str):
            section["model"] = model_parts(section["model"])  # layers merge key by key
        for path, value in _leaves(section):
            dotted = ".".join(path)
            if value == {} and path[-1] != "interrupt_on":
                table_at(merged, path)  # an empty table sets nothing, but validation must see its name
            elif not any(dotted == key or dotted.startswith(key + ".") for key in sources):
                put_at(merged, path, value)
                sources[dotted] = layer.source
    return merged, sources


def _leaves(data: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in data.items():
        # `interrupt_on` maps tool names to answers: it is one value, not a section.
        if isinstance(value, dict) and value and key != "interrupt_on":
            yield from _leaves(cast("dict[str, Any]", value), (*path, key))
        else:
            yield (*path, key), value


class Restricted(NamedTuple):
    """An untrusted layer's `[agent]`.

    Attributes:
        source: the file.
        section: the keys that narrow the policy.
        ignored: the dotted keys that the file may not set.
    """

    source: str
    section: dict[str, Any]
    ignored: list[str]

    def validated(self) -> AgentConfig:
        """Validate the section. Raises ConfigError."""
        return _parse(self.section, dict.fromkeys(self.section, self.source))


def restricted_layers(config: Config) -> Iterator[Restricted]:
    """Split the `[agent]` of each untrusted layer into the keys that narrow and the rest."""
    for layer in config.layers:
        if layer.sealed:
            yield Restricted(layer.source, *_restrict(layer.sealed, AgentConfig, "agent"))


def ignored_keys(config: Config) -> list[str]:
    """Return all keys that untrusted files may not set, as `file: key`."""
    found = restricted_layers(config)
    return [*config.ignored, *(f"{layer.source}: {key}" for layer in found for key in layer.ignored)]


def _restrict(section: Mapping[str, Any], model: type[BaseModel], path: str) -> tuple[dict[str, Any], list[str]]:
    kept: dict[str, Any] = {}
    ignored: list[str] = []
    for key, value in section.items():
        where, field = f"{path}.{key}", model.model_fields.get(key)
        marks = [mark for mark in field.metadata if isinstance(mark, Narrows)] if field is not None else []
        if marks:
            never = marks[0].never
            narrow: Any = value
            if isinstance(value, dict):
                narrow = {name: said for name, said in cast("dict[str, Any]", value).items() if said != never}
            if value == never or narrow != value:
                ignored.append(f"{where} = {str(never).lower()}")
            if value != never:
                kept[key] = narrow
        elif isinstance(value, dict) and _is_model(inner := field.annotation if field is not None else None):
            below, more = _restrict(cast("dict[str, Any]", value), inner, where)
            kept |= {key: below} if below else {}
            ignored += more
        else:
            ignored.append(where)
    return kept, ignored


def _is_model(annotation: object) -> TypeGuard[type[BaseModel]]:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _parse(data: Mapping[str, Any], sources: Mapping[str, str]) -> AgentConfig:
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
            return f"nothing installed honors this yet; it comes with {by}. Remove it."
    if kind == "extra_forbidden":
        parent, _, key = path.rpartition(".")
        model: Any = AgentConfig
        for part in parent.split(".") if parent else []:
            model = model.model_fields[part].annotation
        return f"unknown key.{suggest(key, model.model_fields)} Known: {', '.join(model.model_fields)}"
    return message
