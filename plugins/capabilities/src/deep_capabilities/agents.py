"""The entries of one agent: each made, vetted and wrapped on its own, so that a bad one costs itself."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from pydantic import ValidationError
from pydantic_ai.capabilities import AbstractCapability, CombinedCapability
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset

from deep_core import PluginError, PluginWarning
from deep_core.plugin_api import NAME, Incident, as_expression, describe_error, static_definitions, suggest

from .build import build_capability
from .code_mode import only_tools_that_never_ask
from .options import PLUGIN, CapabilitiesOptions, EntrySettings
from .problems import EntryError, EntryStatus
from .wrapping import EntryRules, EntryToolset, Rule, has_tools, with_rules

if TYPE_CHECKING:
    from deep_core import AgentContext

__all__ = ["Entry", "add_entries", "find_entries"]


@dataclass
class Entry:
    """One entry of the configuration.

    Attributes:
        name: of the entry.
        use: its class, for people.
        status: whether the agent has it.
        reason: why not, with what to type.
        capabilities: what it adds to the agent; several for a class that combines others.
    """

    name: str
    use: str = ""
    status: EntryStatus = "ready"
    reason: str = ""
    capabilities: tuple[AbstractCapability[Any], ...] = ()


def add_entries(context: AgentContext, options: CapabilitiesOptions) -> list[AbstractCapability[Any]]:
    """Return the capabilities of the entries that can be used, and report the others.

    Raises:
        PluginError: an entry cannot be used, and the kernel is strict.
    """
    entries = find_entries(context, options)
    for entry in entries:
        if entry.status not in ("ready", "disabled"):
            _report(context, entry)
    return [capability for entry in entries for capability in entry.capabilities]


def find_entries(context: AgentContext, options: CapabilitiesOptions) -> list[Entry]:
    """Make each entry; one that cannot be used has the reason."""
    taken = _tools_of_plugins(context)
    entries = list(_make_entries(context, options))
    for entry in entries:
        if clash := _clash(entry, taken):
            entry.status, entry.reason, entry.capabilities = "refused", clash, ()
    return entries


def _make_entries(context: AgentContext, options: CapabilitiesOptions) -> Iterator[Entry]:
    for name, given in options.entries.items():
        entry = Entry(name, _use_of(given))
        try:
            settings = _validated(name, given)
            if settings.enabled:
                entry.capabilities = tuple(_made(context, name, settings))
            else:
                entry.status = "disabled"
        except EntryError as error:
            entry.status, entry.reason = error.status, str(error)
        yield entry


def _validated(name: str, given: Any) -> EntrySettings:
    if not NAME.fullmatch(name):
        raise EntryError("invalid", "a name has lower-case letters, digits and _ (at most 40), a letter first")
    if not isinstance(given, Mapping):
        raise EntryError("invalid", 'an entry is a table: { use = "module:Class" }')
    try:
        return EntrySettings.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path, message = ".".join(str(part) for part in first["loc"]), first["msg"]
        if first["type"] == "extra_forbidden":
            known = EntrySettings.model_fields
            message = f"unknown key.{suggest(path, known)} Known: {', '.join(known)}"
        raise EntryError("invalid", f"{path}: {message}") from None


def _made(context: AgentContext, name: str, settings: EntrySettings) -> Iterator[AbstractCapability[Any]]:
    rules = _rules(context, name, settings)
    made = only_tools_that_never_ask(build_capability(settings.use, settings.options))
    try:
        context.vet(made)
    except PluginError as error:
        raise EntryError("refused", str(error).partition(": ")[2]) from error
    except Exception as error:
        raise EntryError("failed", describe_error(error)) from error
    leaves = list(_parts(made))
    for number, leaf in enumerate(leaves):
        own = f"{PLUGIN}.{name}" if len(leaves) == 1 else f"{PLUGIN}.{name}.{number}"
        yield _attributed(context, leaf, own, rules)


def _parts(capability: AbstractCapability[Any]) -> Iterator[AbstractCapability[Any]]:
    """Yield what a combination holds. Pydantic AI takes it apart too, and would leave its parts without our ids."""
    if isinstance(capability, CombinedCapability):
        for part in capability.capabilities:
            yield from _parts(part)
    else:
        yield capability


def _attributed(
    context: AgentContext, capability: AbstractCapability[Any], own_id: str, rules: EntryRules
) -> AbstractCapability[Any]:
    """Return the capability with an id, by which the kernel attributes its tools and texts to this plugin."""
    # An id that the class declares may be that of another entry, or of the application's own capability.
    declared = getattr(type(capability), "id", None) is not None
    if has_tools(capability):
        kept = own_id if declared or capability.id is None else capability.id
        made = with_rules(capability, kept, rules, partial(_note, context, rules.entry))
        try:
            made.get_toolset()
        except Exception as error:
            raise EntryError("failed", describe_error(error)) from error
        return made
    if capability.id is None:
        capability = copy.copy(capability)
        capability.id = own_id
    return capability


def _rules(context: AgentContext, name: str, settings: EntrySettings) -> EntryRules:
    """Join what the entry says of its tools with `[plugins.named_capabilities]`, which holds for all entries."""
    plugin = context.kernel.config.plugin(PLUGIN)
    use = _use_of(settings.use)
    opened = not settings.options.keys().isdisjoint(("mount", "os_access"))  # then a program reaches more than tools
    return EntryRules(
        entry=name,
        source=f"capability {name} ({use})",
        harness=use.partition(":")[0].partition(".")[0] == "pydantic_ai_harness" or ":" not in use,
        prefix=settings.prefix or plugin.prefix,
        offered=tuple(
            as_expression(rule) for rule in (_read("tools", settings.tools), plugin.tools) if rule is not None
        ),
        require_approval=(_rule("require_approval", settings.require_approval), _rule("", plugin.require_approval)),
        defer=(_rule("defer", settings.defer), _rule("", plugin.defer)),
        tags={**({"run_code": ("execute",)} if opened else {}), **settings.tags},
    )


def _rule(key: str, rule: bool | str | None) -> Rule:
    return as_expression(_read(key, rule)) if isinstance(rule, str) else rule


def _read(key: str, rule: str | None) -> Any:
    if rule is None:
        return None
    try:
        return as_expression(rule)
    except ValueError as error:
        raise EntryError("invalid", f"{key or PLUGIN}: {error}") from error


def _use_of(given: Any) -> str:
    """Return the class that an entry names, for people."""
    use: Any = cast("Mapping[str, Any]", given).get("use", given) if isinstance(given, Mapping) else given
    return str(next(iter(cast("Mapping[str, Any]", use)), "")) if isinstance(use, Mapping) else str(use)


# -- two tools of one name -------------------------------------------------------------------------------------------


def _tools_of_plugins(context: AgentContext) -> dict[str, str]:
    """Return the tools of plugins that are known without I/O: name -> owner."""
    found: dict[str, str] = {}
    for item in context.collect("deep_toolsets"):
        prefix = context.kernel.config.plugin(item.plugin).prefix
        for definition in static_definitions(item.value) or ():
            found[f"{prefix}_{definition.name}" if prefix else definition.name] = f"plugin {item.plugin}"
    return found


def _clash(entry: Entry, taken: dict[str, str]) -> str:
    """Return why the entry's tools cannot stand beside those of others; else note them in `taken`."""
    own: set[str] = set()
    for capability in entry.capabilities:
        toolset = capability.get_toolset() if has_tools(capability) else None
        if isinstance(toolset, EntryToolset):
            toolset.wrapped.apply(partial(_add_names, own, toolset.rules))
    if double := sorted(own & taken.keys()):
        return (
            f"its tool {double[0]!r} is one of {taken[double[0]]}, too; give the entry prefix = {entry.name!r}, or "
            f'tools = "~name:{double[0]}"'
        )
    taken.update(dict.fromkeys(own, f"capability {entry.name}"))
    return ""


def _add_names(names: set[str], rules: EntryRules, toolset: AbstractToolset[Any]) -> None:
    if isinstance(toolset, FunctionToolset):
        offered = (rules.apply(tool.tool_def) for tool in toolset.tools.values())
        names.update(definition.name for definition in offered if definition is not None)


# -- reports ---------------------------------------------------------------------------------------------------------


def _report(context: AgentContext, entry: Entry) -> None:
    message = f"capability {entry.name} is {entry.status}: {entry.reason}"
    if context.kernel.strict:
        raise PluginError(f"plugin {context.kernel.label(PLUGIN)}: {message}", plugin=PLUGIN)
    # The doctor shows what stands behind the last semicolon as the way out, or the command.
    way = f"; correct plugins.{PLUGIN}.options.entries.{entry.name}" if entry.status == "invalid" else ""
    why = f"{entry.status}: {entry.reason}{way}"
    incident = Incident(PLUGIN, f"entry {entry.name}", why, "the agent goes without it")
    if incident not in context.kernel.latest:  # once for all agents of the kernel
        context.kernel.latest.append(incident)
        warnings.warn(f"{message}; the agent goes without it", PluginWarning, stacklevel=2)


def _note(context: AgentContext, entry: str, what: str, error: BaseException) -> None:
    incident = Incident(PLUGIN, f"entry {entry}", describe_error(error)[:500], f"it {what}; the run goes without it")
    context.kernel.latest.append(incident)
    context.logger.warning("%s", incident)
