"""`deep tools dispatch` on a terminal: its question is that of `deep run`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

CALL = {"type": "tool_use", "id": "t", "name": "execute", "input": {"command": "printf made > b.txt"}}
ANSWER = {"type": "message", "role": "assistant", "content": [CALL], "stop_reason": "tool_use"}


@pytest.mark.slow
@pytest.mark.parametrize(("typed", "code", "made"), [("y\n", 0, True), ("use ls\n", 3, False), ("\x03", 130, False)])
def test_the_user_decides_about_each_call_that_asks(
    make_deep: Callable[..., Any], typed: str, code: int, made: bool
) -> None:
    deep = make_deep("backends", "filesystem", "universe")
    (deep.work / "answer.json").write_text(json.dumps(ANSWER), encoding="utf-8")
    done = deep.typed("tools", "dispatch", "answer.json", answers=[("run it?", typed)], env={})
    assert done.code == code, done.out
    assert "command: printf made > b.txt" in done.out
    assert (deep.work / "b.txt").exists() is made
    assert ("The user refused this call: use ls" in done.out) is (typed == "use ls\n")
