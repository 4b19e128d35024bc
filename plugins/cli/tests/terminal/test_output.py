"""One function stands between any text and a screen: every place that prints, and nothing prints elsewhere."""

from __future__ import annotations

import ast
import io
import json
import logging
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
import pyte
import pytest
from deep_cli import TerminalReporter
from deep_cli.chat.screen import ChatScreen
from deep_cli.config import command as config
from deep_cli.config.settings import Value
from deep_cli.doctor import command as doctor
from deep_cli.doctor.checks import Check
from deep_cli.failure import Failure, show_traceback
from deep_cli.main import deep
from deep_cli.plugins.listing import as_json, as_table
from deep_cli.plugins.warnings import show_warnings
from deep_cli.run import task_screen
from deep_cli.run.approval import Question
from deep_cli.run.changes import FileChange
from deep_cli.run.report import Decision, RunReport, Step
from deep_cli.run.task_screen import CallScreen
from deep_cli.terminal import output
from deep_cli.terminal.output import Lines, ask, confirm, say, say_json, say_text
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart

from deep_core import (
    ApprovalEvent,
    CompactionEvent,
    ConfigError,
    PluginRecord,
    PluginWarning,
)
from deep_core.plugin_api import Reason, visible
from deep_core.plugins.dispatch import Incidents
from deep_core.tracing import Tracer
from tests.environments import REPOSITORY
from tests.hiding import HIDING


def test_the_characters_are_those_that_hide() -> None:
    for first, last in [(0, 8), (11, 31), (127, 159), (0x200B, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F)]:
        assert {chr(code) for code in range(first, last + 1)} <= set(HIDING)
    assert set("\u00ad\u034f\u061c\u115f\u180e\u2800\u3164\ufe00\ufeff\uffa0\ufff9\U0001d173\U000e0001") <= set(HIDING)
    assert {chr(code) for code in (*range(0xE0000, 0xE1000), *range(0xFE00, 0xFE10))} <= set(HIDING)
    assert not set("\t\n aé漢ب🙂") & set(HIDING)
    for emoji in ("❤\ufe0f", "👩\u200d💻", "🏳\ufe0f\u200d🌈", "👍🏽"):
        assert visible(emoji) == emoji
    assert visible("🙂\ufe0f\ufe0f\u200da\u200d") == "🙂\ufe0f\\ufe0f\\u200da\\u200d"  # nothing hides behind one


class Terminal(io.StringIO):
    """A terminal, and what was typed on it."""

    def isatty(self) -> bool:
        return True


PLACES: dict[str, Callable[[str], object]] = {}
"""Each prints the text, or returns what Python, logging or the caller prints."""


def place(function: Callable[[str], object]) -> Callable[[str], object]:
    PLACES[function.__name__] = function
    return function


def event(kind: Any, **facts: Any) -> Any:
    return kind(run_id="r", session_id="s", depth=1, **facts)


def reported(text: str, act: Callable[[TerminalReporter], object], kind: Any = TerminalReporter) -> str:
    stream = Terminal()
    with kind(stream, stream=stream, replies=Terminal("y\n")).open() as screen:
        act(screen)
    return stream.getvalue()


def call(text: str, **more: Any) -> dict[str, Any]:
    return {"tool": text, "plugin": text, "call_id": text, **more}


def step(text: str, **more: Any) -> Step:
    about = {"tool": text, "plugin": text, "outcome": "success", "milliseconds": 1.0, "task": (text,)}
    return Step(**{**about, **more})


def report(text: str) -> RunReport:
    return RunReport(
        status="done",
        error=None,
        decisions=(),
        output=text,
        model=text,
        backend=text,
        requests=1,
        input_tokens=1,
        output_tokens=1,
        steps=(),
        files=(FileChange(text, "added"),),
        files_by="folder",
        prompt=None,
    )


def asked(text: str, **more: Any) -> str:
    args = {text: text, "nested": [{text: text}]}
    reasons = (Reason("guard", text, text), Reason("rule"))
    question = Question(text, text, text, args, reasons, about={text: text}, child=text, **more)
    return reported(text, lambda screen: screen.ask and screen.ask(question))


@place
def begin(text: str) -> object:
    return reported(text, lambda screen: screen.begin(text, text, text, Path(text.replace("\0", ""))))


@place
def tool_failed(text: str) -> object:
    failed = step(text, args={"path": text}, outcome="failed", error=text)
    return reported(text, lambda screen: screen.ended(failed), CallScreen)


@place
def tool_done(text: str) -> object:
    return reported(text, lambda screen: screen.ended(step(text, args={text: text})))


@place
def command_done(text: str) -> object:
    done = step(text, args={"command": "x"}, result=f"Exit code 3\n{text}\n{text}")
    return reported(text, lambda screen: screen.ended(done))


@place
def file_changed(text: str) -> object:
    return reported(text, lambda screen: screen.ended(step(text, args={}, diff=f"---\n+++\n+{text}\n")))


@place
def plan(text: str) -> object:
    todos = [{"content": text, "status": text}, {"content": text, "status": "completed"}]
    return reported(text, lambda screen: screen.ended(step(text, args={"todos": todos})))


@place
def task(text: str) -> object:
    args = {"description": text, "subagent_type": text}
    return reported(text, lambda screen: screen.started(step("task", args=args)))


@place
def interrupted(text: str) -> object:
    return task_screen.interruption([FileChange(text, "added")], text)


@place
def prose(text: str) -> object:
    stream = Terminal()
    with TerminalReporter(stream, stream=stream, replies=Terminal()).open() as screen:
        screen.text(f"# {text}\n\n- {text}\n\n| a |\n|---|\n| {text} |\n\n```python\n{text}\n```\n\n[{text}](x)\n\n")
        screen.text(f"&#27;[2K{text}")
        screen.end(report(text))
    # Without the console's own codes for styles and the cursor.
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())


@place
def denied(text: str) -> object:
    return reported(text, lambda s: s.event(event(ApprovalEvent, **call(text, decision="denied", reason=text))))


@place
def compacted(text: str) -> object:
    facts = {"plugin": text, "processor": text, "messages_before": 2, "messages_after": 1}
    return reported(text, lambda screen: screen.event(event(CompactionEvent, **facts)))


@place
def decided(text: str) -> object:
    return reported(text, lambda s: s.decided(Decision(text, text, {"command": text}, True, "you")))


@place
def note(text: str) -> object:
    return reported(text, lambda screen: screen.note(text))


@place
def end(text: str) -> object:
    return reported(text, lambda screen: screen.end(report(text)))


@place
def question(text: str) -> object:
    return asked(text)


@place
def question_with_a_diff(text: str) -> object:
    return asked(text, diff=f"+{text}\n")


@place
def chat(text: str) -> object:
    stream = Terminal()
    screen = ChatScreen(stream, stream=stream, replies=Terminal())
    with screen.open():
        screen.show_title(text, text, text)
        screen.text(text)
        screen.problem(text, text)
        screen.show_lines(text)
        screen.show_message(text)
        screen.show_diff([text])
        screen.replay([ModelRequest([UserPromptPart(text)]), ModelResponse([TextPart(text)])])
    return stream.getvalue()


@place
def lines(text: str) -> object:
    stream = Terminal()
    out = Lines(stream)
    out.line(text, (text, "bold"))
    out.table([text], [[text]])
    out.show_foot(text, lambda: text)
    out.hide_foot()
    return "".join(line for line in stream.getvalue().replace("\x1b[", "").splitlines() if "\\x" in line)


@place
def said(text: str) -> object:
    say(text, (text, "dim"), (text, "red"))
    say(text, err=True)


@place
def data(text: str) -> object:
    say_json({text: text})


@place
def answer_on_a_terminal(text: str) -> object:
    stream = Terminal()
    say_text(text, stream)
    return stream.getvalue()


@place
def prompts(text: str) -> object:
    typed = iter(["", "y"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("click.termui.visible_prompt_func", lambda prompt="": click.echo(prompt) or next(typed))
        ask(text, default="x")
        confirm(text)


@place
def failure(text: str) -> object:
    Failure(text).show()


@place
def traceback(text: str) -> object:
    try:
        raise ValueError(text)
    except ValueError as error:
        show_traceback(error)


@place
def plugin_warnings(text: str) -> object:
    with show_warnings():
        warnings.warn(text, PluginWarning, stacklevel=1)
        logging.getLogger("deep.weather").warning("%s!", text)


@place
def usage_errors(text: str) -> object:
    deep.main(["config", "show", f"--{text}"], standalone_mode=True)


@place
def unknown_commands(text: str) -> object:
    deep.main([f"x{text}"], standalone_mode=True)


@place
def plugin_lists(text: str) -> object:
    record = PluginRecord(text, text, text, text)
    record.fail("failed", text)
    return as_table([record], colors=False) + as_json([record])


@place
def config_values(text: str) -> object:
    config._print(text, {text: Value(text, text)})  # pyright: ignore[reportPrivateUsage]


@place
def checks(text: str) -> object:
    doctor._print(Check("plugin", False, text, text))  # pyright: ignore[reportPrivateUsage]


@place
def incidents(text: str) -> object:
    return str(Incidents().keep(text, text, ValueError(text), text))


@place
def errors_of_the_kernel(text: str) -> object:
    return str(ConfigError(text))


@place
def trace(text: str) -> object:
    with Tracer(to_stderr=True).step(text, text, text):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("name", PLACES)
def test_no_place_prints_a_hiding_character(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deep_cli.run.task_screen.forget_typed", Terminal.isatty)  # which asks a real terminal
    monkeypatch.setenv("TERM", "dumb")
    # pytest keeps what is logged, and a worker cannot send surrogates.
    monkeypatch.setattr(logging.getLogger("deep"), "propagate", False)
    try:
        returned = PLACES[name](f"first{HIDING}last")
    except SystemExit:
        returned = ""
    printed = "".join(capsys.readouterr()) + (returned if isinstance(returned, str) else "")
    assert "first\\udfff" in printed  # it was printed
    found = {char for char in printed if visible(char) != char}
    assert not found, sorted(map(ascii, found))[:20]


def test_a_program_reads_the_same_value_and_a_file_the_same_text(capsys: pytest.CaptureFixture[str]) -> None:
    value = {HIDING: [HIDING, "é\\u200b\\"]}
    say_json(value)
    printed = capsys.readouterr().out
    assert printed.isascii()
    assert json.loads(printed) == value
    say_json({"é": "❤\ufe0f"})
    assert "é" in capsys.readouterr().out
    stream = io.StringIO()
    say_text("\x1b[1mbold\u200b", stream)
    assert stream.getvalue() == "\x1b[1mbold\u200b\n"


# -- nothing prints elsewhere -----------------------------------------------------------------------------------------

PRINTS = {
    "print",
    "echo",
    "secho",
    "style",
    "prompt",
    "confirm",
    "echo_via_pager",
    "write",
    "writelines",
    "showwarning",
}
IMPORTS = ("rich.console", "rich.text", "rich.table", "rich.markdown", "rich.live", "rich")
SHOW = ("terminal/output.py", "terminal/markdown.py")
ALLOWED: Mapping[str, set[str]] = {
    "terminal/output.py": PRINTS,
    "__main__.py": {"print"},  # `as_table`, `as_json` and the version, without click
    "plugins/listing.py": {"echo"},  # the same, with it
    "plugins/probe.py": {"write"},
    "plugins/checking/facts.py": {"print"},  # JSON for `deep plugins check`, from another environment
    "terminal/waiting.py": {"write"},  # a pipe of an event loop
    "config/command.py": {"write"},
    "chat/markdown.py": {"write"},
}
"""Module -> what it calls: each is a file, or one of the places above."""


def calls(tree: ast.AST) -> set[str]:
    functions = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = {"print"} & {function.id for function in functions if isinstance(function, ast.Name)}
    return names | PRINTS & {function.attr for function in functions if isinstance(function, ast.Attribute)}


@pytest.mark.slow
def test_only_one_module_of_the_command_line_prints() -> None:
    source = REPOSITORY / "plugins" / "cli" / "src" / "deep_cli"
    for path in sorted(source.rglob("*.py")):
        name, tree = path.relative_to(source).as_posix(), ast.parse(path.read_text(encoding="utf-8"))
        assert calls(tree) <= ALLOWED.get(name, set()), f"{name} prints: use terminal/output.py, and name it above"
        imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert name in SHOW or not imported & set(IMPORTS), name


@pytest.mark.slow
def test_the_kernel_and_the_plugins_do_not_print() -> None:
    """But DEEP_TRACE, one of the places above. Plugins' commands print through `deep_cli.say`.

    The files of a suite's task are not ours to run: their instruction says that they print.
    """
    sources = [REPOSITORY / "deep_core", *(REPOSITORY / "plugins").glob("*/src")]
    found = {
        path.name
        for source in sources
        for path in source.rglob("*.py")
        if not {"deep_cli", "suites_of_ours"} & {*path.parts}
        and calls(ast.parse(path.read_text(encoding="utf-8"))) & {"print", "echo"}
    }
    assert found <= {"tracing.py", "exits.py"}, found  # the last word of a worker whose event loop hangs


@pytest.mark.slow
def test_lines_and_the_foots_thread_never_mix(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "50"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(output, "REPAINTS", 100_000)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    stream = Terminal()
    out, printed = Lines(stream), list[str]()
    try:
        for number in range(300):
            out.show_foot("\n\n".join(f"unfinished {part}" for part in range(number % 7)), lambda: "status")
            for part in range(3):
                printed.append(f"line {number}.{part}")
                out.line(printed[-1])
            if number % 5 == 0:
                out.hide_foot()
        out.hide_foot()
    finally:
        sys.setswitchinterval(interval)
    screen: Any = pyte.HistoryScreen(80, 50, history=10_000, ratio=0.5)
    pyte.Stream(screen).feed(stream.getvalue().replace("\n", "\r\n"))
    above: list[str] = [
        "".join(line[at].data for at in range(max(line, default=-1) + 1)) for line in screen.history.top
    ]
    assert [line.rstrip() for line in (*above, *screen.display) if line.strip()] == printed
