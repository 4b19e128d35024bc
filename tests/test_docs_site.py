"""The built site: one place for each page, copy buttons, the search, the start page, and nothing of other hosts."""

from __future__ import annotations

import fnmatch
import functools
import http.server
import importlib.util
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from selenium.webdriver.support.wait import WebDriverWait

from tests.browser import browser
from tests.docs_pages import ROOT, blocks

DOCS = ROOT / "docs"
SEARCH = """
const [worker, index, ...queries] = process.argv.slice(1)
globalThis.self = globalThis
const waiting = []
let receive
globalThis.addEventListener = (_, listener) => { receive = listener }
globalThis.postMessage = message => waiting.shift()(message)
const send = data => new Promise(done => { waiting.push(done); receive({ data }) })
require(worker)
const found = {}
const main = async () => {
  await send({ type: 0, data: { ...JSON.parse(require("fs").readFileSync(index)), options: {} } })
  for (const query of queries) {
    const { data } = await send({ type: 2, data: query })
    found[query] = data.items.map(sections => sections[0].location.split("#")[0])
  }
  console.log(JSON.stringify(found))
}
main()
"""
"""Asks the search of the built site, the script that the page runs, in Node.js."""


def settings() -> dict[str, Any]:
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("mkdocs is not installed: pip install -r requirements/dev.txt")
    return yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings()
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", target]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return target


def built(site: Path, page: Path) -> str:
    path = page.relative_to(DOCS)
    folder = path.parent if path.stem == "index" else path.with_suffix("")
    return (site / folder / "index.html").read_text(encoding="utf-8")


# -- navigation -----------------------------------------------------------------------------------------------------


def leaves(entry: Any) -> Iterator[str]:
    """The pages of a part of the navigation."""
    if isinstance(entry, str):
        yield entry
    else:
        for child in entry.values() if isinstance(entry, dict) else entry:
            yield from leaves(child)


def test_every_page_is_in_one_place() -> None:
    data = settings()
    listed = list(leaves(data["nav"]))
    hidden = [pattern.strip("/") for pattern in data["not_in_nav"].split()]
    for page in DOCS.rglob("*.md"):
        path = page.relative_to(DOCS).as_posix()
        places = listed.count(path) + any(fnmatch.fnmatch(path, pattern) for pattern in hidden)
        assert places == 1, f"{path} is in {places} places of mkdocs.yml: nav or not_in_nav, once"
    assert all((DOCS / path).is_file() for path in listed)


def test_the_navigation_has_four_parts_and_decisions_stand_under_project() -> None:
    parts = {name: list(leaves(below)) for entry in settings()["nav"] for name, below in entry.items()}
    assert list(parts) == ["Home", "Tutorial", "Guides", "Reference", "Project"]
    assert [name for name, pages in parts.items() if "decisions/index.md" in pages] == ["Project"]
    assert {path for path in parts["Reference"] if path.startswith(("hooks/", "reference/"))} == {
        page.relative_to(DOCS).as_posix() for folder in ("hooks", "reference") for page in (DOCS / folder).glob("*.md")
    }


def test_a_page_outside_the_navigation_is_linked_from_one_inside() -> None:
    data = settings()
    listed = [DOCS / path for path in leaves(data["nav"])]
    links = {
        (page.parent / target).resolve()
        for page in listed
        for target in re.findall(r"\]\(([\w./-]+\.md)", page.read_text(encoding="utf-8"))
    }
    assert {page for page in DOCS.rglob("*.md") if page not in listed} <= links


# -- copy buttons -----------------------------------------------------------------------------------------------------


class Blocks(HTMLParser):
    """The highlighted blocks of a page: language, and what the button copies."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []
        self._language, self._copy, self._shown, self._inside = "", None, "", False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        classes = (values.get("class") or "").split()
        if tag == "div" and "highlight" in classes:
            languages = [name.removeprefix("language-") for name in classes if name.startswith("language-")]
            self._language, self._copy = "".join(languages), values.get("data-copy")
        elif tag == "code" and self._language:
            self._inside, self._shown = True, ""

    def handle_data(self, data: str) -> None:
        if self._inside:
            self._shown += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "code" and self._inside:
            self.found.append((self._language, self._shown if self._copy is None else self._copy))
            self._inside, self._language = False, ""


def copied(text: str) -> list[tuple[str, str]]:
    parser = Blocks()
    parser.feed(text)
    return parser.found


@pytest.mark.exhaustive  # it builds the site
def test_what_is_copied_of_commands_can_be_pasted(site: Path) -> None:
    number = 0
    for page in DOCS.rglob("*.md"):
        consoles = [block.code for block in blocks(page) if block.language in ("console", "bash")]
        pasted = [text for language, text in copied(built(site, page)) if language in ("console", "bash")]
        assert len(pasted) == len(consoles), page
        for code, text in zip(consoles, pasted, strict=True):
            prompts = [line[2:] for line in code.splitlines() if line.startswith("$ ")]
            typed = prompts or [line for line in code.splitlines() if line and not line.startswith("#")]
            assert len(text.splitlines()) == len(typed), f"{page}: {code}"
            assert all(line.startswith(one) for line, one in zip(typed, text.splitlines(), strict=True)), page
            assert " # " not in text, page  # zsh takes a comment for arguments
            subprocess.run(["bash", "-n"], input=text, text=True, check=True)
            number += 1
    assert number > 50


@pytest.mark.exhaustive  # it builds the site
def test_what_is_copied_of_python_compiles_and_holds_no_output(site: Path) -> None:
    number = 0
    for page in DOCS.rglob("*.md"):
        signatures = page.parent.name == "reference"  # drawn from docstrings, and no programs
        for language, text in copied(built(site, page)):
            if language == "python" and not signatures:
                compile(text, str(page), "exec", dont_inherit=True)
                assert "#>" not in text, page
                number += 1
    assert number > 100


# -- search -----------------------------------------------------------------------------------------------------------

FIRST = {
    "approvals": "approvals/",
    "backends": "backends-and-files/",
    "configuration": "configuration/",
    "approval": "approvals/",
    "docker": "backends-and-files/",
    "editors": "editors/",
    "hooks": "hooks/",
    "install": "installing-plugins/",
    "mcp": "mcp/",
    "memory": "memory/",
    "models": "models/",
    "plan mode": "plan-mode/",
    "workers": "durability/",
    "security": "security/",
    "sessions": "sessions/",
    "skills": "skills/",
    "subagents": "subagents/",
    "todos": "todos/",
    "tracing": "tracing/",
    "uploads": "uploads/",
}
"""What a reader types -> the page that comes first."""


LATER = ("decisions/", "reference/", "architecture/", "how-plugins-work/", "plugins/")
"""Pages that explain why or list everything: guides come before them."""
QUESTIONS = {
    "always approve a command": "terminal/",
    "resume a session": "terminal/ sessions-resume/",
    "add an MCP server": "mcp/",
    "use ollama": "models/",
    "write a plugin": "first-plugin/",
    "limit the cost": "sessions/",
    "approve over http": "approvals-over-http/",
    "read a pdf": "backends-and-files/",
    "undo a change": "terminal/",
    "turn a plugin off": "installing-plugins/",
}
"""What a newcomer types -> the guide that is among the first three pages; for one of them, there are two guides."""


def searched(site: Path, queries: Iterable[str]) -> dict[str, list[str]]:
    """The pages that the search of the built site finds, best first."""
    (worker,) = (site / "assets" / "javascripts" / "workers").glob("search.*.js")
    index = site / "search" / "search_index.json"
    command = ["node", "-e", SEARCH, worker, index, *queries]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.needs("npm")
@pytest.mark.exhaustive  # it builds the site
def test_the_search_answers_the_questions_of_newcomers_with_a_guide(site: Path) -> None:
    found = searched(site, QUESTIONS)
    missed = {
        query: found[query][:4] for query, guides in QUESTIONS.items() if not {*guides.split()} <= {*found[query][:3]}
    }
    assert missed == {}


@pytest.mark.needs("npm")
@pytest.mark.exhaustive  # it builds the site
def test_the_search_finds_the_page_and_not_the_decision(site: Path) -> None:
    found = searched(site, FIRST)
    assert {query: places[:1] for query, places in found.items()} == {query: [page] for query, page in FIRST.items()}
    for query, places in found.items():
        later = [place.startswith(LATER) for place in places]
        assert later == sorted(later), f"{query}: {places}"
    assert any(place.startswith("decisions/") for place in found["sessions"])  # they are found, last


# -- the start page, and the rest -------------------------------------------------------------------------------------


@pytest.mark.exhaustive  # it builds the site
def test_the_start_page_shows_name_mark_picture_why_and_how_to_install(site: Path) -> None:
    page = built(site, DOCS / "index.md")
    hero = page.partition('<div class="hero">')[2].partition("<h2")[0]
    assert re.search(r"<h1[^>]*>.*?assets/logo\.svg.*?deep.*?</h1>", hero, re.S)
    assert hero.count("<li>") == 3
    assert 'src="assets/demo.svg"' in hero
    install = copied(page)[0]
    assert install == ("console", "make demo\n. .venv/bin/activate\ndeep\ndeep web\n")


@pytest.mark.exhaustive  # it builds the site
def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="https?://', text), page
    assert "http" not in re.sub(r"/\*.*?\*/", "", (DOCS / "assets" / "site.css").read_text(encoding="utf-8"))


@pytest.mark.needs("Chromium")
@pytest.mark.exhaustive  # the copies themselves are tested above
@pytest.mark.exhaustive  # it builds the site
def test_the_button_copies_what_the_page_gives_it(site: Path, tmp_path: Path) -> None:
    handler = functools.partial(QuietHandler, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, browser(tmp_path / "profile") as chrome:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            chrome.get(f"http://127.0.0.1:{server.server_port}/publishing/")
            script = "document.addEventListener('copy', () => { window.copied = document.activeElement.value })"
            chrome.execute_script(script)
            (block,) = [b for b in chrome.find_elements("css selector", "pre") if "$ deep plugins list" in b.text]
            button = WebDriverWait(chrome, 60).until(
                lambda _: block.find_elements("xpath", "..//button[contains(@class, 'md-c')]")
            )[0]
            chrome.execute_script("arguments[0].scrollIntoView({block: 'center'})", button)
            button.click()  # chromium lets no script copy that no user asked
            text = WebDriverWait(chrome, 60).until(lambda _: chrome.execute_script("return window.copied"))
            assert text.strip() == "deep plugins list"
        finally:
            server.shutdown()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed between the tests."""
