"""Tests of the window of a model: asked of the server, learned from an overflow, and what happens at one."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from deep_sessions import explained_window
from deep_sessions.requests import windows
from deep_sessions.requests.ends import RequestFailed
from deep_sessions.requests.windows import find_window
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from deep_core import Kernel, create_default_deps


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A server of an earlier test had the port of this one, and another window; the user's cache knew it too."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(windows, "_KNOWN", {})
    monkeypatch.setattr(windows, "_FACTS", {})


WINDOW = 8_192
Answer = Callable[[dict[str, Any]], tuple[int, dict[str, Any]]]


@contextmanager
def server(pages: Mapping[str, Any], answer: Answer | None = None) -> Iterator[tuple[str, list[str]]]:
    """A server that answers what is asked of it, and chats as `answer` says."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None: ...

        def send(self, status: int, body: Any) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            asked.append(self.path)
            self.send(200 if self.path in pages else 404, pages.get(self.path, {}))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if answer is not None and self.path.endswith("/chat/completions"):
                self.send(*answer(body))
            else:
                self.do_GET()

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{running.server_port}/v1", asked
    finally:
        running.shutdown()
        thread.join()
        running.server_close()


def model_at(url: str) -> OpenAIChatModel:
    return OpenAIChatModel("m", provider=OpenAIProvider(base_url=url, api_key="none"))


@pytest.mark.parametrize(
    "pages",
    [
        pytest.param({"/v1/models": {"data": [{"id": "m", "meta": {"n_ctx": WINDOW}}]}}, id="llama.cpp"),
        pytest.param({"/v1/models": {"data": [{"id": "m", "max_model_len": WINDOW}]}}, id="vllm"),
        pytest.param(
            {"/v1/models": {"data": [{"id": "x", "context_length": 9}, {"id": "m", "context_length": WINDOW}]}},
            id="openrouter",
        ),
        pytest.param(
            {"/v1/models": {"data": []}, "/props": {"default_generation_settings": {"n_ctx": WINDOW}}}, id="props"
        ),
        pytest.param({"/api/ps": {"models": [{"name": "m", "context_length": WINDOW}]}}, id="ollama, loaded"),
        pytest.param(
            {"/api/ps": {"models": []}, "/api/show": {"parameters": f"stop x\nnum_ctx    {WINDOW}"}},
            id="ollama, num_ctx",
        ),
        pytest.param(
            {"/api/v0/models": {"data": [{"id": "m", "max_context_length": 99_999, "loaded_context_length": WINDOW}]}},
            id="lmstudio",
        ),
    ],
)
def test_a_server_is_asked_once(pages: dict[str, Any]) -> None:
    with server(pages) as (url, asked):

        async def main() -> list[Any]:
            return [await find_window(model_at(url)) for _ in range(2)]

        first, second = asyncio.run(main())
        assert first == second == (WINDOW, "server")
        assert len(asked) == len({*asked})


def test_a_server_that_does_not_say_it_is_not_asked_again() -> None:
    with server({}) as (url, asked):

        async def main() -> list[Any]:
            return [await find_window(model_at(url)) for _ in range(3)]

        assert asyncio.run(main()) == [None] * 3
        assert len(asked) == len({*asked})
        assert "/api/show" not in asked  # a POST, which only ollama knows


def test_a_cloud_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask(model: object) -> int:
        raise AssertionError("asked")

    monkeypatch.setattr(windows, "_ask", ask)
    window = asyncio.run(find_window(model_at("https://api.openai.com/v1")))
    assert window is None or window.source == "list"


def explained(config: dict[str, Any]) -> Any:
    with Kernel(config={"agent": {"model": config}}) as kernel:
        return asyncio.run(explained_window(kernel))


def test_an_explained_window_says_who_says_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert explained({"model": "m", "context_window": 9_000}) == (9_000, "configured")
    assert explained({"provider": "anthropic", "model": "claude-sonnet-4-5"}).source == "list"
    with server({"/v1/models": {"data": [{"id": "m", "max_model_len": WINDOW}]}}) as (url, _):
        assert explained({"provider": "openai-chat", "model": "m", "base_url": url}) == (WINDOW, "server")
    monkeypatch.setattr(windows, "_KNOWN", {})
    assert explained({"provider": "openai-chat", "model": "gpt-unheard"}) == (128_000, "guess")


def test_what_an_overflow_taught_is_known_in_another_process_for_a_week(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with server({}) as (url, _):
        config = {"provider": "openai-chat", "model": "m", "base_url": url}
        assert explained(config) == (128_000, "guess")
        windows.learn_window(model_at(url), 5_000, lambda: tmp_path / "deep" / "plugins" / "sessions")
        for _ in range(2):
            monkeypatch.setattr(windows, "_KNOWN", {})
            assert explained(config) == (5_000, "learned")
        (file,) = tmp_path.rglob("windows.json")
        monkeypatch.setattr(windows, "_KNOWN", {})
        later = time.time() + 8 * 86_400
        monkeypatch.setattr(windows.time, "time", lambda: later)
        assert explained(config) == (128_000, "guess")
        for broken in ("", "[]", "{", '{"a": 1}', '{"a": [1, "x"]}'):
            file.write_text(broken)
            monkeypatch.setattr(windows, "_KNOWN", {})
            assert explained(config) == (128_000, "guess")


def chats(limit: int, *, says: bool = True) -> Answer:
    def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        size = len(json.dumps(body)) // 4
        if size > limit:
            message = "Your input exceeds the context window of this model."
            if says:
                message = f"request ({size} tokens) exceeds the available context size ({limit} tokens)"
            return 400, {"error": {"code": 400, "message": message}}
        choice = {"index": 0, "message": {"role": "assistant", "content": "Noted."}, "finish_reason": "stop"}
        usage = {"prompt_tokens": size, "completion_tokens": 2, "total_tokens": size + 2}
        return 200, {
            "id": "1",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [choice],
            "usage": usage,
        }

    return answer


@pytest.mark.parametrize("says", [True, False])
def test_an_overflow_compacts_once_and_the_conversation_goes_on(says: bool) -> None:
    refused: list[int] = []

    def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        status, said = chats(WINDOW, says=says)(body)
        if status != 200:
            refused.append(status)
        return status, said

    with server({}, answer) as (url, _), Kernel(read_config=False) as kernel:
        agent, deps, history = (
            kernel.create_agent(model_at(url), backend="memory"),
            create_default_deps(kernel=kernel),
            None,
        )
        for turn in range(12):
            text = f"Note {turn}: " + "the ebb begins at six. " * 170
            history = agent.run_sync(text, deps=deps, message_history=history).all_messages()
    assert 1 <= len(refused) <= 2


def test_a_fixed_part_that_does_not_fit_is_named() -> None:
    with server({}, chats(300)) as (url, _), Kernel(read_config=False) as kernel:
        agent = kernel.create_agent(model_at(url), backend="memory")
        with pytest.raises(
            RequestFailed, match=r"Its largest parts, in tokens: .*tool .*name a model with a larger"
        ) as error:
            agent.run_sync("hello", deps=create_default_deps(kernel=kernel))
    assert error.value.end.kind == "overflow"
