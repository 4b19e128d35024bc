"""The script of `demo:tour`: look around, find the bug, fix it, document it, check, and report.

It works on any folder with any tools, decides by their answers, and reports what it could not
do and why.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from .papers import Readme, changelog_edit, free_name, notes_page, read_readme, runnable, tick_edit, usage_page
from .player import Step, Steps
from .reading import TestRun, file_lines, first_error_line, matches, names_in_listing, paths_in_listing, read_test_run
from .repair import PATTERN, WHAT, Repair, find_repair
from .transcript import Call, Result, Transcript

__all__ = ["tour"]

T = TypeVar("T")
Part: TypeAlias = Generator[Step, list[Result], T]
LOOK = "Look around"
FIX = "Find what is wrong and fix it"
WRITE = "Write down what was done"
CHECK = "Check the result"
PLAN = {
    LOOK: "Looking around",
    FIX: "Fixing what is wrong",
    WRITE: "Writing down what was done",
    CHECK: "Checking the result",
}
TEST_COMMAND = "python3 -m unittest"
TEST_SECONDS = 60
READ_AT_MOST = 8
"""Maximum files to read if there is no `grep`."""
FILE_TOOLS = {"ls", "glob", "grep", "read_file", "write_file", "edit_file"}
WHY = {
    "missing": "is not available",
    "denied": "was denied",
    "lost": "left no result in the conversation",
}


def tour(transcript: Transcript) -> Steps:
    """Run the whole tour; return the report."""
    return _Tour(transcript).run()


@dataclass
class _Tour:
    transcript: Transcript
    statuses: dict[str, str] = field(default_factory=lambda: dict.fromkeys(PLAN, "pending"))
    successes: list[str] = field(default_factory=list[str])
    failures: list[str] = field(default_factory=list[str])
    names: list[str] = field(default_factory=list[str])
    paths: list[str] = field(default_factory=list[str])
    readme: Readme = field(default_factory=Readme)
    before: TestRun | None = None
    after: TestRun | None = None
    fixed_path: str = ""
    written_paths: list[str] = field(default_factory=list[str])
    plan_changed: bool = False
    plan_refused: bool = False

    # -- the tour ------------------------------------------------------------------------------------------------------

    def run(self) -> Steps:
        self._phase(LOOK)
        yield from self._look()
        self._phase(FIX, over=LOOK, well=bool(self.names or self.paths))
        well = yield from self._fix()
        self._phase(WRITE, over=FIX, well=well)
        yield from self._write_down()
        self._phase(CHECK, over=WRITE, well=bool(self.written_paths))
        well = yield from self._check()
        yield from self._tick()
        self.statuses[CHECK] = "completed" if well else "blocked"
        self.plan_changed = True
        yield from self._ask("That was the last step.")
        return self._report()

    def _look(self) -> Part[None]:
        listing, search = yield from self._ask(
            "First I look around.",
            Call("ls", {"path": "."}),
            Call("glob", {"pattern": "**/*.py"}),
        )
        self.names, self.paths = names_in_listing(listing), paths_in_listing(search)
        self._note(listing, "ls", "list the folder")
        self._note(search, "glob", "find Python files")
        name = next((name for name in self.names if name.lower() in ("readme.md", "readme", "readme.txt")), None)
        if name is not None:
            lines = yield from self._read(name, "The README should say what this is and what to do.")
            self.readme = read_readme(name, lines or [])
        if self.names or self.paths:
            what = f"{_many(len(self.names), 'entry', 'entries')} here, {_many(len(self.paths), 'Python file')} below"
            title = f" README: {self.readme.title}." if self.readme.title else ""
            todo = f" {_many(len(self.readme.open_items), 'open item')} in its list." if self.readme.open_items else ""
            self.successes.append(f"Looked around: {what}.{title}{todo}")

    def _fix(self) -> Part[bool]:
        if self._has_tests():
            self.before = yield from self._test("The tests will tell what is wrong.")
            if self.before is not None:
                detail = f" ({self.before.detail})" if self.before.wrong and self.before.detail else ""
                self.successes.append(f"Ran the tests: {self.before}{detail}.")
        searched, path = yield from self._suspect()
        if path is None:
            if self.before is not None and self.before.wrong:
                self.failures.append("The tests fail for a reason unknown to this script.")
                return False
            return searched
        lines = yield from self._read(path, f"{path} looks wrong; I read it before I change it.")
        repair = find_repair(lines) if lines else None
        if repair is None:
            self.failures.append(f"{path} was not fixed: the line could not be read, or occurs more than once.")
            return False
        return (yield from self._apply(path, repair))

    def _apply(self, path: str, repair: Repair) -> Part[bool]:
        thought = f"Line {repair.line} truncates the cents. It should round."
        result = yield from self._edit(path, repair.old, repair.new, thought)
        if result.ok:
            self.fixed_path = path
            self.successes.append(f"Fixed {path}, line {repair.line}: {repair.old.strip()} -> {repair.new.strip()}")
        else:
            self._note(result, "edit_file", f"fix {path}")
        return result.ok

    def _write_down(self) -> Part[None]:
        if self.fixed_path:
            yield from self._change_changelog()
        page = next((path for path in self.readme.pages if path not in self.paths), None)
        if page is not None and self.readme.command:
            yield from self._write_usage(page)
        elif not self.fixed_path:
            yield from self._write_notes()

    def _change_changelog(self) -> Part[None]:
        name = next((name for name in self.names if name.lower().startswith("changelog")), None)
        if name is None:
            return
        lines = yield from self._read(name, "The fix belongs in the changelog.")
        edit = changelog_edit(lines or [], WHAT)
        if edit is None:
            self.failures.append(f"{name} has no unreleased section, so nothing was added.")
            return
        result = yield from self._edit(name, *edit, "A line in the unreleased section.")
        if result.ok:
            self.written_paths.append(name)
            self.successes.append(f"Added a line to {name}.")
        else:
            self._note(result, "edit_file", f"add a line to {name}")

    def _write_usage(self, page: str) -> Part[None]:
        output = ""
        if runnable(self.readme.command, self.names):
            (result,) = yield from self._ask(
                "I run the command of the README, to show its real output.",
                Call("execute", {"command": self.readme.command, "timeout": TEST_SECONDS}),
            )
            self._note(result, "execute", f"run {self.readme.command}")
            if result.ok and not result.text.startswith("Exit code "):
                output = result.text
        content = usage_page(self.readme, output)
        yield from self._create(page, content, "The README asks for this page.", whole=bool(output))

    def _write_notes(self) -> Part[None]:
        if not (self.names or self.paths):
            return
        name = free_name(self.names)
        if name is None:
            self.failures.append("No notes were written: NOTES.md and NOTES-demo.md exist.")
            return
        content = notes_page(self.transcript.prompt, self.names, self.paths, self.readme, self.before)
        yield from self._create(name, content, "What I saw goes into a new file.")

    def _tick(self) -> Part[None]:
        """Tick off what was done and checked in the README, and nothing else."""
        for item in self.readme.open_items:
            if not self._is_done(item):
                continue
            old, new = tick_edit(item)
            result = yield from self._edit(self.readme.name, old, new, "This item is done.")
            if result.ok:
                self.successes.append(f"Ticked off in {self.readme.name}: {item}")
            else:
                self._note(result, "edit_file", f"tick off an item in {self.readme.name}")

    def _is_done(self, item: str) -> bool:
        if "`" in item:
            return any(f"`{path}`" in item for path in self.written_paths)
        # The item without a file is about the bug itself; only the tests show that it is fixed.
        return "cent" in item and bool(self.fixed_path) and self.after is not None and self.after.passed

    def _check(self) -> Part[bool]:
        if self.fixed_path and self._has_tests():
            self.after = yield from self._test("Now the tests once more.")
            if self.after is not None:
                self.successes.append(f"Ran the tests again: {self.after}.")
            return self.after is not None and self.after.passed
        well = bool(self.written_paths)
        for path in self.written_paths:
            lines = yield from self._read(path, f"I read {path} back.")
            if lines is not None:
                self.successes.append(f"Read {path} back: {len(lines)} lines.")
            well = well and lines is not None
        return well

    # -- single moves --------------------------------------------------------------------------------------------------

    def _has_tests(self) -> bool:
        return any(path.split("/")[-1].startswith("test_") for path in self.paths) or "tests/" in self.names

    def _test(self, thought: str) -> Part[TestRun | None]:
        (result,) = yield from self._ask(thought, Call("execute", {"command": TEST_COMMAND, "timeout": TEST_SECONDS}))
        self._note(result, "execute", "run the tests")
        return read_test_run(result) if result.ok else None

    def _suspect(self) -> Part[tuple[bool, str | None]]:
        """Whether the files could be searched, and the file with the known bug."""
        (result,) = yield from self._ask(
            "I look for the line behind it.",
            Call("grep", {"pattern": PATTERN, "glob": "*.py", "output_mode": "content"}),
        )
        if result.outcome != "missing":
            self._note(result, "grep", "search the files")
            return result.ok, next((match.path for match in matches(result)), None)
        sources = [path for path in self.paths if not path.split("/")[-1].startswith("test_")]
        searched = False
        for path in sources[:READ_AT_MOST]:
            lines = yield from self._read(path, "Without grep I read each file.")
            searched = searched or lines is not None
            if lines and find_repair(lines) is not None:
                return True, path
        return searched, None

    def _read(self, path: str, thought: str) -> Part[list[str] | None]:
        (result,) = yield from self._ask(thought, Call("read_file", {"path": path}))
        self._note(result, "read_file", f"read {path}")
        return file_lines(result)

    def _edit(self, path: str, old: str, new: str, thought: str) -> Part[Result]:
        call = Call("edit_file", {"path": path, "old_string": old, "new_string": new})
        (result,) = yield from self._ask(thought, call)
        if result.outcome == "failed":
            # Not read, or changed since: reading it again fixes both.
            lines = yield from self._read(path, f"The edit was refused ({_short(result.text)}), so I read it again.")
            if lines is not None:
                (result,) = yield from self._ask("And once more.", call)
        return result

    def _create(self, path: str, content: str, thought: str, *, whole: bool = True) -> Part[None]:
        (result,) = yield from self._ask(thought, Call("write_file", {"path": path, "content": content}))
        if result.ok and whole:
            self.written_paths.append(path)
            self.successes.append(f"Wrote {path}.")
        elif result.ok:
            self.successes.append(f"Wrote {path}, without the command's output.")
        self._note(result, "write_file", f"write {path}")

    def _ask(self, thought: str, *calls: Call) -> Part[list[Result]]:
        """Make the calls whose tools are available, and update the plan."""
        possible = [call for call in calls if call.tool in self.transcript.tools]
        plan = self._plan_call()
        step_calls = [*([plan] if plan is not None else []), *possible]
        if not step_calls:
            return [Result("missing")] * len(calls)
        results = yield Step(thought, tuple(step_calls))
        if plan is not None:
            self._after_plan(results.pop(0))
        answers = iter(results)
        return [next(answers) if call in possible else Result("missing") for call in calls]

    # -- the plan and the report ---------------------------------------------------------------------------------------

    def _phase(self, name: str, *, over: str = "", well: bool = True) -> None:
        if over:
            self.statuses[over] = "completed" if well else "blocked"
        self.statuses[name] = "in_progress"
        self.plan_changed = True

    def _plan_call(self) -> Call | None:
        if not self.plan_changed or self.plan_refused or "write_todos" not in self.transcript.tools:
            return None
        self.plan_changed = False
        todos = [
            {"content": text, "status": self.statuses[text], "active_form": active} for text, active in PLAN.items()
        ]
        return Call("write_todos", {"todos": todos})

    def _after_plan(self, result: Result) -> None:
        if not result.ok:
            self.plan_refused = True
            self._note(result, "write_todos", "keep the plan")

    def _note(self, result: Result, tool: str, purpose: str) -> None:
        """Record a failure for the report."""
        if result.ok:
            return
        why = WHY.get(result.outcome) or f"answered: {_short(result.text)}"
        if result.outcome == "denied" and result.text:
            why = f"was denied ({_short(result.text)})"
        line = f"Could not {purpose}: {tool} {why}."
        if line not in self.failures:
            self.failures.append(line)

    def _report(self) -> str:
        parts = [_bullets("What I did", self.successes)] if self.successes else ["I could not do anything here."]
        if self.failures:
            parts.append(_bullets("What I could not do", self.failures))
        if not FILE_TOOLS & self.transcript.tools.keys():
            names = ", ".join(sorted(self.transcript.tools)) or "none"
            parts.append(
                f"There are no file tools (available: {names}). The plugin deep-filesystem has them; "
                "`deep plugins list` shows the installed plugins."
            )
        return "\n\n".join([*parts, "(demo:tour is a script; the tools and the files are real.)"])


def _bullets(title: str, lines: Sequence[str]) -> str:
    return "\n".join([f"{title}:", *(f"- {line}" for line in lines)])


def _short(text: str) -> str:
    line = first_error_line(text)
    return line if len(line) <= 160 else f"{line[:159]}…"


def _many(number: int, one: str, more: str = "") -> str:
    return f"{number} {one if number == 1 else more or one + 's'}"
