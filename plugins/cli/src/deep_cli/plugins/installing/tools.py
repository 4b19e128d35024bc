"""Run the programs that change this environment: pip, `uv pip`, `pipx inject`. What they print is for the user."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from deep_core.plugin_api import canonical, scan

from ...failure import Failure
from ...terminal.waiting import exit_code
from .distributions import distributions
from .receipts import injected_names, settings
from .spec import InstallSpec
from .target import Target, detect

__all__ = [
    "DEEP_CLI",
    "Step",
    "install_steps",
    "pins",
    "rewrite_pip",
    "rewrite_pip_here",
    "run",
    "typed",
    "uninstall_step",
]

PINNED = ("deep-agent-core", "entry-point-index", "tool-expressions", "pydantic-ai-slim", "pydantic-ai")
"""A plugin's requirement never changes these: all other plugins depend on them."""
DEEP_CLI = "deep-cli"
PIP = re.compile(r"(?<!-m )(?<!uv )\bpip (install|uninstall)((?: (?:'[^']*'|[^\s,;:()']+))+)")
"""An advice in a text of the kernel or a plugin."""


@dataclass(frozen=True)
class Step:
    """One program to run, with variables to add to the environment of this process."""

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict[str, str])


def pins() -> dict[str, str]:
    """The versions to keep: name -> version."""
    from importlib import metadata

    found: dict[str, str] = {}
    for name in PINNED:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def install_steps(target: Target, specs: Sequence[InstallSpec], folder: Path, *, upgrade: bool) -> list[Step]:
    """List the programs that install. One that fails changes nothing; pipx takes a program for each distribution.

    Args:
        target: an environment that can be changed.
        specs: the distributions to install.
        folder: an empty folder, for files that the programs read.
        upgrade: install the newest versions instead of any that match.
    """
    constraints = folder / "constraints.txt"
    constraints.write_text("".join(f"{n}=={v}\n" for n, v in pins().items()), encoding="utf-8")
    if target.kind == "pipx":
        return [_inject(target, one, constraints, upgrade) for one in specs]
    wanted = [argument for one in specs for argument in (("--editable", one.text) if one.editable else (one.text,))]
    if target.kind == "pip":
        more = ["--upgrade"] if upgrade else []
        return [Step((*_pip(target), "install", *more, "--constraint", str(constraints), *wanted))]
    command = [target.program]
    if options := settings(target.prefix):
        config = folder / "uv.toml"
        config.write_text(options, encoding="utf-8")
        command += ["--config-file", str(config)]
    command += ["pip", "install", "--python", target.python]
    # The option replaces the variable, so repeat the user's constraints.
    for file in (str(constraints), *os.environ.get("UV_CONSTRAINT", "").split()):
        command += ["--constraints", file]
    for one in specs if upgrade else ():
        if one.name:  # the content of an address may change without a new version
            command += ["--reinstall-package" if one.address else "--upgrade-package", one.name]
    return [Step((*command, *wanted))]


def _inject(target: Target, one: InstallSpec, constraints: Path, upgrade: bool) -> Step:
    # Variables, because pipx stores arguments for pip in the environment's metadata and uses them in every upgrade.
    env = {
        name: " ".join([*os.environ.get(name, "").split(), str(constraints)])
        for name in ("PIP_CONSTRAINT", "UV_CONSTRAINT")
    }
    more = ["--editable"] if one.editable else []
    more += ["--pip-args=--upgrade"] if upgrade else []
    # Without it pipx skips what is installed, and reports success. With it pipx installs all dependencies again too.
    more += ["--force"] if not one.name or one.name in distributions() else []
    return Step((target.program, "inject", *more, target.prefix.name, one.text), env | _pipx_home(target))


def _pipx_home(target: Target) -> dict[str, str]:
    return {"PIPX_HOME": str(target.prefix.parent.parent)}


def uninstall_step(target: Target, distribution: str) -> Step:
    """The program that uninstalls a distribution.

    Raises:
        Failure: the environment was made for that distribution.
    """
    name = canonical(distribution)
    if target.kind in ("uv-tool", "pipx") and name == canonical(target.prefix.name):
        tool = "uv tool" if target.kind == "uv-tool" else "pipx"
        raise Failure(f"{distribution} is the environment itself; to remove all of it: {tool} uninstall {name}")
    if target.kind == "pip":
        return Step((*_pip(target), "uninstall", "--yes", distribution))
    if target.kind != "pipx":
        return Step((target.program, "pip", "uninstall", "--python", target.python, distribution))
    verb = ("runpip", target.prefix.name, "uninstall", "--yes")
    if name in injected_names(target.prefix):
        verb = ("uninject", "--leave-deps", target.prefix.name)
    return Step((target.program, *verb, name), _pipx_home(target))


def _pip(target: Target) -> tuple[str, ...]:
    # -P: do not take a pip.py of the current folder for pip.
    return (target.python, "-P", "-m", "pip", "--disable-pip-version-check", "--no-input")


def run(step: Step) -> int:
    """Run a program to its end, with its output on stderr; return its exit code.

    Runs in the root folder, so that pip's and uv's configuration files of the current folder (a project's, which the
    model may write) choose no index. Ctrl-C waits for the program, which cleans up.
    """
    sys.stderr.flush()
    child = subprocess.Popen(
        step.command,
        cwd=os.path.abspath(os.sep),
        env={**os.environ, **step.env},
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr.fileno(),
    )
    try:
        return exit_code(child)
    except KeyboardInterrupt:
        child.wait()
        raise


# -- what the user types -----------------------------------------------------------------------------------------------


def typed(target: Target, verb: str, words: Sequence[str]) -> str:
    """The command that changes any distribution of this environment, for the user to type.

    Args:
        target: this environment, changeable or not.
        verb: `install` or `uninstall`.
        words: requirements, and flags of pip.
    """
    if target.kind in ("uv", "uv-tool"):
        uv = ["--reinstall" if word == "--force-reinstall" else word for word in words]
        return shlex.join(["uv", "pip", verb, "--python", target.python, *uv])
    if target.kind == "pipx":
        return shlex.join(["pipx", "runpip", target.prefix.name, verb, *words])
    pip = shutil.which("pip")
    is_own = pip is not None and Path(pip).parent == Path(target.python).parent  # as in an activated environment
    return shlex.join([*(["pip"] if is_own else [target.python, "-m", "pip"]), verb, *words])


def rewrite_pip(target: Target, text: str, plugins: Collection[str]) -> str:
    """Replace `pip install …` and `pip uninstall …` in a text with commands for this environment.

    Args:
        target: this environment.
        text: the kernel's text.
        plugins: canonical names of the distributions with plugins, which `deep plugins` installs and uninstalls.
    """

    def rewrite(match: re.Match[str]) -> str:
        words = ["--upgrade" if word == "-U" else word for word in shlex.split(match[2])]
        flags = {word for word in words if word.startswith("-")}
        if not flags <= {"--upgrade", "--force-reinstall"}:
            return match[0]  # flags that only pip has
        names = {canonical(re.split(r"[^A-Za-z0-9._-]", word)[0]) for word in words if word not in flags}
        theirs = {name for name in names if name not in plugins and not name.startswith("deep-")}
        if theirs or names & set(PINNED) or "--force-reinstall" in flags or target.obstacle:
            return typed(target, match[1], words)
        return shlex.join(["deep", "plugins", match[1], *words])

    return PIP.sub(rewrite, text)


def rewrite_pip_here(text: str) -> str:
    """Call `rewrite_pip` for this environment, if the text has a pip command."""
    if PIP.search(text) is None:
        return text
    return rewrite_pip(detect(), text, {canonical(each.record.distribution or "") for each in scan()})
