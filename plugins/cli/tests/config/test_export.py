"""`deep config export --agent`: the configuration in effect is an agent as data, and that file is the same agent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deep_cli.config.exporting import agent_document, as_text
from deep_sessions import config_digest, load_agent

from deep_core import Kernel
from deep_core.plugin_api import read_agent_config
from tests.stubs import OpenAIStub, Script

TOML = """
[agent]
tool_filter = "read"
interrupt_on = { read_file = true }
prompt.system = "You review."
loop = { max_iterations = 9, max_tool_rounds = 5 }
model.thinking = "low"
model.provider = "openai-chat"
model.model = "stub"

[plugins]
disable = ["todo"]

[plugins.filesystem]
require_approval = "name:glob"
options = { read_lines = 7 }

[plugins.mcp.options.servers.notes]
command = "notes"
env = { PASSWORD = "hunter2hunter2", PLACE = "${PLACE}" }
"""

ODD = """
agent.model = "openai:gpt-x"

[plugins.acme.options]
since = 2026-01-02
at = [10:00:00]
most = inf
auth_env = "ACME_TOKEN"
password_env = "hunter2"
"""


@pytest.fixture
def deep(make_deep: Any) -> Any:
    """The command, in a folder with that configuration."""
    found = make_deep("backends", "filesystem", "todo")
    (found.work / "deep.toml").write_text(TOML, encoding="utf-8")
    return found


@pytest.mark.slow
def test_the_file_is_the_same_agent_in_another_folder(deep: Any) -> None:
    deep("config", "trust").ok()
    done = deep("config", "export", "--agent", "agent.json").ok()
    assert done.out == "Wrote agent.json: deep run TASK --agent agent.json\n"
    assert "left out: plugins.mcp.options.servers.notes.env.PASSWORD" in done.err
    text = (deep.work / "agent.json").read_text("utf-8")
    assert "hunter2" not in text
    assert '"PLACE": "${PLACE}"' in text
    again = deep("config", "export", "--agent", "agent.json")
    assert (again.code, (deep.work / "agent.json").read_text("utf-8")) == (1, text)
    (other := deep.work / "other").mkdir()
    (deep.work / "deep.toml").rename(deep.work / "away.toml")
    requests: list[Any] = []
    for how in (["--config", "../away.toml"], ["--agent", "../agent.json"]):
        with OpenAIStub(Script("Hi.")) as stub:
            done = deep.piped("", "run", "Go.", *how, cwd=other, env=stub.env).ok()
            requests += stub.requests
        assert ("--agent ../agent.json" in done.err) == (how[0] == "--agent")  # the line that continues it
    configured, read = ({tool["function"]["name"] for tool in each["tools"]} for each in requests)
    assert configured == read
    assert "glob" in read
    assert not {"write_file", "write_todos"} & read
    systems = [each["messages"][0]["content"] for each in requests]
    assert all(each.startswith("You review.") for each in systems)


@pytest.mark.anyio
async def test_the_digest_is_the_same(tmp_path: Path) -> None:
    file = tmp_path / "deep.toml"
    file.write_text(TOML, encoding="utf-8")
    with Kernel(config=file) as kernel:
        document, left_out = agent_document(kernel)
        before = config_digest(read_agent_config(kernel.config))
    assert left_out == ["plugins.mcp.options.servers.notes.env.PASSWORD"]
    (tmp_path / "agent.json").write_text(json.dumps(document), encoding="utf-8")
    own = await load_agent("agent.json", str(tmp_path))
    assert own.kernel is not None
    assert config_digest(read_agent_config(own.kernel.config)) == before


@pytest.mark.anyio
@pytest.mark.parametrize("as_json", [True, False])
async def test_exported_again_the_file_is_the_same(as_json: bool, tmp_path: Path) -> None:
    file, agent = tmp_path / "deep.toml", tmp_path / ("agent.json" if as_json else "agent.yaml")
    file.write_text(TOML.replace(', PASSWORD = "hunter2hunter2"', ""), encoding="utf-8")
    with Kernel(config=file) as kernel:
        agent.write_text(as_text(agent_document(kernel)[0], as_json=as_json), encoding="utf-8")
    own = await load_agent(agent.name, str(tmp_path))
    assert isinstance(own.kernel, Kernel)
    assert as_text(agent_document(own.kernel)[0], as_json=as_json) == agent.read_text("utf-8")


@pytest.mark.filterwarnings("ignore::deep_core.PluginWarning")
def test_what_json_lacks_becomes_text_or_is_named_and_names_of_variables_stay(tmp_path: Path) -> None:
    (file := tmp_path / "deep.toml").write_text(ODD, encoding="utf-8")
    with Kernel(config=file) as kernel:
        document, left_out = agent_document(kernel)
    options = {"since": "2026-01-02", "at": ["10:00:00"], "auth_env": "ACME_TOKEN"}
    assert document["deep"]["plugins"]["acme"] == {"options": options}
    assert "agent" not in document["deep"]  # its model is at the top
    assert left_out == ["plugins.acme.options.most", "plugins.acme.options.password_env"]
    assert json.loads(as_text(document, as_json=True)) == document


@pytest.mark.slow
def test_what_a_project_without_trust_adds_is_named_and_other_names_are_refused(deep: Any) -> None:
    done = deep("config", "export", "--agent", "-").ok()
    for key in ("agent.tool_filter", "plugins.filesystem.options.read_lines"):
        assert f"left out: {deep.work / 'deep.toml'} (not trusted): {key}\n" in done.err
    assert not any(said in done.out for said in ("openai", "read_lines", "options"))
    assert deep("config", "export", "--agent", "agent.txt").code == 2
