"""What a person sees of a run: marks, outputs, diffs, plans, tasks and costs. No process is started."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest
from deep_cli import TerminalReporter, run_task
from deep_cli.run.progress import Spent
from deep_cli.run.report import Step
from deep_cli.terminal.prose import Prose
from deep_cli.view import Marks, View
from hypothesis import example, given
from hypothesis import strategies as st

from tests.stubs import Call, Script, Turn, function_model


def shown(lines: Any) -> list[str]:
    return ["".join(part if isinstance(part, str) else part[0] for part in line) for line in lines]


def step(**more: Any) -> Step:
    about = {"tool": "execute", "plugin": "filesystem", "args": {}, "outcome": "success", "milliseconds": 1.0}
    return Step(**{**about, **more})


def run(script: Script, folder: Path, **how: Any) -> list[str]:
    """The lines of a task on these files."""
    stream = io.StringIO()
    reporter = TerminalReporter(stream=stream, **how)
    run_task("Go", model=function_model(script), folder=folder, approve="allow", reporter=reporter)
    return stream.getvalue().splitlines()


@pytest.mark.parametrize(("command", "code"), [("echo out; exit 3", 3), ("nosuchcommand", 127), ("kill -9 $$", None)])
def test_a_failed_command_has_a_red_mark_its_code_and_its_last_lines(
    command: str, code: int | None, tmp_path: Path
) -> None:
    lines = run(Script(Call("execute", {"command": command}), "I see."), tmp_path)
    (head,) = [line for line in lines if "execute" in line and "approved" not in line]
    assert head.startswith(f"  ✗ execute $ {command}  exit code {'' if code is None else code}")
    assert not any("✓" in line for line in lines)
    if code == 3:
        assert lines[lines.index(head) + 1] == "    │ out"
    if code == 127:
        assert "not found" in lines[lines.index(head) + 2]


@pytest.mark.slow
def test_a_command_shows_its_last_lines_and_verbose_more(tmp_path: Path) -> None:
    script = Script(Call("execute", {"command": "seq 20"}), "I see.")
    lines = run(script, tmp_path)
    at = next(place for place, line in enumerate(lines) if "✓ execute $ seq 20" in line)
    assert lines[at + 1 : at + 7] == ["    … 15 lines before", *(f"    │ {n}" for n in range(16, 21))]
    more = run(Script(Call("execute", {"command": "seq 20"}), "I see."), tmp_path, verbose=True)
    assert "    │ 1" in more


def test_an_edit_shows_what_it_changed_and_a_long_one_its_beginning(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    edit = Call("edit_file", {"path": "a.txt", "old_string": "two", "new_string": "2"})
    write = Call("write_file", {"path": "new.txt", "content": "".join(f"{n}\n" for n in range(40))})
    lines = run(Script(Call("read_file", {"path": "a.txt"}), edit, write, "done"), tmp_path)
    at = next(place for place, line in enumerate(lines) if "edit_file a.txt  +1 -1" in line)
    assert lines[at + 1 : at + 6] == ["    @@ -1,3 +1,3 @@", "     one", "    -two", "    +2", "     three"]
    at = next(place for place, line in enumerate(lines) if "write_file new.txt  +40 -0" in line)
    assert lines[at + 2] == "    +0"
    assert lines[at + 13] == "    … 29 more lines: /diff or -v shows all"


def test_tabs_are_as_wide_as_in_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("all:\n\tgo build ./...\n")
    edit = Call("edit_file", {"path": "Makefile", "old_string": "\tgo build", "new_string": "\tgo vet"})
    read = Call("read_file", {"path": "Makefile"})
    lines = run(Script(read, edit, Call("execute", {"command": "printf 'a\\tb'"}), "done"), tmp_path)
    assert "    -       go build ./..." in lines
    assert "    +       go vet ./..." in lines
    assert "    │ a       b" in lines


def test_calls_that_do_not_start_are_lines_too(tmp_path: Path) -> None:
    """A tool that is not offered, arguments that are wrong, arguments that are no JSON: the model is asked again."""
    (tmp_path / "a.txt").write_text("x")
    wrong = [Call("no_such_tool", {"path": "a.txt"}), Call("read_file", {"paths": "a.txt"})]
    lines = run(Script(*wrong, Call("read_file", {"path": "a.txt"}), "done"), tmp_path)
    failed = [line for line in lines if line.startswith("  ✗ ")]
    assert [line.split()[1:3] for line in failed] == [["no_such_tool", "a.txt"], ["read_file", "paths='a.txt'"]]
    assert "Unknown tool name" in failed[0]
    assert sum(line.startswith("  ✓ read_file a.txt") for line in lines) == 1


def test_the_plan_is_its_items() -> None:
    todos = [("a", "completed"), ("b", "in_progress"), ("c", "pending"), ("d", "blocked")]
    plan = step(tool="write_todos", args={"todos": [{"content": text, "status": status} for text, status in todos]})
    assert [line.strip() for line in shown(View(Marks()).ended(plan))[1:]] == ["☑ a", "◐ b", "☐ c", "☐ d (blocked)"]
    plain = shown(View(Marks.of("ascii")).ended(plan))
    assert [line.strip() for line in plain[1:]] == ["[x] a", "[-] b", "[ ] c", "[ ] d (blocked)"]
    assert all(line.isascii() for line in plain)


def test_subagents_that_work_side_by_side_are_distinguished_by_their_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEEP_PLUGINS_ALLOW", "backends,cli,filesystem,sessions,subagents")
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(name)

    def answer(view: Any) -> Turn:
        asked = str(view.prompt)
        for name in ("a.txt", "b.txt"):
            if f"read {name}" in asked:
                return Turn(text="read") if view.results else Turn(calls=(Call("read_file", {"path": name}),))
        if view.results:
            return Turn(text="done")
        return Turn(calls=tuple(Call("task", {"description": f"read {name}"}) for name in ("a.txt", "b.txt")))

    lines = run(Script(*[answer] * 6), tmp_path)
    for name in ("a.txt", "b.txt"):
        assert any(line.startswith(f"  ▸ task read {name}") for line in lines)
        assert any(line.startswith(f"  │ read {name} ✓ read_file {name}") for line in lines), lines


def test_one_status_line_has_the_call_the_time_the_tokens_the_cost_and_the_context() -> None:
    view = View(Marks())
    view.spent = Spent(3, 12_345, 410, 0.01234, 4_000, 200_000)
    view.started(step(args={"command": "sleep 9"}, outcome="started", call_id="1"))
    status = view.status("waiting for the model")
    assert re.fullmatch(
        r"execute \$ sleep 9 · \d+ ms · 12k tokens in, 410 out · \$0\.0123 · context 4,000 of 200k \(2%\)", status
    )
    view.ended(step(args={"command": "sleep 9"}, call_id="1"))
    assert view.status("waiting for the model").startswith("waiting for the model · ")


MARKDOWN = "# A title\n\nOne *two*\nthree.\n\n- a\n\n  more of a\n- b\n\n```py\nx = 1\n\n# y\n```\nend\n"


@given(st.data())
def test_markdown_in_pieces_is_the_text_and_a_block_is_never_taken_back(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([MARKDOWN, MARKDOWN * 3]) | st.text("a \n`#-\t", max_size=40))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    prose, blocks = Prose(), list[str]()
    for first, last in zip([0, *cuts], [*cuts, len(text)], strict=True):
        blocks += prose.feed(text[first:last])
    blocks += prose.end()
    assert "".join("".join(blocks).split()) == "".join(text.split())
    whole = Prose()
    assert [*whole.feed(text), *whole.end()] == blocks


def test_lists_and_fences_stay_whole() -> None:
    prose = Prose()
    assert prose.feed(MARKDOWN) == [
        "# A title\n\n",
        "One *two*\nthree.\n\n",
        "- a\n\n  more of a\n- b\n\n",
    ]
    assert prose.end() == ["```py\nx = 1\n\n# y\n```\nend\n"]


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=200))
@example("&#27;[2J and &#x202e; hidden [a](https://x/\x1b) <b>\x1b]8;;x\x07")
def test_no_markdown_writes_a_control_character(text: str) -> None:
    stream = Terminal()
    screen = TerminalReporter(stream, stream=stream)
    screen._out.markdown(text)  # pyright: ignore[reportPrivateUsage]
    styles = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", styles)
