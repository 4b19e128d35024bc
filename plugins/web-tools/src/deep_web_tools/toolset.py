"""The two tools for the model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic_ai import FunctionToolset, Tool
from pydantic_core import CoreConfig, SchemaValidator, core_schema

from .options import WebToolsOptions

if TYPE_CHECKING:
    from .fetch import Fetcher
    from .search import Searcher

__all__ = ["build_toolset", "create_web_toolset"]

FETCH_DESCRIPTION = "Read a web page as Markdown. `offset`: read on."
SEARCH_DESCRIPTION = "Search the web."
TAGS = ("network", "read")
FETCH_SCHEMA: dict[str, Any] = {
    "additionalProperties": False,
    "properties": {"url": {"type": "string"}, "offset": {"default": 0, "type": "integer"}},
    "required": ["url"],
    "type": "object",
}
SEARCH_SCHEMA: dict[str, Any] = {
    "additionalProperties": False,
    "properties": {"query": {"type": "string"}},
    "required": ["query"],
    "type": "object",
}
_TEXT = core_schema.typed_dict_field(core_schema.str_schema())
_OFFSET = core_schema.typed_dict_field(
    core_schema.with_default_schema(core_schema.int_schema(), default=0), required=False
)


def build_toolset(
    options: WebToolsOptions, *, fetcher: Fetcher | None = None, id: str = "web_tools"
) -> FunctionToolset[Any]:
    """Build the toolset for these options; `search` is in it if a provider is configured.

    Args:
        options: of the agent.
        fetcher: reads pages; by default as the options say.
        id: the toolset's id.

    Raises:
        MissingExtra: the search provider's package is not installed.
        ConfigError: the search provider's address or key is missing.
    """

    @cache
    def pages() -> Fetcher:
        return fetcher or _make_fetcher(options)  # imported at the first call of the tool

    async def fetch(url: str, offset: int = 0) -> str:
        return await _report(f"{url[:300]}: ", pages().fetch(url, offset))

    tools = [
        _tool(fetch, FETCH_DESCRIPTION, FETCH_SCHEMA, {"url": _TEXT, "offset": _OFFSET}, options.require_fetch_approval)
    ]
    if options.search is not None:
        searcher = _make_searcher(options)

        async def search(query: str) -> str:
            return await _report("", searcher.search(query))

        tools.append(_tool(search, SEARCH_DESCRIPTION, SEARCH_SCHEMA, {"query": _TEXT}, ask=False))
    return FunctionToolset(tools, id=id)


def create_web_toolset(options: WebToolsOptions | None = None, *, id: str = "web_tools") -> FunctionToolset[Any]:
    """Create the web tools for any `pydantic_ai.Agent`.

    Args:
        options: limits and the search provider; the defaults if None.
        id: the toolset's id.

    Raises:
        MissingExtra: the search provider's package is not installed.
        ConfigError: the search provider's address or key is missing.
    """
    return build_toolset(options or WebToolsOptions(), id=id)


def _make_fetcher(options: WebToolsOptions) -> Fetcher:
    from .download import Downloader
    from .fetch import Fetcher

    downloader = Downloader(
        options.max_bytes,
        max_redirects=options.max_redirects,
        hosts=tuple(options.hosts),
        allow_private=options.allow_private,
        stay=options.require_fetch_approval,
    )
    return Fetcher(downloader, seconds=options.fetch_seconds, page_chars=options.page_chars)


def _make_searcher(options: WebToolsOptions) -> Searcher:
    from .providers import make_search
    from .search import Searcher

    search, provider = make_search(options), options.search
    assert search is not None  # noqa: S101
    assert provider is not None  # noqa: S101
    return Searcher(search, provider=provider, seconds=options.fetch_seconds, most=options.search_results)


async def _report(where: str, result: Awaitable[str]) -> str:
    """Turn an error into a failed call, which the model reads and which costs no retry."""
    from pydantic_ai.exceptions import ToolFailed

    from .errors import WebError

    try:
        return await result
    except WebError as error:
        raise ToolFailed(f"{where}{error}") from error


def _tool(
    function: Callable[..., Awaitable[str]],
    description: str,
    schema: dict[str, Any],
    fields: dict[str, core_schema.TypedDictField],
    ask: bool,
) -> Tool[Any]:
    name = function.__name__
    tool = Tool[Any].from_schema(function, name, description, schema)
    made = core_schema.typed_dict_schema(fields, extra_behavior="forbid")
    tool.function_schema.validator = SchemaValidator(made, CoreConfig(title=name))
    tool.metadata = {"tags": [*TAGS]}
    tool.requires_approval = ask
    return tool
