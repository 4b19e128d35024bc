"""What a model's server says of itself, and how many tokens fit into the model's window.

A server is asked once in a process. Public clouds are not asked: their answers do not say it. What an overflow taught
is kept in the user's cache for a week, for servers that do not say it.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from ..slot import Window
from .servers import Facts, server_of

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.models import Model

__all__ = ["find_facts", "find_window", "known_window", "learn_window"]

Folder = Callable[[], Path]
LEARNED = "windows.json"
"""In the cache: model at its address -> the window that an overflow showed, and when."""
REMEMBERED = 7 * 86_400
"""Seconds: a server may be started with another window."""
MOST = 100
"""Models that are remembered."""

PATIENCE = 2.0
"""Seconds for each question to a server."""
LOADING = 120
"""Seconds that a server may take to load its model."""
AGAIN = 3
"""How often ollama is asked again for the window: it knows it once it has loaded the model, for the first request."""
CLOUDS = (
    r"(^|\.)(openai\.com|azure\.com|anthropic\.com|googleapis\.com|amazonaws\.com|mistral\.ai|groq\.com|x\.ai|deepseek\.com"
    r"|cohere\.com|huggingface\.co|together\.xyz|fireworks\.ai|cerebras\.ai)$"
)
_SIZES = ("n_ctx", "max_model_len", "context_length", "max_context_length", "context_window")
"""The names by which servers say the size, the one that holds first."""


_KNOWN: dict[str, Window | None] = {}
_FACTS: dict[str, Facts | None] = {}
"""Of each model at its address; None before it is asked, and for public clouds."""
_TIMES: dict[str, int] = {}
"""How often the server of a model was asked."""


def _key(model: Model[Any]) -> str:
    return f"{model.base_url or model.system} {model.model_name}"


def known_window(model: Model[Any]) -> Window | None:
    """Return what is known now, without asking."""
    known = _KNOWN.get(_key(model))
    if known is not None:
        return known
    listed = model.context_window
    return None if listed is None else Window(listed, "list")


async def find_window(model: Model[Any], cache: Folder | None = None) -> Window | None:
    """Return the window of a model; ask its server once.

    Args:
        model: the model.
        cache: returns the folder with what overflows taught; None without one.
    """
    await find_facts(model)
    key = _key(model)
    if key not in _KNOWN:
        _KNOWN[key] = None
        if known_window(model) is None and cache is not None and urlsplit(model.base_url or "").hostname is not None:
            learned = _learned(cache()).get(key)
            _KNOWN[key] = None if learned is None else Window(learned[0], "overflow")
    return known_window(model)


async def find_facts(model: Model[Any]) -> Facts | None:
    """Return what the server of a model says; None for a public cloud. It is asked once in a process.

    Ollama is asked again, a few times, until it has loaded the model.
    """
    key = _key(model)
    known = _FACTS.get(key)
    if key not in _FACTS or (known is not None and known.cuts and known.window is None and _TIMES.get(key, 0) <= AGAIN):
        _FACTS[key] = known  # before the question: a second request does not wait for it
        _TIMES[key] = _TIMES.get(key, 0) + 1
        host = urlsplit(model.base_url or "").hostname
        if host is not None and not re.search(CLOUDS, host):
            facts = _FACTS[key] = await _ask(model)
            if facts.window is not None and key not in _KNOWN:
                _KNOWN[key] = Window(facts.window, "server")
    return _FACTS[key]


def learn_window(model: Model[Any], tokens: int, cache: Folder | None = None) -> None:
    """Note the window that an overflow showed. Arguments as for `find_window`."""
    key = _key(model)
    known = _KNOWN.get(key)
    if known is None or tokens < known.tokens:
        _KNOWN[key] = Window(tokens, "overflow")
        if cache is not None and model.base_url is not None:
            _remember(cache(), key, tokens)


def _learned(folder: Path) -> dict[str, tuple[int, float]]:
    """Return what overflows of the last week taught, the oldest first."""
    try:
        said: Any = json.loads((folder / LEARNED).read_bytes())
        found = {str(key): (int(tokens), float(at)) for key, (tokens, at) in said.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
    now = time.time()
    recent = {key: value for key, value in found.items() if now - REMEMBERED < value[1] <= now and value[0] > 0}
    return dict(sorted(recent.items(), key=lambda item: item[1][1]))


def _remember(folder: Path, key: str, tokens: int) -> None:
    known = _learned(folder)
    known.pop(key, None)
    kept = dict([*known.items()][1 - MOST :])
    kept[key] = (tokens, time.time())
    with suppress(OSError):  # a cache that cannot be written
        new = folder / f"{LEARNED}.{os.getpid()}"
        new.write_text(json.dumps(kept), encoding="utf-8")
        new.replace(folder / LEARNED)


async def _ask(model: Model[Any]) -> Facts:
    import httpx2

    base = (model.base_url or "").rstrip("/")
    root, name = base.removesuffix("/v1"), model.model_name
    key: object = getattr(getattr(model, "client", None), "api_key", None)
    headers = {"authorization": f"Bearer {key}"} if isinstance(key, str) and key else {}
    called = getattr(model, "called", None)
    async with httpx2.AsyncClient(timeout=PATIENCE, headers=headers) as client:

        async def get(url: str) -> Any:
            return await _json(client.get(url))

        async def props(found: Facts) -> Facts:  # llama.cpp
            said = await get(f"{root}/props")
            caps = _of(said, "chat_template_caps")
            has_tools = None if caps is None else _of(caps, "supports_tools") is not False
            size = _size(said, "default_generation_settings")
            server = server_of("llama.cpp", base) if said is not None else found.server
            return replace(found, server=server, window=found.window or size, has_tools=has_tools)

        async def ollama(found: Facts) -> Facts:
            running = await get(f"{root}/api/ps")
            if not isinstance(_of(running, "models"), list):
                return found  # another server: it must not get a POST that it does not know
            found = replace(found, server=server_of("ollama", base), cuts=True)
            if (tokens := _size(_named(running, "models", name))) is not None:
                return replace(found, window=tokens)  # what is loaded has the size that holds
            said = await _json(client.post(f"{root}/api/show", json={"model": name}))
            size = re.search(r"^num_ctx\s+(\d+)", str(_of(said, "parameters") or ""), re.M)
            capabilities: Any = _of(said, "capabilities")
            has_tools = "tools" in capabilities if isinstance(capabilities, list) else None
            return replace(found, window=int(size[1]) if size else None, has_tools=has_tools)

        async def studio(found: Facts) -> Facts:  # LM Studio
            listed = await get(f"{root}/api/v0/models")
            if listed is None:
                return found
            said = _named(listed, "data", name)
            size = _number(_of(said, "loaded_context_length")) or _size(said)
            return replace(found, server=server_of("lmstudio", base), window=size)

        listed = await _loaded(client, f"{base}/models")  # vLLM, llama.cpp, OpenRouter, SGLang
        said = _named(listed, "data", name)
        owner = _of(said, "owned_by")
        facts = Facts(server_of(called, base, str(owner or "")), _size(said, "meta") or _size(said))
        if facts.server.kind in ("llama.cpp", "unknown") or facts.window is None:
            facts = await props(facts)
        if facts.window is None and facts.server.kind != "llama.cpp":
            facts = await ollama(facts)
        if facts.window is None and facts.server.kind not in ("llama.cpp", "ollama"):
            facts = await studio(facts)
    return facts


async def _loaded(client: httpx2.AsyncClient, url: str) -> Any:
    """Return what a server lists; wait while it says that it loads its model: until then it knows nothing of it."""
    import httpx2

    for _ in range(LOADING):
        try:
            response = await client.get(url)
            if response.status_code != 503 or "loading" not in response.text.lower():
                return response.json() if response.is_success else None
        except (httpx2.HTTPError, ValueError):
            return None
        await asyncio.sleep(1)
    return None


async def _json(answer: Awaitable[httpx2.Response]) -> Any:
    """Return the body of an answer; None if there is none: most servers know one of the questions."""
    import httpx2

    try:
        response = await answer
        return response.json() if response.is_success else None
    except (httpx2.HTTPError, ValueError):
        return None


def _of(said: Any, name: str) -> Any:
    return cast("Mapping[str, Any]", said).get(name) if isinstance(said, Mapping) else None


def _named(said: Any, where: str, name: str) -> Any:
    """Return the entry of a model; the only one, if a server calls it otherwise."""
    found = _of(said, where)
    entries = cast("list[Any]", found) if isinstance(found, list) else []
    named = [each for each in entries if name in (_of(each, "id"), _of(each, "name"), _of(each, "model"))]
    return named[0] if named else entries[0] if len(entries) == 1 else None


def _size(said: Any, below: str | None = None) -> int | None:
    said = _of(said, below) if below is not None else said
    return next((size for name in _SIZES if (size := _number(_of(said, name))) is not None), None)


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 256 else None
