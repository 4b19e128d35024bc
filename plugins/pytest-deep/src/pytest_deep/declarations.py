"""Check a plugin's declarations: its name, metadata, options, tools, sections and slots."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, cast

from packaging.specifiers import SpecifierSet
from pydantic import BaseModel, ValidationError
from pydantic_ai import FunctionToolset, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset

from deep_core import DeepAgentDeps, Kernel, StateSlot, create_default_deps, tool_facts
from deep_core.plugin_api import NAME, RESERVED_NAMES, RESERVED_TOOL_NAMES, static_definitions, suggest

from .problem import Problem
from .subject import Subject, installed_names

__all__ = [
    "check_descriptions",
    "check_docs",
    "check_metadata",
    "check_name",
    "check_options",
    "check_owners",
    "check_repetition",
    "check_schemas",
    "check_sizes",
    "check_slot",
    "check_stored",
    "check_tool_names",
    "static_tools",
]

TOOL_NAME = re.compile(r"^[a-zA-Z][a-zA-Z0-9_-]{0,63}$")
"""The tool names that OpenAI, Anthropic and Google all accept."""
REPEATED = 40
"""Minimum characters of a sentence for which a repetition is no coincidence."""
ENOUGH = 80
"""Minimum characters of a README."""


# -- the distribution --------------------------------------------------------------------------------------------------


def check_name(subject: Subject) -> Iterator[Problem]:
    """Check the entry point's name."""
    where = f"entry point {subject.name!r} of group deep" if subject.candidate else f"plugin {subject.name!r}"
    if not NAME.fullmatch(subject.name):
        yield Problem(where, "is not a valid name for a plugin", f"rename it so that it matches {NAME.pattern}")
    if subject.name in RESERVED_NAMES:
        yield Problem(where, "is a parameter of create_deep_agent", "rename it: acme_" + subject.name)


def check_metadata(core_range: str) -> Iterator[Problem]:
    """Check the range of deep-agent-core that the distribution requires."""
    where = "pyproject.toml, [project] dependencies"
    change = 'write "deep-agent-core>=0.1,<1": the major version is the version of the hooks'
    if not core_range:
        yield Problem(where, "deep-agent-core is missing or has no range", change)
    elif not any(part.operator in ("<", "<=", "==", "~=") for part in SpecifierSet(core_range)):
        yield Problem(where, f"deep-agent-core{core_range} has no upper bound", change)


def check_docs(subject: Subject, documentation: str | None, metadata: Mapping[str, str] | None) -> Iterator[Problem]:
    """Check the module's docstring, and the distribution's description."""
    if not (documentation or "").strip():
        yield Problem(subject.module, "has no docstring", "say in one line what the plugin adds to an agent")
    if metadata is not None and not metadata["summary"].strip():
        yield Problem("pyproject.toml", "has no description", 'add description = "…" to [project]')
    length = len(metadata["readme"].strip()) if metadata is not None else ENOUGH
    if length < ENOUGH:
        yield Problem(
            "pyproject.toml",
            f"has a README of {length} characters; the minimum is {ENOUGH}" if length else "has no README",
            'write README.md (what it does, its options, an example) and add readme = "README.md" to [project]',
        )


def check_owners(subject: Subject, absent: Set[str]) -> Iterator[Problem]:
    """Report hooks of plugins that are not installed: the kernel never calls them."""
    for hook, owner in subject.hooks.items():
        if owner is not None and owner in absent:
            near = suggest(owner, installed_names())
            yield Problem(
                f"hook {hook}",
                f"belongs to the plugin {owner!r}, which is not installed here, so it cannot be checked.{near}",
                f"install the distribution of {owner!r} with your development dependencies, or name its module in "
                "`beside` of this class",
            )


# -- options and state -------------------------------------------------------------------------------------------------


def check_options(model: type[BaseModel]) -> Iterator[Problem]:
    """Check that an options model accepts its defaults, and rejects unknown keys."""
    where = f"options {model.__name__}"
    try:
        defaults = model()
    except ValidationError as error:
        yield Problem(where, f"cannot be created without arguments: {_first(error)}", "give every field a default")
        return
    for mode in ("python", "json"):
        try:
            model.model_validate(defaults.model_dump(mode=mode))
        except ValidationError as error:
            change = "choose a default that fits the field's type (pydantic does not check defaults)"
            yield Problem(where, f"does not accept its defaults: {_first(error)}", change)
            break
    try:
        model.model_validate({"no_such_option": 1})
    except ValidationError:
        return
    yield Problem(where, "silently accepts an unknown key", "keep extra='forbid' of PluginOptions")


def _first(error: ValidationError) -> str:
    detail = error.errors()[0]
    return f"{'.'.join(map(str, detail['loc']))}: {detail['msg']}"


def check_slot(slot: StateSlot[Any], kernel: Kernel) -> Iterator[Problem]:
    """Check that the default is new each time, and survives storing."""
    where = f"slot {slot.name!r}"
    try:
        one, other = slot.default(), slot.default()
    except Exception as error:  # noqa: BLE001 - any error of an author's function is reported
        yield Problem(where, f"its default raises {type(error).__name__}: {error}", "make it work without arguments")
        return
    is_fixed = one is None or isinstance(one, str | bytes | int | float | bool | tuple | frozenset)
    if one is other and not is_fixed:
        yield Problem(where, "its default is one object for all sessions", "make default a function: default=list")
    deps = create_default_deps(kernel=kernel)
    deps.state[slot] = one
    yield from check_stored(deps, slot, kernel)


def check_stored(deps: DeepAgentDeps[Any], slot: StateSlot[Any], kernel: Kernel) -> Iterator[Problem]:
    """Check that the slot's value in a session is the same after storing and loading."""
    if not slot.persist:
        return
    where = f"slot {slot.name!r}"
    value = deps.state[slot]  # before storing: creates an unused slot
    try:
        text = deps.dump()
    except ValueError as error:
        yield Problem(where, str(error), "declare the value's type, of types that JSON can represent")
        return
    loaded = DeepAgentDeps[Any].load(text, kernel=kernel)
    value_after = loaded.state[slot]
    if slot.name in loaded.state.invalid:
        change = "declare the value's type for pydantic"
        yield Problem(where, f"does not load what it stored: {loaded.state.invalid[slot.name]}", change)
    elif value_after != value:
        change = "declare a precise type (dict[int, str], not dict); your own class needs __eq__ (a dataclass has it)"
        yield Problem(where, f"is {value_after!r} after loading, but {value!r} was stored", change)
    elif loaded.dump() != text:
        yield Problem(where, "is stored differently the second time", "keep the order of its JSON stable")


# -- tools -------------------------------------------------------------------------------------------------------------


def static_tools(toolsets: Sequence[AbstractToolset[Any]]) -> list[tuple[str, str]]:
    """(name, location) of every tool that is known without I/O."""
    return [
        (definition.name, _place(toolset, definition.name))
        for toolset in toolsets
        for definition in static_definitions(toolset) or ()
    ]


def _place(toolset: AbstractToolset[Any], name: str) -> str:
    if isinstance(toolset, FunctionToolset):
        code: Any = getattr(cast("Any", toolset).tools[name].function, "__code__", None)
        if code is not None:
            return f"{code.co_filename}:{code.co_firstlineno}"
    return toolset.label


def check_tool_names(tools: Sequence[tuple[str, str]]) -> Iterator[Problem]:
    """Tool names are plain, unique, and not Pydantic AI's."""
    places: dict[str, list[str]] = {}
    for name, place in tools:
        places.setdefault(name, []).append(place)
    for name, locations in places.items():
        where = f"tool {name!r} ({locations[0]})"
        if len(locations) > 1:
            others = ", ".join(locations[1:])
            yield Problem(where, f"has the name of another tool of this plugin ({others})", "rename one of them")
        if not TOOL_NAME.fullmatch(name):
            yield Problem(where, "has a name that some providers reject", f"match {TOOL_NAME.pattern}")
        if name in RESERVED_TOOL_NAMES:
            yield Problem(where, "has a name reserved by Pydantic AI", f"rename it; reserved: {RESERVED_TOOL_NAMES}")


def check_descriptions(tools: Sequence[ToolDefinition], places: Mapping[str, str], most: int) -> Iterator[Problem]:
    """Each tool has a description, and a short one."""
    for tool in tools:
        where, text = _where(tool, places), (tool.description or "").strip()
        if not text:
            yield Problem(
                where, "has no description, so the model does not know when to call it", "give it a docstring"
            )
        elif len(text) > most:
            change = f"shorten it to {most}: every request pays for it (max_description_chars is the limit)"
            yield Problem(where, f"has a description of {len(text)} characters", change)


def check_schemas(tools: Sequence[ToolDefinition], places: Mapping[str, str]) -> Iterator[Problem]:
    """Each parameter has a type or a description."""
    keys = {"type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "description"}
    for tool in tools:
        if tool.parameters_json_schema.get("type") != "object":
            yield Problem(
                _where(tool, places), "does not take an object", "let its parameters be an object's properties"
            )
        for name, part in tool.parameters_json_schema.get("properties", {}).items():
            if not keys & part.keys():
                change = f"annotate it ({name}: str), or describe it in the docstring"
                yield Problem(_where(tool, places), f"has no type or description for its parameter {name!r}", change)


def _where(tool: ToolDefinition, places: Mapping[str, str]) -> str:
    original = tool_facts(tool).original
    return f"tool {original!r} ({places[original]})" if original in places else f"tool {original!r}"


# -- sections ----------------------------------------------------------------------------------------------------------


def check_sizes(texts: Mapping[str, str], most: int, setting: str) -> Iterator[Problem]:
    """Check sections, by name, against a limit."""
    for name, text in texts.items():
        if len(text) > most:
            change = (
                f"shorten it, or move the rest to a tool or a skill: every request pays for it ({setting} is the limit)"
            )
            yield Problem(f"section {name!r}", f"has {len(text)} characters; the limit is {most}", change)


def check_repetition(texts: Mapping[str, str], tools: Sequence[ToolDefinition]) -> Iterator[Problem]:
    """No section repeats a tool's description."""
    for tool in tools:
        for sentence in re.split(r"(?<=[.!?:])\s+|\n", tool.description or ""):
            plain = " ".join(sentence.split())
            for name, text in texts.items():
                if len(plain) >= REPEATED and plain in " ".join(text.split()):
                    change = "remove it from the section: the model reads the tool's description in every request"
                    yield Problem(f"section {name!r}", f"repeats the description of {tool.name!r}: {plain!r}", change)
