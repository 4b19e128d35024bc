"""The keys of `[agent]`: types, defaults, and what an untrusted project's file may set.

A key that no installed code honors is an error.
"""

# No postponed annotations: pydantic would compile and evaluate the text of each at class creation.
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self, TypeGuard, cast

from pydantic import AfterValidator, BaseModel, Field, JsonValue, ValidationError, model_validator
from tool_expressions import checked_expression

from ..errors import ConfigError, suggest
from ..frozen import FrozenDict, FrozenList, frozen
from ..plugins.config import Config, model_parts, put_at, table_at
from ..plugins.options import Documented
from ..tables import is_table

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo
    from pydantic_ai.models import Model
    from pydantic_ai.settings import ModelSettings


class Narrows(NamedTuple):
    """Mark of a field that an untrusted project may set. Its value joins the policy and can only narrow it.

    The kernel ignores fields without the mark in an untrusted project's file.

    Attributes:
        never: the value that would widen the policy. The kernel ignores it, also as a table's value.
    """

    never: bool | None = None


_SESSIONS = "profile model.fallback model.retry model.stall_ms tools_policy.max_parallel tools_policy.max_calls_per_run"
HONORED_BY = {
    **dict.fromkeys(["loop", "session", "observability", "limits", *_SESSIONS.split()], "sessions"),
    **dict.fromkeys(["context", "models.summary", "model.context_window"], "summarization"),
    "models.subagent": "subagents",
    **dict.fromkeys(["prompt.append_time_hint", "prompt.append_runtime_hint", "prompt.allow_override"], "sessions"),
    **dict.fromkeys(["runtime_policy.sandbox_mode", "runtime_policy.working_directory"], "backends"),
}
"""Keys that a plugin honors, and its name. Without that plugin, setting one is an error."""

Expression = Annotated[str, AfterValidator(checked_expression)]
_VARIABLE = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}")


class Section(Documented):
    """A part of the configuration. It is data, frozen to its depth.

    What it does follows from its values alone: a value that equals its default is not set, whether it was written or
    not, so equal configurations behave equally, also after a round trip through JSON.

    A default is made by `model_construct()`: `Retry()` would build a validator at every start, for what is valid. So
    what a default holds is frozen by itself.
    """

    @model_validator(mode="after")
    def _frozen(self) -> Self:
        for name, value in vars(self).items():
            vars(self)[name] = frozen(value)  # the model itself is frozen
        return self


class Identity(Section):
    """Who the agent is."""

    name: str = Field(default="agent", pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$")
    """The agent's name in traces and logs."""
    description: str | None = Field(default=None, max_length=1024)
    """What the agent is for, in traces."""


class Prompt(Section):
    """The base prompt."""

    system: str = Field(default="", max_length=200_000)
    """The application's own instructions; plugins' sections follow it."""
    variables: dict[str, JsonValue] = Field(default_factory=FrozenDict[str, JsonValue])
    """What replaces `{{name}}` in `system`. With one, every name in `system` needs a value."""
    append_time_hint: bool = False
    """Whether the prompt has the date, without a clock time."""
    append_runtime_hint: bool = True
    """Whether the prompt has the operating system, the working directory and the sandbox, if there is a workspace."""
    allow_override: bool = True
    """Whether a run may replace `system`."""

    @model_validator(mode="after")
    def _names_known(self) -> Self:
        if self.variables:
            self.check_names()
        return self

    def check_names(self) -> None:
        """Raise a ValueError if `system` has a name without a value."""
        if unknown := {*_VARIABLE.findall(self.system)} - self.variables.keys():
            raise ValueError(f"system has {{{{{min(unknown)}}}}}, and variables has no {min(unknown)!r}")

    @property
    def text(self) -> str:
        """`system` with the values of `variables`."""
        known = {name: said if isinstance(said, str) else json.dumps(said) for name, said in self.variables.items()}
        return _VARIABLE.sub(lambda match: known.get(match[1], match[0]), self.system)


class Retry(Section):
    """Repeated model requests after errors that pass."""

    max_attempts: int | None = Field(default=None, ge=1, le=10)
    """How often a request is sent at most; 1 means no retry. None: as often as `max_wait_ms` allows while the provider
    refuses, and 3 times if it takes the request on and the answer is cut, late or unreadable."""
    backoff_ms: int = Field(default=500, ge=0, le=60_000)
    """Milliseconds before the first retry. Each further wait is twice as long, with jitter."""
    max_wait_ms: int = Field(default=120_000, ge=0, le=86_400_000)
    """How long a request waits in all, in milliseconds. If the provider asks to wait longer, the run ends at once."""


class ModelSection(Section):
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
    """How long one request may take, in milliseconds, whatever trickles in."""
    stall_ms: int = Field(default=120_000, ge=100, le=3_600_000)
    """How long a streamed answer may be silent, in milliseconds; five times as long before its first word and while the
    model only thinks. What is no content, such as a comment that keeps the connection alive, is silence."""
    context_window: int | None = Field(default=None, ge=1024, le=100_000_000)
    """The window of the model, in tokens. None: what the server, the provider's list or an overflow says."""
    tool_choice: str | None = None
    """`auto`, `none`, `required`, or a tool's name. The last two hold for the first request of a run."""
    thinking: Literal["low", "medium", "high"] | None = None
    """How much the model thinks before it answers, if it can."""
    retry: Retry = Retry.model_construct()
    """Repeated model requests after errors that pass."""
    fallback: list[str] = Field(default_factory=FrozenList[str])
    """Models that are asked one after another if this one fails: ids, as `provider:model`."""
    base_url: str | None = Field(default=None, pattern=r"^https?://")
    """The address of an OpenAI-compatible server that has the model, such as `http://localhost:11434/v1`."""
    api_key_env: str | None = Field(default=None, min_length=1)
    """The environment variable with the key of `base_url`. None: that server takes no key."""

    @model_validator(mode="before")
    @classmethod
    def _from_id(cls, value: Any) -> Any:
        return model_parts(value) if isinstance(value, str) else value

    @property
    def id(self) -> str | None:
        """`provider:model`, as Pydantic AI takes it. None without a model."""
        if self.model is None:
            return None
        return f"{self.provider}:{self.model}" if self.provider else self.model

    def settings(self) -> "ModelSettings":
        """Return this section as Pydantic AI model settings."""
        choice = self.tool_choice if self.tool_choice in ("auto", "none") else None
        out = {name: getattr(self, name) for name in ("temperature", "max_tokens", "thinking")}
        out |= {"timeout": self.timeout_ms and self.timeout_ms / 1000, "tool_choice": choice}
        return cast("ModelSettings", {key: value for key, value in out.items() if value is not None})

    def served(self, model_id: str) -> "Model | None":
        """Return the configured model on the server at `base_url`. None for another id, or without such a server.

        Raises:
            ConfigError: the variable of `api_key_env` is not set, or `base_url` has no `model`.
        """
        if self.base_url and self.model is None:
            raise ConfigError("agent.model.base_url: name the model of that server: agent.model.model = …")
        if self.base_url is None or model_id != self.id:
            return None
        key = os.environ.get(self.api_key_env) if self.api_key_env else "none"
        if not key:
            raise ConfigError(f"agent.model.api_key_env: {self.api_key_env} is not set: export {self.api_key_env}=…")
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        return OpenAIChatModel(self.model or "", provider=OpenAIProvider(base_url=self.base_url, api_key=key))

    @property
    def forced(self) -> "ModelSettings | None":
        """The settings of a run's first request only: forced in all requests, a call would never end the run."""
        if self.tool_choice in (None, "auto", "none"):
            return None
        return {"tool_choice": "required" if self.tool_choice == "required" else [self.tool_choice]}


class Models(Section):
    """The models of single roles. None means the model of the run."""

    summary: str | None = None
    """Writes the summaries of long conversations."""
    subagent: str | None = None
    """Works in subagents whose type names no model."""


class ToolsPolicy(Section):
    """Which tools the agent has."""

    enabled: Annotated[bool, Narrows(never=True)] = True
    """False: no tool reaches the model."""
    allow_list: Annotated[Expression | list[str] | None, Narrows()] = None
    """Tool names, or one tool expression. None means all, an empty list none."""
    require_approval_by_default: Annotated[bool, Narrows(never=False)] = False
    """True: every tool asks, except those that `interrupt_on` sets to false."""
    max_parallel: int = Field(default=8, ge=1, le=256)
    """How many calls of one run may be under way at once; 1 runs them one by one."""
    max_calls_per_run: int | None = Field(default=None, ge=1, le=100_000)
    """How many calls a run may make. A batch that would pass it ends the run before it starts."""


class RuntimePolicy(Section):
    """Where the agent works."""

    profile: str | None = None
    """The name of a backend that a plugin provides."""
    sandbox_mode: Literal["read_only", "workspace_write", "full_access"] | None = None
    """What the workspace allows: no writes, writes in the working directory, or all that the backend allows."""
    working_directory: str | None = Field(default=None, min_length=1)
    """The folder that the workspace works in: it exists, and is below the backend's directory."""


class Context(Section):
    """What of a conversation a request sends."""

    max_input_tokens: int = Field(default=128_000, ge=1024, le=10_000_000)
    """Most tokens of one request."""
    max_history_messages: int = Field(default=200, ge=1, le=100_000)
    """Most messages of one request. A call stays with its result."""
    enable_compaction: bool = True
    """Whether plugins may replace old messages by a summary. False: a conversation that is too long is an error."""


class Loop(Section):
    """How long a run may go on."""

    max_iterations: int = Field(default=50, ge=1, le=1000)
    """Most model requests of a run, without those of subagents."""
    max_tool_rounds: int = Field(default=40, ge=0, le=999)
    """Most responses with tool calls in a run: fewer than `max_iterations`."""
    max_run_duration_ms: int = Field(default=1_800_000, ge=1000, le=86_400_000)
    """How long a run may take, in milliseconds."""

    @model_validator(mode="after")
    def _rounds_end(self) -> Self:
        default = type(self).model_fields["max_tool_rounds"].default  # fits by itself: fewer requests, fewer rounds
        if self.max_tool_rounds != default and self.max_tool_rounds >= self.max_iterations:
            raise ValueError(f"max_tool_rounds must be below max_iterations, which is {self.max_iterations}")
        return self


class Session(Section):
    """How sessions are stored."""

    auto_create: bool = True
    """Whether a run creates a session that does not exist."""
    persist_delta: bool = False
    """Whether the pieces of a message are stored too, for debugging."""


class Observability(Section):
    """What a run reports."""

    enable_trace: bool = False
    """Whether runs are spans of OpenTelemetry."""
    enable_metrics: bool = False
    """Whether runs report OpenTelemetry's metrics."""
    log_level: Literal["debug", "info", "warn", "error"] = "info"
    """The level of this agent's logger."""


class Budget(Section):
    """What may be used. None is no limit."""

    requests: int | None = Field(default=None, ge=1)
    """Model requests."""
    tokens: int | None = Field(default=None, ge=1)
    """Tokens, of requests and responses."""
    usd: float | None = Field(default=None, gt=0)
    """US dollars, by the provider's list prices."""


class Limits(Section):
    """Budgets, subagents included. A request that would begin after one is spent ends the run."""

    run: Budget = Budget.model_construct()
    """Of one run."""
    session: Budget = Budget.model_construct()
    """Of all runs of a session."""
    owner: Budget = Budget.model_construct()
    """Of all sessions of an owner."""
    day: Budget = Budget.model_construct()
    """Of all sessions of an owner that were used on one day (UTC)."""


class AgentConfig(Section):
    """What an agent is and may do, as data."""

    schema_version: Literal[1] = 1
    """Version of this schema."""
    identity: Identity = Identity.model_construct()
    """Who the agent is."""
    prompt: Prompt = Prompt.model_construct()
    """The base prompt."""
    model: ModelSection = ModelSection.model_construct()
    """Which model answers. A text is read as `provider:model`."""
    models: Models = Models.model_construct()
    """The models of single roles."""
    tools_policy: ToolsPolicy = ToolsPolicy.model_construct()
    """Which tools the agent has."""
    runtime_policy: RuntimePolicy = RuntimePolicy.model_construct()
    """Where the agent works."""
    context: Context = Context.model_construct()
    """What of a conversation a request sends."""
    loop: Loop = Loop.model_construct()
    """How long a run may go on."""
    session: Session = Session.model_construct()
    """How sessions are stored."""
    observability: Observability = Observability.model_construct()
    """What a run reports."""
    limits: Limits = Limits.model_construct()
    """Budgets, subagents included."""
    tool_filter: Annotated[Expression | None, Narrows()] = None
    """A tool expression: the model sees only the tools that it matches, and only these run."""
    interrupt_on: Annotated[Expression | dict[str, bool] | bool, Narrows(never=False)] = Field(
        default_factory=FrozenDict
    )
    """Tools that ask: name = true or false, or one tool expression. false: no call waits for approval."""
    approvers: list[str] = Field(default_factory=FrozenList[str])
    """Plugins whose capabilities may answer approval requests."""
    innermost: list[str] = Field(default_factory=FrozenList[str])
    """Plugins whose capabilities may stand behind the kernel's last check, as those for durable execution do."""
    profile: Literal["small"] | None = None
    """`small`: four tools, one call at a time and short results, for models with windows of 2,000 to 8,000 tokens."""
    native_tools: list[str] = Field(default_factory=FrozenList[str])
    """Kinds of provider-run tools that plugins may add, such as `web_search`. The kernel refuses all others."""

    @property
    def instructions(self) -> str | None:
        """The base prompt. None if it is empty."""
        return self.prompt.text or None


UNSET = AgentConfig.model_construct()
"""What `[agent]` is where nothing is set: one for all agents, since it cannot change."""


def read_agent_config(config: Config) -> AgentConfig:
    """Validate `[agent]`, merged from the trusted layers.

    Raises:
        ConfigError: the first wrong key, with its path, its source and a suggestion.
    """
    return _parse(*agent_values(config))


def check_honored(config: Config, plugins: Collection[str]) -> None:
    """Check that the plugins honor each key that the trusted layers set. Raises ConfigError."""
    merged, sources = agent_values(config)
    values = {".".join(path): value for path, value in _leaves(merged)}
    for dotted, source in sources.items():
        if values.get(dotted) is None:
            continue  # no value asks for nothing
        for key, plugin in HONORED_BY.items():
            if plugin not in plugins and f"{dotted}.".startswith(f"{key}."):
                raise ConfigError(f"{source}: agent.{key}: needs deep-{plugin}: pip install deep-{plugin}")


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
        if is_table(value) and value and key != "interrupt_on":
            yield from _leaves(value, (*path, key))
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
    return [*config.ignored, *(f"{each.source}: {key}" for each in restricted_layers(config) for key in each.ignored)]


def _restrict(section: Mapping[str, Any], model: type[BaseModel], path: str) -> tuple[dict[str, Any], list[str]]:
    kept: dict[str, Any] = {}
    ignored: list[str] = []
    for key, value in section.items():
        where, field = f"{path}.{key}", model.model_fields.get(key)
        mark = _mark(field)
        if mark is not None:
            never = mark.never
            narrow = {name: said for name, said in value.items() if said != never} if is_table(value) else value
            if value == never or narrow != value:
                ignored.append(f"{where} = {str(never).lower()}")
            if value != never:
                kept[key] = narrow
        elif is_table(value) and field is not None and _is_model(field.annotation):
            below, more = _restrict(value, field.annotation, where)
            kept |= {key: below} if below else {}
            ignored += more
        else:
            ignored.append(where)
    return kept, ignored


def _mark(field: "FieldInfo | None") -> Narrows | None:
    return next((mark for mark in (field.metadata if field else ()) if isinstance(mark, Narrows)), None)


def _is_model(annotation: object) -> TypeGuard[type[BaseModel]]:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _parse(data: Mapping[str, Any], sources: Mapping[str, str]) -> AgentConfig:
    try:
        return AgentConfig.model_validate(data) if data else UNSET  # to build the validator takes 6 ms of a start
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        # Of a value that may have several types, pydantic names the type: function-after[checked_expression(), str].
        path = ".".join(str(part) for part in first["loc"] if "[" not in str(part))
        where = next(
            (source for key, source in sources.items() if path.startswith(key) or key.startswith(path)), "code"
        )
        raise ConfigError(f"{where}: agent.{path}: {_explain(path, first['type'], first['msg'])}") from None


def _explain(path: str, kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        parent, _, key = path.rpartition(".")
        model: Any = AgentConfig
        for part in parent.split(".") if parent else []:
            model = model.model_fields[part].annotation
        return f"unknown key.{suggest(key, model.model_fields)} Known: {', '.join(model.model_fields)}"
    return message
