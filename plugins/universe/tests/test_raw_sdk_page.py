"""The loops of docs/raw-sdk-tools.md that the page itself does not run: each with its provider's own client."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import httpx
import openai
import pytest
from google import genai
from google.genai import types as google

from tests.docs_pages import ROOT, blocks
from tests.stubs import Call, OpenAIStub, Script

BALANCE = {"account": "savings"}
Server = tuple[list[Any], httpx.AsyncClient]


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    """What the page defines: its first block, the file that the others import, and those that define a loop."""
    namespace: dict[str, Any] = {}
    bank, *others = [block.code for block in blocks(ROOT / "docs" / "raw-sdk-tools.md") if block.language == "python"]
    exec(bank, namespace)
    for block in others:
        imported, found, loop = block.partition("\nasync def ask_")
        if found and imported.strip() == "from bank import tools, universe":
            exec(found + loop, namespace)
    return namespace


def server(name: str, *contents: Any) -> Server:
    """A client whose server records bodies, and plays a recorded reply with other contents."""
    rows = json.loads((Path(__file__).parent / "recorded" / f"{name}.json").read_text(encoding="utf-8"))
    requests: list[Any] = []
    rest = iter(contents)

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(json.loads(request.content))
        return httpx.Response(200, json={**rows[0]["response"], **next(rest)})

    return requests, httpx.AsyncClient(transport=httpx.MockTransport(answer))


def test_the_page_has_a_loop_for_each_provider(page: dict[str, Any]) -> None:
    assert {"ask_openai", "ask_responses", "ask_gemini"} <= set(page)


def test_the_loop_of_chat_completions(page: dict[str, Any]) -> None:
    with OpenAIStub(Script([Call("get_balance", BALANCE)], "1,200 euros.")) as stub:

        async def talk() -> str:
            async with openai.AsyncOpenAI(base_url=stub.base_url, api_key="x", max_retries=0) as client:
                return await page["ask_openai"](client, "How much?", "ann")

        assert anyio.run(talk) == "1,200 euros."
    assert stub.statuses == [200, 200]
    assert stub.requests[1]["messages"][-1]["content"] == '{"balance":1200}'


@pytest.mark.slow
def test_the_loop_of_responses(page: dict[str, Any]) -> None:
    call = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "get_balance", "status": "completed"}
    text = {"type": "output_text", "text": "1,200 euros.", "annotations": []}
    message = {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [text]}
    requests, http = server(
        "openai-responses", {"output": [{**call, "arguments": json.dumps(BALANCE)}]}, {"output": [message]}
    )

    async def talk() -> str:
        async with openai.AsyncOpenAI(api_key="x", http_client=http, max_retries=0) as client:
            return await page["ask_responses"](client, "How much?", "ann")

    assert anyio.run(talk) == "1,200 euros."
    assert requests[1]["input"][-1] == {"type": "function_call_output", "call_id": "c1", "output": '{"balance":1200}'}


def test_the_loop_of_gemini(page: dict[str, Any]) -> None:
    def candidates(part: dict[str, Any]) -> dict[str, Any]:
        return {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}]}

    call = candidates({"functionCall": {"name": "get_balance", "args": BALANCE}})
    requests, http = server("gemini", call, candidates({"text": "1,200 euros."}))

    async def talk() -> str:
        async with http:
            client = genai.Client(api_key="x", http_options=google.HttpOptions(httpx_async_client=http))
            return await page["ask_gemini"](client, "How much?", "ann")

    assert anyio.run(talk) == "1,200 euros."
    [part] = requests[1]["contents"][-1]["parts"]
    response = part.get("functionResponse") or part["function_response"]
    assert response == {"name": "get_balance", "response": {"output": {"balance": 1200}}}
