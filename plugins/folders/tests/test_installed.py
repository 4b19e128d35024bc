"""Distributions that bring skills and MCP servers without code: built, installed, used and uninstalled."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import deep_backends
import deep_folders
import deep_mcp
import deep_skills
import pytest
from deep_folders.installed import folder_of

from deep_core import Kernel, PluginWarning
from deep_core.plugin_api import scan
from tests.environments import REPOSITORY, Distribution, Environment, Here

from .layouts import SCHEMA, skill

SERVER = """
import asyncio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

async def listed(ctx, params):
    hints = types.ToolAnnotations.model_validate({"readOnlyHint": True})
    schema = {"type": "object", "properties": {}}
    return types.ListToolsResult(tools=[
        types.Tool(name="depth", description="The depth of the port.", input_schema=schema, annotations=hints)
    ])

async def called(ctx, params):
    import os
    text = "9 m, root " + os.path.basename(os.environ["PLUGIN_ROOT"]) + ", in " + os.path.basename(os.getcwd())
    return types.CallToolResult(content=[types.TextContent(text=text)])

async def serve():
    async with stdio_server() as (read, write):
        server = Server("harbor", on_list_tools=listed, on_call_tool=called)
        await server.run(read, write, server.create_initialization_options())

def main():
    asyncio.run(serve())
"""


def manifest(name: str) -> str:
    return json.dumps({"$schema": f"{SCHEMA}/plugin.schema.json", "name": name, "version": "3.0"})


def servers(table: Any) -> str:
    return json.dumps({"$schema": f"{SCHEMA}/mcp.schema.json", "mcpServers": table})


def files_of(name: str, folder: Mapping[str, str], root: str = "", **more: str) -> dict[str, str]:
    """The files of a distribution with a folder; `marker` replaces its agent_plugins.json."""
    snake = name.replace("-", "_")
    root = root or f"{snake}-1.0.agent-plugin"
    marker = more.pop("marker", None) or json.dumps({"root": root, "files": sorted(folder)})
    files = {f"{root}/{path}": text for path, text in folder.items()}
    return {**files, **more, f"{snake}-1.0.dist-info/agent_plugins.json": marker}


STYLE = files_of(
    "acme-style",
    {
        "plugin.json": manifest("acme-style"),
        "skills/wording/SKILL.md": skill("wording", "Short sentences."),
        "skills/wording/list.md": "utilize: use\n",
        "skills/Not Valid/SKILL.md": "---\nname: other\n---\nNo description.\n",
    },
)
HARBOR = files_of(
    "acme-harbor",
    {
        "plugin.json": manifest("acme-harbor"),
        "mcp.json": servers(
            {"harbor": {"type": "stdio", "command": "acme-harbor"}, "old": {"type": "http", "url": "https://a.example"}}
        ),
    },
    **{"acme_harbor.py": SERVER},
)
BOTH = files_of(
    "acme-both",
    {
        "plugin.json": manifest("acme-both"),
        "skills/sailing/SKILL.md": skill("sailing", "Mind the wind."),
        "mcp.json": servers({"pilot": {"type": "streamable-http", "url": "https://pilot.example/mcp"}}),
    },
)


def build(folder: Path, name: str, files: Mapping[str, str], *, script: str = "") -> Path:
    """A wheel, with its RECORD."""
    snake = name.replace("-", "_")
    info = f"{snake}-1.0.dist-info"
    content = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if script:
        content[f"{info}/entry_points.txt"] = f"[console_scripts]\n{script}\n"
    lines: list[str] = []
    path = folder / f"{snake}-1.0-py3-none-any.whl"
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in content.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            lines.append(f"{member},sha256={digest},{len(text.encode())}\n")
            archive.writestr(member, text)
        archive.writestr(f"{info}/RECORD", "".join([*lines, f"{info}/RECORD,,\n"]))
    return path


@pytest.mark.wheels
def test_three_wheels_are_installed_used_and_uninstalled_and_no_code_changes(tmp_path: Path) -> None:
    environment = Environment.create(tmp_path)
    ours = ("backends", "folders", "mcp", "sessions", "cli", "skills")
    environment.install(*(Distribution.of_project(REPOSITORY / "plugins" / name) for name in ours))
    wheels = [
        build(tmp_path / "wheels", "acme-style", STYLE),
        build(tmp_path / "wheels", "acme-harbor", HARBOR, script="acme-harbor = acme_harbor:main"),
        build(tmp_path / "wheels", "acme-both", BOTH),
    ]
    environment.pip("install", *wheels)
    assert environment.listed().statuses == {
        **dict.fromkeys(("acme_both", "acme_harbor", "acme_style"), "active"),
        **dict.fromkeys(ours, "active"),
    }
    trusting = {
        "DEEP_PLUGINS__MCP__OPTIONS__TRUST_ANNOTATIONS": "true",
        "DEEP_PLUGINS__MCP__OPTIONS__WAIT": "60",
    }
    calls = (("load_skill", {"skill_name": "wording"}), ("load_skill", {"skill_name": "sailing"}), ("harbor_depth", {}))
    report = environment.application(*calls, env=trusting)
    assert report["error"] is None
    assert "Mind the wind." in str(report["returns"]["load_skill"])
    assert "9 m, root acme_harbor-1.0.agent-plugin, in acme_harbor-1.0.agent-plugin" in str(report["returns"])
    found = json.loads(environment.fork("-m", "deep_cli", "folders", "list", "--output", "json").ok().out)["folders"]
    assert {folder["name"]: (folder["skills"], folder["servers"]) for folder in found} == {
        "acme-both": (["sailing"], ["pilot"]),
        "acme-harbor": ([], ["harbor"]),
        "acme-style": (["Not Valid", "wording"], []),
    }
    assert [note["what"] for note in next(f for f in found if f["name"] == "acme-harbor")["notes"]] == [
        "mcp.json: server old"
    ]
    environment.pip("uninstall", "acme-style", "acme-harbor")
    report = environment.application(*calls, env=trusting)
    assert "harbor_depth" not in str(report["returns"])
    assert "Mind the wind." in str(report["returns"])
    assert set(environment.listed().statuses) == {"acme_both", *ours}


@pytest.mark.exhaustive
@pytest.mark.wheels
def test_the_reference_finds_the_same_skills_and_servers(tmp_path: Path) -> None:
    target = tmp_path / "reference"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target)]
    done = subprocess.run([*pip, "agent-plugins==0.2.4"], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("no index to install agent-plugins from")
    code = """
import json, sys, agent_plugins
found = {}
for name in ("acme-style", "acme-harbor", "acme-both", "agent-plugins"):
    plugin = agent_plugins.locate(name)
    found[name] = [[skill.name for skill in plugin.skills], list(plugin.mcp.servers) if plugin.mcp else []]
print(json.dumps(found))
"""
    for name, files in (("acme-style", STYLE), ("acme-harbor", HARBOR), ("acme-both", BOTH)):
        with zipfile.ZipFile(build(tmp_path / "wheels", name, files)) as archive:
            archive.extractall(target)
    environ = {"PYTHONPATH": str(target), "PATH": ""}
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environ).stdout
    ours = [folder_of(candidate, tmp_path / "data") for candidate in scan([str(target)])]
    assert {f.name: [[s.name for s in f.skills], [s.name for s in f.servers]] for f in ours} == json.loads(out)


# -- lists, statuses, provenance ---------------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Here]:
    for name in ("CONFIG", "CACHE", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    monkeypatch.setenv("HOME", str(tmp_path))
    found = Here(tmp_path / "site", monkeypatch)
    yield found
    found.forget()


def kernel(**how: Any) -> Kernel:
    return Kernel(plugins=[deep_folders, deep_backends, deep_skills, deep_mcp], **how)


def found(**how: Any) -> dict[str, str]:
    with kernel(**how) as made:
        return {folder.name: folder.problem for folder in deep_folders.folders(made)}


def test_lists_and_statuses_hold_for_a_distribution_without_code(here: Here) -> None:
    both = Distribution("acme-both", files=BOTH)
    here.install(both)
    with pytest.warns(
        PluginWarning, match="acme_both 1.0 .* is needs-plugin: requires deep-folders, which is not inst"
    ):
        assert found() == {}
    here.install(Distribution("deep-folders", {"carrier": "carrier"}, {"carrier.py": CARRIER}))
    with pytest.warns(PluginWarning, match="requires deep-folders, which is disabled"):
        assert found(disable=["carrier"]) == {}
    here.install(Distribution("acme-style", files=STYLE))
    assert found() == {"acme-both": "", "acme-style": ""}
    assert found(disable=["acme-style"]) == {"acme-both": ""}
    assert found(disable=["acme_both"]) == {"acme-style": ""}
    assert found(allow=["carrier", "acme-both"]) == {"acme-both": ""}
    assert found(discover=False) == {}
    with kernel(disable=["acme_style"]) as made:
        assert [(r.name, r.distribution, r.version, r.status) for r in made.records if r.name.startswith("acme")] == [
            ("acme_both", "acme-both", "1.0", "active"),
            ("acme_style", "acme-style", "1.0", "disabled"),
        ]
        assert "acme_both" not in made.active  # it has no code to load


# Stands for the distribution of the plugin, which the test gives by hand.
CARRIER = """
from deep_core import hookimpl

@hookimpl
def deep_prompt_sections(context):
    return []
"""


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"marker": "{"}, "agent_plugins.json"),
        ({"marker": '{"root": "."}'}, 'no "root" and "files"'),
        ({"marker": '{"root": ".", "files": ["plugin.json"]}'}, "is not a folder that acme-bad installed"),
        ({"marker": '{"root": "/", "files": ["plugin.json"]}'}, "is not a folder that acme-bad installed"),
        ({"marker": '{"root": "../other", "files": ["plugin.json"]}'}, "is not a folder that acme-bad installed"),
        ({"marker": '{"root": "other", "files": ["plugin.json"]}'}, "acme-bad did not install plugin.json"),
        ({"marker": '{"root": "acme_bad", "files": ["plugin.json", "gone.md"]}'}, "gone.md does not exist"),
        ({"marker": '{"root": "acme_bad", "files": ["../x/plugin.json"]}'}, "leads out of the folder"),
        ({"marker": '{"root": "acme_bad", "files": []}'}, "do not include plugin.json"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_bad_distribution_costs_itself_and_is_listed_with_its_reason(
    here: Here, change: dict[str, str], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    bad = files_of("acme-bad", {"plugin.json": manifest("acme-bad")}, root="acme_bad", **change)
    here.install(
        Distribution("acme-bad", files=bad),
        Distribution("acme-style", files=STYLE),
        Distribution("deep-folders", {"carrier": "carrier"}, {"carrier.py": CARRIER}),
    )
    for place in (here.site / "other", here.site.parent / "other", here.site / "x"):
        place.mkdir()
        (place / "plugin.json").write_text(manifest("other"))
    problems = found()
    assert why in problems["acme-bad"]
    assert problems["acme-style"] == ""
    assert "folder acme-bad is not used" in caplog.text
