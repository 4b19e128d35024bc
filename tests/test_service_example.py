"""`examples/service` in real processes: two tenants, a kill in a call, an approval over HTTP, deletion."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.another_process import start
from tests.drawn import many
from tests.environments import REPOSITORY
from tests.postgresql import cluster
from tests.stubs import Call, Failure, OpenAIStub, Script

HTTP = httpx.Client(timeout=120, limits=httpx.Limits(max_keepalive_connections=0))
"""A busy machine takes longer than httpx's five seconds."""
ACME, GLOBEX = ({"Authorization": f"Bearer {secret}"} for secret in ("secret1", "secret2"))


class Publisher:
    """A service that honors idempotency keys, and does not answer its first request."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.pages: dict[str, str] = {}
        self.called, self.gate = threading.Event(), threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                key, length = self.headers["Idempotency-Key"], int(self.headers["Content-Length"])
                outer.pages.setdefault(key, self.rfile.read(length).decode())
                outer.keys.append(key)
                outer.called.set()
                if len(outer.keys) == 1:
                    outer.gate.wait()
                    return
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"published")

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"

    def __enter__(self) -> Publisher:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.gate.set()
        self.server.shutdown()
        self.server.server_close()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextmanager
def service(store: str, publisher: Publisher, stub: OpenAIStub, home: Path) -> Iterator[tuple[str, Any]]:
    """The service in its own process: its address, and the process."""
    port = free_port()
    env = {
        **{key: value for key, value in os.environ.items() if not key.startswith(("DEEP_", "XDG_"))},
        **stub.env,
        "HOME": str(home),
        "STORE": store,
        "TENANTS": "acme:secret1,globex:secret2",
        "DEEP_MODEL": "openai-chat:stub",
        "PUBLISHER": publisher.url,
    }
    command = ["-m", "uvicorn", "examples.service.app:app", "--port", str(port), "--log-level", "error"]
    process = start(*command, cwd=REPOSITORY, env=env)
    try:
        address = f"http://127.0.0.1:{port}"
        while True:
            assert process.poll() is None, "the service ended"
            try:
                HTTP.get(f"{address}/docs")
                break
            except httpx.TransportError:
                time.sleep(0.05)
        yield address, process
    finally:
        process.kill()
        process.wait()


def watch(address: str, name: str, until: str, after: int = 0) -> list[dict[str, Any]]:
    """The events after this number, up to the first of this kind."""
    found: list[dict[str, Any]] = []
    headers = {**ACME, "Last-Event-ID": str(after)}
    with HTTP.stream("GET", f"{address}/sessions/{name}/events", headers=headers) as stream:
        for line in stream.iter_lines():
            if line.startswith("data: "):
                found.append(json.loads(line.removeprefix("data: ")))
                if found[-1]["kind"] == until:
                    return found
    raise AssertionError(f"the stream ended without {until}")


@pytest.fixture(
    params=["sqlite", pytest.param("postgresql", marks=[pytest.mark.needs("PostgreSQL"), pytest.mark.exhaustive])]
)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'service.db'}"
        return
    with cluster() as running:
        yield running.create_database()


@pytest.mark.slow
def test_the_service_keeps_tenants_apart_survives_a_kill_and_publishes_once(store: str, tmp_path: Path) -> None:
    script = Script(Call("publish", {"page": "news"}), "It is published.")
    with Publisher() as publisher, OpenAIStub(script) as stub:
        with service(store, publisher, stub, tmp_path) as (address, process):
            own = f"{address}/sessions/news"
            assert HTTP.get(f"{own}/approvals").status_code == 401
            sent = HTTP.post(f"{own}/messages", headers=ACME, json={"text": "Publish the news."})
            assert sent.status_code == 202
            first = watch(address, "news", "approvals_asked")
            assert HTTP.get(f"{own}/approvals", headers=GLOBEX).status_code == 404
            assert HTTP.get(f"{own}/events", headers=GLOBEX).status_code == 404
            assert HTTP.delete(own, headers=GLOBEX).status_code == 404
            assert HTTP.post(f"{own}/messages", headers=ACME, json={"text": "And?"}).status_code == 409
            process.kill()  # while the call waits
            process.wait()
        with service(store, publisher, stub, tmp_path) as (address, process):
            own = f"{address}/sessions/news"
            (waiting,) = HTTP.get(f"{own}/approvals", headers=ACME).json()
            assert (waiting["tool"], waiting["args"]) == ("publish", {"page": "news"})
            answer, yes = f"{own}/approvals/{waiting['id']}", {"approve": True}
            assert HTTP.post(answer, headers=ACME, json=yes).status_code == 202
            assert HTTP.post(answer, headers=ACME, json=yes).status_code == 409
            assert publisher.called.wait(60)
            process.send_signal(signal.SIGKILL)  # in the middle of the call
            process.wait()
        with service(store, publisher, stub, tmp_path) as (address, process):
            own = f"{address}/sessions/news"
            assert HTTP.post(f"{own}/resume", headers=ACME).status_code == 202
            rest = watch(address, "news", "run_ended", after=first[-1]["n"])
            assert [event["n"] for event in [*first, *rest]] == sorted({event["n"] for event in [*first, *rest]})
            assert [event["text"] for event in rest if event["kind"] == "message_added"] == ["It is published."]
            assert HTTP.delete(own, headers=ACME).status_code == 204
            assert HTTP.get(f"{own}/approvals", headers=ACME).status_code == 404
    assert publisher.keys[0] == publisher.keys[1]
    assert [*publisher.pages.values()] == ["news"]


@pytest.mark.slow
def test_of_several_answers_at_once_one_is_accepted_and_the_others_get_409(store: str, tmp_path: Path) -> None:
    """Whether the page is published agrees with the answer that got 202."""
    rounds = many(3, 1_000)
    script = Script(*(step for _ in range(rounds) for step in (Call("publish", {"page": "news"}), "Done.")))
    with Publisher() as publisher, OpenAIStub(script) as stub:
        publisher.keys.append("")  # it answers from the first request on
        with service(store, publisher, stub, tmp_path) as (address, _):
            for number in range(rounds):
                own = f"{address}/sessions/s{number}"
                HTTP.post(f"{own}/messages", headers=ACME, json={"text": "Publish the news."})
                watch(address, f"s{number}", "approvals_asked")
                [asked] = HTTP.get(f"{own}/approvals", headers=ACME).json()
                url, published = f"{own}/approvals/{asked['id']}", len(publisher.keys)

                def answer(n: int, url: str = url) -> httpx.Response:
                    return HTTP.post(url, headers=ACME, json={"approve": bool(n % 2)})

                count = 2 + number % 7
                with ThreadPoolExecutor(count) as pool:
                    told = [*pool.map(answer, range(count))]
                accepted = [n for n, response in enumerate(told) if response.status_code == 202]
                assert len(accepted) == 1, [response.status_code for response in told]
                for n, response in enumerate(told):
                    if n not in accepted:
                        assert response.status_code == 409
                        assert response.json()["code"] == "not_pending"
                        assert "does not wait" in response.text or "was decided already" in response.text
                watch(address, f"s{number}", "run_ended")
                assert len(publisher.keys) - published == accepted[0] % 2


@pytest.mark.slow
def test_a_late_answer_gets_409_also_where_the_same_call_id_asks_again(store: str, tmp_path: Path) -> None:
    pages = ["news", "secrets"]
    script = Script(*(Call("publish", {"page": page}, id="c/1") for page in pages), "Done.")
    with Publisher() as publisher, OpenAIStub(script) as stub:
        publisher.keys.append("")  # it answers from the first request on
        with service(store, publisher, stub, tmp_path) as (address, _):
            own, after = f"{address}/sessions/s", 0
            HTTP.post(f"{own}/messages", headers=ACME, json={"text": "Publish the news."})
            answers: list[tuple[str, dict[str, Any]]] = []
            for page in pages:
                after = watch(address, "s", "approvals_asked", after)[-1]["n"]
                for url, yes in answers:
                    late = HTTP.post(url, headers=ACME, json=yes)
                    assert (late.status_code, late.json()["code"]) == (409, "not_pending")
                    assert "what you answered was not used" in late.json()["message"]
                [asked] = HTTP.get(f"{own}/approvals", headers=ACME).json()
                assert asked["args"] == {"page": page}
                answers.append((f"{own}/approvals/{asked['id']}", {"approve": page == "news"}))
                assert HTTP.post(f"{own}/approvals/c/1", headers=ACME, json={"approve": True}).status_code == 409
                assert HTTP.post(answers[-1][0], headers=ACME, json=answers[-1][1]).status_code == 202
            watch(address, "s", "run_ended", after)
    assert [*publisher.pages.values()] == ["news"]


@pytest.mark.slow
def test_a_run_that_failed_is_tried_again_and_a_conversation_is_compacted(store: str, tmp_path: Path) -> None:
    long = "tell me " + "all of it " * 200
    script = Script(Failure(403, "not now"), Failure(403, "not now"), "word " * 900, "A summary.", "Here.")
    with (
        Publisher() as publisher,
        OpenAIStub(script) as stub,
        service(store, publisher, stub, tmp_path) as (address, _),
    ):
        own = f"{address}/sessions/talk"

        def post(what: str, tenant: dict[str, str] = ACME, **body: str) -> httpx.Response:
            return HTTP.post(f"{own}/{what}", headers=tenant, json=body)

        assert post("retry").status_code == post("compact").status_code == 404
        assert post("messages", text=long).status_code == 202
        failed = watch(address, "talk", "run_ended")[-1]
        assert (failed["status"], failed["code"]) == ("failed", "unauthorized")
        assert post("retry", GLOBEX).status_code == post("compact", GLOBEX).status_code == 404
        for status in ("failed", "completed"):  # the same run, as often as it takes
            assert post("retry").status_code == 202
            ended = watch(address, "talk", "run_ended", after=failed["n"])[-1]
            assert (ended["status"], ended["run_id"]) == (status, failed["run_id"])
            failed = ended
        assert str(stub.requests[-1]["messages"]).count("tell me") == 1
        assert (post("retry").status_code, post("retry").json()["code"]) == (409, "nothing_to_resume")
        done = post("compact", keep="the second word")
        assert (done.status_code, done.json()["messages"]) == (200, 2)
        assert done.json()["after"] < done.json()["before"]
        assert "keep above all: the second word" in str(stub.requests[-1]["messages"])
        assert (post("compact").status_code, post("compact").json()["code"]) == (409, "not_compacted")
        post("messages", text="and now?")
        assert watch(address, "talk", "run_ended", after=ended["n"])[-1]["status"] == "completed"
        assert "word word" not in str(stub.requests[-1]["messages"])
