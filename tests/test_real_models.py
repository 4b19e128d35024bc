"""A real model on a real server: SmolLM2 on llama.cpp. `make test-models` runs these; answers are poor, and real."""

from __future__ import annotations

import json
import os
import random
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from deep_prompted_tools import PromptedTools
from deep_sessions.requests.served import ServedModel
from deep_sessions.requests.windows import find_facts
from deep_universe import default_drivers
from deep_universe.drivers.text import TextDriver
from pydantic_ai import Agent, Tool, UsageLimits
from pydantic_ai.exceptions import UsageLimitExceeded
from pydantic_ai.tools import ToolDefinition

from plugins.sessions.tests.dialects import LLAMA_CPP
from plugins.trials.tests.test_cassettes import RECORDED
from plugins.trials.tests.test_commands import deep
from tests.lab import SMALL, exchanges, interval, llama, real

pytestmark = real
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
SMOLLM2 = """
[plugins.trials.options.agents.smollm2]
plugins = {{ prompted_tools = {{ options = {{ constrain = "always" }} }} }}

[plugins.trials.options.agents.smollm2.agent]
profile = "small"
tool_filter = "name:read_file"
model = {{ provider = "llama.cpp", model = "smollm2", base_url = "{address}", max_tokens = 120, temperature = 0.0, \
api_key_env = "LLAMA_API_KEY" }}
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with llama(WINDOW) as address:
        yield address


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


def test_what_others_tests_replay_is_what_the_server_answers(address: str) -> None:
    """With DEEP_RECORD=1 the exchanges are recorded again."""
    made = exchanges(address)
    if os.environ.get("DEEP_RECORD"):
        LLAMA_CPP.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    assert shape(json.loads(LLAMA_CPP.read_text(encoding="utf-8"))) == shape(made)


def shape(value: Any) -> Any:
    """The keys and types of JSON; of a list, those of its first and last item."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return [shape(item) for item in (items[:1] + items[-1:])]
    return "number" if isinstance(value, int | float) else type(value).__name__


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


def test_a_recorded_run_is_played_without_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`deep eval record` and `replay`. With DEEP_RECORD=1 the cassette is kept: plugins/trials/tests plays it."""
    monkeypatch.setenv("LLAMA_API_KEY", "no-key-of-anybody")
    place = RECORDED / "smollm2.jsonl" if os.environ.get("DEEP_RECORD") else tmp_path / "smollm2.jsonl"
    (tmp_path / "config" / "deep").mkdir(parents=True)
    with llama(WINDOW) as address:
        text = SMOLLM2.format(address=address)
        (tmp_path / "config" / "deep" / "config.toml").write_text(text, encoding="utf-8")
        words = ["record", str(RECORDED / "suite"), str(place), "--agent", "smollm2", "-j", "1", "--out", "record"]
        deep(*words, folder=tmp_path)
    assert "no-key-of-anybody" not in place.read_text(encoding="utf-8")
    assert "2 of 2 trials as recorded" in deep("replay", str(place), "--out", "replay", folder=tmp_path).stdout
