"""The report on an assembled agent: what each plugin sends to the model, and its cost."""

from __future__ import annotations

import asyncio
import contextvars
import json
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

from pydantic_ai import Agent, ToolDefinition
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.function import AgentInfo, FunctionModel
from tool_expressions import tool_facts

from ..plugins.contributions import Contribution, Processor
from ..plugins.kernel import PluginKernel
from ..tables import is_collection
from .policy.decisions import Policy
from .policy.gates import PolicyCapability, leaves_of
from .run.capability import DeepCapability
from .run.history import last_live_texts
from .run.session import Deps, create_default_deps

CHARS_PER_TOKEN = 4
"""The estimate behind all token budgets of the project."""


def tokens(chars: int) -> int:
    """Estimate the tokens of a text of `chars` characters."""
    return -(-chars // CHARS_PER_TOKEN)


@dataclass(frozen=True)
class SectionCost:
    """A part of the prompt, its plugin and its cost."""

    name: str
    plugin: str
    chars: int
    tokens: int
    live: bool
    locked: bool


@dataclass(frozen=True)
class ToolCost:
    """A tool that the model sees, its plugin, its cost, whether it asks, and where its plugin has it from."""

    name: str
    plugin: str
    tokens: int
    approval: str
    deferred: bool
    tags: tuple[str, ...]
    source: str = ""


@dataclass(frozen=True)
class Explanation:
    """What each plugin sends to the model.

    Attributes:
        sections: the prompt's sections, in sending order.
        tools: the offered tools. `approval` is `always`, `never`, `depends` (on the arguments) or `denied`: with
            `interrupt_on=False` no call can wait for approval.
        history_processors: name, plugin and phase of each, in running order.
        capabilities: id and plugin of each, outermost first.
        contributions: hook, owner, plugin and item of each contribution that the owner of a hook collected, and of each
            skill loader.
        left_out: plugin, status and reason of each plugin that failed for this agent.
        prompt: the prompt.
        chars: characters of prompt and tools in one request.
    """

    sections: tuple[SectionCost, ...]
    tools: tuple[ToolCost, ...]
    history_processors: tuple[dict[str, str], ...]
    capabilities: tuple[dict[str, str | None], ...]
    contributions: tuple[dict[str, str], ...]
    left_out: tuple[dict[str, str], ...]
    prompt: str
    chars: int

    @property
    def tokens(self) -> int:
        """Estimated tokens of prompt and tools in one request: the sum of `by_plugin()`."""
        return sum(self.by_plugin().values())

    def by_plugin(self) -> dict[str, int]:
        """Return the estimated tokens of one request by plugin. A deferred tool costs none until the model finds it."""
        out: dict[str, int] = {}
        for item in (*self.sections, *(tool for tool in self.tools if not tool.deferred)):
            out[item.plugin] = out.get(item.plugin, 0) + item.tokens
        return dict(sorted(out.items()))

    def __str__(self) -> str:
        rows = [("section", each.name, each.plugin, each.tokens, "") for each in self.sections]
        rows += [("tool", t.name, t.plugin, t.tokens, t.approval + ", on demand" * t.deferred) for t in self.tools]
        rows += [("total", "", "", self.tokens, "a request, estimated")]
        n, p = max(len(row[1]) for row in rows), max(len(row[2]) for row in rows)
        return "\n".join(f"{k:7}  {a:{n}}  {b:{p}}  {cost:6,}  {more}".rstrip() for k, a, b, cost, more in rows)

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        shown = {key: value for key, value in asdict(self).items() if key not in ("prompt", "chars")}
        return {"schema": 1, **shown, "totals": {"chars": self.chars, "tokens": self.tokens}}


def explain(agent: Agent[Any, Any], kernel: PluginKernel | None = None) -> Explanation:
    """Report what every plugin puts in front of the model of this agent, and what it costs in tokens.

    Sends one request to a stand-in model and reads what that model receives. Works inside a running event loop too.

    Args:
        agent: made by `create_deep_agent` or a kernel.
        kernel: the kernel that must have made it; None for any.

    Raises:
        ValueError: no kernel made the agent, or another one did.
    """
    leaves = leaves_of(agent.root_capability)
    deep = next((leaf for leaf in leaves if isinstance(leaf, DeepCapability)), None)
    if deep is None or kernel not in (None, deep.plan.kernel):
        raise ValueError("explain() needs an agent that this kernel made")
    messages, shown = _request(agent, deep.plan.kernel)
    sections, tools, dropped = [*_sections(deep, messages, shown)], shown.function_tools, deep.plan.contributed.dropped
    return Explanation(
        sections=tuple(section for section, _ in sections),
        tools=tuple(_tool(definition, deep.plan.policy) for definition in tools),
        history_processors=tuple(map(_processor, deep.plan.processors)),
        capabilities=tuple({"id": leaf.id, "plugin": _owner(leaf, deep)} for each in leaves for leaf in _chain(each)),
        contributions=tuple(_contributions(deep)),
        left_out=tuple({"plugin": p, "status": said[0], "reason": said[1]} for p, said in dropped.items()),
        prompt="\n\n".join(text for _, text in sections if text),
        chars=sum(cost.chars for cost, _ in sections) + sum(schema_chars(d) for d in tools if not d.defer_loading),
    )


def _processor(item: Contribution[Processor]) -> dict[str, str]:
    return {"name": item.value.name, "plugin": item.plugin, "phase": item.value.phase}


def _tool(tool: ToolDefinition, policy: Policy) -> ToolCost:
    known, cost, source = tool_facts(tool), tokens(schema_chars(tool)), str((tool.metadata or {}).get("source", ""))
    return ToolCost(tool.name, known.plugin, cost, policy.asks_statically(tool), tool.defer_loading, known.tags, source)


def schema_chars(definition: ToolDefinition) -> int:
    """Count the characters of a tool's name, description and parameters as compact JSON."""
    shown = {"name": definition.name, "description": definition.description or ""}
    return len(json.dumps({**shown, "parameters": definition.parameters_json_schema}, separators=(",", ":")))


def _chain(leaf: AbstractCapability[Deps]) -> tuple[AbstractCapability[Deps], ...]:
    """Return a capability, and those that it hosts: they act right behind it."""
    return (leaf, *leaf.hosted) if isinstance(leaf, PolicyCapability) else (leaf,)


def _owner(leaf: Any, deep: DeepCapability) -> str | None:
    if leaf.id in ("deep", "deep.policy"):
        return "deep_core"
    return deep.plan.owners.get(leaf.id or "") or (
        "pydantic_ai" if type(leaf).__module__.startswith("pydantic_ai.") else "app"
    )


def _contributions(deep: DeepCapability) -> Iterator[dict[str, str]]:
    """Yield contributions to plugins' hooks. A mapping's item is named by its key, any other by its `name` or type."""
    for hook, found in deep.plan.contributed.collected.items():
        # All other hooks of the kernel are shown as what came of them.
        owner = deep.plan.kernel.hooks.get(hook) or ("deep_core" if hook == "deep_skill_loaders" else None)
        for plugin, value in found if owner else ():
            thing: object = value
            pair = thing if is_collection(thing) else (thing,)
            name = getattr(thing, "name", next(iter(pair), ""))
            item = name if isinstance(name, str) else type(thing).__name__
            if plugin not in deep.plan.contributed.dropped:
                yield {"hook": hook, "owner": str(owner), "plugin": plugin, "item": item}


def _request(agent: Agent[Any, Any], kernel: PluginKernel) -> tuple[list[ModelMessage], ModelRequestParameters]:
    seen: list[tuple[list[ModelMessage], ModelRequestParameters]] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append((messages, info.model_request_parameters))
        return ModelResponse(parts=[TextPart("ok")])

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        seen.append((messages, info.model_request_parameters))
        yield "ok"

    model = FunctionModel(answer, stream_function=stream, model_name="explain")

    async def run() -> None:
        await agent.run("…", model=model, deps=create_default_deps(kernel=kernel), output_type=str)

    # In a thread of its own: the caller may be inside a running event loop.
    context = contextvars.copy_context()
    with ThreadPoolExecutor(max_workers=1) as thread:
        thread.submit(context.run, asyncio.run, run()).result()
    return seen[0]


def _sections(
    deep: DeepCapability, messages: list[ModelMessage], shown: ModelRequestParameters
) -> Iterator[tuple[SectionCost, str]]:
    """Yield the prompt's sections with their texts, the static ones first; a live one may have no text yet."""
    static = {f"{plugin}.{section.name}": (plugin, section) for plugin, section in deep.plan.static}
    for part in shown.instruction_parts or []:
        if (part.name or "") in static:
            plugin, section = static[part.name or ""]
            yield _section(section.name, plugin, part.content, live=False, locked=section.locked)
        else:
            _, of_capability, owner = str(part.id).partition("capability:")
            own = owner.split(":")[0]
            plugin = (deep.plan.owners.get(own) or own.split(".")[0]) if of_capability else "app"
            yield _section(part.name or "instructions", plugin, part.content, live=False, locked=False)
    texts = last_live_texts(messages)
    for plugin, section in deep.plan.live:
        sent = texts.get(f"{plugin}.{section.name}")
        yield _section(section.name, plugin, sent.text if sent else "", live=True, locked=section.locked)


def _section(name: str, plugin: str, text: str, *, live: bool, locked: bool) -> tuple[SectionCost, str]:
    return SectionCost(name, plugin, len(text), tokens(len(text)), live, locked), text
