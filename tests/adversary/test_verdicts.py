"""Guards of folders: an answer that is not whole denies, in every channel."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest
from deep_folders.around_calls import HookPrograms
from deep_folders.claude_plugin import read_claude_plugin

from deep_core import Ask, Deny, ToolCall

DENY = '{"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "no"}}'
LONG = "A" * 1_100_000
ROWS: dict[str, tuple[str, type[Ask | Deny] | None]] = {
    # name: what the guard does, as Python, and what the call gets
    "says nothing": ("", None),
    "says a word": ("print('checked')", None),
    "says a line of a log": ("print('[guard] checked')", None),
    "allows": ("""print('{"decision": "approve"}')""", None),
    "allows otherwise": ("""print('{"hookSpecificOutput": {"permissionDecision": "allow"}}')""", None),
    "asks": ("""print('{"hookSpecificOutput": {"permissionDecision": "ask"}}')""", Ask),
    "denies": (f"print('{DENY}')", Deny),
    "blocks": ("""print('{"decision": "block"}')""", Deny),
    "stops": ("""print('{"continue": false}')""", Deny),
    "stops in words": ("""print('{"continue": "false"}')""", Deny),
    "denies at length": (f"print(json.dumps(dict(decision='block', reason={LONG[:10]!r} * 110_000)))", Deny),
    "allows at length": (f"print(json.dumps(dict(decision='approve', reason={LONG[:10]!r} * 110_000)))", Deny),
    "says blanks, then denies": (f"print(' ' * 1_100_000 + '{DENY}')", Deny),
    "speaks on stderr without end": ("sys.stderr.write('x' * 1_100_000)", Deny),
    "denies behind a log": (f"print('checking'); print('{DENY}')", Deny),
    "denies behind a byte order mark": (f"sys.stdout.buffer.write(b'\\xef\\xbb\\xbf' + b'{DENY}')", Deny),
    "denies in UTF-16": (f"sys.stdout.buffer.write('{DENY}'.encode('utf-16'))", Deny),
    "begins to deny": (f"print('{DENY}'[:-3])", Deny),
    "begins to deny and dies": (f"print('{DENY}'[:20], flush=True); os.kill(os.getpid(), 9)", Deny),
    "denies and adds words": (f"print('{DENY} and more')", Deny),
    "denies in single quotes": ("""print("{'decision': 'block'}")""", Deny),
    "denies in capitals": ("""print('{"decision": "DENY"}')""", Deny),
    "decides something unknown": ("""print('{"decision": "denied"}')""", Deny),
    "decides a number": ("""print('{"decision": 0}')""", Deny),
    "decides a list": ("""print('{"decision": ["block"]}')""", Deny),
    "says two things": ("""print('{"decision": "block", "decision": "approve"}')""", Deny),
    "denies below, allows above": (
        """print('{"decision": "approve", "hookSpecificOutput": {"permissionDecision": "deny"}}')""",
        Deny,
    ),
    "denies above, allows below": (
        """print('{"decision": "block", "hookSpecificOutput": {"permissionDecision": "allow"}}')""",
        Deny,
    ),
    "hides a denial in a list": (f"print('[{DENY}]')", Deny),
    "has a part that is no object": ("""print('{"hookSpecificOutput": "deny"}')""", Deny),
    "nests without end": ("print('{\"a\":' * 100_000)", Deny),
    "changes the arguments": ("""print('{"hookSpecificOutput": {"updatedInput": {}}}')""", Deny),
    "exits with 2": ("sys.exit(2)", Deny),
    "exits with 1": ("sys.exit(1)", None),
    "exits with 1 and denies": (f"print('{DENY}'); sys.exit(1)", Deny),
    "is killed": ("os.kill(os.getpid(), 9)", Deny),
    "cannot run": ("sys.exit(127)", Deny),
    "is late": ("time.sleep(600)", Deny),
    "denies and is late": (f"print('{DENY}', flush=True); time.sleep(600)", Deny),
    "leaves a child that is late": ("subprocess.Popen(['sleep', '600'])", Deny),
    "does not read the call": ("os.close(0)", None),
}


class _Context:
    class deps:
        session_id = "s"

    class workspace:
        ref = None


def _call(command: str) -> ToolCall:
    known: dict[str, Any] = {"tool": "execute", "plugin": "filesystem", "args": {"command": command}, "call_id": "c"}
    known |= {"original": "execute", "tags": ("execute",), "depth": 0}
    return ToolCall(**known)


@pytest.mark.parametrize("row", ROWS)
def test_an_answer_that_is_not_whole_denies(row: str, tmp_path: Path) -> None:
    does, expected = ROWS[row]
    root = tmp_path.resolve()
    (root / "hooks").mkdir()
    (root / "hooks" / "guard.py").write_text(f"import json, os, subprocess, sys, time\n{does}\n", encoding="utf-8")
    timeout = 2 if "late" in row else 60
    hook = {
        "type": "command",
        "command": sys.executable,
        "args": [str(root / "hooks" / "guard.py")],
        "timeout": timeout,
    }
    (root / "hooks" / "hooks.json").write_text(json.dumps({"hooks": {"PreToolUse": [{"hooks": [hook]}]}}))
    programs = HookPrograms([read_claude_plugin(root, root / "data", "guard")], logging.getLogger("deep.folders"))
    long = "x" if row == "is late" else LONG  # more than a pipe holds
    verdict = asyncio.run(programs.check(_call(f"rm -rf x # {long}"), _Context()))  # type: ignore[arg-type]  # pyright: ignore
    assert (None if verdict is None else type(verdict)) is expected


INLINE: dict[str, list[str]] = {
    "a line": ["/bin/sh", "-c", "python3 -c 'import json; json.dumps(1)'"],
    "a line with options": ["/bin/sh", "-c", "python3 -B -u -c 'import json'"],
    "one option": ["/bin/sh", "-c", "python3 -Bc 'import json'"],
    "a module": ["/bin/sh", "-c", "echo 1 | python3 -m json.tool"],
    "what is read": ["/bin/sh", "-c", "echo 'import json' | python3 -"],
    "a document": ["/bin/sh", "-c", "python3 <<E\nimport json\nE"],
    "without a shell": ["python3", "-c", "import json"],
}


@pytest.mark.parametrize("row", INLINE)
def test_a_guard_imports_no_file_of_the_workspace(row: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, place = tmp_path.resolve() / "guard", tmp_path.resolve() / "work"
    (root / "hooks").mkdir(parents=True)
    (place / "json").mkdir(parents=True)
    (place / "json.py").write_text("open('ran', 'w').close()", encoding="utf-8")
    (place / "json" / "__init__.py").write_text("open('ran', 'w').close()", encoding="utf-8")
    monkeypatch.chdir(place)
    command, *args = INLINE[row]
    hook = {"type": "command", "command": command, "args": args}
    (root / "hooks" / "hooks.json").write_text(json.dumps({"hooks": {"PreToolUse": [{"hooks": [hook]}]}}))
    programs = HookPrograms([read_claude_plugin(root, root / "data", "guard")], logging.getLogger("deep.folders"))
    verdict = asyncio.run(programs.check(_call("ls"), _Context()))  # type: ignore[arg-type]  # pyright: ignore
    assert not (place / "ran").exists()
    assert verdict is None
