"""Search providers: Pydantic AI's tools for DuckDuckGo, Tavily and Exa, and SearXNG's JSON API."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import httpx2

from deep_core import ConfigError, MissingExtra

from .addresses import resolve
from .charsets import decode
from .download import Downloader
from .errors import WebError
from .options import WebToolsOptions

__all__ = ["Found", "Search", "make_search"]

SNIPPET_CHARS = 400
"""Maximum characters of one result's text."""


@dataclass(frozen=True)
class Found:
    """One result of a search."""

    title: str
    url: str
    text: str


Search: TypeAlias = Callable[[str], Awaitable[Sequence[Found]]]
MODULES = {"duckduckgo": "ddgs", "tavily": "tavily", "exa": "exa_py"}
KEYS = {"tavily": "TAVILY_API_KEY", "exa": "EXA_API_KEY"}


def make_search(options: WebToolsOptions) -> Search | None:
    """Return the search of the configured provider; None without one.

    Raises:
        MissingExtra: the provider's package is not installed.
        ConfigError: the provider's address or key is missing.
    """
    provider = options.search
    if provider is None:
        return None
    if provider == "searxng":
        return _searxng(options)
    if importlib.util.find_spec(MODULES[provider]) is None:
        raise MissingExtra(f"deep-web-tools[{provider}]")
    key = _key(provider, options) if provider in KEYS else ""
    return _common_tool(provider, key, options)


def _key(provider: str, options: WebToolsOptions) -> str:
    variable = options.api_key_env or KEYS[provider]
    key = os.environ.get(variable)
    if not key:
        raise ConfigError(
            f"plugins.web_tools.options.search = {provider!r} needs a key: set the environment variable {variable}, "
            "or name another in plugins.web_tools.options.api_key_env"
        )
    return key


def _common_tool(provider: str, key: str, options: WebToolsOptions) -> Search:
    made: list[Callable[[str], Awaitable[Any]]] = []

    async def search(query: str) -> Sequence[Found]:
        if not made:  # the packages take up to a second to import
            made.append(_call(provider, key, options))
        return [_found(item) for item in cast("Sequence[Mapping[str, Any]]", await made[0](query))]

    return search


def _call(provider: str, key: str, options: WebToolsOptions) -> Callable[[str], Awaitable[Any]]:
    """Import a provider's package, and return the function of Pydantic AI's tool for it."""
    most = options.search_results
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pydantic AI's tool for Exa moves to another package in its next major version
        # By name: the packages are extras, whose types a reader of this file may not have.
        tools: Any = importlib.import_module(f"pydantic_ai.common_tools.{provider}")
        if provider == "duckduckgo":
            ddgs: Any = importlib.import_module("ddgs")
            return tools.duckduckgo_search_tool(
                ddgs.DDGS(timeout=max(1, int(options.fetch_seconds))), max_results=most
            ).function
        if provider == "tavily":
            return tools.tavily_search_tool(key, max_results=most).function
        return tools.exa_search_tool(key, num_results=most, max_characters=SNIPPET_CHARS).function


def _searxng(options: WebToolsOptions) -> Search:
    if not options.searxng_url:
        raise ConfigError(
            'plugins.web_tools.options.search = "searxng" needs an address: '
            'set plugins.web_tools.options.searxng_url = "http://127.0.0.1:8080"'
        )
    base = httpx2.URL(options.searxng_url.rstrip("/") + "/search")
    # The user chose the server, so it may be private; whatever it redirects to is not the user's choice.
    downloader = Downloader(options.max_bytes, max_redirects=0, allow_private=True, resolver=resolve)

    async def search(query: str) -> Sequence[Found]:
        try:
            answer = await downloader.download(str(base.copy_merge_params({"q": query, "format": "json"})))
        except WebError as error:
            hint = " SearXNG's settings.yml must list json in search.formats." if "403" in str(error) else ""
            raise WebError(f"{error}{hint}") from error
        text, _ = decode(answer.body, answer.charset, html=False)
        try:
            results = json.loads(text)["results"]
            return [_found(item) for item in results[: options.search_results]]
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise WebError("the search server's answer is no JSON of SearXNG.") from error

    return search


def _found(item: Mapping[str, Any]) -> Found:
    """Read a result of any of the four."""
    url = item.get("url") or item.get("href") or ""
    text = item.get("content") or item.get("body") or item.get("text") or ""
    return Found(str(item.get("title") or ""), str(url), str(text)[:SNIPPET_CHARS])
