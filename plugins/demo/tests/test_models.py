"""The ids, the echo, the errors, and the count of usage."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deep_demo
import pytest
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelResponse

from deep_core import create_default_deps

pytestmark = pytest.mark.anyio
Maker = Callable[..., Agent[Any, Any]]


async def test_echo_says_the_prompt_back_streamed_or_not(make_agent: Maker, tmp_path: Path) -> None:
    agent = make_agent(tmp_path, model="demo:echo")
    result = await agent.run("Hello\nthere", deps=create_default_deps())
    assert result.output == "Hello\nthere"
    async with agent.run_stream("Hello\nthere", deps=create_default_deps()) as stream:
        assert await stream.get_output() == "Hello\nthere"
        assert stream.usage.output_tokens == result.usage.output_tokens == 3, "11 characters"
        assert stream.usage.input_tokens == result.usage.input_tokens


async def test_input_is_what_was_sent_at_four_characters_a_token(make_agent: Maker, tmp_path: Path) -> None:
    agent = make_agent(tmp_path, model="demo:echo", without=["filesystem"], instructions="Be kind. " * 10)
    short = await agent.run("x" * 40, deps=create_default_deps())
    long = await agent.run("x" * 440, deps=create_default_deps())
    assert long.usage.input_tokens - short.usage.input_tokens == 100
    bare = make_agent(tmp_path, model="demo:echo", without=["filesystem", "todo"])
    assert (await bare.run("x" * 40, deps=create_default_deps())).usage.input_tokens == 10
    assert short.usage.input_tokens > (40 + 90) // 4, "the tools are sent too"


async def test_the_model_is_named_by_its_id(make_agent: Maker, tmp_path: Path) -> None:
    result = await make_agent(tmp_path, model="demo:echo").run("hi", deps=create_default_deps())
    last = result.all_messages()[-1]
    assert isinstance(last, ModelResponse)
    assert last.model_name == "echo"
    model = deep_demo.deep_resolve_model("demo:echo")
    assert model is not None
    assert model.model_id == "demo:echo"


async def test_an_unknown_demo_id_is_an_error_that_lists_them(make_agent: Maker, tmp_path: Path) -> None:
    agent = make_agent(tmp_path, model="demo:tuor")
    with pytest.raises(UserError, match=r"no demo model 'demo:tuor'.*demo:echo, demo:tour"):
        await agent.run("hi", deps=create_default_deps())
    with pytest.raises(UserError, match=r"no demo model 'demo:tuor'"):
        async with agent.run_stream("hi", deps=create_default_deps()):
            pass


def test_other_ids_are_not_its_business() -> None:
    assert deep_demo.deep_resolve_model("openai:gpt-5") is None


class Sum(BaseModel):
    total: int


async def test_an_agent_that_takes_no_text_gets_a_clear_error(make_agent: Maker, tmp_path: Path) -> None:
    agent = make_agent(tmp_path, model="demo:echo", output_type=Sum)
    with pytest.raises(UserError, match="answers with text"):
        await agent.run("hi", deps=create_default_deps())


def test_importing_the_plugin_loads_no_framework() -> None:
    code = "import sys, deep_demo, json; print(json.dumps(sorted({'pydantic', 'pydantic_ai'} & set(sys.modules))))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []
