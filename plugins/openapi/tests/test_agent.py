"""Services in an agent: what is offered and asks, what is sent and comes back, and who gets the credential."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import deep_openapi
import pytest
from deep_openapi import OpenapiOptions
from pydantic_ai import DeferredToolRequests
from pydantic_ai.messages import ModelMessage, ModelRequest, ToolReturnPart
from pydantic_ai.models.test import TestModel
from pytest_deep import ScriptedModel, call

from deep_core import Kernel, PluginError, PluginWarning, create_default_deps
from deep_core.plugin_api import PluginSettings, validate_options

from .mock_server import MockServer
from .structures import content, doc, large, obj, op, param

pytestmark = pytest.mark.anyio
Json = dict[str, Any]
STRING = {"type": "string"}
SHOP: Json = doc(
    {
        "/orders": {
            "get": op("orders", param("page", "query", {"type": "integer"}), param("cursor", "query")),
            "post": op("placeOrder", body=content(obj(["item"], item=STRING))),
        },
        "/orders/{id}": {
            "get": op("order", param("id", "path")),
            "delete": op("cancelOrder", param("id", "path")),
        },
        "/open": {"get": op("open", security=[])},
    },
    securitySchemes={"token": {"type": "http", "scheme": "bearer"}},
) | {"security": [{"token": []}]}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def server() -> Iterator[MockServer]:
    made = MockServer()
    yield made
    made.close()


@pytest.fixture
def shop(tmp_path: Path, server: MockServer, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Json]:
    """`shop(document, **entry)`: the options of an agent with one service; its document lies outside the work."""
    work, spec = tmp_path / "work", tmp_path / "specs" / "shop.json"
    work.mkdir()
    spec.parent.mkdir()
    monkeypatch.chdir(work)

    def options(document: Json = SHOP, **entry: Any) -> Json:
        spec.write_text(json.dumps(document))
        limits = {key: entry.pop(key) for key in [*entry] if key in OpenapiOptions.model_fields}
        return {"apis": {"shop": {"spec": str(spec), "base_url": server.url, **entry}}, **limits}

    return options


def kernel(*, strict: bool = True) -> Any:
    return Kernel(plugins=[deep_openapi], discover=False, strict=strict)


def tools_of(options: Json) -> dict[str, tuple[set[str], str, bool]]:
    used = kernel()
    tools = used.explain(used.create_agent(TestModel(), openapi=options)).tools
    return {t.name: (set(t.tags), t.approval, t.deferred) for t in tools if t.plugin == "openapi"}


def returned(messages: list[ModelMessage]) -> list[tuple[str, str]]:
    parts = [part for message in messages if isinstance(message, ModelRequest) for part in message.parts]
    return [(part.outcome, str(part.content)) for part in parts if isinstance(part, ToolReturnPart)]


async def result(options: Json, name: str, **args: Any) -> tuple[str, str]:
    """The outcome and the content of one call."""
    model = ScriptedModel(call(name, **args), "done")
    done = await kernel().create_agent(model, openapi=options).run("Go", deps=create_default_deps())
    (found,) = returned(done.all_messages())
    return found


# -- what is offered --------------------------------------------------------------------------------------------------


def test_methods_become_tags_and_only_reads_do_not_ask(shop: Callable[..., Json]) -> None:
    assert tools_of(shop()) == {
        "shop_orders": ({"read", "network"}, "never", False),
        "shop_placeOrder": ({"write", "network"}, "always", False),
        "shop_order": ({"read", "network"}, "never", False),
        "shop_cancelOrder": ({"write", "network", "destructive"}, "always", False),
        "shop_open": ({"read", "network"}, "never", False),
    }


def test_an_expression_chooses(shop: Callable[..., Json]) -> None:
    assert set(tools_of(shop(tools="read & ~name:open"))) == {"shop_orders", "shop_order"}


@pytest.mark.slow
def test_a_thousand_operations_are_found_by_search(shop: Callable[..., Json]) -> None:
    used = kernel()
    explained = used.explain(used.create_agent(TestModel(), openapi=shop(large())))
    found = [tool for tool in explained.tools if tool.plugin == "openapi"]
    assert len(found) == 1_000
    assert all(tool.deferred for tool in found)


async def test_an_operation_that_was_used_stays(shop: Callable[..., Json], server: MockServer) -> None:
    model = ScriptedModel(call("search_tools", queries=["getThing7"]), call("shop_getThing7", id="a"), "done", "again")
    agent, deps = kernel().create_agent(model, openapi=shop(large(50))), create_default_deps()
    first = await agent.run("Go", deps=deps)
    assert [path for _, path, *_ in server.seen] == ["/things7/a"]
    await agent.run("Again", deps=deps, message_history=first.all_messages())
    shown = [tool.name for tool in model.requests[-1].tools if tool.name.startswith("shop_") and not tool.defer_loading]
    assert shown == ["shop_getThing7"]


@pytest.mark.slow
def test_without_a_service_nothing_is_added_and_nothing_is_loaded() -> None:
    program = (
        "import sys, deep_openapi\n"
        "from deep_core import Kernel\n"
        "from pydantic_ai.models.test import TestModel\n"
        "kernel = Kernel(plugins=[deep_openapi], discover=False)\n"
        "found = kernel.explain(kernel.create_agent(TestModel()))\n"
        "assert not found.by_plugin().get('openapi')\n"
        "print(sorted({'jsonschema', 'referencing', 'yaml', 'deep_openapi.toolset'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# -- the policy -------------------------------------------------------------------------------------------------------


async def test_a_write_asks_with_its_arguments_and_is_sent_once(shop: Callable[..., Json], server: MockServer) -> None:
    agent = kernel().create_agent(ScriptedModel(call("shop_placeOrder", body={"item": "tea"}), "done"), openapi=shop())
    deps = create_default_deps()
    asked = await agent.run("Buy", deps=deps)
    assert isinstance(asked.output, DeferredToolRequests)
    assert server.seen == []
    answers = asked.output.build_results(approve_all=True)
    done = await agent.run(message_history=asked.all_messages(), deferred_tool_results=answers, deps=deps)
    assert done.output == "done"
    assert [(method, path, body) for method, path, _, body in server.seen] == [("POST", "/orders", b'{"item": "tea"}')]


async def test_a_document_that_changed_after_the_approval_is_not_called(
    shop: Callable[..., Json], server: MockServer
) -> None:
    options = shop()
    agent = kernel().create_agent(ScriptedModel(call("shop_cancelOrder", id="7"), "done"), openapi=options)
    deps = create_default_deps()
    asked = await agent.run("Cancel", deps=deps)
    assert isinstance(asked.output, DeferredToolRequests)
    moved: Json = {**SHOP["paths"], "/everything/{id}": {"delete": op("cancelOrder", param("id", "path"))}}
    shop({**SHOP, "paths": {key: item for key, item in moved.items() if key != "/orders/{id}"}})
    answers = asked.output.build_results(approve_all=True)
    again = await agent.run(message_history=asked.all_messages(), deferred_tool_results=answers, deps=deps)
    assert isinstance(again.output, DeferredToolRequests)
    assert server.seen == []


async def test_wrong_arguments_are_told_before_anyone_is_asked(shop: Callable[..., Json], server: MockServer) -> None:
    model = ScriptedModel(call("shop_placeOrder", body={"item": 3}), "I see.")
    done = await kernel().create_agent(model, openapi=shop()).run("Buy", deps=create_default_deps())
    assert done.output == "I see."
    assert "body.item: 3 is not of type 'string'" in str(done.all_messages())
    assert server.seen == []


# -- answers and pages ------------------------------------------------------------------------------------------------


async def test_linked_pages_are_joined(shop: Callable[..., Json], server: MockServer) -> None:
    for page in (1, 2, 3):
        link = {"Link": f'<{server.url}/orders?page={page + 1}>; rel="next"'} if page < 3 else {}
        server.pages["/orders" if page == 1 else f"/orders?page={page}"] = (200, link, json.dumps([page]).encode())
    assert await result(shop(), "shop_orders") == ("success", "[1, 2, 3]\n[3 pages]")


async def test_a_token_leads_on_and_the_model_learns_how(shop: Callable[..., Json], server: MockServer) -> None:
    for page, at in enumerate(("/orders", "/orders?cursor=c1", "/orders?cursor=c2")):
        body = {"data": [page], "meta": {"next_cursor": f"c{page + 1}"}}
        server.pages[at] = (200, {}, json.dumps(body).encode())
    outcome, text = await result(shop(pages=2), "shop_orders")
    assert outcome == "success"
    assert json.loads(text.splitlines()[0])["data"] == [0, 1]
    assert text.splitlines()[1] == '[page 2; there are more; go on with cursor="c2"]'
    assert len(server.seen) == 2


@pytest.mark.parametrize("there", ["https://evil.test/orders?page=2", "http://127.0.0.1:1/orders?page=2"])
async def test_a_page_elsewhere_is_not_followed(there: str, shop: Callable[..., Json], server: MockServer) -> None:
    server.pages["/orders"] = (200, {"Link": f'<{there}>; rel="next"'}, b"[1]")
    assert await result(shop(), "shop_orders") == ("success", "[1]")
    assert len(server.seen) == 1


async def test_a_link_to_itself_ends(shop: Callable[..., Json], server: MockServer) -> None:
    server.pages["/orders"] = (200, {"Link": f'<{server.url}/orders>; rel="next"'}, b"[1]")
    assert await result(shop(), "shop_orders") == ("success", "[1]")


async def test_a_long_answer_is_cut(shop: Callable[..., Json], server: MockServer) -> None:
    server.pages["/orders/1"] = (200, {}, b"x" * 5_000)
    _, text = await result(shop(result_chars=1_000), "shop_order", id="1")
    assert text.startswith("x" * 1_000 + "\n[truncated: 5,000 characters, of which 1,000 are shown")
    server.pages["/orders/2"] = (200, {}, b"y" * 50_000)
    _, text = await result(shop(max_bytes=2_000, result_chars=10_000), "shop_order", id="2")
    assert text == "y" * 2_000 + "\n[truncated: the answer is longer; ask for less]"


async def test_an_error_is_a_failed_call_with_the_services_words(shop: Callable[..., Json], server: MockServer) -> None:
    server.pages["/orders/1"] = (404, {}, b'{"message": "no such order"}')
    outcome, text = await result(shop(), "shop_order", id="1")
    assert (outcome, "404" in text, "no such order" in text) == ("failed", True, True)


async def test_a_redirect_elsewhere_is_not_followed(shop: Callable[..., Json], server: MockServer) -> None:
    server.pages["/orders/1"] = (302, {"Location": "https://evil.test/?x"}, b"")
    outcome, text = await result(shop(), "shop_order", id="1")
    assert (outcome, text) == ("failed", "the service redirects to https://evil.test/, which was not followed")
    server.pages["/orders/2"] = (301, {"Location": "/orders/3"}, b"")
    assert await result(shop(), "shop_order", id="2") == ("success", '{"ok": true}')


async def test_a_path_cannot_be_left(shop: Callable[..., Json], server: MockServer) -> None:
    outcome, text = await result(shop(), "shop_order", id="..")
    assert (outcome, "may not be '..'" in text, server.seen) == ("failed", True, [])


# -- the credential ---------------------------------------------------------------------------------------------------


async def test_the_credential_is_sent_where_it_is_wanted_and_never_read(
    shop: Callable[..., Json], server: MockServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "sesame-open")
    server.pages["/orders/1"] = (200, {}, b'{"you sent": "Bearer sesame-open"}')
    assert await result(shop(auth_env="SHOP_TOKEN"), "shop_order", id="1") == ("success", '{"you sent": "Bearer ***"}')
    assert server.seen[0][2]["Authorization"] == "Bearer sesame-open"
    await result(shop(auth_env="SHOP_TOKEN"), "shop_open")
    assert "Authorization" not in server.seen[1][2]
    await result(shop(auth_env="SHOP_TOKEN", auth="query key"), "shop_order", id="2")
    assert server.seen[2][1] == "/orders/2?key=sesame-open"


async def test_a_missing_credential_is_said(shop: Callable[..., Json], server: MockServer) -> None:
    outcome, text = await result(shop(auth_env="SHOP_TOKEN_UNSET"), "shop_order", id="1")
    assert (outcome, "SHOP_TOKEN_UNSET" in text, server.seen) == ("failed", True, [])


# -- configuration ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (
            {"base_url": "http://api.test", "auth_env": "X"},
            "base_url: http is for loopback only; write https://api.test",
        ),
        ({"base_url": "ftp://x"}, "base_url: an address is https://host/path"),
        ({"base_url": "https://u:p@x"}, "base_url: an address has no password"),
        ({"spec": "http://api.test/openapi.json"}, "spec: http is for loopback only"),
        ({"tools": "read &"}, "tools: "),
        ({"auth": "somehow"}, "auth: "),
        ({"specs": "x"}, "specs: unknown key. Did you mean"),
        ({"base_url": ..., "baseurl": "https://api.test"}, "baseurl: unknown key. Did you mean 'base_url'?"),
    ],
)
def test_a_wrong_service_costs_itself(entry: Json, why: str, shop: Callable[..., Json]) -> None:
    options = shop()
    whole = {**options["apis"]["shop"], **entry}
    options["apis"]["other"] = {key: value for key, value in whole.items() if value is not ...}
    with pytest.raises(PluginError, match="service other") as error:
        kernel().create_agent(TestModel(), openapi=options)
    assert why in str(error.value)
    used = kernel(strict=False)
    with pytest.warns(PluginWarning, match="service other"):
        agent = used.create_agent(TestModel(), openapi=options)
    assert {tool.name.partition("_")[0] for tool in used.explain(agent).tools} == {"shop"}
    (incident,) = used.incidents
    assert incident.error.endswith("; correct plugins.openapi.options.apis.other")  # the doctor's way out


def test_an_expression_that_chooses_nothing_suggests_a_name(shop: Callable[..., Json]) -> None:
    with pytest.raises(PluginError, match=r"service shop: tools: no tool named 'opn'; did you mean 'open'\? .*5 oper"):
        tools_of(shop(tools="name:opn"))


async def test_a_document_that_the_model_may_write_must_be_pinned(
    shop: Callable[..., Json], server: MockServer
) -> None:
    Path("shop.json").write_text(json.dumps(SHOP))
    options = shop(spec="shop.json")
    used = kernel(strict=False)
    with pytest.warns(PluginWarning, match="where the model may write") as said:
        await used.create_agent(TestModel(call_tools=[]), openapi=options).run("Go", deps=create_default_deps())
    digest = str(said[0].message).partition('digest = "')[2].partition('"')[0]
    assert await result(shop(spec="shop.json", digest=digest), "shop_open") == ("success", '{"ok": true}')
    Path("shop.json").write_text(json.dumps({**SHOP, "x": 1}))
    agent = used.create_agent(TestModel(call_tools=[]), openapi=shop(spec="shop.json", digest=digest))
    with pytest.warns(PluginWarning, match="not the pinned one"):
        await agent.run("Go", deps=create_default_deps())


async def test_a_document_at_an_address(shop: Callable[..., Json], server: MockServer) -> None:
    server.pages["/openapi.json"] = (200, {}, json.dumps(SHOP).encode())
    assert (await result(shop(spec=f"{server.url}/openapi.json"), "shop_open"))[0] == "success"


@pytest.mark.filterwarnings("ignore::deep_core.PluginWarning")
def test_a_projects_file_names_no_service_and_raises_no_limit() -> None:
    project = 'pages = 900\nresult_chars = 900000\napis = { evil = { spec = "x", base_url = "https://evil.test" } }'
    given = {key: (value, "deep.toml") for key, value in tomllib.loads(project).items()}
    options = validate_options("openapi", OpenapiOptions, PluginSettings(project_options=given))[0]
    assert options == OpenapiOptions()
