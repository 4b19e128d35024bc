"""examples/cluster: its processes under load while each is restarted, and its files by the programs that read them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from deep_durable import finish
from deep_sessions import AgentDeps, DeepAgent, Sessions, open_store
from fastapi.testclient import TestClient
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from pydantic_ai.models.test import TestModel

from examples.cluster import app as service
from tests.cluster import Clients, Processes, World, page_of
from tests.drawn import many
from tests.environments import REPOSITORY
from tests.postgresql import cluster

FOLDER = REPOSITORY / "examples" / "cluster"
MANIFESTS = sorted((FOLDER / "kubernetes").glob("*.yaml"))
SERVICES, WORKERS, SESSIONS = many(2, 4), many(2, 8), many(40, 500)


@pytest.mark.slow
@pytest.mark.needs("PostgreSQL")
def test_nothing_is_lost_or_done_twice_while_each_process_is_restarted(tmp_path: Path) -> None:
    with cluster() as server, World(seconds=0.2).serving() as world:
        processes = Processes(server.create_database(), tmp_path, world)
        with processes.running(SERVICES, WORKERS):
            clients = Clients(processes.addresses)
            told = asyncio.run(_under_load(processes, clients))
    prompts = [f"page {number}" for number in range(SESSIONS)]
    assert sorted(world.published.values()) == sorted(prompts)  # each once: a second call would have a key of its own
    for prompt, events in zip(prompts, told, strict=True):
        numbers = [event["n"] for event in events]
        assert numbers == sorted(set(numbers)), prompt
        answers = [
            event["text"] for event in events if event["kind"] == "message_added" and event["role"] == "assistant"
        ]
        assert [text for text in answers if text] == [page_of(prompt)], prompt
        assert [event["text"] for event in events if event["kind"] == "run_started"][:1] == [prompt]
        assert (events[-1]["kind"], events[-1]["status"]) == ("run_ended", "completed"), prompt
    assert clients.broken["streams"]  # else nothing was restarted under a watcher


async def _under_load(processes: Processes, clients: Clients) -> list[list[dict[str, Any]]]:
    """Let people come while processes go; the last ones come after the last restart."""
    restarting = asyncio.create_task(processes.restart_each())
    talks: list[asyncio.Task[list[dict[str, Any]]]] = []
    async with asyncio.TaskGroup() as group:
        for number in range(SESSIONS):
            talks.append(group.create_task(clients.talk(f"s{number}", f"page {number}")))
            open_talks = [talk for talk in talks if not talk.done()]
            while len(open_talks) >= 20:
                _, waiting = await asyncio.wait(open_talks, return_when=asyncio.FIRST_COMPLETED)
                open_talks = [*waiting]
            if number == SESSIONS - SESSIONS // 10:
                await restarting
    return [talk.result() for talk in talks]


# -- one service -------------------------------------------------------------------------------------------------------


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("STORE", url := f"sqlite:///{tmp_path / 'service.db'}")
    monkeypatch.setenv("TENANTS", "acme:secret1,globex:secret2")
    return url


@pytest.fixture
def client(url: str) -> Iterator[TestClient]:
    with TestClient(service.app, headers={"Authorization": "Bearer secret1"}) as found:
        yield found


def test_a_message_that_is_sent_again_is_taken_once_and_another_tenant_does_not_see_it(
    client: TestClient, url: str
) -> None:
    for _ in range(2):
        assert client.post("/sessions/tides/messages", json={"id": "1", "text": "High water?"}).status_code == 202
    assert client.get("/queue").json() == {"waiting": 1, "running": 0, "aside": 0}
    assert asyncio.run(_worked(url)) == ["High water?", "Soon."]
    client.post("/sessions/tides/messages", json={"id": "1", "text": "High water?"})  # also after its run
    assert asyncio.run(_worked(url)) == ["High water?", "Soon."]
    for path in ("events", "approvals"):
        other = {"Authorization": "Bearer secret2"}
        assert client.get(f"/sessions/tides/{path}", headers=other).status_code == 404
        assert client.get(f"/sessions/tides/{path}", headers={"Authorization": "none"}).status_code == 401


async def _worked(url: str) -> list[str]:
    """Do what waits, as a worker does; return the conversation."""
    store = open_store(url)
    model = TestModel(call_tools=[], custom_output_text="Soon.")
    agent = await DeepAgent.create(deps=AgentDeps(model=model, session_store=store.for_owner("acme")))
    await finish(agent, "tides")
    async with Sessions(agent) as sessions:
        said = [str(part.content) for message in await sessions.history("tides") for part in message.parts]
    await agent.close()
    await store.aclose()
    return said


async def publish(page: str) -> str:
    return f"published {page}"


def test_a_decision_is_recorded_once_and_a_worker_goes_on(client: TestClient, url: str) -> None:
    async def ask_or_finish(session_id: str, *, ask: bool) -> str:
        store = open_store(url)
        deps = AgentDeps(model="test", session_store=store.for_owner("acme"))
        agent = await DeepAgent.create(config={"interrupt_on": {"publish": True}}, deps=deps, tools=[publish])
        if ask:
            await agent.run("Publish it.", session_id=session_id, allowed_tools=["publish"])
        else:
            await finish(agent, session_id)
        status = (await agent.store.info(session_id)).status
        await agent.close()
        await store.aclose()
        return status

    assert asyncio.run(ask_or_finish("page", ask=True)) == "awaiting"
    (asked,) = client.get("/sessions/page/approvals").json()
    assert (asked["tool"], asked["args"]) == ("publish", {"page": "a"})
    assert client.post(f"/sessions/page/approvals/{asked['id']}", json={"approve": True}).status_code == 202
    assert client.post(f"/sessions/page/approvals/{asked['id']}", json={"approve": False}).status_code == 409
    assert client.get("/queue").json()["waiting"] == 1
    assert asyncio.run(ask_or_finish("page", ask=False)) == "idle"
    assert client.get("/sessions/page/approvals").json() == []


def test_the_length_of_the_queue_is_a_metric(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = InMemoryMetricReader()
    gauge = MeterProvider([reader]).get_meter("test").create_gauge("deep.queue.jobs")
    monkeypatch.setattr(service, "JOBS", gauge)
    client.post("/sessions/tides/messages", json={"id": "1", "text": "High water?"})
    client.get("/queue")
    data = reader.get_metrics_data()
    assert data is not None
    metric = json.loads(data.to_json())["resource_metrics"][0]["scope_metrics"][0]["metrics"][0]
    values = {point["attributes"]["state"]: point["value"] for point in metric["data"]["data_points"]}
    assert (metric["name"], values) == ("deep.queue.jobs", {"waiting": 1, "running": 0, "aside": 0})


@pytest.mark.slow
@pytest.mark.needs("PostgreSQL")
def test_a_service_without_its_database_lives_and_is_not_ready(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.ExitStack() as stack:
        with cluster() as server:
            monkeypatch.setenv("STORE", server.create_database())
            client = stack.enter_context(TestClient(service.app))
            assert client.get("/readyz").json() == {"status": "ok"}
        assert client.get("/readyz").status_code == 503
        assert client.get("/healthz").json() == {"status": "ok"}


# -- its files ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("manifest", MANIFESTS, ids=[path.stem for path in MANIFESTS])
def test_kubernetes_knows_the_manifests(manifest: Path) -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="pip install -r requirements/dev.txt")
    for document in yaml.safe_load_all(manifest.read_text("utf-8")):
        if document["apiVersion"].startswith("keda.sh/"):  # a resource of KEDA's: no schema of Kubernetes has it
            continue
        validate.validate(document, "1.33", strict=True)


def test_compose_knows_the_file() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", FOLDER / "compose.yaml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert yaml.safe_load((FOLDER / "compose.yaml").read_text("utf-8"))["services"]["worker"]["deploy"] == {
        "replicas": 8
    }


@pytest.mark.needs("Docker")
def test_docker_reads_the_compose_file() -> None:
    subprocess.run(["docker", "compose", "--file", FOLDER / "compose.yaml", "config", "--quiet"], check=True)


def test_a_parser_of_nginx_accepts_the_proxy(tmp_path: Path) -> None:
    crossplane = pytest.importorskip("crossplane", reason="pip install -r requirements/dev.txt")
    main = tmp_path / "nginx.conf"
    main.write_text(f"events {{ }}\nhttp {{ include {FOLDER / 'nginx.conf'}; }}\n", "utf-8")
    parsed = crossplane.parse(str(main), strict=True)
    assert (parsed["status"], parsed["errors"]) == ("ok", [])


def manifests(kind: str) -> dict[str, Any]:
    """The documents of a kind, by name."""
    every = [each for path in MANIFESTS for each in yaml.safe_load_all(path.read_text("utf-8"))]
    return {each["metadata"]["name"]: each for each in every if each["kind"] == kind}


def test_each_name_in_the_manifests_leads_somewhere() -> None:
    every = [each for path in MANIFESTS for each in yaml.safe_load_all(path.read_text("utf-8"))]
    names = {(each["kind"].lower(), each["metadata"]["name"]) for each in every}
    text = json.dumps(every)
    for kind, where in {"secret": ('"secretKeyRef"', '"secretRef"'), "configmap": ('"configMapRef"',)}.items():
        for mark in where:
            wanted = [json.loads("{" + part.split("{", 1)[1].split("}", 1)[0] + "}") for part in text.split(mark)[1:]]
            assert wanted
            assert {(kind, each["name"]) for each in wanted} <= names
    for rule in manifests("Ingress")["agents"]["spec"]["rules"]:
        for path in rule["http"]["paths"]:
            assert ("service", path["backend"]["service"]["name"]) in names
    assert ("deployment", manifests("ScaledObject")["worker"]["spec"]["scaleTargetRef"]["name"]) in names


def test_compose_and_kubernetes_start_the_same() -> None:
    composed = yaml.safe_load((FOLDER / "compose.yaml").read_text("utf-8"))["services"]
    deployed = manifests("Deployment")
    for name in ("service", "worker", "page"):
        pod = deployed[name]["spec"]["template"]["spec"]
        ours, theirs = composed[name].get("command"), pod["containers"][0].get("command")
        same = [word for word in theirs or [] if "STORE" not in word]
        assert [word for word in ours or [] if not word.startswith("postgresql://")] == same
        assert composed[name].get("deploy", {}).get("replicas", 1) == deployed[name]["spec"]["replicas"]
    worker = deployed["worker"]["spec"]["template"]["spec"]
    assert worker["terminationGracePeriodSeconds"] > 20  # `deep worker --grace`, which is 20 seconds
    assert [*manifests("PodDisruptionBudget")] == ["service", "worker"]
