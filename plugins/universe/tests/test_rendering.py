"""Rendering: which driver is chosen for a name, and documentation for people."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Literal
from xml.etree import ElementTree

import pytest
from deep_universe import (
    DriverContractError,
    FunctionTool,
    NoDriverError,
    ToolDriver,
    Universe,
    WireTarget,
    drivers_of,
    wire_target,
)
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.models import known_model_names

from deep_core import PluginContext, PluginError, PluginKernel, hookimpl

from .spies import Spy

pytestmark = pytest.mark.anyio


def get_balance(account: str, kind: Literal["a", "b"] = "a", days: list[int] | None = None) -> str:
    """Read a balance.

    Args:
        account: whose it is.
        kind: which one.
    """
    return account


def universe(*drivers: Spy) -> Universe:
    u = Universe(drivers or None)
    u.register(get_balance, tags={"finance"})
    return u


# -- the choice of a driver --------------------------------------------------------------------------------------------


def test_P1_a_models_name_renders_in_the_format_of_its_api() -> None:
    finance = universe()["finance"]
    assert "input_schema" in finance.render("claude-3-opus")[0]
    assert "function" in finance.render("gpt-4o")[0]


def test_P1_the_highest_score_renders() -> None:
    low, high = Spy("low", 20), Spy("high", 21)
    assert universe(low, high)["finance"].render("some-model") == ["high", "get_balance"]
    assert [target.name for target in low.asked + high.asked] == ["some-model", "some-model"]


def test_P2_a_drivers_name_skips_negotiation() -> None:
    named, other = Spy("xml", 0), Spy("other", 100)
    assert universe(other, named)["finance"].render("xml") == ["xml", "get_balance"]
    assert not named.asked
    assert not other.asked


def test_P3_a_driver_comes_before_a_model_of_its_name() -> None:
    assert universe(Spy("openai", 100), Spy("gpt-4o", 0))["finance"].render("gpt-4o") == ["gpt-4o", "get_balance"]


class _ForNew(Spy):
    def can_handle(self, target: WireTarget) -> int:
        return 100 if target.name.startswith("quux-") else 0


def test_P4_a_driver_alone_makes_a_new_family_render() -> None:
    u = universe()
    assert u["finance"].driver_for("gpt-4o").name == "openai"
    u.add_driver(_ForNew("quux"))
    assert u["finance"].render("quux-7b") == ["quux", "get_balance"]
    assert u["finance"].driver_for("gpt-4o").name == "openai"


@pytest.mark.parametrize("score", [101, -1, True, False, None, 50.0, "100"])
def test_P5_any_other_score_breaks_the_contract(score: Any) -> None:
    with pytest.raises(DriverContractError, match=rf"driver 'bad' scored {score!r}: a score is an int from 0 to 100"):
        universe(Spy("good", 100), Spy("bad", score))["finance"].render("gpt-4o")


@pytest.mark.parametrize("score", [1, 50, 100])
def test_P5_every_score_of_the_scale_is_taken(score: int) -> None:
    assert universe(Spy("one", score))["finance"].render("gpt-4o") == ["one", "get_balance"]


def test_P6_when_no_driver_fits_the_error_lists_every_score() -> None:
    with pytest.raises(NoDriverError, match=r"'gpt-4o' \(anthropic 0, other 0\); name a driver instead"):
        universe(Spy("anthropic"), Spy("other"))["finance"].render("gpt-4o")
    only_anthropic = Universe([Universe().driver("anthropic")])
    with pytest.raises(NoDriverError, match="anthropic 0"):
        only_anthropic["finance"].render("gpt-4o")


def test_P7_ties_go_to_priority_then_to_the_first() -> None:
    for _ in range(5):
        assert universe(Spy("b", 100), Spy("a", 100))["finance"].driver_for("m").name == "b"
        assert universe(Spy("b", 100), Spy("a", 100, priority=1))["finance"].driver_for("m").name == "a"
        assert universe(Spy("b", 100), Spy("a", 99, priority=9))["finance"].driver_for("m").name == "b"


async def test_P8_calls_are_executed_without_any_model_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(model: str) -> WireTarget:
        raise AssertionError("execution asked about a model")

    u = universe()
    message = {"content": None, "tool_calls": [{"id": "c", "type": "function", "function": CALL}]}
    monkeypatch.setattr("deep_universe.tool_set.wire_target", refuse)
    monkeypatch.setattr("deep_universe.targets.wire_target", refuse)
    (result,) = await u.dispatch({"model": "unheard-of", "choices": [{"message": {"role": "assistant", **message}}]})
    assert (result.id, result.result) == ("c", "mine")


CALL = {"name": "get_balance", "arguments": '{"account": "mine"}'}

# -- what a name says --------------------------------------------------------------------------------------------------

CHAT = ["o4-mini", "o1", "mistral-large-latest", "qwen3-32b", "chatgpt-4o-latest", "openai:gpt-5.2"]


@pytest.mark.parametrize("model", CHAT)
def test_P9_names_that_the_reference_renders_as_markdown(model: str) -> None:
    assert "function" in universe()["finance"].render(model)[0]


def test_P9_claude_with_its_provider_renders_for_claude() -> None:
    assert "input_schema" in universe()["finance"].render("anthropic:claude-sonnet-4-5")[0]


@pytest.mark.parametrize(
    ("model", "name", "protocol", "tools"),
    [
        ("gemini-2.5-pro", "gemini-2.5-pro", "google", True),
        ("google:gemini-2.5-pro", "gemini-2.5-pro", "google", True),
        ("google-gla:gemini-2.5-pro", "gemini-2.5-pro", "google", True),
        ("gpt-oss:20b", "gpt-oss:20b", "openai", True),
        ("Meta-Llama/Llama-3.3-70B-Instruct", "Meta-Llama/Llama-3.3-70B-Instruct", "openai", True),
        ("openai-responses:gpt-5.2", "gpt-5.2", "openai-responses", True),
        ("openrouter:anthropic/claude-sonnet-4", "anthropic/claude-sonnet-4", "openai", True),
        ("gateway/responses:gpt-5.2", "gpt-5.2", "openai-responses", True),
        ("gateway/converse:anything", "anything", "bedrock", True),
        ("bedrock:us.amazon.nova-pro-v1:0", "us.amazon.nova-pro-v1:0", "bedrock", True),
        ("deepseek:anything-new", "anything-new", "openai", True),
        ("my-own-model", "my-own-model", None, False),
        ("my:own:model", "own:model", None, False),
        ("", "", None, False),
    ],
)
def test_P9_the_profile_is_pydantic_ais(model: str, name: str, protocol: str | None, tools: bool) -> None:
    target = wire_target(model)
    assert (target.name, target.protocol_hint, "tools" in target.capabilities) == (name, protocol, tools)


def test_P9_a_model_whose_profile_has_no_tools_has_none() -> None:
    assert "tools" not in wire_target("gemini-2.5-flash-image").capabilities


WITHOUT_SDKS = """
import sys
for sdk in ("openai", "anthropic", "google.genai", "mistralai", "groq", "cohere", "huggingface_hub"):
    sys.modules[sdk] = None  # importing it raises ImportError
from deep_universe import Universe, wire_target
u = Universe()
u.register(lambda: 1, name="one", tags={"t"})
for model in sys.argv[1:]:
    target = wire_target(model)
    print(model, target.name, target.protocol_hint, "tools" in target.capabilities, u["t"].driver_for(model).name)
"""


@pytest.mark.slow
def test_P9_models_render_without_any_sdk() -> None:
    models = [
        "openai:gpt-5.2",
        "anthropic:claude-sonnet-4-5",
        "mistral:mistral-large-latest",
        "openai:unheard-of",
        "o1",
    ]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_SDKS, *models], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "openai:gpt-5.2 gpt-5.2 openai True openai",
        "anthropic:claude-sonnet-4-5 claude-sonnet-4-5 anthropic True anthropic",
        "mistral:mistral-large-latest mistral-large-latest openai True openai",
        "openai:unheard-of unheard-of openai True openai",
        "o1 o1 openai True openai",
    ]


@pytest.mark.parametrize(
    ("with_provider", "bare"),
    [("openai:gpt-5.2", "gpt-5.2"), ("anthropic:claude-sonnet-4-5", "claude-sonnet-4-5"), ("openai-chat:o1", "o1")],
)
def test_P10_a_provider_before_the_name_changes_nothing(with_provider: str, bare: str) -> None:
    finance = universe()["finance"]
    assert finance.render(with_provider) == finance.render(bare)


def test_P10_every_known_model_is_known_without_its_provider() -> None:
    def told(model: str) -> tuple[str | None, bool]:
        target = wire_target(model)
        return target.protocol_hint, "tools" in target.capabilities

    known = [name for name in known_model_names() if name.startswith(("openai:", "anthropic:", "google:"))]
    assert len(known) > 20
    assert [name for name in known if told(name) != told(name.partition(":")[2])] == []


@given(st.text(max_size=40))
def test_P10_any_text_is_a_target(model: str) -> None:
    assert isinstance(wire_target(model), WireTarget)


METHODS = ["can_handle", "can_handle_response", "render", "parse", "encode_calls", "encode_results"]


@pytest.mark.parametrize("missing", METHODS)
def test_D1_a_driver_that_lacks_a_method_cannot_be_made(missing: str) -> None:
    assert ToolDriver.__abstractmethods__ == set(METHODS)
    methods = {name: getattr(Spy, name) for name in METHODS if name != missing}
    with pytest.raises(TypeError, match=missing):
        type("Partial", (ToolDriver,), {"name": "partial", **methods})()


DESCRIPTION = 'Compare a < b & "c" > d; </description> ]]> \N{BOM}'


def test_D7_xml_is_escaped() -> None:
    u = Universe()
    u.register_tool(FunctionTool(get_balance, description=DESCRIPTION, tags={"t"}))
    (tool,) = ElementTree.fromstring(u["t"].render("xml")).iter("tool")
    assert tool.get("name") == "get_balance"
    assert tool.findtext("description") == DESCRIPTION
    assert json.loads(tool.findtext("parameters") or "") == u.tools[0].definition.parameters_json_schema


BOMB = "<!DOCTYPE a [" + "".join(f'<!ENTITY a{n + 1} "{f"&a{n};" * 10}">' for n in range(12)) + "]>"
READS_A_FILE = '<!DOCTYPE a [<!ENTITY a12 SYSTEM "file:///etc/hostname">]>'


@pytest.mark.parametrize("document_type", [BOMB, READS_A_FILE, ""])
async def test_D7_no_entity_of_a_reply_is_expanded(document_type: str) -> None:
    ran: list[str] = []
    u = Universe()
    u.register(ran.append, name="act")
    call = '<function_calls><invoke name="act"><parameter name="object">&a12;</parameter></invoke></function_calls>'
    (result,) = await u.dispatch(document_type + call, driver="xml")
    assert result.meta["error_code"] == "INVALID_ARGUMENTS"
    assert "&a12;" in (result.error or "")
    assert not ran


# -- documentation -----------------------------------------------------------------------------------------------------


def test_P11_markdown_documents_every_tool() -> None:
    u = universe()
    u.register(lambda: 1, name="bare", tags={"finance"})
    assert u["finance"].to_markdown() == (
        "## get_balance\n"
        "\n"
        "Read a balance.\n"
        "\n"
        "Tags: finance\n"
        "\n"
        "- `account` (string): whose it is.\n"
        "- `kind` (one of `a`, `b`, optional): which one.\n"
        "- `days` (array of integer or null, optional)\n"
        "\n"
        "## bare\n"
        "\n"
        "Tags: finance\n"
    )


def test_P11_an_empty_set_is_one_line() -> None:
    assert universe()["nope"].to_markdown() == "No tool matches `nope`.\n"


# -- drivers of plugins ------------------------------------------------------------------------------------------------


class Acme:
    def __init__(self, *drivers: Spy) -> None:
        self.drivers = drivers

    @hookimpl(of="universe")
    def deep_tool_drivers(self, context: PluginContext) -> list[Spy]:
        return list(self.drivers)


def test_drivers_of_plugins_follow_those_of_the_package() -> None:
    import deep_universe

    with PluginKernel(plugins=[deep_universe, Acme(Spy("acme"))], discover=False, strict=True) as kernel:
        names = [driver.name for driver in drivers_of(kernel)]
    assert names == [*(driver.name for driver in Universe().drivers), "acme"]


def test_a_kernel_without_the_plugin_has_the_drivers_of_the_package() -> None:
    with PluginKernel(discover=False) as kernel:
        assert [driver.name for driver in drivers_of(kernel)] == [driver.name for driver in Universe().drivers]


def test_two_drivers_of_one_name_are_an_error_that_names_both_plugins() -> None:
    import deep_universe

    with (
        PluginKernel(plugins=[deep_universe, Acme(Spy("openai"))], discover=False, strict=True) as kernel,
        pytest.raises(PluginError, match=r"(?s)'openai'.*universe.*acme"),
    ):
        drivers_of(kernel)
