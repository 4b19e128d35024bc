"""One budget over the tools of all servers: what is shown at once, what is searched, and what a conversation keeps."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from deep_mcp.budget import searched, tokens_of
from deep_mcp.commands import mcp
from deep_mcp.listing import Listing, RawTool, make_listing
from pydantic_ai.messages import ModelRequest, UserPromptPart

from deep_core import create_default_deps
from plugins.mcp.tests.conftest import Caller
from plugins.mcp.tests.test_odd_servers import FREE, SERVER, entry, tool

pytestmark = pytest.mark.anyio
ABOUT = "Look up a record by its number and return it with its history. " * 4


def listing(count: int) -> Listing:
    return make_listing([RawTool(f"find_{n}", ABOUT, {"type": "object"}, {}) for n in range(count)], resources=False)


def many(count: int) -> dict[str, Any]:
    return {f"s{n}": entry(tools=[tool(f"find_{i}", description=ABOUT) for i in range(15)]) for n in range(count)}


def test_servers_are_shown_while_they_fit_the_cheapest_first() -> None:
    listings = [("large", listing(19)), ("small", listing(2)), ("huge", listing(21)), ("middle", listing(10))]
    cost = {name: tokens_of(each.tools) for name, each in listings}
    assert searched(listings, cost["small"] + cost["middle"], 20) == {"large", "huge"}
    assert searched(listings, cost["small"] + cost["middle"] - 1, 20) == {"large", "huge", "middle"}
    assert searched(listings, 1_000_000, 20) == {"huge"}
    assert searched(listings, 0, 20) == {"large", "small", "huge", "middle"}


@pytest.mark.slow
async def test_ten_small_servers_share_one_budget(make_kernel: Any) -> None:
    kernel = make_kernel(many(10), settings=FREE, tool_tokens=2_500)
    caller = Caller()
    await kernel.create_agent(caller.model(), backend="memory").run("hi", deps=create_default_deps(kernel=kernel))
    shown = [each for name, each in caller.tools.items() if "_find_" in name and not each.defer_loading]
    assert 15 <= len(shown) < 60
    assert sum(len(each.description) for each in shown) // 4 <= 2_500
    assert len([name for name in caller.tools if "_find_" in name]) == 150

    report = kernel.explain(kernel.create_agent(Caller().model(), backend="memory"))
    costs = {cost.source: cost.deferred for cost in report.tools if cost.source.startswith("MCP server")}
    assert len(costs) == 10
    assert {*costs.values()} == {False, True}
    assert report.by_plugin()["mcp"] <= 2_600


async def test_a_tool_that_a_conversation_used_stays_in_later_runs(make_kernel: Any) -> None:
    kernel = make_kernel(many(1), settings=FREE, tool_tokens=0)
    search = ("search_tools", {"queries": ["record number history"]})
    caller = Caller(search, ("s0_find_3", {}))
    deps = create_default_deps(kernel=kernel)
    agent = kernel.create_agent(caller.model(), backend="memory")
    await agent.run("go", deps=deps)
    assert all(each.defer_loading for name, each in caller.tools.items() if "_find_" in name)

    # Another run, whose history was shortened: the search is gone from it, the tool is not.
    later = Caller()
    again = kernel.create_agent(later.model(), backend="memory")
    short = [ModelRequest([UserPromptPart("a summary")])]
    await again.run("go on", message_history=short, deps=deps)
    assert [n for n, each in later.tools.items() if "_find_" in n and not each.defer_loading] == ["s0_find_3"]


def test_the_list_says_what_each_server_costs(tmp_path: Path) -> None:
    config = tmp_path / "deep.toml"
    args = json.dumps([str(SERVER), json.dumps({"tools": [tool("find", description=ABOUT)] * 1})])
    config.write_text(
        "[plugins.mcp.options]\ntool_tokens = 50\n[plugins.mcp.options.servers.s]\n"
        f"command = {json.dumps(sys.executable)}\nargs = {args}\n"
    )
    runner = CliRunner()
    assert runner.invoke(mcp, ["test", "s", "--config", str(config)]).exit_code == 0
    said = runner.invoke(mcp, ["list", "--config", str(config)]).output
    assert "1 tool of 83 tokens, found by search" in said
    config.write_text(config.read_text().replace("= 50", "= 500"))
    assert "1 tool of 83 tokens, in each request" in runner.invoke(mcp, ["list", "--config", str(config)]).output
