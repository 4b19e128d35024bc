"""Parts of the commands, tested without a process."""

from __future__ import annotations

import asyncio
import io
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from deep_backends import memory_backend
from deep_cli import Decision, Reporter, RunReport, TerminalReporter, run_task
from deep_cli.errors import explain_error
from deep_cli.failure import Failure
from deep_cli.run.approval import Answer, Question, questions
from deep_cli.run.changes import FileChange, compare, snapshot
from deep_cli.terminal.screen import looks_secret, one_line, redact
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic_ai import DeferredToolRequests, RunContext
from pydantic_ai.messages import ToolCallPart

from deep_core import AgentContext, PromptSection, hookimpl
from deep_core.plugin_api import visible
from tests.stubs import Call, Script, function_model


@given(st.text(st.characters()))
@example("gr\udcfc\udcdfe")
def test_nothing_that_a_terminal_obeys_gets_through(text: str) -> None:
    shown = visible(text)
    assert all(char in "\n\t" or ord(char) >= 32 for char in shown)
    assert not set(shown) & set("\x7f\x9b\u202e\u2066\u2028")
    assert shown.encode().decode() == shown
    assert visible(shown) == shown


@given(st.text(), st.integers(10, 200))
def test_one_line_is_one_line_of_at_most_its_width(text: str, width: int) -> None:
    shown = one_line(text, width)
    assert len(shown) <= width
    assert "\n" not in shown


@pytest.mark.parametrize(
    "name",
    [
        *("OPENAI_API_KEY", "token", "db.password", "ACME_SECRET", "auth_token", "dsn", "AWS_SECRET_ACCESS_KEY"),
        *("PGPASSWORD", "MYSQL_PWD", "GITHUB_PAT", "REDIS_PASS", "SMTP_PASSWD", "db.pass", "passwords"),
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize(
    "name",
    ["PWD", "OLDPWD", "PATH", "max_tokens", "monkey", "keyboard", "tokens_used", "author", "HOME", "compass", "bypass"],
)
def test_names_of_no_secrets(name: str) -> None:
    assert not looks_secret(name)


def test_values_of_secret_variables_and_passwords_in_addresses_are_masked() -> None:
    environ = {"X_TOKEN": "abcdef-1", "PWD": "/a/folder", "SHORT_KEY": "x"}
    text = "abcdef-1 in /a/folder, x, https://u:p@h/ and git+https://token@h/x, me@h"
    assert redact(text, environ) == "*** in /a/folder, x, https://***@h/ and git+https://***@h/x, me@h"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("PGPASSWORD=canary psql -h db", "PGPASSWORD=*** psql -h db"),
        ("MYSQL_PWD='can ary' REDIS_PASS=\"canary\" x", "MYSQL_PWD=*** REDIS_PASS=*** x"),
        ("curl --api-key=canary https://h/?token=canary&page=2", "curl --api-key=*** https://h/?token=***&page=2"),
        ("https://canary@host and https://u:can@ary@host/a@b", "https://***@host and https://***@host/a@b"),
        ("GITHUB_PAT=canary; redis://:canary@h:1/0", "GITHUB_PAT=***; redis://***@h:1/0"),
        ("export OPENAI_API_KEY=…", "export OPENAI_API_KEY=…"),
        ("set it (export OPENAI_API_KEY=…), or", "set it (export OPENAI_API_KEY=…), or"),
        ("export OPENAI_API_KEY=…sk-12345", "export OPENAI_API_KEY=***"),
        ("unit=celsius max_tokens=5 git@github.com:a/b", "unit=celsius max_tokens=5 git@github.com:a/b"),
    ],
)
def test_secrets_in_commands_and_addresses_are_masked(text: str, shown: str) -> None:
    assert redact(text, {}) == shown


def test_a_line_about_a_call_masks_secrets() -> None:
    stream = io.StringIO()
    TerminalReporter(stream=stream).decided(
        Decision("execute", "filesystem", {"command": "PGPASSWORD=canary psql"}, True, "allow")
    )
    assert "$ PGPASSWORD=*** psql" in stream.getvalue()


def test_masking_takes_time_that_grows_with_the_text() -> None:
    """Limited by CPU time, which a busy machine does not change: in quadratic time one of these takes minutes."""
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_CPU, (20, 20))\n"
        "from deep_cli.terminal.screen import redact\n"
        "from deep_core.plugin_api import visible\n"
        "for text in ('a', '://', ':', 'a://', '://a', '@', 'x:', '-a', '\\u2764\\ufe0f'):\n"
        "    redact(text * 300_000, {}), visible(text * 300_000)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 3)),
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 3)),
)
def test_every_difference_of_two_folders_is_found_and_nothing_else(before: Any, after: Any) -> None:
    found = compare({k: (v, 0, 0) for k, v in before.items()}, {k: (v, 0, 0) for k, v in after.items()})
    assert {c.path for c in found} == {k for k in before.keys() | after.keys() if before.get(k) != after.get(k)}
    assert all((c.change == "added") == (c.path not in before) for c in found)
    assert all((c.change == "removed") == (c.path not in after) for c in found)


def test_a_folder_is_looked_at_without_following_links_and_without_what_tools_keep(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("a")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "index").write_text("x")
    (tmp_path / ".git" / "hooks").mkdir()
    (tmp_path / ".git" / "objects").mkdir()
    for name in ("config", "hooks/pre-commit", "objects/ab"):
        (tmp_path / ".git" / name).write_text("x")
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    assert set(snapshot(tmp_path) or ()) == {
        *("src/a.py", "loop", "broken"),
        *(".git/config", ".git/hooks/pre-commit"),  # what runs at the next git command
    }
    assert snapshot(tmp_path, most=2) is None


def test_errors_of_missing_packages_say_what_to_install() -> None:
    error = ImportError('Please install `groq` … — `pip install "pydantic-ai-slim[groq]"`')
    assert "pip install 'pydantic-ai-slim[groq]'" in explain_error(error).message


def test_a_group_of_errors_is_reported_by_its_first() -> None:
    assert explain_error(ExceptionGroup("many", [ValueError("one"), ValueError("two")])).message == "ValueError: one"


def test_a_file_too_large_to_compare_is_asked_about_by_its_arguments(tmp_path: Path) -> None:
    asked: list[Question] = []

    def ask(question: Question) -> Answer:
        asked.append(question)
        return "no"

    (tmp_path / "config.toml").write_text("[agent]\ninterrupt_on = { write_file = true }\n")
    calls = [Call("write_file", {"path": name, "content": "x" * size}) for name, size in (("a", 5), ("b", 500_000))]
    script = Script(calls, "fine")
    run_task("Go", model=function_model(script), folder=tmp_path, config=tmp_path / "config.toml", ask=ask)
    small, large = asked
    assert small.diff is not None
    assert "+xxxxx" in small.diff
    assert (large.diff, len(large.args["content"])) == (None, 500_000)


class Typed(io.StringIO):
    """The text that a person typed."""

    def isatty(self) -> bool:
        return True


def test_a_diff_makes_up_no_line_and_hides_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deep_cli.run.task_screen.forget_typed", Typed.isatty)  # which asks a real terminal
    (tmp_path / "config.toml").write_text("[agent]\ninterrupt_on = { write_file = true }\n")
    (tmp_path / "windows.txt").write_bytes(b"red\r\nblue\r\n")
    shown = io.StringIO()
    reporter = TerminalReporter(stream=shown, replies=Typed("n\n\nn\n\n"))
    calls = [
        Call("write_file", {"path": "new.txt", "content": "safe\u2028-not a line\n"}),
        Call("write_file", {"path": "windows.txt", "content": "red\ngreen\n"}),
    ]
    model = function_model(Script([Call("read_file", {"path": "windows.txt"})], calls, "fine"))
    run_task("Go", model=model, folder=tmp_path, config=tmp_path / "config.toml", ask=reporter.ask)
    lines = [line.strip() for line in shown.getvalue().splitlines()]
    assert "+safe\\u2028-not a line" in lines
    assert [line for line in lines if "red" in line or "blue" in line] == ["red", "-blue"]


class Interrupted(io.StringIO):
    """A screen on which Ctrl-C is typed the moment some text appears, before the command waits for an answer."""

    def __init__(self, at: str) -> None:
        super().__init__()
        self._at = at

    def write(self, text: str) -> int:
        written = super().write(text)
        if self._at and self._at in self.getvalue():
            self._at = ""
            signal.raise_signal(signal.SIGINT)
        return written


@pytest.mark.parametrize("at", ["wants to run", "command: rm x", "or say why not: "])
def test_ctrl_c_while_a_question_is_written_shows_it_once_and_ends_its_line(
    at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deep_cli.run.task_screen.forget_typed", Typed.isatty)  # which asks a real terminal
    shown = Interrupted(at)
    reporter = TerminalReporter(stream=shown, replies=Typed("y\n"))
    assert reporter.ask is not None
    with pytest.raises(KeyboardInterrupt):
        reporter.ask(Question("c1", "execute", "filesystem", {"command": "rm x"}))
    reporter.decided(Decision("execute", "filesystem", {"command": "rm x"}, False, "unanswered"))
    text = shown.getvalue()
    assert text.count("wants to run") == text.count("command: rm x") == 1
    assert not [line for line in text.splitlines() if "run it?" in line and not line.endswith("or say why not: ")]


# -- the public function -----------------------------------------------------------------------------------------------


class Listening(Reporter):
    def __init__(self) -> None:
        self.heard: list[str] = []

    def begin(self, task: str, model: str, backend: str, folder: Path) -> None:
        self.heard.append(f"begin {task} in {folder.name}")

    def decided(self, decision: Decision) -> None:
        self.heard.append(f"{decision.tool} {decision.approved} {decision.by}")

    def end(self, report: RunReport) -> None:
        self.heard.append(report.status)


def test_run_task_works_in_a_folder_with_a_model_of_the_callers_and_gives_the_folder_back(tmp_path: Path) -> None:
    before = Path.cwd()
    listening = Listening()
    script = Script(
        Call("write_file", {"path": "new.txt", "content": "x"}), Call("execute", {"command": "rm new.txt"}), "fine"
    )
    report = run_task(
        "Go",
        model=function_model(script),
        folder=tmp_path,
        ask=lambda question: "yes" if question.tool == "write_file" else "no",
        reporter=listening,
    )
    assert (report.status, report.exit_code, report.output) == ("refused", 3, "fine")
    assert report.files == (FileChange("new.txt", "added"),)
    assert [step.tool for step in report.steps] == ["write_file"]
    heard = ["write_file True you", "execute False you", "refused"]
    assert listening.heard == [f"begin Go in {tmp_path.name}", *heard]
    assert Path.cwd() == before


def test_run_task_measures_the_prompt_unless_it_is_told_not_to(tmp_path: Path) -> None:
    class Counting:
        asked = 0

        @hookimpl
        def deep_prompt_sections(self, context: AgentContext) -> list[PromptSection]:
            return [PromptSection.live("counted", self.text)]

        async def text(self, ctx: RunContext[Any]) -> str:
            self.asked += 1
            return "Count."

    asked: dict[bool, int] = {}
    for measure in (True, False):
        counting = Counting()
        model = function_model(Script("fine"))
        report = run_task("Go", model=model, folder=tmp_path, plugins=[counting], measure=measure)
        assert (report.prompt is not None) is measure
        asked[measure] = counting.asked
    assert asked[False] == 1 < asked[True]


def test_run_task_raises_before_anything_is_sent_what_is_wrong_before_it(tmp_path: Path) -> None:
    listening = Listening()
    with pytest.raises(Failure, match="no model"):
        run_task("Go", reporter=listening)
    assert listening.heard == []


def test_a_run_that_fails_is_a_report_with_what_happened_until_then(tmp_path: Path) -> None:
    def fail(view: Any) -> str:
        raise ArithmeticError("the line went dead")  # not sent again, as a ConnectionError is

    script = Script(Call("write_file", {"path": "new.txt", "content": "x"}), fail)
    report = run_task("Go", model=function_model(script), folder=tmp_path)
    assert (report.status, report.exit_code) == ("failed", 1)
    assert report.error is not None
    assert "the line went dead" in report.error
    assert report.files == (FileChange("new.txt", "added"),)
    assert isinstance(report.exception, ArithmeticError)
    assert report.prompt is None


def test_a_screen_without_utf_8_shows_letters(tmp_path: Path) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", errors="strict", write_through=True)
    script = Script(Call("ls", {}), "fine")
    run_task("Go", model=function_model(script), folder=tmp_path, reporter=TerminalReporter(stream=stream))
    assert b"+ ls" in raw.getvalue()


def test_brackets_in_what_a_tool_wrote_are_no_markup(tmp_path: Path) -> None:
    stream = io.StringIO()
    script = Script(Call("glob", {"pattern": "[red]*[/red].[bold]"}), "fine")
    run_task("Go", model=function_model(script), folder=tmp_path, reporter=TerminalReporter(stream=stream))
    assert "[red]*[/red].[bold]" in stream.getvalue()


def question_text(call: ToolCallPart, files: dict[str, bytes] | None = None) -> str:
    """What a person sees of this call, as the terminal asks about it."""
    (question,) = asyncio.run(questions(DeferredToolRequests(approvals=[call]), memory_backend(files or {})))
    shown = io.StringIO()
    reporter = TerminalReporter(stream=shown, replies=Typed("y\n"))
    assert reporter.ask is not None
    reporter.ask(question)
    return shown.getvalue()


HIDDEN_BESIDE_A_DIFF = [
    ("command", "rm -rf /", "command: rm -rf /"),
    ("sudo", True, "sudo: True"),
    ("host", "prod.example", "host: prod.example"),
    ("file_path", "/etc/passwd", "file_path: /etc/passwd"),
    ("old_string", "x", "old_string: x"),
    ("replace_all", True, "replace_all: True"),  # the picture of `content` does not use it
    ("options", {"then": [{"run": "id"}]}, '"run": "id"'),
    ("empty", "", "empty: "),
    ("none", None, "none: None"),
    ("a\nsudo", "no", "a\\nsudo: no"),
]


@pytest.mark.parametrize(("name", "value", "seen"), HIDDEN_BESIDE_A_DIFF)
def test_a_question_with_a_diff_shows_every_argument_that_the_diff_does_not(
    name: str, value: object, seen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deep_cli.run.task_screen.forget_typed", Typed.isatty)  # which asks a real terminal
    args = {"path": "f", "content": "new\n", name: value}
    text = question_text(ToolCallPart("deploy", args, tool_call_id="c1"))
    assert "+new" in text
    assert seen in text
    assert text.count("new") == 1  # the diff shows it


@pytest.mark.parametrize(
    ("args", "seen"),
    [
        ({"path": "f", "content": "#!/bin/sh\r\nid\r\n"}, "content: #!/bin/sh\\x0d"),
        ({"path": "f", "content": "\ufeffa\n"}, "content: \\ufeffa"),
        ({"path": "f", "old_string": "old", "new_string": "x", "replace_all": "no"}, "replace_all: no"),
        ({"path": "f", "content": "old\n", "mode": "777"}, "content: old"),  # no line differs
        ({"path": "f\n+safe", "content": "x\n"}, "+++ f\\n+safe (after)"),
    ],
)
def test_an_argument_that_the_diff_changed_is_shown_as_it_is(
    args: dict[str, Any], seen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deep_cli.run.task_screen.forget_typed", Typed.isatty)
    text = question_text(ToolCallPart("write_file", args, tool_call_id="c1"), {"f": b"old\n"})
    assert f"    {seen}" in text


def test_a_question_hides_no_end_and_no_argument_in_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deep_cli.run.task_screen.forget_typed", Typed.isatty)
    long = "a" * 5_000 + " && rm -rf ~"
    text = question_text(ToolCallPart("execute", {"command": long}, tool_call_id="c1"))
    assert "4,021 characters hidden: v shows them" in text
    assert "&& rm -rf ~" in text
    text = question_text(ToolCallPart("execute", {"command": "ls\nsudo: False", "sudo": True}, tool_call_id="c1"))
    assert [line for line in text.splitlines() if line.startswith("    sudo")] == ["    sudo: True"]
    twice = '{"command": "ls", "command": "rm -rf ~"}'  # the last one runs
    assert "command: rm -rf ~" in question_text(ToolCallPart("execute", twice, tool_call_id="c1"))
    broken = '{"command": "rm -rf ~'
    assert "rm -rf ~" in question_text(ToolCallPart("execute", broken, tool_call_id="c1"))


NOW_AND_AFTER = "--- f (now)\n+++ f (after)\n"


@pytest.mark.parametrize(
    ("now", "args", "shown"),
    [
        (b"a\r\nb\r\nc\r\n", {"content": "a\nB\nc\n"}, "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"),
        (b"a\r\nb\r\n", {"old_string": "a\nb", "new_string": "1\n2"}, "@@ -1,2 +1,2 @@\n-a\n-b\n+1\n+2\n"),
        (b"\xef\xbb\xbfa\nb\n", {"content": "a\nB\n"}, "@@ -1,2 +1,2 @@\n a\n-b\n+B\n"),
        (b"a\x0cb\nc", {"content": "a\x0cb\nd\n"}, "@@ -1,2 +1,2 @@\n a\x0cb\n-c\n\\ no newline at the end\n+d\n"),
        (b"a a\n", {"old_string": "a", "new_string": "b"}, None),
        (b"a a\n", {"old_string": "a", "new_string": "b", "replace_all": True}, "@@ -1 +1 @@\n-a a\n+b b\n"),
        (b"a\n", {"old_string": "x", "new_string": "y"}, None),
        (b"a\n", {"content": "a\n"}, ""),
    ],
)
def test_a_diff_shows_what_the_file_tools_would_do(now: bytes, args: dict[str, Any], shown: str | None) -> None:
    requests = DeferredToolRequests(approvals=[ToolCallPart("write_file", {"path": "f", **args}, tool_call_id="c1")])
    (question,) = asyncio.run(questions(requests, memory_backend({"f": now})))
    assert question.diff == (NOW_AND_AFTER + shown if shown else shown)


FEW_LINES = [f"{n % 150}\n" for n in range(40_000)]
"""`difflib` would compare ten million pairs of equal lines."""


@pytest.mark.parametrize(
    ("now", "args"),
    [
        ("".join(FEW_LINES), {"content": "".join(reversed(FEW_LINES))}),
        # 10 GB
        ("a" * 100_000, {"old_string": "a", "new_string": "b" * 100_000, "replace_all": True}),
    ],
)
def test_a_diff_that_would_take_long_or_much_is_not_drawn_and_all_arguments_are_shown(
    now: str, args: dict[str, Any]
) -> None:
    requests = DeferredToolRequests(approvals=[ToolCallPart("write_file", {"path": "f", **args}, tool_call_id="c1")])
    (question,) = asyncio.run(questions(requests, memory_backend({"f": now.encode()})))
    assert (question.diff, question.pictured) == (None, frozenset())


def test_a_small_change_of_a_long_file_is_drawn() -> None:
    lines = [f"line {n}\n" for n in range(15_000)]
    call = ToolCallPart("write_file", {"path": "f", "content": "".join([*lines[:-1], "end\n"])}, tool_call_id="c1")
    backend = memory_backend({"f": "".join(lines).encode()})
    (question,) = asyncio.run(questions(DeferredToolRequests(approvals=[call]), backend))
    assert question.diff is not None
    assert question.diff.endswith("-line 14999\n+end\n")
