"""`deep plugins search`: the list that comes with deep, and an index that may not answer."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from click.testing import CliRunner, Result
from deep_cli.plugins.command import plugins
from deep_cli.plugins.search import known_plugins

from tests.environments import REPOSITORY

SIMPLE = "application/vnd.pypi.simple.v1+json"
METADATA = (
    "Metadata-Version: 2.3\nName: {name}\nVersion: 2.0\nSummary: Tides\x1b[2J of ports.\nKeywords: {keywords}\n\nText\n"
)


class Index(BaseHTTPRequestHandler):
    """An index with three distributions; `kind` is the type of what it answers, `asked` are the requests' paths."""

    kind = SIMPLE
    asked: list[tuple[str, str]]

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers.get("Authorization", "")))
        pages: dict[str, tuple[str, Any]] = {}
        for name, keywords in (("tides", "deep-plugin,agent"), ("deep-tides", "agent"), ("deep-moon", "deep-plugin")):
            old = {"url": f"/files/{name}-1.0.whl", "core-metadata": True, "yanked": False}
            bad = {"url": f"/files/{name}-3.0.whl", "core-metadata": True, "yanked": "broken"}
            new = {"url": f"../../files/{name}-2.0.whl", "core-metadata": {"sha256": "0"}, "yanked": False}
            pages[f"/simple/{name}/"] = (self.kind, json.dumps({"files": [old, new, bad, {"url": "x.tar.gz"}]}))
            pages[f"/files/{name}-2.0.whl.metadata"] = ("text/plain", METADATA.format(name=name, keywords=keywords))
        kind, text = pages.get(self.path, ("", ""))
        self.send_response(200 if kind else 404)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def index() -> Iterator[ThreadingHTTPServer]:
    Index.asked, Index.kind = [], SIMPLE
    with ThreadingHTTPServer(("127.0.0.1", 0), Index) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def url(index: ThreadingHTTPServer, login: str = "") -> str:
    return f"http://{login}127.0.0.1:{index.server_port}/simple"


def search(*words: str) -> Result:
    return CliRunner().invoke(plugins, ["search", *words])


def test_the_list_is_searched_by_every_word() -> None:
    done = search("TODO", "list", "--offline")
    assert done.output.splitlines()[0].startswith("deep-todo  ")
    assert done.output.splitlines()[-1] == "Install one: deep plugins install deep-todo"
    nothing = search("todo", "moon", "--offline")
    assert (nothing.exit_code, nothing.stdout) == (1, "")
    assert nothing.stderr == "No plugin found for todo moon\n"


def test_the_index_is_asked_for_names_with_the_keyword(index: ThreadingHTTPServer) -> None:
    found = json.loads(search("Tides", "--json", "--index", url(index)).stdout)
    assert [(each["distribution"], each["version"]) for each in found["plugins"]] == [("tides", "2.0")]
    assert found["problem"] == ""
    shown = search("moon", "--index", url(index, "me:geheim@")).output
    assert "deep-moon  2.0\n  Tides\\x1b[2J of ports.\n" in shown
    assert {login for path, login in Index.asked if "moon" in path} == {"Basic bWU6Z2VoZWlt"}


@pytest.mark.parametrize("kind", ["text/html", "closed"])
def test_without_an_index_the_list_is_all_and_one_line_says_so(index: ThreadingHTTPServer, kind: str) -> None:
    Index.kind = kind
    where = url(index, "me:geheim@")
    if kind == "closed":
        index.shutdown()
        index.server_close()
    done = search("todo" if kind == "closed" else "tides", "--index", where)
    assert len([line for line in done.stderr.splitlines() if "index was not searched" in line]) == 1
    assert "geheim" not in done.output
    assert done.exit_code == (0 if kind == "closed" else 1)


@pytest.mark.parametrize("address", ["file:///etc", "ftp://example.com", "nonsense", "http://["])
def test_an_address_that_is_none_is_reported(address: str) -> None:
    done = search("todo", "--index", address)
    assert (done.exit_code, done.stderr.count("The index was not searched: ")) == (0, 1)


def test_every_plugin_is_in_the_list_and_has_the_keyword() -> None:
    projects = [
        tomllib.loads(path.read_text("utf-8"))["project"]
        for path in sorted(REPOSITORY.glob("plugins/*/pyproject.toml"))
    ]
    with_points = {each["name"]: each for each in projects if "deep" in "".join(each.get("entry-points", {}))}
    assert {each["distribution"] for each in known_plugins() if not each.get("others")} == with_points.keys()
    assert [name for name, each in with_points.items() if "deep-plugin" not in each.get("keywords", ())] == []
    template = Path(REPOSITORY, "cookiecutter-plugin", "{{cookiecutter.distribution}}", "pyproject.toml")
    assert '"deep-plugin"' in template.read_text("utf-8")
