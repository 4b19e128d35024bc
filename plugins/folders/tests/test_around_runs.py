"""Hooks of folders around runs: what they tell the model, and what they refuse. The programs are real."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import deep_backends
import deep_filesystem
import deep_folders
import deep_sessions
import deep_skills
import deep_subagents
import deep_summarization
import pytest
from deep_backends import local_backend
from deep_folders import PromptBlocked
from deep_folders.matching import fits, may_be
from deep_folders.snapshot import digest_of
from deep_folders.store import Added, Store
from deep_folders.transcript import lines_of
from deep_sessions import AgentDeps, DeepAgent
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from deep_core import Kernel, create_default_deps
from deep_core.plugin_api import last_live_texts

from .layouts import write

PLUGINS = (deep_folders, deep_backends, deep_filesystem, deep_subagents, deep_sessions, deep_summarization)
KEEP = 'cat >> "$CLAUDE_PLUGIN_DATA/heard"; echo >> "$CLAUDE_PLUGIN_DATA/heard"; '


class Room:
    """A kernel with folders, and agents whose models answer from a list."""

    def __init__(self, root: Path, kernel: Kernel) -> None:
        self.root, self.kernel = root, kernel
        self.store = Store(root / "data" / "plugins" / "folders")

    def add(self, name: str, **events: str | dict[str, Any]) -> None:
        """Add a folder: event -> command, or the hook's table with `matcher`."""
        tables = {
            event: [
                {
                    **({"matcher": given["matcher"]} if isinstance(given, dict) and "matcher" in given else {}),
                    "hooks": [{"type": "command", **(given if isinstance(given, dict) else {"command": given})}],
                }
            ]
            for event, given in events.items()
        }
        self.add_files(name, {"hooks/hooks.json": {"hooks": tables}})

    def add_files(self, name: str, files: dict[str, Any]) -> None:
        root = write(self.root / "origin" / name, files)
        self.store.add(Added(name, str(root), "", "", "", digest_of(root), True), root)

    def heard(self, name: str) -> list[dict[str, Any]]:
        """What the programs of a folder got on stdin."""
        path = self.store.data(name) / "heard"
        return [json.loads(line) for line in path.read_text().splitlines() if line.strip()] if path.exists() else []

    def play(
        self,
        prompt: str | None,
        *answers: str | ToolCallPart | Callable[[], str],
        history: list[ModelMessage] | None = None,
        **how: Any,
    ) -> list[ModelMessage]:
        left = iter(answers)

        def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            said = next(left, "done")
            said = said() if callable(said) else said
            return ModelResponse([TextPart(said) if isinstance(said, str) else said])

        agent = self.kernel.create_agent(FunctionModel(answer), interrupt_on=how.pop("interrupt_on", False), **how)
        deps = create_default_deps(local_backend(Path.cwd()), kernel=self.kernel)
        return asyncio.run(agent.run(prompt, deps=deps, message_history=history)).all_messages()


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Room]:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    with Kernel(plugins=[*PLUGINS], discover=False, data_dir=tmp_path / "data") as kernel:
        yield Room(tmp_path, kernel)


def prompts(messages: list[ModelMessage]) -> list[str]:
    """What the model read as a user's text, without live sections."""
    parts = [part for message in messages if isinstance(message, ModelRequest) for part in message.parts]
    return [part.content for part in parts if isinstance(part, UserPromptPart) and isinstance(part.content, str)]


def context(text: str) -> str:
    return f"echo '{json.dumps({'hookSpecificOutput': {'additionalContext': text}})}'"


def test_a_session_begins_with_what_hooks_say(room: Room) -> None:
    room.add("powers", SessionStart={"matcher": "startup|resume", "command": KEEP + context("You have powers.")})
    room.add("plain", SessionStart="echo Speak like a teacher.")
    room.add("later", SessionStart={"matcher": "resume", "command": "echo Welcome back."})
    messages = room.play("hello")
    assert "\nSpeak like a teacher.\n\nYou have powers.\n" in last_live_texts(messages)["folders.session_start"].text
    (heard,) = room.heard("powers")
    assert (heard["hook_event_name"], heard["source"], heard["cwd"]) == ("SessionStart", "startup", str(Path.cwd()))
    again = room.play("and now", history=messages)
    assert "Welcome back." in last_live_texts(again)["folders.session_start"].text
    assert room.heard("powers")[1]["source"] == "resume"


def test_an_explanation_is_no_message_and_no_end(room: Room) -> None:
    room.add("powers", SessionStart=context("You have powers."), UserPromptSubmit=KEEP + "exit 2", Stop=KEEP + "exit 2")
    explanation = room.kernel.explain(room.kernel.create_agent("test"))
    assert explanation.by_plugin()["folders"] > 0
    assert room.heard("powers") == []


def test_a_hook_adds_to_each_message(room: Room) -> None:
    room.add("clock", UserPromptSubmit=KEEP + "echo It is Monday.")
    messages = room.play("what day is it?")
    assert "\nIt is Monday.\n" in last_live_texts(messages)["folders.user_prompt"].text
    assert [(each["prompt"], each["user_prompt"]) for each in room.heard("clock")] == [("what day is it?",) * 2]


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("echo no secrets >&2; exit 2", "no secrets"),
        ("""echo '{"decision": "block", "reason": "say please"}'""", "say please"),
        ("""echo '{"continue": false, "stopReason": "closed"}'""", "closed"),
        ("""echo '{"decision": "perhaps"}'""", "it gives no reason"),
        ("""echo '{"decision": "allow", "decision": "block"}'""", "begins like JSON and cannot be read"),
        ("echo '{'", "begins like JSON and cannot be read"),
        ("/no/such/program", "cannot run (exit code 127)"),
        ("kill -9 $$", "cannot run (exit code -9)"),
    ],
    ids=str,
)
def test_a_hook_refuses_a_message_and_nothing_is_sent(room: Room, command: str, told: str) -> None:
    room.add("guard", UserPromptSubmit=command)
    asked: list[str] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked.append("asked")
        return ModelResponse([TextPart("done")])

    agent = room.kernel.create_agent(FunctionModel(answer))
    with pytest.raises(PromptBlocked, match="hook UserPromptSubmit of folder guard blocks the message") as error:
        asyncio.run(agent.run("the key is 7", deps=create_default_deps(kernel=room.kernel)))
    assert told in str(error.value)
    assert not asked


def test_a_hook_that_fails_lets_the_message_pass(room: Room, caplog: pytest.LogCaptureFixture) -> None:
    room.add("broken", UserPromptSubmit="echo oops >&2; exit 1", SessionStart="/no/such/program")
    assert prompts(room.play("hello")) == ["hello"]
    assert "hook SessionStart of folder broken: it cannot run" in caplog.text


def test_a_hook_does_not_let_the_agent_end_before_it_is_content(room: Room) -> None:
    once = KEEP + """[ $(wc -l < "$CLAUDE_PLUGIN_DATA/heard") -gt 1 ] || { echo Run the tests first. >&2; exit 2; }"""
    room.add("tests", Stop=once)
    messages = room.play("go", "ready", "ready again")
    assert prompts(messages) == ["go", "hook Stop of folder tests: Run the tests first."]
    assert [each["stop_hook_active"] for each in room.heard("tests")] == [False, True]
    assert [each["last_assistant_message"] for each in room.heard("tests")] == ["ready", "ready again"]


def test_a_reason_may_be_as_long_as_the_task_that_a_loop_repeats(room: Room) -> None:
    task = "Fix it. " * 1_000
    room.add(
        "loop", Stop=KEEP + f"""[ $(wc -l < "$CLAUDE_PLUGIN_DATA/heard") -gt 1 ] || {{ echo '{task}'; exit 2; }}"""
    )
    assert prompts(room.play("go")) == ["go", f"hook Stop of folder loop: {task.strip()}"]


def test_json_blocks_an_end_and_continue_false_does_not(room: Room) -> None:
    twice = (
        KEEP + """[ $(wc -l < "$CLAUDE_PLUGIN_DATA/heard") -gt 1 ] || echo '{"decision": "block", "reason": "more"}'"""
    )
    room.add("loop", Stop=twice)
    room.add("calm", Stop="""echo '{"decision": "block", "reason": "never", "continue": false}'""")
    assert prompts(room.play("go")) == ["go", "hook Stop of folder loop: more"]


def test_a_hook_reads_the_conversation_while_it_runs(room: Room) -> None:
    """Scripts such as a loop that repeats its task look for the last answer in the transcript."""
    read = """path=$(sed 's/.*"transcript_path": "\\([^"]*\\)".*/\\1/'); cp "$path" "$CLAUDE_PLUGIN_DATA/kept";"""
    room.add("loop", Stop=read)
    room.play("go", ToolCallPart("ls", {"path": "."}), "all is done")
    data = room.store.data("loop")
    lines = [json.loads(line) for line in (data / "kept").read_text().splitlines()]
    kinds = [[part["type"] for part in line["message"]["content"]] for line in lines]
    assert kinds == [["text"], ["tool_use"], ["tool_result"], ["text"]]
    assert '"role":"assistant","content":[{"type":"text","text":"all is done"}]' in (data / "kept").read_text()
    assert [path.name for path in data.iterdir()] == ["kept"]
    cost = lines[1]["message"]
    assert cost["model"]
    assert cost["usage"]["input_tokens"] > 0 < cost["usage"]["output_tokens"]
    assert "usage" not in lines[0]["message"]


def test_a_transcript_counts_tokens_of_the_cache_apart(tmp_path: Path) -> None:
    used = RequestUsage(input_tokens=100, cache_read_tokens=60, cache_write_tokens=30, output_tokens=5)
    (line,) = lines_of([ModelResponse([TextPart("hi")], usage=used, model_name="m")], str(tmp_path))
    assert json.loads(line)["message"]["usage"] == {
        "input_tokens": 10,
        "output_tokens": 5,
        "cache_creation_input_tokens": 30,
        "cache_read_input_tokens": 60,
    }


def test_a_hook_reads_its_event_and_session_in_its_environment(room: Room) -> None:
    tell = """printf '{"event": "%s", "session": "%s"}\n' $CLAUDE_HOOK_EVENT_NAME $CLAUDE_SESSION_ID"""
    room.add("log", PostToolUse=f'{tell} >> "$CLAUDE_PLUGIN_DATA/heard"', Stop=KEEP)
    room.play("go", ToolCallPart("ls", {"path": "."}))
    told, end = room.heard("log")
    assert told == {"event": "PostToolUse", "session": end["session_id"]}


def test_a_hook_that_says_it_goes_on_in_the_background_blocks_nothing(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    room.add("slow", SessionStart="""echo '{"async": true}'; echo '{"metrics": {"decision": "block"}}'""")
    assert prompts(room.play("go")) == ["go"]
    assert not caplog.text


def test_an_agent_that_waits_for_approval_has_not_ended(room: Room) -> None:
    room.add("tests", Stop=KEEP + "exit 2", Notification={"matcher": "permission_prompt", "command": KEEP})
    room.play("go", ToolCallPart("execute", {"command": "true"}), interrupt_on=None)
    (heard,) = room.heard("tests")
    assert (heard["hook_event_name"], heard["notification_type"]) == ("Notification", "permission_prompt")
    assert "execute" in heard["message"]


def test_a_subagent_has_an_end_of_its_own(room: Room) -> None:
    room.add("tests", SubagentStop=KEEP, SessionStart=KEEP, UserPromptSubmit=KEEP, Stop=KEEP)
    room.play("go", ToolCallPart("task", {"description": "look"}), "looked", "ready")
    events = [each["hook_event_name"] for each in room.heard("tests")]
    assert events == ["SessionStart", "UserPromptSubmit", "SubagentStop", "Stop"]


@pytest.mark.parametrize(
    "command",
    [
        "echo Format it. >&2; exit 2",
        """echo '{"decision": "block", "reason": "Format it."}'""",
        context("Format it."),
        context("Format it.") + "; exit 2",
    ],
    ids=str,
)
def test_what_a_hook_says_of_a_call_reaches_the_model(room: Room, command: str) -> None:
    room.add("style", PostToolUse={"matcher": "Write", "command": command})
    messages = room.play("go", ToolCallPart("write_file", {"path": "a.py", "content": "x"}))
    assert prompts(messages) == ["go", "hook of folder style: Format it."]


def test_what_a_hook_says_to_people_is_logged_and_is_the_reason_of_one_that_gives_none(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    deny = {"systemMessage": "No force.", "hookSpecificOutput": {"permissionDecision": "deny"}}
    warn = json.dumps({"systemMessage": "Look\x1b[2J twice."})
    room.add("rules", PreToolUse=f"echo '{json.dumps(deny)}'", UserPromptSubmit=f"printf %s '{warn}'")
    messages = room.play("go", ToolCallPart("ls", {"path": "."}))
    assert "No force." in str(messages)
    assert "hook UserPromptSubmit of folder rules: Look" in caplog.text
    assert "\x1b" not in caplog.text


def test_what_a_hook_prints_beside_a_good_end_is_a_detail_of_the_log(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "deep")
    aside = {
        event: f"echo at {event} >&2" for event in ("SessionStart", "PreToolUse", "PostToolUse", "Stop", "SessionEnd")
    }
    room.add("notes", **aside)
    room.play("go", ToolCallPart("ls", {"path": "."}))
    room.kernel.close()
    told = [record.getMessage() for record in caplog.records if "of folder notes: at " in record.getMessage()]
    assert [text.rpartition(" ")[2] for text in told] == [*aside]
    assert {record.levelname for record in caplog.records if "of folder notes: at " in record.getMessage()} == {"DEBUG"}


def test_a_hook_stops_the_agent_after_a_call_and_nobody_asks_whether_it_may_end(room: Room) -> None:
    stop = json.dumps({"continue": False, "stopReason": "The budget is spent."})
    room.add("purse", PostToolUse={"matcher": "LS", "command": f"printf %s '{stop}'"}, Stop=KEEP)
    messages = room.play("go", ToolCallPart("ls", {"path": "."}), "this is never said")
    (said,) = messages[-1].parts
    assert isinstance(said, TextPart)
    assert said.content == "hook of folder purse stops the agent: The budget is spent."
    assert room.heard("purse") == []
    room.play("go on", "done", history=messages)
    assert [each["last_assistant_message"] for each in room.heard("purse")] == ["done"]


def test_text_after_a_call_is_for_people(room: Room) -> None:
    room.add("chatty", PostToolUse="echo done")
    assert prompts(room.play("go", ToolCallPart("ls", {"path": "."}))) == ["go"]


def test_a_stored_conversation_continues_after_a_refusal(room: Room, tmp_path: Path) -> None:
    room.add("guard", UserPromptSubmit="grep -q secret && exit 2; exit 0")

    seen: list[list[str]] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(prompts(messages))
        return ModelResponse([TextPart("done")])

    async def talk() -> None:
        how = AgentDeps(model=FunctionModel(answer), session_store=f"sqlite:///{tmp_path}/s.db", kernel=room.kernel)
        agent = await DeepAgent.create(deps=how)
        try:
            refused = await agent.run("the secret", session_id="s")
            assert isinstance(refused.error, deep_sessions.MessageRefused)
            await agent.run("hello", session_id="s")
        finally:
            await agent.close()

    asyncio.run(talk())
    assert seen == [["hello"]]  # what was refused does not go with the next message


@pytest.mark.parametrize(
    ("only", "name", "value", "runs"),
    [
        ("", "Bash", "ls", True),
        ("Bash", "Bash", "ls", True),
        ("Bash(git push *)", "Bash", "git push origin", True),
        ("Bash(git push *)", "Bash", "git push", True),
        ("Bash(git push:*)", "Bash", "git push origin", True),
        ("Bash(git push *)", "Bash", "git pull", False),
        ("Bash(git push *)", "Bash", "cd x && git push", True),
        ("Bash(git push *)", "Bash", "$(echo git push)", True),
        ("Bash(git push *)", "Bash", "git add -A && git commit -m 'a b' | tail", False),
        ("Bash(git push *)", "Bash", "if true; then git push; fi", True),
        ("Bash(git push *)", "Bash", "ls; A=1 git push", True),
        ("Bash(git push *)", "Bash", "ls; 'git' push", True),
        ("Bash(git push *)", "Bash", "ls; g'i't push", True),
        ("Bash(git push *)", "Bash", "git log if git push", False),
        ("Bash(git push *)", "Bash", "(git push)", True),
        ("Bash(git push *)", "Bash", "git log > push", True),
        ("Edit(*.py)", "Edit", "/w/a.py", True),
        ("Edit(*.py)", "Edit", "/w/a.md", False),
        ("Edit(src/*.py)", "Edit", "/w/src/a.py", True),
        ("Edit(*.py)", "Write", "/w/a.py", False),
        ("Bash(", "Edit", "/w/a.py", True),
        ("mcp__x__y", "Edit", "/w/a.py", True),
    ],
)
def test_if_narrows_a_hook_and_in_doubt_it_runs(only: str, name: str, value: str, runs: bool) -> None:
    key = "command" if name == "Bash" else "file_path"
    assert may_be(only, name, {key: value}) is runs


ASKED = "You judge."
VERDICTS = {
    '{"ok": true}': ["go"],
    '{"ok": false, "reason": "no tests"}': ["go", "hook Stop of folder judge: no tests"],
    "perhaps": ["go"],
    '{"ok": "yes"}': ["go"],
}


@pytest.mark.parametrize("verdict", VERDICTS)
def test_a_hook_asks_the_model_whether_the_agent_may_end(room: Room, verdict: str) -> None:
    room.add("judge", Stop={"type": "prompt", "prompt": f"{ASKED} Event: $ARGUMENTS"}, SubagentStop="exit 2")
    asked: list[str] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        last = prompts(messages)[-1]
        if last.startswith(ASKED):
            asked.append(last)
            assert not info.function_tools
            return ModelResponse([TextPart(verdict if len(asked) == 1 else '{"ok": true}')])
        return ModelResponse([TextPart("ready")])

    agent = room.kernel.create_agent(FunctionModel(answer))
    result = asyncio.run(agent.run("go", deps=create_default_deps(kernel=room.kernel)))
    assert prompts(result.all_messages()) == VERDICTS[verdict]
    assert '"last_assistant_message": "ready"' in asked[0]
    assert '"content":[{"type":"text","text":"ready"}]' in asked[0]
    assert result.usage.requests == 2 * len(asked)


@pytest.mark.parametrize(("verdict", "written"), [('{"ok": true}', True), ('{"ok": false}', False), ("yes", False)])
def test_a_question_about_a_call_is_a_guard(room: Room, verdict: str, written: bool) -> None:
    room.add("judge", PreToolUse={"matcher": "Write", "type": "prompt", "prompt": ASKED})

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if prompts(messages)[-1].startswith(ASKED):
            return ModelResponse([TextPart(verdict)])
        done = len(messages) > 1
        call = ToolCallPart("write_file", {"path": "a.py", "content": "x"})
        return ModelResponse([TextPart("done") if done else call])

    agent = room.kernel.create_agent(FunctionModel(answer), interrupt_on=False)
    deps = create_default_deps(local_backend(Path.cwd()), kernel=room.kernel)
    asyncio.run(agent.run("go", deps=deps))
    assert Path("a.py").exists() is written


def test_a_hook_hears_what_a_call_returned_and_how_one_failed(room: Room) -> None:
    room.add("log", PostToolUse=KEEP, PostToolUseFailure=KEEP + "echo Try ls. >&2; exit 2")
    calls = [ToolCallPart("execute", {"command": "echo hello"}), ToolCallPart("read_file", {"path": "none.txt"})]
    messages = room.play("go", *calls)
    good, bad = room.heard("log")
    assert "hello" in good["tool_response"]["stdout"]
    assert (bad["hook_event_name"], bad["tool_name"]) == ("PostToolUseFailure", "Read")
    assert "none.txt" in bad["error"]
    assert prompts(messages) == ["go", "hook of folder log: Try ls."]


@pytest.mark.parametrize(
    ("command", "stdout", "stderr"),
    [
        (":", "", ""),
        ("echo Exit code 3", "Exit code 3", ""),
        ("echo a; echo b", "a\nb", ""),
        ("echo a; echo b >&2", "a", "b"),
        ("echo b >&2", "", "b"),
    ],
)
def test_a_hook_hears_what_a_command_printed(room: Room, command: str, stdout: str, stderr: str) -> None:
    room.add("log", PostToolUse=KEEP)
    room.play("go", ToolCallPart("execute", {"command": command}))
    assert room.heard("log")[0]["tool_response"] == {"stdout": stdout, "stderr": stderr, "interrupted": False}


@pytest.mark.parametrize("command", ["echo a; exit 3", "exit 3", "kill -9 $$"])
def test_a_command_that_exits_with_another_number_has_failed(room: Room, command: str) -> None:
    room.add("log", PostToolUse=KEEP, PostToolUseFailure=KEEP)
    room.play("go", *(ToolCallPart("execute", {"command": each}) for each in (command, "echo well")))
    bad, good = room.heard("log")
    assert (bad["hook_event_name"], good["hook_event_name"]) == ("PostToolUseFailure", "PostToolUse")
    assert bad["error"].startswith("Exit code ")


def test_a_hook_beside_the_run_decides_nothing_and_ends_with_it(room: Room) -> None:
    # A file for each: they run side by side.
    slow = {"command": 'cat > "$CLAUDE_PLUGIN_DATA/$$.json"; exit 2', "async": True}
    room.add("log", PreToolUse=slow, PostToolUse=slow, Stop=slow, UserPromptSubmit=slow)
    assert prompts(room.play("go", ToolCallPart("ls", {"path": "."}))) == ["go"]
    heard = [json.loads(path.read_text()) for path in room.store.data("log").glob("*.json")]
    events = sorted(each["hook_event_name"] for each in heard)
    assert events == ["PostToolUse", "PreToolUse", "Stop", "UserPromptSubmit"]


READS = """cat "$(sed 's/.*"transcript_path": "\\([^"]*\\)".*/\\1/')" >> "$CLAUDE_PLUGIN_DATA/heard" """


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse"])
def test_a_hook_of_a_call_reads_the_conversation_with_calls_as_it_knows_them(room: Room, event: str) -> None:
    room.add("reader", **{event: {"matcher": "Bash", "command": READS}})
    room.play(
        "go", ToolCallPart("write_file", {"path": "a", "content": "x"}), ToolCallPart("execute", {"command": ":"})
    )
    said, wrote, created, ran = [each["message"]["content"][0] for each in room.heard("reader")]
    assert said["text"] == "go"
    assert (wrote["name"], wrote["input"]["file_path"]) == ("Write", str(Path.cwd() / "a"))
    assert created["tool_use_id"] == wrote["id"]
    assert (ran["name"], ran["input"]) == ("Bash", {"command": ":"})


def test_what_a_hook_says_before_a_call_comes_with_its_result(room: Room) -> None:
    room.add("plan", PreToolUse={"matcher": "LS", "command": context("Step 2 is next.")})
    messages = room.play("go", ToolCallPart("ls", {"path": "."}))
    assert prompts(messages) == ["go", "hook of folder plan: Step 2 is next."]


@pytest.mark.parametrize("ends", ["in_the_run", "at_its_end"])
def test_a_hook_beside_the_run_wakes_the_agent_with_its_findings(room: Room, tmp_path: Path, ends: str) -> None:
    go = tmp_path / "go"
    finds = f"while [ ! -e {go} ]; do sleep 0.02; done; echo Quote it. >&2; exit 2"
    wakes = {"asyncRewake": True, "rewakeMessage": "A review found:", "command": finds, "if": "Bash(git *)"}
    room.add("review", PostToolUse={"matcher": "Bash", **wakes})
    git, touch = (ToolCallPart("execute", {"command": command}) for command in ("git --version", f"touch {go}"))

    def finish() -> str:
        go.touch()
        return "finished"

    # It waits for what comes after the call, so the call does not wait for it.
    messages = room.play("go", git, *((touch, "finished") if ends == "in_the_run" else (finish,)), "fixed")
    assert prompts(messages) == ["go", "hook of folder review: A review found:\nQuote it."]


def test_a_hook_at_the_end_wakes_the_agent_too(room: Room) -> None:
    finds = 'test -e seen || { touch seen; echo "Quote it." >&2; exit 2; }'
    room.add("review", Stop={"asyncRewake": True, "rewakeMessage": "A review found:", "command": finds})
    assert prompts(room.play("go", "finished", "fixed")) == [
        "go",
        "hook Stop of folder review: A review found:\nQuote it.",
    ]


def test_what_a_hook_beside_the_run_says_comes_with_the_next_message(room: Room) -> None:
    room.add("lint", PostToolUse={"async": True, "command": context("Line 3 is long.")})

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse([TextPart("done") if len(messages) > 1 else ToolCallPart("ls", {"path": "."})])

    agent = room.kernel.create_agent(FunctionModel(answer), interrupt_on=False)
    deps = create_default_deps(local_backend(Path.cwd()), kernel=room.kernel)

    async def talk() -> list[list[ModelMessage]]:
        first = (await agent.run("go", deps=deps)).all_messages()
        second = (await agent.run("on", deps=deps, message_history=first)).all_messages()
        return [first, second, (await agent.run("on", deps=deps, message_history=second)).all_messages()]

    heard = [last_live_texts(messages).get("folders.user_prompt") for messages in asyncio.run(talk())]
    assert ["Line 3 is long." in str(each and each.text) for each in heard] == [False, True, False]


@pytest.mark.parametrize(
    ("matcher", "name", "named"),
    [
        ("", "Bash", True),
        ("*", "Bash", True),
        ("Bash", "Bash", True),
        ("Bash", "BashOutput", False),
        ("Edit|Write", "Write", True),
        ("Edit|Write", "NotebookEdit", False),
        ("^mcp__", "mcp__files__read", True),
        ("mcp__files__.*", "mcp__files__read", True),
        ("mcp__files", "mcp__files__read", False),
        ("Notebook.*", "NotebookEdit", True),
        ("(", "Bash", True),
    ],
)
def test_a_matcher_is_names_or_an_expression_for_a_part(matcher: str, name: str, named: bool) -> None:
    assert fits(matcher, name) is named


def test_a_hook_of_a_skill_runs_while_the_skill_is_in_use(tmp_path: Path, room: Room) -> None:
    head = (
        "name: plans\ndescription: Use it to plan.\nhooks:\n  PreToolUse:\n    - matcher: LS\n      hooks:\n"
        "        - type: command\n          timeout: 9\n          command: 'cat $CLAUDE_SKILL_DIR/plan >&2; exit 2'\n"
    )
    plan = {"skills/plans/SKILL.md": f"---\n{head}---\nPlan.\n", "skills/plans/plan": "Step 2 is next."}
    room.add_files("plans", {".claude-plugin/plugin.json": {"name": "plans"}, **plan})
    look = ToolCallPart("ls", {"path": "."})
    assert "Step 2 is next." not in str(room.play("go", look))  # without deep-skills no skill is in use
    with Kernel(plugins=[*PLUGINS, deep_skills], discover=False, data_dir=tmp_path / "data") as kernel:
        room.kernel = kernel
        assert "Step 2 is next." not in str(room.play("go", look))
        load = ToolCallPart("load_skill", {"skill_name": "plans"})
        assert "hook of folder plans: Step 2 is next." in str(room.play("go", load, look))


@pytest.mark.parametrize(
    ("ends", "runs"),
    [("true", 1), ("exit 2", 3), ("exit 1", 3), ("kill -9 $$", 3)],
    ids=["well", "no", "badly", "killed"],
)
def test_a_hook_of_a_skill_that_runs_once_ends_its_work_when_it_ran_well(
    tmp_path: Path, room: Room, ends: str, runs: int
) -> None:
    hook = f"{{type: command, once: true, command: '{KEEP}{ends}'}}"
    head = "---\nname: plans\ndescription: Use it to plan.\nhooks:\n  PreToolUse:\n    - matcher: LS\n"
    plan = f"{head}      hooks: [{hook}]\n---\nPlan.\n"
    room.add_files("plans", {".claude-plugin/plugin.json": {"name": "plans"}, "skills/plans/SKILL.md": plan})
    look = ToolCallPart("ls", {"path": "."})
    with Kernel(plugins=[*PLUGINS, deep_skills], discover=False, data_dir=tmp_path / "data") as kernel:
        room.kernel = kernel
        room.play("go", ToolCallPart("load_skill", {"skill_name": "plans"}), look, look, look)
    assert len(room.heard("plans")) == runs


def test_a_hook_that_is_no_skill_s_guards_on_though_it_says_once(room: Room) -> None:
    room.add("guard", PreToolUse={"command": KEEP, "once": True})
    look = ToolCallPart("ls", {"path": "."})
    room.play("go", look, look)
    assert len(room.heard("guard")) == 2


def test_a_session_ends_with_the_process_that_began_it(room: Room) -> None:
    room.add("clones", SessionEnd=KEEP, SessionStart="true")
    room.play("go")
    assert room.heard("clones") == []
    room.kernel.close()
    (heard,) = room.heard("clones")
    assert (heard["hook_event_name"], heard["reason"], heard["cwd"]) == ("SessionEnd", "other", str(Path.cwd()))


def test_a_subagent_begins_with_what_hooks_say(room: Room) -> None:
    room.add("team", SubagentStart=KEEP + context("Report in one line."))
    seen: list[str] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        live = last_live_texts(messages).get("folders.session_start")
        if live is not None:
            seen.append(live.text)
        done = live is not None or len(messages) > 1
        return ModelResponse([TextPart("done") if done else ToolCallPart("task", {"description": "look"})])

    agent = room.kernel.create_agent(FunctionModel(answer), interrupt_on=False)
    asyncio.run(agent.run("go", deps=create_default_deps(kernel=room.kernel)))
    (heard,) = room.heard("team")
    assert heard["agent_type"] == "general-purpose"
    assert len(seen) == 1
    assert "Report in one line." in seen[0]


def test_what_a_session_start_sets_commands_see(room: Room) -> None:
    lines = (
        """echo 'export TEAM="a b"' >> "$CLAUDE_ENV_FILE"; echo 'export PATH="/shims:$PATH"' >> "$CLAUDE_ENV_FILE" """
    )
    room.add("shims", SessionStart=lines)
    messages = room.play("go", ToolCallPart("execute", {"command": 'echo "$TEAM $PATH"'}))
    returned = [
        part.model_response_str() for message in messages for part in message.parts if part.part_kind == "tool-return"
    ]
    assert "a b /shims:/" in returned[0]


@pytest.mark.parametrize(
    ("command", "summarized"),
    [
        (KEEP + "exit 2", False),
        ("""echo '{"decision": "block"}'""", False),
        (KEEP + "echo Keep the ports.", True),
        ("exit 127", True),
    ],
    ids=str,
)
def test_a_hook_is_asked_before_a_compaction(room: Room, command: str, summarized: bool) -> None:
    room.add("notes", PreCompact={"matcher": "auto", "command": command})
    room.add("other", PreCompact={"matcher": "manual", "command": KEEP})
    asked: list[str] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked.append(str(messages))
        return ModelResponse([TextPart("word " * 60)])

    small = deep_summarization.SummarizationOptions(trigger=(("messages", 6),), keep=("messages", 2))
    agent = room.kernel.create_agent(FunctionModel(answer), plugins=[small])
    deps = create_default_deps(kernel=room.kernel)
    history: list[ModelMessage] = []
    for turn in range(5):
        history = asyncio.run(agent.run(f"turn {turn}", deps=deps, message_history=history)).all_messages()
    assert any(text == "turn 0" for text in prompts(history)) is not summarized
    assert room.heard("other") == []
    if "heard" in command:
        assert room.heard("notes")[0]["trigger"] == "auto"
    if "ports" in command:
        assert any("Keep the ports." in text for text in asked)


def test_an_output_style_is_part_of_the_prompt(room: Room, caplog: pytest.LogCaptureFixture) -> None:
    room.add_files(
        "styles",
        {
            "output-styles/terse.md": "---\nname: Terse\ndescription: Few words\n---\nAnswer in one line.\n",
            "output-styles/teacher.md": "---\nforce-for-plugin: true\n---\nExplain each step.\n",
        },
    )
    for chosen, text in (("", "Explain each step."), ("styles:Terse", "Answer in one line."), ("styles:Tense", "")):
        told: list[str] = []

        def answer(messages: list[ModelMessage], info: AgentInfo, told: list[str] = told) -> ModelResponse:
            told.append(str(info.instructions))
            return ModelResponse([TextPart("done")])

        agent = room.kernel.create_agent(
            FunctionModel(answer), plugins=[deep_folders.FoldersOptions(output_style=chosen)]
        )
        asyncio.run(agent.run("go", deps=create_default_deps(kernel=room.kernel)))
        assert [line in told[0] for line in ("Explain each step.", "Answer in one line.")] == [
            line == text for line in ("Explain each step.", "Answer in one line.")
        ]
    assert "did you mean" in caplog.text.lower()
