"""The page "Your first plugin", typed by a new user: everything is as it says."""

from __future__ import annotations

import json
import os
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.console_pages import console_turns, matches, play
from tests.environments import BELOW, REPOSITORY, Environment
from tests.local_wheels import of_the_checkout
from tests.stubs import AnthropicStub, Script

PAGE = REPOSITORY / "docs" / "first-plugin.md"
OURS = (*BELOW, "deep-agent-core", "deep-cli", "deep-sessions", "deep-backends", "deep-filesystem", "pytest-deep")


@pytest.mark.parametrize(
    ("said", "printed", "right"),
    [
        (("one", "two"), "one\ntwo\n", True),
        (("one",), "one\ntwo\n", False),
        (("one", "…"), "one\n", True),
        (("one", "…", "four"), "one\ntwo\nthree\nfour", True),
        (("one", "…", "four"), "one\ntwo\n", False),
        (("took …s",), "took 1.2s\n", True),
        (("took …s",), "took 1.2s\nand more\n", False),
        (("a.b",), "axb\n", False),
    ],
)
def test_an_ellipsis_stands_for_anything_in_a_line_or_for_lines(
    said: tuple[str, ...], printed: str, right: bool
) -> None:
    assert matches(said, printed) is right


def users_environment(root: Path, wheels: Path) -> tuple[Environment, dict[str, str]]:
    """A fresh environment whose index is a folder of our wheels; what is not ours is there already.

    pip sees the third-party packages of the environment that runs the tests, and none of ours in it.
    """
    environment = Environment.create(root, kernel=False)
    others = root / "others"
    others.mkdir()
    for place in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for entry in Path(place).iterdir():
            # Editable installs of ours, their .pth files, and the .pth files of everybody else's start-up code.
            if not entry.name.lower().startswith(
                ("deep_", "pytest_deep", *(name.replace("-", "_") for name in BELOW), "_editable_impl_", "__pycache__")
            ):
                (others / entry.name).symlink_to(entry)
    (environment.site / "dependencies.pth").write_text(f"{others}\n", encoding="utf-8")
    for tool, module in (("pip", "pip"), ("pytest", "pytest")):
        script = environment.scripts / tool
        script.write_text(f'#!/bin/sh\nexec "{environment.python}" -m {module} "$@"\n', encoding="utf-8")
        script.chmod(0o755)
    (environment.scripts / "ruff").symlink_to(Path(sys.executable).with_name("ruff"))
    variables = environment.variables(
        PATH=os.pathsep.join([str(environment.scripts), os.environ["PATH"]]),
        PIP_NO_INDEX="1",
        PIP_FIND_LINKS=str(wheels),
        PIP_NO_BUILD_ISOLATION="0",  # this is how the environment says --no-build-isolation
        PIP_DISABLE_PIP_VERSION_CHECK="1",
        PIP_CONFIG_FILE=os.devnull,
        PIP_ROOT_USER_ACTION="ignore",
        LC_ALL="C.UTF-8",
        NO_PROXY="*",
        COLUMNS="100",
    )
    return environment, variables


@pytest.mark.wheels
def test_the_page_typed_in_a_fresh_environment_is_as_it_says(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    built = of_the_checkout(tmp_path_factory)
    for name in OURS:
        (wheels / built[name].name).symlink_to(built[name])
    environment, variables = users_environment(tmp_path, wheels)
    with AnthropicStub(Script.from_json(json.dumps(console_turns(PAGE)))) as stub:
        play(PAGE, environment.work, {**variables, "ANTHROPIC_BASE_URL": stub.base_url})
        assert stub.player.left == 0, f"{stub.player.left} scripted turns were never asked for"
