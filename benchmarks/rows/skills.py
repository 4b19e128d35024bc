"""Hundreds of skills: the delay of the first request, cold and warm, and the tokens that they add."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.measure import Bench, Child, Contender, Figure, Goal, only, ordered, ready, scratch

__all__ = ["child", "measure"]

ROUNDS = 5
WORDS = ("invoice", "deploy", "graph", "kernel", "migrate", "audit", "resume", "translate")


def measure(bench: Bench) -> list[Figure]:
    """Compare with the same agent without a skill. Cold has no index; warm is a fresh process with one."""
    out: list[Figure] = []
    for count in (402, 1_006):
        with scratch() as root:
            _write(root, count)
            taken = [_round(bench, root, number) for number in range(bench.rounds(ROUNDS))]
        title, warm = f"{count:,} skills, ", [each.name for each in bench.ours]
        out.append(bench.figure(title + "discovery", "ms", only(taken, "ms"), Goal(100), digits=0, note="ours: warm"))
        tokens = [{who: each[who] for who in warm} for each in only(taken, "tokens")]
        out.append(bench.figure(title + "tokens in a request", "tokens", tokens, Goal(2_000), digits=0))
    return out


def _round(bench: Bench, root: Path, number: int) -> dict[str, dict[str, float]]:
    answers: dict[str, dict[str, float]] = {}
    for each in ordered(bench.ours, number):
        answers |= _cold_and_warm(each, root)
    return answers


def _cold_and_warm(ours: Contender, root: Path) -> dict[str, dict[str, float]]:
    with (
        scratch() as home,
        Child(ours, "skills", home, directory=str(root)) as first,
        Child(ours, "skills", home, directory=str(root)) as second,
    ):
        ready(first, second)
        return {f"{ours.name}, cold": first.ask(), ours.name: second.ask()}


def _write(root: Path, count: int) -> None:
    for number in range(count):
        name = f"{WORDS[number % len(WORDS)]}-{number:04}"
        (root / name).mkdir(parents=True)
        text = f"Handles {name}. " + "Use it when the user asks for such a thing. " * 6
        (root / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {text}\n---\n" + "Do it.\n" * 200)


def child(module: str, answer: Callable[[dict[str, float] | None], None], *, directory: str) -> None:
    """Measure the first request with the skills of a directory, less that without skills."""
    from deep_backends import memory_backend
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    from deep_core import create_deep_agent, create_default_deps

    chars = 0

    async def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        nonlocal chars
        texts = [str(part.content) for message in messages for part in message.parts if hasattr(part, "content")]
        chars = len(info.instructions or "") + sum(map(len, texts))
        return ModelResponse(parts=[TextPart("done")])

    def first_request(directories: list[str]) -> tuple[float, int]:
        agent: Any = create_deep_agent(FunctionModel(respond), skills={"directories": directories})
        began = time.perf_counter()
        asyncio.run(agent.run("Hello.", deps=create_default_deps(backend=memory_backend())))
        return (time.perf_counter() - began) * 1000, chars

    with tempfile.TemporaryDirectory() as empty:
        first_request([empty])
        ms, without = first_request([empty])
    answer(None)
    more_ms, more = first_request([directory])
    answer({"ms": more_ms - ms, "tokens": (more - without) / 4})
