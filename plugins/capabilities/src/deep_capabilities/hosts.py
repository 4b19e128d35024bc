"""Tools of other hosts as capabilities: LangChain's, and those of plugins of `llm`. They ask until an entry says not.

Neither is imported here: LangChain's classes are looked up where an entry's module has imported them, and a plugin of
`llm` is imported alone, because `llm.get_tools()` imports every plugin, and one that fails ends it for all.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from inspect import isawaitable, iscoroutinefunction
from typing import Any, cast

import anyio.to_thread
from pydantic import ValidationError
from pydantic_ai import BinaryContent, ModelRetry, RunContext
from pydantic_ai.capabilities import Toolset
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.tools import Tool
from pydantic_ai.toolsets import DynamicToolset, FunctionToolset

from deep_core.plugin_api import suggest

from .problems import EntryError

__all__ = ["LLM", "langchain_capability", "langchain_class", "llm_plugin", "llm_target", "toolbox_capability"]

LLM = "llm:"
"""What an entry's `use` begins with for the tools of a plugin of `llm`: `llm:DISTRIBUTION`, `llm:DISTRIBUTION:TOOL`."""
_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]+")
Function = Callable[[RunContext[Any], dict[str, Any]], Any]


def _toolset(tools: Iterable[tuple[str, str, Mapping[str, Any], Function]]) -> FunctionToolset[Any]:
    """Make a toolset of (name, description, JSON schema, function)."""
    # Neither host says whether a tool reads or writes.
    made = FunctionToolset[Any](requires_approval=True)
    for name, description, schema, function in tools:
        own = Tool[Any].from_schema(
            partial(_called, function), _NO_NAME.sub("_", name)[:64], description, {**schema}, takes_ctx=True
        )
        made.add_tool(own)
    return made


async def _called(function: Function, ctx: RunContext[Any], **arguments: Any) -> Any:
    return await function(ctx, arguments)


# -- LangChain ---------------------------------------------------------------------------------------------------------


def _langchain(*names: str) -> tuple[type, ...]:
    """Return classes of `langchain_core.tools`; none before something has imported it."""
    module = sys.modules.get("langchain_core.tools")
    return tuple(getattr(module, name) for name in names) if module else ()


def langchain_class(found: object) -> bool:
    """Whether this is a class of LangChain's tools, or of its toolkits."""
    return isinstance(found, type) and issubclass(found, _langchain("BaseTool", "BaseToolkit"))


def langchain_capability(found: object) -> Toolset[Any] | None:
    """Return the capability of a tool of LangChain, of a toolkit, or of a list of tools; None for everything else.

    Raises:
        EntryError: a tool needs the state of a graph.
    """
    if isinstance(found, _langchain("BaseToolkit")):
        found = cast("Any", found).get_tools()
    tools = cast("list[Any]", found if isinstance(found, list | tuple) else [found])
    if not tools or not all(isinstance(tool, _langchain("BaseTool")) for tool in tools):
        return None
    return Toolset(_toolset(map(_langchain_tool, tools)))


def _langchain_tool(tool: Any) -> tuple[str, str, Mapping[str, Any], Function]:
    convert = importlib.import_module("langchain_core.utils.function_calling").convert_to_openai_tool
    function = convert(tool)["function"]
    _check_injected(tool)
    schema: dict[str, Any] = function.get("parameters") or _NO_PARAMETERS
    known = None if schema.get("additionalProperties") else frozenset(schema.get("properties", ()))
    return tool.name, tool.description, schema, partial(_call_langchain, tool, known)


def _check_injected(tool: Any) -> None:
    """Refuse a tool that LangGraph would give its state or store; a call's id is given here too."""
    core = importlib.import_module("langchain_core.tools")
    offered = getattr(tool.tool_call_schema, "model_fields", None)
    for name, info in getattr(tool.get_input_schema(), "model_fields", {}).items():
        by_id = core.InjectedToolCallId in {part if isinstance(part, type) else type(part) for part in info.metadata}
        if offered is not None and name not in offered and info.is_required() and not by_id:
            raise EntryError("invalid", f"{tool.name} needs {name!r}, which only a graph of LangGraph gives")


async def _call_langchain(
    tool: Any, known: frozenset[str] | None, ctx: RunContext[Any], arguments: dict[str, Any]
) -> Any:
    # LangChain takes from a call what it has not shown: an argument that only the application may give.
    if known is not None and (others := sorted(arguments.keys() - known)):
        raise ModelRetry(f"{tool.name} has no argument {others[0]!r}")
    call = {"name": tool.name, "args": arguments, "id": ctx.tool_call_id or "", "type": "tool_call"}
    try:
        message = await tool.ainvoke(call)
    except ValidationError as error:
        raise ModelRetry(str(error)) from error
    except importlib.import_module("langchain_core.tools").ToolException as error:
        raise ToolFailed(str(error) or type(error).__name__) from error
    content: Any = getattr(message, "content", None)
    if content is None:
        raise ToolFailed(f"it returned {type(message).__name__}, which only a graph of LangGraph takes")
    parts = [_part(each) for each in cast("list[Any]", content)] if isinstance(content, list) else content
    if getattr(message, "status", "") == "error":
        raise ToolFailed(parts if isinstance(parts, str) else json.dumps(parts, default=repr))
    return parts


def _part(block: Any) -> Any:
    """Return a block of content as text, as media, or as it is."""
    if not isinstance(block, dict):
        return block
    fields = cast("dict[str, Any]", block)
    if fields.get("type") == "text":
        return fields.get("text", "")
    url = cast("Any", fields.get("image_url"))
    url = cast("dict[str, Any]", url).get("url") if isinstance(url, dict) else url
    data, media_type = fields.get("base64") or fields.get("data"), fields.get("mime_type")
    if isinstance(url, str) and url.startswith("data:") and ";base64," in url:
        media_type, _, data = url.removeprefix("data:").partition(";base64,")
    if not (isinstance(data, str) and isinstance(media_type, str)):
        return fields
    try:
        return BinaryContent(b64decode(data, validate=True), media_type=media_type)
    except NotBase64:
        return fields


# -- llm ---------------------------------------------------------------------------------------------------------------


def llm_plugin(use: str) -> tuple[EntryPoint, str]:
    """Return the plugin of `llm` that an entry names, and the name of its tool or toolbox; "" for all.

    Raises:
        EntryError: it is not installed.
    """
    wanted, _, tool = use.removeprefix(LLM).partition(":")
    found = {_normal(point.dist.name): point for point in entry_points(group="llm") if point.dist is not None}
    if (point := found.get(_normal(wanted))) is not None:
        return point, tool
    hint = suggest(_normal(wanted), found)
    if hint or not wanted:
        known = hint or f" Write llm:DISTRIBUTION. Installed: {', '.join(sorted(found)) or 'none'}"
        raise EntryError("invalid", f"llm has no plugin {wanted!r}.{known}")
    raise EntryError("needs-package", f"{use}: no plugin of llm: pip install llm {_normal(wanted)}")


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def llm_target(plugin: object, use: str, tool: str) -> tuple[type | None, list[Any]]:
    """Return the toolbox that an entry names, or the tools.

    Args:
        plugin: what the entry point names.
        use: what the entry says.
        tool: the name of a tool or toolbox; "" for the plugin's only toolbox, or for all of its tools.

    Raises:
        EntryError: the plugin registers no such tool.
    """
    llm = importlib.import_module("llm")
    named: dict[str, Any] = {}

    def register(given: Any, name: str | None = None) -> None:
        made = given if isinstance(given, llm.Tool | type) else llm.Tool.function(given, name=name)
        named[name or getattr(made, "name", None) or made.__name__] = made

    hook = getattr(plugin, "register_tools", None)
    try:
        if hook is not None:
            hook(register)
    except (Exception, SystemExit) as error:
        raise EntryError("failed", f"{use}: register_tools raised {type(error).__name__}: {error}") from error
    if not named:
        raise EntryError("invalid", f"{use}: the plugin registers no tools")
    if tool and tool not in named:
        raise EntryError("invalid", f"{use}: there is no {tool!r}.{suggest(tool, named) or f' It has {_list(named)}.'}")
    chosen = [named[tool]] if tool else [*named.values()]
    boxes = [each for each in chosen if isinstance(each, type)]
    if boxes and len(chosen) > 1:
        raise EntryError("invalid", f"{use}: name one of {_list(named)}, as in {use}:{min(named)}")
    return (boxes[0], []) if boxes else (None, chosen)


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def toolbox_capability(made: object, again: Callable[[], object]) -> Toolset[Any]:
    """Return the capability of a toolbox, or of a list of tools.

    Args:
        made: a toolbox, or tools.
        again: makes the toolbox anew. Each run has one of its own: a toolbox keeps what its calls did, and two
            conversations must not see each other's.
    """
    if isinstance(made, list):
        return Toolset(_toolset(map(_llm_tool, cast("list[Any]", made))))

    async def prepared(ctx: RunContext[Any]) -> FunctionToolset[Any]:
        box = cast("Any", await anyio.to_thread.run_sync(again))
        await anyio.to_thread.run_sync(box.prepare)
        await box.prepare_async()
        return _toolset(map(_llm_tool, box.tools()))

    return Toolset(DynamicToolset[Any](prepared, per_run_step=False, id=type(made).__name__))


def _llm_tool(tool: Any) -> tuple[str, str, Mapping[str, Any], Function]:
    schema: dict[str, Any] = tool.input_schema or _NO_PARAMETERS
    return tool.name, tool.description or "", schema, partial(_call_llm, tool.implementation)


async def _call_llm(function: Callable[..., Any], ctx: RunContext[Any], arguments: dict[str, Any]) -> Any:
    llm = importlib.import_module("llm")
    try:
        if iscoroutinefunction(function):
            result = await function(**arguments)
        else:
            result = await anyio.to_thread.run_sync(partial(function, **arguments))
            result = await result if isawaitable(result) else result
    except llm.CancelToolCall as error:
        raise ToolFailed(str(error) or "the tool canceled its call") from error
    if not isinstance(result, llm.ToolOutput):
        return _plain(result)
    output = result
    media = await anyio.to_thread.run_sync(lambda: [_attachment(each) for each in output.attachments])
    return [_plain(output.output), *media] if media else _plain(output.output)


def _attachment(given: Any) -> str | BinaryContent:
    if given.url and not given.content:
        return f"attachment: {given.url}"  # to read it here would be a request outside the policy
    return BinaryContent(given.content_bytes(), media_type=given.resolve_type())


def _plain(value: Any) -> Any:
    """Return a result as JSON, as `llm` itself shows it to the model."""
    return value if isinstance(value, str) else json.loads(json.dumps(value, default=repr))
