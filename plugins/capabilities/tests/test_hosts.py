"""Tools of LangChain and of `llm`'s plugins, from the index: `make test-hosts` has an environment with them."""

from __future__ import annotations

import importlib
import json
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
import pytest
from deep_capabilities import named_capabilities
from pydantic import BaseModel
from pydantic_ai import BinaryContent
from pydantic_ai.exceptions import ModelAPIError, UserError

from deep_core import Kernel, create_default_deps
from tests.plugins_by_hand import pending, returns, run, scripted
from tests.stubs import Call

pytestmark = pytest.mark.filterwarnings("ignore")  # of other hosts' own code
PLUGIN = "named_capabilities"
ABSENT = [name for name in ("langchain_community", "llm") if find_spec(name) is None]
hosts = pytest.mark.skipif(bool(ABSENT), reason=f"make test-hosts: needs {' and '.join(ABSENT)}")


def kernel_with(entries: dict[str, Any], agent: dict[str, Any] | None = None) -> Kernel:
    config = {"agent": agent or {}, "plugins": {PLUGIN: {"options": {"entries": entries}}}}
    return Kernel(plugins=[named_capabilities], discover=False, config=config)


def called(entry: dict[str, Any], *calls: Call) -> list[tuple[str, str]]:
    """Let a person approve these calls; returns the outcome and the content of each result."""
    with kernel_with({"own": entry}) as kernel:
        agent = kernel.create_agent(scripted([*calls]))
        deps = create_default_deps(kernel=kernel)
        asked = run(agent, deps=deps)
        results = pending(asked).build_results(approve_all=True)
        done = run(agent, None, deps, message_history=asked.all_messages(), deferred_tool_results=results)
    return [(part.outcome, str(part.content)) for part in returns(done.all_messages())]


def reason_of(entry: dict[str, Any]) -> str:
    with pytest.warns(UserWarning, match="the agent goes without it") as caught, kernel_with({"own": entry}) as kernel:
        kernel.create_agent(scripted())
    return str(caught[0].message)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Write a module of tools of the application."""

    def write(text: str) -> str:
        (tmp_path / "acme_langchain.py").write_text(text, encoding="utf-8")
        monkeypatch.syspath_prepend(str(tmp_path))
        importlib.invalidate_caches()
        return "acme_langchain"

    yield write
    sys.modules.pop("acme_langchain", None)


# -- LangChain ---------------------------------------------------------------------------------------------------------

COMMUNITY = "langchain_community.tools"


@hosts
def test_ten_tools_of_langchain_run_after_a_person_approves(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("alpha", encoding="utf-8")
    (tmp_path / "data.json").write_text('{"port": {"name": "Brest"}}', encoding="utf-8")
    files = {"use": "langchain_community.agent_toolkits:FileManagementToolkit", "options": {"root_dir": str(tmp_path)}}
    spec = {
        "use": "langchain_community.tools.json.tool:JsonSpec.from_file",
        "options": {"path": tmp_path / "data.json"},
    }
    found = called(
        files,
        Call("list_directory", {}, id="1"),
        Call("read_file", {"file_path": "a.txt"}, id="2"),
        Call("write_file", {"file_path": "b.txt", "text": "beta"}, id="3"),
        Call("copy_file", {"source_path": "a.txt", "destination_path": "c.txt"}, id="4"),
        Call("file_search", {"pattern": "*.json"}, id="5"),
    )
    assert [outcome for outcome, _ in found] == ["success"] * 5
    assert "a.txt" in found[0][1]
    assert found[1][1] == "alpha"
    assert found[4][1] == "data.json"
    found = called(
        files,
        Call("move_file", {"source_path": "c.txt", "destination_path": "d.txt"}, id="6"),
        Call("file_delete", {"file_path": "b.txt"}, id="7"),
    )
    assert [outcome for outcome, _ in found] == ["success"] * 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "d.txt", "data.json"]
    assert called({"use": f"{COMMUNITY}:ShellTool"}, Call("terminal", {"commands": "echo $((6*7))"}, id="8")) == [
        ("success", "42\n")
    ]
    keys = {"use": f"{COMMUNITY}:JsonListKeysTool", "options": {"spec": spec}}
    assert called(keys, Call("json_spec_list_keys", {"tool_input": 'data["port"]'}, id="9")) == [
        ("success", "['name']")
    ]
    value = {"use": f"{COMMUNITY}:JsonGetValueTool", "options": {"spec": spec}}
    assert called(value, Call("json_spec_get_value", {"tool_input": 'data["port"]["name"]'}, id="10")) == [
        ("success", "Brest")
    ]


TOOLS = '''
import sys
from typing import Annotated

from langchain_core.tools import (
    BaseTool, InjectedToolArg, InjectedToolCallId, StructuredTool, ToolException, tool,
)


@tool
async def tide(port: str, tons: int = 3) -> str:
    """Tell the tide of a port."""
    return f"high in {port} for {tons}"


@tool
def refuse(port: str) -> str:
    """Always fails."""
    raise ToolException("the port is closed")


@tool
def chart(port: str) -> list:
    """Draw a chart."""
    data = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
    url = {"url": "data:image/png;base64," + data}
    return [{"type": "text", "text": port}, {"type": "image_url", "image_url": url}]


@tool
def stamped(port: str, call: Annotated[str, InjectedToolCallId]) -> str:
    """Return the id of the call."""
    return call


@tool
def stateful(port: str, state: Annotated[dict, InjectedToolArg]) -> str:
    """Needs a graph."""
    return port


@tool(response_format="content_and_artifact")
def rows(port: str) -> tuple:
    """Count the rows of a port."""
    return f"2 rows of {port}", ["a", "b"]


@tool
def greet(port: str, user: Annotated[str, InjectedToolArg] = "nobody") -> str:
    """Greet a port."""
    return f"{user} greets {port}"


class OnlyAsync(BaseTool):
    name: str = "only_async"
    description: str = "Runs in a loop alone."

    def _run(self, port: str) -> str:
        raise NotImplementedError

    async def _arun(self, port: str) -> str:
        return f"async {port}"


only_async = OnlyAsync()
SCHEMA = {"type": "object", "properties": {"port": {"type": "string"}}, "required": ["port"]}
by_schema = StructuredTool.from_function(
    func=lambda **given: str(given), name="by_schema", description="Has no model.", args_schema=SCHEMA
)
handled = StructuredTool.from_function(refuse.func, name="handled", description="Says it.", handle_tool_error=True)
direct = StructuredTool.from_function(lambda port: port, name="direct", description="", return_direct=True)
both = [tide, refuse]
nothing = []
'''


@hosts
def test_tools_of_the_application_run_in_their_own_way(module: Any) -> None:
    name = module(TOOLS)
    good, bad, refused = called(
        {"use": f"{name}:both"},
        Call("tide", {"port": "Brest"}, id="1"),
        Call("tide", {"port": "Brest", "tons": "many"}, id="2"),
        Call("refuse", {"port": "Brest"}, id="3"),
    )
    assert good == ("success", "high in Brest for 3")
    assert bad[0] == "retried"
    assert "valid integer" in bad[1]
    assert refused == ("failed", "the port is closed")


@hosts
@pytest.mark.parametrize(
    ("tool", "arguments", "result"),
    [
        ("rows", {}, ("success", "2 rows of Brest")),
        ("greet", {}, ("success", "nobody greets Brest")),
        ("greet", {"user": "root"}, ("retried", "greet has no argument 'user'")),
        ("only_async", {}, ("success", "async Brest")),
        ("by_schema", {}, ("success", "{'port': 'Brest'}")),
        ("by_schema", {"tons": 1}, ("retried", "by_schema has no argument 'tons'")),
        ("handled", {}, ("failed", "the port is closed")),
        ("direct", {}, ("success", "Brest")),
    ],
)
def test_a_tool_of_each_kind_gets_what_it_shows_and_no_more(
    module: Any, tool: str, arguments: dict[str, Any], result: tuple[str, str]
) -> None:
    call = Call(tool, {"port": "Brest", **arguments}, id="1")
    assert called({"use": f"{module(TOOLS)}:{tool}"}, call) == [result]


@hosts
def test_a_tool_gets_the_id_of_its_call_and_returns_pictures(module: Any) -> None:
    name = module(TOOLS)
    assert called({"use": f"{name}:stamped"}, Call("stamped", {"port": "Brest"}, id="c-1")) == [("success", "c-1")]
    ((outcome, content),) = called({"use": f"{name}:chart"}, Call("chart", {"port": "Brest"}, id="c-2"))
    assert outcome == "success"
    assert "image/png" in content


@hosts
@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"use": "acme_langchain:stateful"}, "needs 'state', which only a graph of LangGraph gives"),
        ({"use": "acme_langchain:tide", "options": {"a": 1}}, "takes no options"),
        ({"use": "acme_langchain:nothing"}, "is not a capability, but of the type list"),
        ({"use": f"{COMMUNITY}:ShellTol"}, "there is no 'ShellTol'"),
        ({"use": f"{COMMUNITY}:BraveSearch"}, "BRAVE_SEARCH_API_KEY"),
    ],
)
def test_a_tool_of_langchain_that_cannot_be_used_says_why(module: Any, entry: dict[str, Any], says: str) -> None:
    module(TOOLS)
    assert says in reason_of(entry)


@hosts
def test_what_an_entry_says_of_the_tools_of_a_host_holds(module: Any) -> None:
    name = module(TOOLS)
    entry = {"use": f"{name}:both", "prefix": "sea", "tools": "~name:sea_refuse", "require_approval": False}
    with kernel_with({"own": entry}) as kernel:
        found = kernel.explain(kernel.create_agent(scripted())).tools
    assert {tool.name: (tool.plugin, tool.approval) for tool in found} == {"sea_tide": (PLUGIN, "never")}
    with kernel_with({"own": {"use": f"{name}:both"}}) as kernel:
        found = kernel.explain(kernel.create_agent(scripted())).tools
    assert {tool.name: tool.approval for tool in found} == {"tide": "always", "refuse": "always"}


# -- llm ---------------------------------------------------------------------------------------------------------------


@hosts
def test_six_plugins_of_llm_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    evaluate = Call("simple_eval", {"expression": "6 * 7"}, id="1")
    assert called({"use": "llm:llm-tools-simpleeval"}, evaluate) == [("success", "42")]
    script = Call("QuickJS_execute_javascript", {"javascript": "[1, 2].length"}, id="2")
    assert called({"use": "llm:llm_tools_quickjs:QuickJS"}, script) == [("success", "2")]
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection, connection:
        connection.execute("create table ports as select 'Brest' as name")
    sqlite = {"use": "llm:llm-tools-sqlite:SQLite", "options": {"path": str(tmp_path / "a.db")}}
    ((outcome, content),) = called(sqlite, Call("SQLite_query", {"sql": "select name from ports"}, id="3"))
    assert outcome == "success"
    assert "Brest" in content
    write = Call("Patch_write", {"file_path": "a.txt", "content": "alpha"}, id="4")
    assert [outcome for outcome, _ in called({"use": "llm:llm-tools-patch"}, write)] == ["success"]
    assert (tmp_path / "a.txt").read_text("utf-8") == "alpha"
    files = {"use": "llm:llm-tools-edit:Filesystem", "options": {"path": str(tmp_path)}}
    ((outcome, content),) = called(files, Call("Filesystem_view", {"path": "a.txt"}, id="5"))
    assert outcome == "success"
    assert "alpha" in content
    ((outcome, content),) = called({"use": "llm:llm-tools-todo"}, Call("Todo_begin", {}, id="6"))
    assert outcome == "success"


@hosts
def test_each_run_has_a_toolbox_of_its_own() -> None:
    entry = {"use": "llm:llm-tools-edit:MemoryFS", "require_approval": False}
    create = Call("MemoryFS_create", {"path": "/secret.txt", "file_text": "of the first run"}, id="1")
    look = Call("MemoryFS_list_files", {}, id="2")
    with kernel_with({"own": entry}) as kernel:
        agent = kernel.create_agent(scripted([create], [look], "done", [look], "done"))
        first, second = (returns(run(agent).all_messages()) for _ in range(2))
    assert "secret.txt" in str(first[-1].content)
    assert "secret.txt" not in str(second[-1].content)


@hosts
def test_a_plugin_of_llm_that_does_not_load_costs_itself() -> None:
    entries = {"bad": {"use": "llm:llm-tools-mcp"}, "good": {"use": "llm:llm-tools-simpleeval"}}
    with (
        pytest.warns(UserWarning, match="capability bad is failed: .*cannot import name"),
        kernel_with(entries) as kernel,
    ):
        assert [tool.name for tool in kernel.explain(kernel.create_agent(scripted())).tools] == ["simple_eval"]


@hosts
@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"use": "llm:llm-tools-sqlit"}, "Did you mean 'llm-tools-sqlite'?"),
        ({"use": "llm:"}, "Installed: "),
        ({"use": "llm:acme-ships"}, "pip install llm acme-ships"),
        ({"use": "llm:llm-tools-simpleeval:simple_evil"}, "Did you mean 'simple_eval'?"),
        ({"use": "llm:llm-tools-simpleeval", "options": {"a": 1}}, "takes no options: only a toolbox does"),
        ({"use": "llm:llm-tools-sqlite:SQLite", "options": {"pth": "a.db"}}, "Did you mean 'path'?"),
        ({"use": "llm:llm-tools-edit"}, "name one of Filesystem, MemoryFS, SQLiteFS"),
    ],
)
def test_a_plugin_of_llm_that_cannot_be_used_says_why(entry: dict[str, Any], says: str) -> None:
    assert says in reason_of(entry)


# -- models of llm -----------------------------------------------------------------------------------------------------

models = pytest.mark.skipif(find_spec("llm_echo") is None, reason="make test-hosts: needs llm-echo and llm-markov")


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    with Kernel(plugins=[named_capabilities], discover=False) as kernel:
        yield kernel


@models
def test_a_model_of_llm_answers_and_calls_tools_under_the_policy(kernel: Kernel) -> None:
    def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    agent = kernel.create_agent(
        "llm:llm-echo:echo", tools=[double], instructions="Be brief.", interrupt_on="name:double"
    )
    deps = create_default_deps(kernel=kernel)
    ask = json.dumps({"prompt": "hello", "tool_calls": [{"name": "double", "arguments": {"number": 21}}]})
    asked = run(agent, ask, deps)
    assert [call.args for call in pending(asked).approvals] == [{"number": 21}]
    results = pending(asked).build_results(approve_all=True)
    history = asked.all_messages()
    done = run(agent, None, deps, message_history=history, deferred_tool_results=results)
    said = json.loads(done.output)
    assert said["tool_results"][0]["output"] == "42"
    assert "Be brief." in said["system"]
    assert done.usage.input_tokens > 0


@models
def test_a_model_of_llm_streams_or_comes_whole(kernel: Kernel) -> None:
    async def pieces(model: str) -> list[str]:
        agent = kernel.create_agent(model)
        async with agent.run_stream("one two one two", deps=create_default_deps(kernel=kernel)) as stream:
            return [piece async for piece in stream.stream_text(delta=True, debounce_by=None)]

    assert json.loads("".join(anyio.run(pieces, "llm:llm-echo:echo")))["stream"] is True
    assert len(anyio.run(pieces, "llm:llm-markov")) >= 1


@models
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("llm:llm-echo", "no model ''. It has echo, echo-needs-key."),
        ("llm:llm-echo:ecko", "no model 'ecko'. Did you mean 'echo'?"),
        ("llm:llm-ecko", "llm has no plugin 'llm-ecko'. Did you mean 'llm-echo'?"),
        ("llm:acme", "pip install llm acme"),
        ("llm:llm-echo:echo-needs-key", "llm keys set"),
    ],
)
def test_a_model_of_llm_that_is_none_says_what_to_type(
    kernel: Kernel, name: str, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(UserError) as error:
        run(kernel.create_agent(name), "hello", create_default_deps(kernel=kernel))
    assert told in f"{error.value} {caplog.text}"


ACME = """
import json

import llm


class Seeing(llm.Model):
    model_id = "seeing"
    attachment_types = {"image/png"}

    def execute(self, prompt, stream, response, conversation=None):
        yield json.dumps([each.type for each in prompt.attachments])


class Typed(llm.Model):
    model_id = "typed"
    supports_schema = True

    def execute(self, prompt, stream, response, conversation=None):
        yield json.dumps({name: "Oslo" for name in prompt.schema["properties"]})


class Prompted(llm.Model):
    model_id = "prompted"

    def execute(self, prompt, stream, response, conversation=None):
        yield json.dumps({"city": "Oslo" if '"city"' in prompt.system else ""})


class Pieces(llm.AsyncModel):
    model_id = "pieces"

    async def execute(self, prompt, stream, response, conversation=None):
        for piece in ("one ", "two"):
            yield piece


@llm.hookimpl
def register_models(register):
    for model in (Seeing(), Typed(), Prompted()):
        register(model)
    register(None, Pieces())
"""


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A plugin of `llm`, installed below the test's folder."""
    (tmp_path / "llm_acme.py").write_text(ACME, encoding="utf-8")
    (about := tmp_path / "llm_acme-1.0.dist-info").mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: llm-acme\nVersion: 1.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text("[llm]\nacme = llm_acme\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield
    sys.modules.pop("llm_acme", None)


class City(BaseModel):
    city: str


@hosts
@pytest.mark.parametrize("model", ["typed", "prompted"])
def test_a_model_of_llm_without_tools_gives_structured_output(kernel: Kernel, acme: None, model: str) -> None:
    agent = kernel.create_agent(f"llm:llm-acme:{model}", output_type=City)
    assert run(agent, "Where?", create_default_deps(kernel=kernel)).output == City(city="Oslo")


@hosts
def test_a_picture_reaches_a_model_of_llm_that_takes_it(kernel: Kernel, acme: None) -> None:
    picture = BinaryContent(b"\x89PNG\r\n\x1a\n", media_type="image/png")
    for model, told in (("seeing", '["image/png"]'), ("typed", "does not support attachments")):
        agent = kernel.create_agent(f"llm:llm-acme:{model}")
        try:
            said = str(run(agent, ["What is this?", picture], create_default_deps(kernel=kernel)).output)
        except ModelAPIError as error:
            said = str(error)
        assert told in said


@hosts
def test_a_model_of_llm_may_be_asynchronous_alone(kernel: Kernel, acme: None) -> None:
    agent = kernel.create_agent("llm:llm-acme:pieces")
    assert run(agent, "Count.", create_default_deps(kernel=kernel)).output == "one two"


def test_only_ids_of_llm_are_asked_about() -> None:
    assert named_capabilities.deep_resolve_model("openai:gpt-5") is None
