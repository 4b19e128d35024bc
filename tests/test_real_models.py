"""A real model on a real server: SmolLM2 on llama.cpp. `make test-models` runs these; answers are poor, and real."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import pytest
from deep_prompted_tools import PromptedTools
from deep_sessions.requests.served import ServedModel
from deep_sessions.requests.windows import find_facts
from deep_universe import default_drivers
from deep_universe.drivers.text import TextDriver
from pydantic_ai import Agent, Tool, UsageLimits
from pydantic_ai.exceptions import UsageLimitExceeded
from pydantic_ai.tools import ToolDefinition

from tests.environments import REPOSITORY

WHEELS = os.environ.get("DEEP_MODELS", "")
SMALL = os.environ.get("DEEP_MODELS_SAMPLE") == "1"
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not WHEELS, reason="make test-models runs a real model"),
]
CITIES = (
    "Oslo",
    "Rome",
    "Paris",
    "Lima",
    "Cairo",
    "Tokyo",
    "Delhi",
    "Quito",
    "Accra",
    "Sofia",
    "Dakar",
    "Riga",
    "Bern",
)
CALLS = 4 if SMALL else 50
GENERATIONS = 6 if SMALL else 300
WINDOW = 8192


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    program = [sys.executable, str(REPOSITORY / "tests" / "llama_server.py"), str(WINDOW)]
    environment = {**os.environ, "PYTHONPATH": WHEELS}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(program, env=environment, text=True, **pipes) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        address = next(line for line in server.stdout if line.startswith("address ")).split()[1]
        yield f"{address}/v1"
        server.stdin.close()
        server.terminate()


def interval(hits: int, of: int) -> str:
    """Wilson's, at 95 %."""
    share, z = hits / of, 1.96
    middle, width = share + z * z / (2 * of), z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    low, high = ((middle + sign * width) / (1 + z * z / of) for sign in (-1, 1))
    return f"{hits} of {of}: {share:.0%}, {low:.0%} to {high:.0%}"


def weather_of(made: list[str]) -> Tool:
    def get_weather(city: str) -> str:
        """Return the weather of a city."""
        made.append(city)
        return "sunny"

    return Tool(get_weather)


@pytest.fixture
async def model(address: str) -> AsyncIterator[ServedModel]:
    model = ServedModel("smollm2", address, "none", "llama.cpp")
    facts = await find_facts(model)
    assert facts is not None
    model.facts = facts
    yield model
    await model.client.close()  # it would keep its connections beyond this test's event loop


async def test_the_server_says_what_it_is(model: ServedModel) -> None:
    facts = model.facts
    assert (facts.server.kind, facts.window, facts.has_tools) == ("llama.cpp", WINDOW, False)


@pytest.mark.parametrize(("constrain", "least"), [("always", 0.6), ("never", 0.0)])
async def test_calls_are_made(model: ServedModel, constrain: Any, least: float, record_property: Any) -> None:
    good = 0
    for number in range(CALLS):
        city, made = CITIES[number % len(CITIES)], list[str]()
        asks = Agent(
            model,
            tools=[weather_of(made)],
            capabilities=[PromptedTools("always", constrain=constrain, retries=0)],
            model_settings={"max_tokens": 60, "temperature": 0.2, "seed": number},
        )
        with suppress(UsageLimitExceeded):  # it called
            await asks.run(
                f"What is the weather in {city}? Call get_weather.", usage_limits=UsageLimits(request_limit=1)
            )
        good += made[:1] == [city]
    print(f"\ncalls with constrain = {constrain!r}: {interval(good, CALLS)}")
    record_property(constrain, interval(good, CALLS))
    assert good >= (least > 0 if SMALL else least * CALLS)


def test_generations_are_read_by_every_dialect(address: str) -> None:
    weather = ToolDefinition(
        name="get_weather",
        parameters_json_schema={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    )
    drivers = [driver for driver in default_drivers() if isinstance(driver, TextDriver)]
    for number in range(GENERATIONS):
        driver = drivers[number % len(drivers)]
        messages = [
            {"role": "system", "content": driver.render([weather])},
            {"role": "user", "content": f"Call get_weather for {CITIES[number % len(CITIES)]}."},
        ]
        body = {"messages": messages, "max_tokens": 60, "temperature": 1.3, "seed": number}
        request = urllib.request.Request(
            f"{address}/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request) as answer:
            text = json.load(answer)["choices"][0]["message"]["content"] or ""
        for other in drivers:
            whole = other.scanner([weather])
            items = [*whole.feed(text), *whole.finish()]
            pieces, at = list[Any](), 0
            split = other.scanner([weather])
            while at < len(text):
                step = random.Random(at).randint(1, 9)
                pieces += split.feed(text[at : at + step])
                at += step
            pieces += split.finish()
            assert calls(pieces) == calls(items), text


def calls(items: list[Any]) -> tuple[str, list[Any]]:
    return "".join(item for item in items if isinstance(item, str)), [i for i in items if not isinstance(i, str)]
