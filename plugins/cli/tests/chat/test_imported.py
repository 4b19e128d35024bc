"""Ten conversations of Claude Code and ten of Codex go on in `deep chat`, and are exported."""

from __future__ import annotations

import json
from typing import Any

import pytest
from deep_sessions.foreign import read_foreign

from plugins.sessions.tests.test_foreign import ALL, Line
from tests.stubs import OpenAIStub, Script


def spoken(says: list[str]) -> list[str]:
    """What the user and the model said, of a conversation in words."""
    return [each.partition(" ")[2] for each in says if each.startswith(("user ", "agent "))]


@pytest.mark.slow
def test_what_was_begun_elsewhere_goes_on_here_and_can_be_exported(make_deep: Any) -> None:
    deep = make_deep("backends")
    (folder := deep.work / "theirs").mkdir()
    ids: list[str] = []
    for number, (_, lines, _, _) in enumerate(ALL):
        file = folder / f"{number:02}.jsonl"
        written = "".join(json.dumps(line) + "\n" for line in lines)
        written = written.replace("/home/ann/shop", str(deep.work))
        for known in ("11111111-2222", "0199", "0188"):  # a conversation's own id
            written = written.replace(f'"{known}', f'"{number}-{known}')
        file.write_text(written, encoding="utf-8")
        found = read_foreign(file)
        assert found is not None
        ids.append(found.session_id)
    assert len(ids) == len(set(ids)) == 20
    done = deep("sessions", "import", str(folder)).ok()
    assert done.out.count("imported ") == 20, done.out
    for session_id, (name, _, says, _) in zip(ids, ALL, strict=True):
        with OpenAIStub(Script("I go on.")) as stub:
            resumed = ("chat", "--resume", session_id, "--model", "openai-chat:stub")
            assert deep.piped("Go on.\n", *resumed, env=stub.env).ok().out == "I go on.\n", name
        (request,) = stub.requests
        assert_sendable(request["messages"])
        sent = [words for words in texts(request["messages"]) if words in spoken(says)]
        assert sent == [words for words in spoken(says) if "(picture)" not in words], name
        exported = deep("sessions", "export", session_id).ok().out
        assert all(json.dumps(words)[1:-1] in exported for words in [*sent, "I go on."]), name


def texts(messages: list[Line]) -> list[str]:
    """The texts of a request, in order."""
    found: list[str] = []
    for message in messages:
        content = message.get("content") or []
        found += [content] if isinstance(content, str) else [part["text"] for part in content if "text" in part]
    return found


def assert_sendable(messages: list[Line]) -> None:
    """OpenAI refuses a call without a result, and a result without a call."""
    open_calls: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            open_calls.remove(message["tool_call_id"])
        else:
            assert not open_calls
            open_calls = [call["id"] for call in message.get("tool_calls") or []]
    assert not open_calls
