"""The recorder of dialects: what it writes of a server is a dialect of the matrix."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from deep_sessions.requests.served import ServedModel

from plugins.sessions.tests.dialects import QUIRKS, REAL, Answer, Body, dialect_of, recordings_in, serving
from plugins.sessions.tests.recording import FULL, record, upstream
from plugins.sessions.tests.test_nearly_openai import answer_of, answering, either, ran

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[3]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.slow
@either
async def test_a_recorded_server_is_a_dialect(tmp_path: Path, streamed: bool) -> None:
    with serving(upstream, REAL["get"]) as url:
        command = [sys.executable, "-m", "plugins.sessions.tests.recording", url, "stub", "stub 1.0", "--how", "a test"]
        subprocess.run([*command, "--folder", str(tmp_path)], check=True, cwd=ROOT, timeout=60)
    found = recordings_in(tmp_path)["stub"]
    assert (found["version"], found["how"], found["altered"]) == ("stub 1.0", "a test", "nothing")
    assert (found["exchanges"]["error"]["status"], found["exchanges"]["error"]["whole"]) == (400, {"error": FULL})
    dialect = dialect_of(found, "llama.cpp")
    assert dialect.models == {path: body for path, body in REAL["get"].items() if path in dialect.models}
    for quirk in ("the id is null", "finish is stop"):
        with serving(answering(dialect, QUIRKS[quirk])) as url:
            made, result = await ran(ServedModel("m", url, "none", None), streamed)
        assert (made, result.output) == (["a"], "done")

    def again(body: Body, number: int) -> Answer:
        return answer_of(found["exchanges"]["calls" if number == 1 else "plain"], bool(body.get("stream")))

    with serving(again) as url:
        made, _ = await ran(ServedModel("m", url, "none", None), streamed)
    assert sorted(made) == ["a", "b"]


def test_a_models_name_is_not_recorded_and_no_error_is_none() -> None:
    def answer(body: Body, number: int) -> Answer:
        made = upstream({**body, "messages": [{"role": "user", "content": "Say."}]}, number)
        return Answer(json.loads(json.dumps(made.body).replace('"m"', f'"{body["model"]}"')))

    with serving(answer, {"/v1/models": {"data": [{"id": "/home/me/model"}]}}) as url:
        found = record(url, "stub 1.0", how="a test", model="/home/me/model")
    assert "/home" not in json.dumps(found)
    assert found["altered"] == "the model's name is `m`"
    assert "error" not in found["exchanges"]
