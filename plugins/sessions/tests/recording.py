"""Records how a running server, or gateway, speaks Chat Completions, as a dialect of the matrix.

    python -m plugins.sessions.tests.recording http://127.0.0.1:8000/v1 vllm "vllm 0.30.1" --how "vllm serve DIR"

writes `recordings/vllm.json`: what the server says of itself, and its answers, streamed and not, to one word, to one
call, to two, and to a request that fails. A row in `dialects.DIALECTS` adds it to the matrix. Look at the file first: a
model's name becomes `m`; a path, a host or a key that a server shows is taken out by hand, and `altered` says so.

A gateway stands in front of a server. Without one, `--upstream PORT` serves what llama.cpp answered (`llama_cpp.json`),
two calls, and an error about the window, and `--how` says that.
"""

from __future__ import annotations

import argparse
import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2

from plugins.sessions.tests.dialects import REAL, RECORDINGS, Answer, Body, call, serving

ASKED = {
    "plain": "Say one word.",
    "call": "Call ping once, with a.",
    "calls": "Call ping twice, with a and b.",
    "error": "fail",
}
SAYS = ("/v1/models", "/props", "/api/ps", "/api/v0/models")
TEXT: Body = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOL: Body = {"type": "function", "function": {"name": "ping", "description": "Ping a text.", "parameters": TEXT}}
FULL: Body = {
    "code": 400,
    "message": "request (9124 tokens) exceeds the available context size (8192 tokens), try increasing it",
    "type": "exceed_context_size_error",
    "n_prompt_tokens": 9124,
    "n_ctx": 8192,
}


def record(address: str, version: str, *, how: str, model: str = "m", key: str = "none", fails: str = "fail") -> Body:
    """Ask a server; give what a file of `recordings` holds.

    Args:
        address: its base URL, with `/v1`.
        version: its name and version.
        how: how it was started, with which model.
        model: the model's name there.
        key: the server's key.
        fails: a prompt, or with `model:` before it the name of a model, that the server answers with an error.
    """
    with httpx2.Client(headers={"authorization": f"Bearer {key}"}, timeout=400) as client:
        said: Body = {}
        for path in SAYS:
            answer = client.get(address.removesuffix("/v1") + path)
            if answer.status_code == 200 and isinstance(body := _read(answer.text), dict):
                said[path] = body
        exchanges: Body = {}
        for name, words in ASKED.items():
            body: Body = {"model": model, "max_tokens": 40, "temperature": 0}
            if name == "error":
                absent = fails.removeprefix("model:") if fails.startswith("model:") else ""
                words, body["model"] = fails, absent or model
            if "call" in name:
                body["tools"] = [TOOL]
            body["messages"] = [{"role": "user", "content": words}]
            found = _exchange(client, f"{address}/chat/completions", body)
            if name != "error" or found["status"] != 200 or "error" in found["whole"]:
                exchanges[name] = found
    today = datetime.now(UTC).date().isoformat()
    made = {
        "version": version,
        "recorded": today,
        "how": how,
        "altered": "nothing",
        "get": said,
        "exchanges": exchanges,
    }
    if model == "m":
        return made
    return {**json.loads(json.dumps(made).replace(model, "m")), "altered": "the model's name is `m`"}


def _exchange(client: httpx2.Client, url: str, body: Body) -> Body:
    whole = client.post(url, json=body)
    out: Body = {"status": whole.status_code, "whole": _read(whole.text)}
    try:
        streamed = client.post(url, json={**body, "stream": True, "stream_options": {"include_usage": True}})
    except httpx2.TransportError:  # it broke the connection off
        return {**out, "stream_status": 200, "chunks": [], "done": False}
    lines = [line.removeprefix("data:").strip() for line in streamed.text.splitlines() if line.startswith("data:")]
    if not lines:
        return {**out, "stream_status": streamed.status_code, "chunks": _read(streamed.text)}
    chunks = [_read(line) for line in lines if line != "[DONE]"]
    return {**out, "stream_status": streamed.status_code, "chunks": chunks, "done": "[DONE]" in lines}


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def upstream(body: Body, _: int) -> Answer:
    """What a server behind a gateway answers: llama.cpp's own words, and calls where the prompt asks for them."""
    asked = json.dumps(body["messages"])
    if "fail" in asked:
        return Answer({"error": FULL}, 400)
    wanted = 0 if body["messages"][-1]["role"] == "tool" else 2 if "twice" in asked else int("once" in asked)
    calls = [call("ping", json.dumps({"text": text}), f"up{text}", index=at) for at, text in enumerate("ab"[:wanted])]
    if not calls:
        return Answer(REAL["chunks"] if body.get("stream") else REAL["whole"])
    message: Body = {"role": "assistant", "content": None, "tool_calls": calls}
    choice = {"index": 0, "finish_reason": "tool_calls"}
    if not body.get("stream"):
        return Answer({**REAL["whole"], "choices": [{**choice, "message": message}]})
    head, usage = REAL["chunks"][0], REAL["chunks"][-1]
    begun = {**head, "choices": [{"index": 0, "delta": message, "finish_reason": None}]}
    return Answer([begun, {**head, "choices": [{**choice, "delta": {}}]}, usage])


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("address", nargs="?")
    parser.add_argument("name", nargs="?", help="of the file in recordings/")
    parser.add_argument("version", nargs="?", help="name and version of the server")
    parser.add_argument("--how", default="", help="how it was started, with which model")
    parser.add_argument("--model", default="m")
    parser.add_argument("--key", default="none")
    parser.add_argument("--fails", default="fail", help="a prompt that it answers with an error; or model:NAME")
    parser.add_argument("--upstream", type=int, metavar="PORT", help="serve what llama.cpp answered, for a gateway")
    parser.add_argument("--folder", type=Path, default=RECORDINGS)
    given = parser.parse_args()
    if given.upstream is not None:
        with serving(upstream, REAL["get"], given.upstream) as url:
            print(url, flush=True)
            while True:
                time.sleep(3600)
    if None in (given.address, given.name, given.version) or not given.how:
        parser.error("an address, a name, a version, and --how")
    made = record(given.address, given.version, how=given.how, model=given.model, key=given.key, fails=given.fails)
    (given.folder / f"{given.name}.json").write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
