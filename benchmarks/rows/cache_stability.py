"""Prompt-cache stability at the provider's wire: the share of a request's bytes with which the next request begins.

50 turns of one conversation, todos changing each third turn and an upload coming each tenth, over five runs; between
runs the session is dumped, and loaded by a new kernel that finds its plugins in the opposite order.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.measure import Bench, Figure, Goal, counted

__all__ = ["child", "measure"]

RUNS, TURNS = 5, 10
PROVIDERS = ("openai", "anthropic")
FEATURES = ("backends", "filesystem", "todo", "subagents", "skills", "summarization", "uploads")


def measure(bench: Bench) -> list[Figure]:
    """Measure percent; at 100 the user pays no byte twice."""
    conversations = [
        replace(each, name=f"{each.name}, {provider}", module=provider) for provider in PROVIDERS for each in bench.ours
    ]
    taken = counted(conversations, "cache_stability")
    out: list[Figure] = []
    for provider in PROVIDERS:
        rounds = [{who.name: each[f"{who.name}, {provider}"] for who in bench.ours} for each in taken]
        goal = Goal(100, least=True, gate=True)
        out.append(bench.figure(f"prompt-cache stability, {provider}", "% of bytes", rounds, goal, digits=2))
    return out


def child(provider: str, answer: Callable[[float], None]) -> None:
    """Hold one conversation over a stub of the provider."""
    from tests import stubs

    stub_type = {"openai": stubs.OpenAIStub, "anthropic": stubs.AnthropicStub}[provider]
    model_of = {"openai": stubs.openai_model, "anthropic": stubs.anthropic_model}[provider]
    with stub_type(stubs.Script(*(turn for run in range(RUNS) for turn in _turns(run)))) as stub:
        asyncio.run(_converse(lambda: model_of(stub)))
    assert len(stub.requests) == RUNS * (TURNS + 1)
    answer(share([cached_text(body) for body in stub.requests]))


def _turns(run: int) -> Iterator[Any]:
    from tests.stubs import Call, Turn

    for turn in range(TURNS):
        number = run * TURNS + turn
        calls = [Call("write_file", {"path": f"n{number}.md", "content": f"Note {number}\n" * 20}), Call("ls", {})]
        if number % 3 == 0:
            todos = [{"content": f"Step {n}", "status": "pending", "active_form": f"Doing {n}"} for n in range(number)]
            calls.append(Call("write_todos", {"todos": todos}))
        yield Turn(calls=tuple(calls))
    yield Turn(f"Run {run} is done.")


async def _converse(model: Callable[[], Any]) -> None:
    from deep_backends import local_backend
    from deep_uploads import upload_file
    from pydantic_ai.messages import ModelMessagesTypeAdapter

    from deep_core import Kernel, create_default_deps

    plugins = [import_module(f"deep_{name}") for name in FEATURES]
    backend = local_backend(Path.cwd())
    text, history = "", b"[]"
    for run in range(RUNS):
        with Kernel(plugins=plugins[:: -1 if run % 2 else 1], discover=False) as kernel:
            deps = kernel.load_deps(text, backend=backend) if text else create_default_deps(backend, kernel=kernel)
            await upload_file(deps, f"data-{run}.csv", b"a,b\n1,2\n" * (run + 1))
            agent = kernel.create_agent(model())
            past = ModelMessagesTypeAdapter.validate_json(history)
            result = await agent.run(f"Part {run}.", deps=deps, message_history=past)
            text, history = deps.dump(), result.all_messages_json()


def cached_text(body: Mapping[str, Any]) -> bytes:
    """Return what a provider's cache compares: tools, system and messages, in this order, without cache markers."""
    parts = [body.get("tools"), body.get("system"), *body["messages"]]
    return b"\n".join(json.dumps(_unmarked(part), ensure_ascii=False).encode() for part in parts)


def _unmarked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unmarked(item) for item in value]
    if isinstance(value, dict):
        return {key: _unmarked(item) for key, item in value.items() if key != "cache_control"}
    return value


def share(requests: Sequence[bytes]) -> float:
    """Return the percentage of bytes of all requests but the last with which the following request begins."""
    kept = sum(_common(before, after) for before, after in pairwise(requests))
    return 100 * kept / sum(map(len, requests[:-1]))


def _common(before: bytes, after: bytes) -> int:
    """Count the bytes of the common beginning."""
    pairs = enumerate(zip(before, after, strict=False))
    return next((index for index, (one, other) in pairs if one != other), min(len(before), len(after)))
