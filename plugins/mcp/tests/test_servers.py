"""Servers as the configuration names them: each is read by itself."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from deep_mcp import FoundServer, find_servers
from deep_mcp.connection import Connection, Limits, ServerFailed
from deep_mcp.places import find_files, user_mcp_file
from deep_mcp.servers import read_server
from deep_mcp.store import Store
from deep_mcp.variables import UnsetVariable, expand, variables_in
from hypothesis import given
from hypothesis import strategies as st

from deep_core.plugin_api import ConfigFile


def read(entry: Any, name: str = "harbor", *, strict: bool = True) -> FoundServer:
    return read_server(name, entry, "here", strict=strict)


@pytest.mark.parametrize(
    ("entry", "transport"),
    [
        ({"command": "x"}, "stdio"),
        ({"type": "stdio", "command": "x"}, "stdio"),
        ({"url": "https://x.example/mcp"}, "http"),
        ({"type": "http", "url": "http://127.0.0.1:1/mcp"}, "http"),
        ({"type": "streamable-http", "url": "https://x.example"}, "http"),
        ({"type": "sse", "url": "https://x.example/sse"}, "sse"),
    ],
)
def test_a_type_says_how_to_reach_a_server(entry: Any, transport: str) -> None:
    config = read(entry).config
    assert config is not None
    assert config.transport == transport


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (7, "must be a table"),
        ({}, "a server of type http needs 'url'"),
        ({"command": ""}, "a server of type stdio needs 'command'"),
        ({"command": "x", "url": "https://x.example"}, "takes no 'url'"),
        ({"type": "http", "command": "x"}, "needs 'url'"),
        ({"type": "htpp", "url": "https://x.example"}, "Did you mean 'http'?"),
        ({"url": "ftp://x.example"}, "url must begin with https://"),
        ({"command": "x", "args": "y"}, "args must be a list of texts"),
        ({"command": "x", "args": [1]}, "args must be a list of texts"),
        ({"command": "x", "env": {"A": 1}}, "env must be a table of texts"),
        ({"command": "x", "disabled": "no"}, "disabled must be true or false"),
        ({"comand": "x"}, "unknown key 'comand'. Did you mean 'command'?"),
        ({"command": "x", "env": {"A": "${NO_SUCH_VARIABLE}"}}, "export NO_SUCH_VARIABLE=…"),
    ],
)
def test_a_wrong_entry_is_listed_with_its_reason(entry: Any, reason: str) -> None:
    found = read(entry)
    assert (found.status, found.config) == ("invalid", None)
    assert reason in found.reason
    assert found.reason.startswith("here: server 'harbor': ")


@pytest.mark.parametrize("name", ["", "a b", "-a", "a" * 41, "../a", "a\x1b[2J"])
def test_a_name_that_cannot_begin_a_tools_name_is_refused(name: str) -> None:
    found = read({"command": "x"}, name)
    assert found.status == "invalid"
    assert "\x1b" not in found.name + found.reason


def test_keys_of_other_programs_are_ignored_in_files_and_those_that_widen_never_count() -> None:
    entry = {"command": "x", "autoApprove": ["*"], "trust_annotations": True, "prefix": False}
    found = read(entry, strict=False)
    assert found.status == "ready"
    assert found.config is not None
    assert (found.config.trust_annotations, found.config.prefix) == (None, None)
    assert "autoApprove" in found.reason


@pytest.mark.parametrize(
    ("entry", "takes"),
    [
        ({"url": "https://x.example"}, True),
        ({"url": "https://x.example", "headers": {"X-Trace": "1"}}, True),
        ({"url": "https://x.example", "headers": {"authorization": "Bearer x"}}, False),
        ({"command": "x"}, False),
    ],
)
def test_a_server_at_an_address_takes_a_login_unless_its_entry_has_one(entry: dict[str, Any], takes: bool) -> None:
    config = read_server("s", entry, "test").config
    assert config is not None
    assert config.takes_login is takes


@pytest.mark.anyio
async def test_a_server_that_does_not_start_is_tried_again_after_pauses_that_double(tmp_path: Path) -> None:
    config = read_server("s", {"command": str(tmp_path / "none")}, "test").config
    assert config is not None
    connection = Connection(config, Limits(), Store(lambda: tmp_path, lambda: tmp_path), logging.getLogger("test"))
    now = 0.0
    connection.clock = lambda: now
    for pause in (1, 2, 4, 8, 16, 32, 60, 60):
        with pytest.raises(ServerFailed):
            await connection.list_tools()
        with pytest.raises(ServerFailed, match=f"the next attempt is possible in {pause} s"):
            await connection.list_tools()
        now += pause
        assert connection.can_start


def test_a_disabled_server_is_listed_and_needs_no_variables() -> None:
    found = read({"command": "${NO_SUCH_VARIABLE}", "disabled": True})
    assert found.status == "disabled"


def test_what_is_shown_of_a_server_has_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARBOR_TOKEN", "token-of-the-harbor")
    url = "https://me:password@x.example/mcp?key=${HARBOR_TOKEN}"
    config = read({"url": url, "headers": {"Authorization": "Bearer ${HARBOR_TOKEN}"}}).config
    assert config is not None
    assert config.target == "https://***@x.example/mcp"
    config = read({"command": "x", "args": ["--key", "${HARBOR_TOKEN}"]}).config
    assert config is not None
    assert config.target == "x --key ${HARBOR_TOKEN}"
    assert config.expanded({"HARBOR_TOKEN": "t"}).args == ("--key", "t")


# -- files -------------------------------------------------------------------------------------------------------------


def write(path: Path, **servers: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"mcpServers": servers}))
    return path


def statuses() -> dict[tuple[str, str], str]:
    return {(found.name, Path(found.source).name): found.status for found in find_servers({}, find_files())}


def test_the_nearest_file_of_the_project_is_read_up_to_the_repository(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project.parent / ".mcp.json", outside={"command": "x"})
    below = project / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert find_files() == []
    file = write(project / ".mcp.json", harbor={"command": "x"})
    assert [found.path for found in find_files()] == [file]
    nearest = write(project / "a" / ".mcp.json", harbor={"command": "x"})
    assert [found.path for found in find_files()] == [nearest]


def test_an_untrusted_file_is_blocked_and_cannot_hide_the_users_server(project: Path) -> None:
    file = write(project / ".mcp.json", harbor={"command": "evil"}, other={"command": "evil"})
    write(user_mcp_file(), harbor={"command": "mine"})
    assert statuses() == {
        ("harbor", ".mcp.json"): "blocked",
        ("other", ".mcp.json"): "blocked",
        ("harbor", "mcp.json"): "ready",
    }
    ConfigFile.read(file).trust()
    assert statuses() == {
        ("harbor", ".mcp.json"): "ready",
        ("other", ".mcp.json"): "ready",
        ("harbor", "mcp.json"): "shadowed",
    }


def test_the_configuration_is_stronger_than_files() -> None:
    write(user_mcp_file(), harbor={"command": "x"}, other={"command": "x"})
    found = find_servers({"harbor": {"command": "y"}}, find_files())
    assert [(server.name, server.status) for server in found] == [
        ("harbor", "ready"),
        ("harbor", "shadowed"),
        ("other", "ready"),
    ]


def test_the_users_file_needs_trust_in_a_session_that_could_write_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(user_mcp_file(), harbor={"command": "x"})
    assert list(statuses().values()) == ["ready"]
    monkeypatch.chdir(home)
    assert list(statuses().values()) == ["blocked"]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"servers": {}}', '{"mcpServers": []}', "\x00", "[" * 100_000])
def test_a_file_that_cannot_be_read_is_one_entry_with_its_reason(project: Path, content: str) -> None:
    (project / ".mcp.json").write_text(content)
    found = find_servers({}, find_files())
    assert [server.status for server in found] == ["invalid"]
    assert str(project / ".mcp.json") in found[0].reason
    assert "fix the file" in found[0].reason


# -- variables ---------------------------------------------------------------------------------------------------------


def test_variables_are_replaced_once() -> None:
    environ = {"A": "${B}", "B": "b", "EMPTY": ""}
    assert expand("${A}-${B}-${C:-c}-${EMPTY:-e}-${EMPTY}-$B-${}-${C:-}", environ) == "${B}-b-c-e--$B-${}-"
    with pytest.raises(UnsetVariable, match="export C=…"):
        expand("${C}", environ)


@given(st.text(alphabet="${}:-AB c", max_size=30), st.dictionaries(st.sampled_from("AB"), st.text(max_size=5)))
def test_expansion_ends_and_raises_only_for_an_unset_variable(text: str, environ: dict[str, str]) -> None:
    unset = {name for name in variables_in(text) if name not in environ}
    try:
        expanded = expand(text, environ)
    except UnsetVariable as error:
        unset = {error.name} - unset
        expanded = text
    assert unset == set() or ":-" in text
    if "${" not in text:
        assert expanded == text
