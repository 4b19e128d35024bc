"""The plugin: what it costs to find, the names it offers, the backends that options make."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import deep_backends
import pytest
from deep_backends import BackendsOptions, CompositeBackend, LocalBackend, MemoryBackend, ProtectedPathError
from pydantic import ValidationError

from deep_core import AgentConfig, MissingExtra

pytestmark = pytest.mark.anyio


def context(*config_files: Path, **options: Any) -> Any:
    """What the factories read of an `AgentContext`."""
    made = BackendsOptions(**options)
    options = {"options": lambda model: made if model is BackendsOptions else None}
    return SimpleNamespace(**options, config_files=config_files, config=AgentConfig())


def made(name: str, **options: Any) -> Any:
    return deep_backends.deep_backends(context(**options))[name](context(**options))


def test_finding_the_plugin_loads_neither_pydantic_nor_pydantic_ai() -> None:
    script = (
        "import sys, deep_backends\n"
        "backends = dir(deep_backends)\n"
        "heavy = {'pydantic', 'pydantic_ai', 'anyio', 'pydantic_ai_backends'} & set(sys.modules)\n"
        "sys.exit(f'loaded: {sorted(heavy)}' if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_public_name_is_there_and_sorted() -> None:
    assert deep_backends.__all__ == sorted(deep_backends.__all__)
    for name in deep_backends.__all__:
        public = getattr(deep_backends, name)
        assert name in ("BUILTIN_RUNTIMES", "SessionFactory") or public.__name__ == name
    assert set(deep_backends.__all__) <= set(dir(deep_backends))
    with pytest.raises(AttributeError, match="nothing"):
        _ = deep_backends.nothing


def test_the_hooks_offer_five_backends_and_the_options() -> None:
    assert sorted(deep_backends.deep_backends(context())) == ["composite", "docker", "local", "memory", "sandbox"]
    assert deep_backends.deep_options() is BackendsOptions


async def test_local_is_the_current_directory_when_the_backend_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one").mkdir()
    monkeypatch.chdir(tmp_path)
    factory = deep_backends.deep_backends(context())["local"]
    monkeypatch.chdir(tmp_path / "one")
    backend = factory(context())
    monkeypatch.chdir("/")
    assert await backend.working_dir() == os.path.realpath(tmp_path / "one")


async def test_the_options_reach_the_local_backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_TOKEN", "t")
    monkeypatch.setenv("OTHER_TOKEN", "o")
    options = {"root": tmp_path, "env": ["ACME_TOKEN"], "protected": [tmp_path / "deep.toml"], "max_read_bytes": 5}
    backend = made("local", **options, max_output_bytes=500)
    assert isinstance(backend, LocalBackend)
    assert (await backend.run("echo $ACME_TOKEN$OTHER_TOKEN", shell=True)).stdout == "t\n"
    root = await backend.working_dir()
    with pytest.raises(ProtectedPathError):
        await backend.write_bytes(f"{root}/deep.toml", b"")
    await backend.write_bytes(f"{root}/six", b"123456")
    with pytest.raises(deep_backends.FileTooLargeError):
        await backend.read_bytes(f"{root}/six")
    with pytest.raises(RuntimeError, match="500 bytes"):
        await backend.run(["head", "-c", "501", "/dev/zero"])


async def test_config_files_that_were_read_are_not_written(tmp_path: Path) -> None:
    config = tmp_path / "deep.toml"
    config.write_text("[agent]")
    backend = deep_backends.deep_backends(context())["local"](context(config, root=tmp_path))
    with pytest.raises(ProtectedPathError, match="configuration"):
        await backend.write_bytes(f"{await backend.working_dir()}/deep.toml", b"[agent]\ninterrupt_on = false")
    assert config.read_text() == "[agent]"


async def test_every_session_gets_a_memory_of_its_own() -> None:
    one, two = made("memory"), made("memory")
    assert isinstance(one, MemoryBackend)
    await one.write_bytes("/workspace/x", b"")
    assert not await two.exists("/workspace/x")


async def test_the_composite_is_made_of_the_configured_parts(tmp_path: Path) -> None:
    backend = made("composite", root=tmp_path)
    assert isinstance(backend, CompositeBackend)
    root = await backend.working_dir()
    await backend.write_bytes(f"{root}/notes/x", b"in memory")
    await backend.write_bytes(f"{root}/y", b"on disk")
    assert os.listdir(tmp_path) == ["y"]
    reversed_ = made("composite", root=tmp_path, composite_default="memory", routes={"/project/": "local"})
    assert await reversed_.working_dir() == "/workspace"
    assert await reversed_.read_bytes("/project/y") == b"on disk"


def test_docker_passes_the_options(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def create(image: str, **settings: Any) -> Any:
        asked.update(settings, image=image)
        return SimpleNamespace(protect=lambda *paths: asked.update(protected=paths))

    monkeypatch.setattr("deep_backends.factories.docker_backend", create)
    made("docker", docker_image="acme:1", docker_network="none", docker_memory="1g", docker_cpus=2, env=["A"])
    assert asked.items() >= {"image": "acme:1", "network_mode": "none", "mem_limit": "1g", "cpus": 2.0}.items()
    assert asked["env"] == ("A",)


def test_docker_by_name_mounts_the_present_directory_unless_told_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def create(image: str, **settings: Any) -> Any:
        asked.update(settings)
        return SimpleNamespace(protect=lambda *paths: asked.update(protected=paths))

    monkeypatch.setattr("deep_backends.factories.docker_backend", create)
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "deep.toml"
    deep_backends.deep_backends(context())["docker"](context(config))
    assert asked["volumes"] == {os.path.realpath(tmp_path): "/workspace"}
    assert asked["protected"] == (config,)
    (tmp_path / "one").mkdir()
    made("docker", root=tmp_path / "one")
    assert asked["volumes"] == {os.path.realpath(tmp_path / "one"): "/workspace"}
    made("docker", docker_mount=False)
    assert asked["volumes"] is None


def test_docker_without_its_packages_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "docker", None)
    with pytest.raises(MissingExtra, match=r"pip install 'deep-backends\[docker\]'"):
        made("docker")


def test_every_option_is_described() -> None:
    schema = BackendsOptions.model_json_schema()["properties"]
    assert all(field.get("description") for field in schema.values())


@pytest.mark.parametrize(
    "wrong", [{"rot": "."}, {"max_read_bytes": 0}, {"max_output_bytes": 2**40}, {"routes": {"/x": "ftp"}}]
)
def test_a_wrong_option_is_an_error(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        BackendsOptions(**wrong)
