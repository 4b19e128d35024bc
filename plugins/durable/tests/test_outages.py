"""A provider that is down: queued sessions wait for it, and complete."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from deep_durable import Job, enqueue, open_queue
from deep_sessions import open_store

from plugins.durable.tests.crew import finished, until
from plugins.durable.tests.deep_workers import Provider, Workers, lines
from plugins.durable.tests.test_suspects import PLUGIN
from tests.another_process import run
from tests.drawn import many


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")


async def through(store: str, folder: Path, names: list[str], crew: int, probe: str, outage: Outage) -> list[Job]:
    """Enqueue sessions, let them meet an outage, and wait for their end; return those set aside."""
    provider = Provider()
    opened = open_store(store)
    for name in names:
        await enqueue(opened, name, "say it")
    with provider.serving(folder) as config:
        workers = Workers(store, folder, "--config", config, "--probe", probe, "-p", PLUGIN)
        queue = open_queue(store)
        with workers.running(crew):
            await outage(provider, queue)
            aside = await finished(queue)
        await queue.aclose()
    states = [(await opened.info(name)).status for name in names]
    await opened.aclose()
    assert set(states) == {"idle"}
    return aside


Outage = Callable[[Provider, "object"], Awaitable[None]]


@pytest.mark.slow
def test_sessions_wait_for_a_provider_that_is_down_and_complete(store: str, tmp_path: Path) -> None:
    names = [f"s{number}" for number in range(many(12, 200))]
    down, crew = many(3, 30), many(2, 4)
    back: list[float] = []

    async def outage(provider: Provider, queue: object) -> None:
        provider.status = 503
        await until(lambda: bool(provider.asked))
        began = time.monotonic()
        await until(lambda: time.monotonic() > began + down)
        provider.status, provider.headers = 429, {"retry-after": "1"}
        await until(lambda: time.monotonic() > began + 2 * down)
        provider.status = 200
        back.append(time.monotonic())
        refused = [at for at, status in provider.asked if status != 200]
        late = [at for at in refused if at > began + 2]  # what was under way when it began is no probe
        most = max((sum(at <= other < at + 1 for other in late) for at in late), default=0)
        print(f"{len(refused)} requests refused in {2 * down} s, at most {most} probes in a second")
        assert most <= 3

    assert asyncio.run(through(store, tmp_path, names, crew, "1", outage)) == []
    print(f"{len(names)} sessions, done {time.monotonic() - back[0]:.1f} s after the provider's return")
    assert Counter(lines(tmp_path, "puts")) == dict.fromkeys(names, 1)
    log = "\n".join(lines(tmp_path, "log"))
    begun, ended = log.count("is down, and its sessions wait"), log.count("answers again")
    assert (begun, ended) == (1, 1)


@pytest.mark.slow
def test_workers_shows_what_waits_for_a_provider_and_when_it_is_tried_next(store: str, tmp_path: Path) -> None:
    async def outage(provider: Provider, queue: object) -> None:
        provider.status, provider.headers = 503, {"retry-after": "4"}

        shown: list[str] = []

        async def waits() -> bool:
            done = await asyncio.to_thread(run, "deep_cli", "workers", "--store", store)
            shown[:] = done.stdout.splitlines()[-2:]
            return any(line.startswith("one waits for") for line in shown)

        await until(waits)
        down, waiting = shown
        assert re.fullmatch(rf"{provider.url}/ m is down for \d+ s, next try in \d s: .*overloaded.*", down)
        assert re.fullmatch(rf"one waits for {provider.url}/ m(, next try in \d s)?: .*overloaded.*", waiting)
        told = json.loads((await asyncio.to_thread(run, "deep_cli", "workers", "--store", store, "--json")).stdout)
        assert [outage["provider"] for outage in told["outages"]] == [f"{provider.url}/ m"]
        provider.status = 200

    assert asyncio.run(through(store, tmp_path, ["one"], 1, "0.5", outage)) == []


@pytest.mark.slow
def test_a_session_is_set_aside_after_the_longest_outage_and_resumes_when_released(store: str, tmp_path: Path) -> None:
    async def main() -> None:
        provider = Provider()
        provider.status = 503
        queue = open_queue(store)
        await enqueue(store, "one", "say it")
        with provider.serving(tmp_path) as config:
            words = ("--config", config, "--probe", "0.2", "--outage", "1", "-p", PLUGIN)
            with Workers(store, tmp_path, *words).running():
                (aside,) = await finished(queue)
                assert (aside.state, aside.failures) == ("set aside", 0)
                assert "overloaded" in aside.error
                provider.status = 200
                await queue.release("one")
                assert await finished(queue) == []
        await queue.aclose()

    asyncio.run(main())
    assert lines(tmp_path, "puts") == ["one"]
