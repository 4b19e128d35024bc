"""The docker backend as far as no engine is needed: what is missing is said, what is given is passed on."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from deep_backends import DockerBackend, docker_backend
from pydantic_ai.workspaces import SupportsCommands, WorkspaceBackend, WorkspaceRef, WorkspaceUnavailableError

from deep_core import MissingExtra

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("module", ["docker", "httpx", "pydantic_ai_backends"])
def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=r"deep-backends\[docker\]"):
        docker_backend("python:3.12-slim")


class Engine:
    """What a Docker client is asked for; no container comes of it."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.containers = self

    def get(self, name: str) -> None:
        raise sys.modules["docker.errors"].NotFound(name)

    def run(self, image: str, **settings: Any) -> SimpleNamespace:
        self.asked.append({"image": image, **settings})
        return SimpleNamespace(id="1", status="running")


@pytest.fixture
def docker(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A stand-in for docker's client at its boundary; pydantic-ai-backend above it is the real one."""
    pytest.importorskip("pydantic_ai_backends", reason="pip install 'deep-backends[docker]'")
    errors = ModuleType("docker.errors")
    errors.DockerException = type("DockerException", (Exception,), {})
    errors.APIError = type("APIError", (errors.DockerException,), {})
    errors.NotFound = type("NotFound", (errors.APIError,), {})
    module = ModuleType("docker")
    module.errors = errors
    for name, stand_in in (("docker", module), ("docker.errors", errors), ("httpx", ModuleType("httpx"))):
        stand_in.__spec__ = importlib.machinery.ModuleSpec(name, None)
        if name != "httpx" or importlib.util.find_spec("httpx") is None:
            monkeypatch.setitem(sys.modules, name, stand_in)
    client = importlib.import_module("pydantic_ai_backends.backends.docker._client")
    monkeypatch.setattr(client, "_client", None)
    return module


async def test_no_engine_is_a_clear_error_and_only_at_the_first_operation(docker: ModuleType) -> None:
    def from_env() -> Engine:
        raise docker.errors.DockerException("Error while fetching server API version: connection refused")

    docker.from_env = from_env
    backend = docker_backend("python:3.12-slim")
    assert isinstance(backend, WorkspaceBackend)
    assert isinstance(backend, SupportsCommands)
    assert backend.ref is None
    with pytest.raises(WorkspaceUnavailableError, match=r"no Docker engine answers .*refused.*start Docker"):
        await backend.working_dir()
    with pytest.raises(WorkspaceUnavailableError, match="no Docker engine answers"):
        await backend.run(["true"])
    assert backend.ref is None


async def test_what_a_running_engine_answers_is_not_called_a_missing_one(docker: ModuleType) -> None:
    class Refusing(Engine):
        def run(self, image: str, **settings: Any) -> SimpleNamespace:
            raise docker.errors.APIError("500 Server Error: no space left")

    docker.from_env = Refusing
    with pytest.raises(docker.errors.APIError, match="no space left"):
        await docker_backend("python:3.12-slim").working_dir()


async def test_a_wrong_command_form_is_a_type_error_as_everywhere(docker: ModuleType) -> None:
    with pytest.raises(TypeError):
        await docker_backend().run("true")


async def test_every_setting_reaches_the_engine(docker: ModuleType) -> None:
    engine = Engine()
    docker.from_env = lambda: engine
    backend = docker_backend(
        "acme/image:1",
        work_dir="/job",
        network_mode="none",
        mem_limit="512m",
        cpus=1.5,
        oci_runtime="runsc",
        volumes={"/host/data": "/data"},
        container_name="acme-1",
    )
    assert engine.asked == []
    assert await backend.working_dir() == "/job"
    (asked,) = engine.asked
    assert asked["image"] == "acme/image:1"
    assert asked["working_dir"] == "/job"
    assert asked["network_mode"] == "none"
    assert asked["mem_limit"] == "512m"
    assert asked["nano_cpus"] == 1_500_000_000
    assert asked["runtime"] == "runsc"
    assert asked["volumes"] == {"/host/data": {"bind": "/data", "mode": "rw"}}
    assert asked["name"] == "acme-1"
    assert backend.ref is not None
    assert (backend.ref.provider, backend.ref.id) == ("docker", "acme-1")
    await backend.working_dir()
    assert len(engine.asked) == 1


async def test_only_named_variables_are_passed(docker: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_REGION", "north")
    monkeypatch.setenv("ACME_API_KEY", "secret")
    engine = Engine()
    docker.from_env = lambda: engine
    seen: list[dict[str, str] | None] = []
    sandbox = importlib.import_module("pydantic_ai_backends.backends.docker.sandbox").DockerSandbox

    async def run_command(self: object, argv: list[str], *, env: dict[str, str] | None, **_: object) -> SimpleNamespace:
        seen.append(env)
        return SimpleNamespace(exit_code=0, stdout="", stderr="", timed_out=False, output_limited=False)

    monkeypatch.setattr(sandbox, "run_command", run_command)
    assert (await docker_backend(env=["ACME_REGION", "ABSENT"]).run(["true"], env={"CALL": "1"})).exit_code == 0
    await docker_backend().run(["true"])
    assert seen == [{"ACME_REGION": "north", "CALL": "1"}, None]
    assert "secret" not in str(engine.asked)


async def test_a_runtime_sets_image_directory_and_variables_and_the_model_hears_of_none(docker: ModuleType) -> None:
    import deep_backends
    import deep_filesystem
    from deep_backends import RuntimeConfig, get_runtime
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    from deep_core import Kernel, create_default_deps

    engine = Engine()
    docker.from_env = lambda: engine
    runtime = RuntimeConfig(name="acme", image="acme/job:1", work_dir="/job", env_vars={"ACME_TOKEN": "canary-81f3"})
    backend = docker_backend(runtime=runtime)
    assert await backend.working_dir() == "/job"
    (asked,) = engine.asked
    assert asked["image"] == "acme/job:1"
    assert asked["environment"]["ACME_TOKEN"] == "canary-81f3"
    assert docker_backend(runtime="python-minimal") is not None
    with pytest.raises(KeyError, match="python-minimal"):
        get_runtime("python-minimum")

    sent: list[str] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        sent.append(repr((messages, info)))
        return ModelResponse([TextPart("done")])

    with Kernel(plugins=[deep_backends, deep_filesystem], discover=False, strict=True) as kernel:
        agent = kernel.create_agent(FunctionModel(answer))
        await agent.run("Go", deps=create_default_deps(backend=backend, kernel=kernel))
    assert "execute" in sent[0]
    assert "canary-81f3" not in sent[0]


@pytest.mark.slow
async def test_it_is_a_backend_and_a_sandbox_whose_files_are_the_container_s(
    docker: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deep_backends import ProtectedPathError, local_backend

    from deep_core import BackendProtocol, SandboxProtocol, SupportsProtect

    root = tmp_path.resolve()
    inside = local_backend(root)  # its commands stand for those of the container
    monkeypatch.setattr("deep_backends.docker._Container.run", lambda _, *args, **how: inside.run(*args, **how))
    monkeypatch.setattr("deep_backends.docker._Container.working_dir", lambda _: inside.working_dir())
    backend = docker_backend(volumes={str(root): str(root)})
    assert isinstance(backend, BackendProtocol)
    assert isinstance(backend, SandboxProtocol)
    assert isinstance(backend, SupportsProtect)
    await backend.make_dir(f"{root}/sub")
    await backend.write_bytes(f"{root}/sub/data.bin", b"\0\xff")
    assert await backend.read_bytes(f"{root}/sub/data.bin") == b"\0\xff"
    assert [entry.name for entry in await backend.list_dir(f"{root}/sub")] == ["data.bin"]
    assert (await backend.stat(f"{root}/sub/data.bin")).size == 2
    assert await backend.exists(f"{root}/sub")
    (root / "link").symlink_to("deep.toml")
    (root / "deep.toml").write_text("[agent]")
    backend.protect(root / "deep.toml", "/elsewhere/deep.toml")
    for path in ("deep.toml", "link", "sub/../deep.toml"):
        with pytest.raises(ProtectedPathError, match="protected"):
            await backend.write_bytes(f"{root}/{path}", b"")
    with pytest.raises(ProtectedPathError, match="protected"):
        await backend.remove(str(root))
    assert await backend.read_bytes(f"{root}/link") == b"[agent]"
    await backend.remove(f"{root}/sub")
    assert not await backend.exists(f"{root}/sub")


async def test_the_prompt_names_the_runtime_without_a_container(docker: ModuleType) -> None:
    from deep_backends import RuntimeConfig
    from deep_backends.describe import describe

    runtime = RuntimeConfig(
        name="acme", description="Acme's\ntools", base_image="acme:1", packages=["pandas", "duckdb"]
    )
    assert describe(docker_backend(runtime=runtime)) == (
        "Commands run in a container: Acme's tools. Installed: pandas, duckdb."
    )
    assert describe(docker_backend()) is None


async def test_disposing_removes_the_container_once_and_never_another(docker: ModuleType) -> None:
    removed: list[str] = []

    class Removing(Engine):
        def get(self, name: str) -> Any:
            if not self.asked or name in removed:
                raise docker.errors.NotFound(name)
            return SimpleNamespace(
                id=name, status="running", remove=lambda force: removed.append(name), reload=lambda: None
            )

    engine = Removing()
    docker.from_env = lambda: engine
    backend = docker_backend(container_name="acme-1")
    await backend.dispose()  # it never was
    assert engine.asked == []
    await backend.working_dir()
    await backend.dispose()
    await backend.dispose()
    assert removed == ["acme-1"]
    stranger = docker_backend(ref=WorkspaceRef(provider="docker", id="somebody-elses"))
    with pytest.raises(ValueError, match="not created by"):
        await stranger.dispose()
    assert removed == ["acme-1"]


@pytest.mark.needs("Docker")
async def test_a_container_runs_commands_and_holds_files() -> None:
    from pydantic_ai.workspaces import Workspace

    os.environ.setdefault("ACME_API_KEY", "secret")
    backend = docker_backend(network_mode="none")
    assert isinstance(backend, DockerBackend)
    try:
        workspace = Workspace(backend)
        await workspace.write_bytes("data.bin", b"\x00\xff")
        assert await workspace.read_bytes("data.bin") == b"\x00\xff"
        assert "secret" not in (await backend.run(["env"])).stdout
    finally:
        await backend.dispose()
