"""Every example runs by itself, offline, in an empty home, and prints what it is there to show."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import another_process
from tests.docs_pages import readers_environment

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
SHOWS = {
    "basic.py": [
        "The packing list is in packing.md.",
        "Two things: a passport and a raincoat.",
        "todos: ['Write the packing list (in_progress)']",
        "1 request in the second turn",
    ],
    "streaming.py": [
        "-> write_file {'path': 'haiku.txt', 'content': 'Rain\\n'}",
        "<- Created haiku.txt: 1 line.",
        "[the answer came in 8 pieces, after 2 requests]",
    ],
    "chat.py": [
        "run execute {'command': 'echo 3 files'}? [y/N] [execute: 3 files]",
        "So much for the shell.",
        "> You are welcome.",
        "bye",
    ],
    "real_files.py": [
        "edit_file (failed): settings.ini exists and you have not read it.",
        "edit_file (success): Edited settings.ini: 1 replacement, line 2.",
        "read_file (failed): ../secret.txt",
        "on disk: b'[server]\\r\\nport = 8080\\r\\n'",
    ],
    "memory_and_disk.py": [
        "on disk: ['report.md']",
        "in memory: {'/workspace/draft.md': 'first thoughts\\n'}",
    ],
    "custom_tools.py": [
        "celsius: 10.0",
        "in_stock: 3",
        "waits for a person: [('order', {'article': 'umbrella', 'number': 20})]",
    ],
    "subagents.py": [
        "report: The notes are about umbrellas.",
        "report: There is 1 file.",
        "report: Under One Roof",
        "8 requests, the subagents' included",
    ],
    "skills.py": [
        "approved: python3 scripts/check.py 2026-0417-5",
        "execute: the last digit must be 1",
        "read_skill_resource: `2026-0417-1`: the year, the running number",
        "in use: ['invoice-numbers']",
    ],
    "uploads.py": [
        "refused: video.mp4: 2.0 KB or more is too large",
        "uploads/sales.csv: 76 bytes, 3 lines, text/csv, utf-16",
        "uploads/invoice 7.txt: 18 bytes, 1 lines, text/plain, utf-8",
        "  but named .png, content is a PDF document",
    ],
    "research_agent.py": [
        "the site was asked for /tides",
        "High tide is at **14:20**.\n</web_page>",  # what the model read: Markdown of the page
        "the site was asked for /winds",  # by the subagent
        "task: Hardly any wind.",
        "remember: Remembered in sailing.",
        "recall: sailing: High tide at 14:20, hardly any wind.",
    ],
    "data_agent.py": [
        "read_file: [uploads/sales.xlsx: Excel workbook",
        "2\tjanuary\t120\n3\tfebruary\t80\n",
        "execute: sum 200",
        "in the sandbox: sum 200 | outside: False",
    ],
    "long_conversation.py": [
        "18 messages were sent and received; the history never had more than 10",
        "The user's first request, word for word:\nI plan a trip to Oslo in May, for 900 euros.",
        "kept: 2 files",
    ],
    "embed_script.py": ["january,120", "January was best: 120."],
    "embed_server_sessions.py": [
        "5 sessions, 1 kind of first answer: I have started a list.",
        "then: Your list has one open item.",
        "ann: ['book a flight']",
    ],
    "per_tenant_kernels.py": [
        "acme: plugins backends, weather; tools forecast",
        "Oslo: 21 degrees celsius",
        "Unknown tool name: 'forecast'",
    ],
    "custom_plugin.py": [
        "state: ['Oslo']",
        "section weather.asked: 0 characters, live: True",
        "tool forecast of weather: read, network, asks: never",
    ],
    "approvals.py": ["tool: paid 90 to Ann; agent:", "tool: 90 is too much; agent:"],
    "structured_output.py": ["Invoice: Acme 129.50", "2 requests"],
    "docker_sandbox.py": ["execute: 5050", "The sum is 5050.", "remove it with: docker rm -f "],
}
TYPED = {"chat.py": "how many files?\ny\nthanks\n"}
"""What a person types into an example."""
NOT_RUN = {"scripted.py"}
"""Imported by the others."""
NEEDS = {"docker_sandbox.py": "Docker", "data_agent.py": "bubblewrap"}
"""What an example needs that a machine may lack (tests.needs)."""
SAMPLE = ("basic.py", "approvals.py", "custom_plugin.py", "embed_script.py")
"""What `make test` runs; `make test-nightly` runs every example."""


def run(name: str, home: Path, typed: str = "") -> subprocess.CompletedProcess[str]:
    """One example, as a reader with everything installed would start it."""
    return another_process.run(EXAMPLES / name, cwd=home, env=readers_environment(home), stdin=typed)


def test_every_example_is_run_and_listed() -> None:
    there = {path.name for path in EXAMPLES.glob("*.py")}
    assert there == {*SHOWS, *NOT_RUN}
    listed = re.findall(r"^\| \[(\w+\.py)\]\((\w+\.py)\)", (EXAMPLES / "README.md").read_text(encoding="utf-8"), re.M)
    assert sorted(listed) == sorted((name, name) for name in there)


@pytest.mark.parametrize("name", SHOWS)
def test_an_example_says_how_to_run_it(name: str) -> None:
    assert f"python examples/{name}" in (EXAMPLES / name).read_text(encoding="utf-8").split('"""')[1]


def marks(name: str) -> list[pytest.MarkDecorator]:
    needs = [pytest.mark.needs(NEEDS[name])] if name in NEEDS else []
    return [*needs, *([] if name in SAMPLE else [pytest.mark.exhaustive])]


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(name, marks=marks(name)) for name in SHOWS])
def test_an_example_shows_what_it_says(name: str, tmp_path: Path) -> None:
    result = run(name, tmp_path, TYPED.get(name, ""))
    assert result.returncode == 0, result.stderr[-4000:]
    for line in SHOWS[name]:
        assert line in result.stdout, result.stdout + result.stderr
    assert result.stderr == ""  # no warning either


@pytest.mark.slow
def test_the_memory_of_the_research_agent_is_a_file(tmp_path: Path) -> None:
    assert run("research_agent.py", tmp_path).returncode == 0
    kept = [path.read_text(encoding="utf-8") for path in tmp_path.rglob("memory/**/*.md")]
    assert [text.splitlines()[-1] for text in kept] == ["- High tide at 14:20, hardly any wind."]


@pytest.mark.slow
def test_a_refusal_in_the_chat_reaches_the_agent(tmp_path: Path) -> None:
    result = run("chat.py", tmp_path, "how many files?\nn\n\n")
    assert result.returncode == 0, result.stderr[-4000:]
    assert "[execute: The user said no.]" in result.stdout
    assert "3 files]" not in result.stdout


@pytest.mark.exhaustive
def test_an_example_asks_the_model_that_is_named(tmp_path: Path) -> None:
    # By a fresh interpreter: what imports themselves print or warn of would be seen here.
    result = subprocess.run(
        [sys.executable, EXAMPLES / "basic.py"],
        cwd=tmp_path,
        env=readers_environment(tmp_path) | {"DEEP_MODEL": "demo:echo"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr[-4000:]
    assert result.stdout.splitlines()[0] == "Make me a packing list for Oslo."
    assert result.stderr == ""
