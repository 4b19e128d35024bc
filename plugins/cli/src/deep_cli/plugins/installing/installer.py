"""Run the programs that change this environment: pip, `uv pip`, `uv tool install`, `pipx inject`."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO, cast

from deep_core.plugin_api import canonical, scan

from ...failure import Failure
from ...terminal.output import say
from ...terminal.screen import one_line, redact
from ...terminal.waiting import exit_code, interruptible
from .distributions import version_of
from .receipts import Receipt, injected_names, pipx_backend, read_receipt
from .spec import InstallSpec
from .target import Target, detect

__all__ = [
    "PINNED",
    "Step",
    "conflict",
    "error_lines",
    "install_command",
    "install_steps",
    "perform",
    "pins",
    "rewrite_pip",
    "rewrite_pip_here",
    "uninstall_command",
    "uninstall_steps",
]

PINNED = ("deep-agent-core", "entry-point-index", "tool-expressions", "pydantic-ai-slim", "pydantic-ai")
"""A plugin's requirement never changes these: all other plugins depend on them."""
DEEP_CLI = "deep-cli"
UV_FLAGS = {"--upgrade": "--upgrade-package", "--force-reinstall": "--reinstall-package"}
"""A flag of pip -> the option of `uv tool install` that does the same for one distribution."""
PIP = re.compile(r"(?<!-m )(?<!uv )\bpip (install|uninstall)((?: (?:'[^']*'|[^\s,;:()']+))+)")

CAUSE = re.compile(r"\s*(?:(?:error|fatal|cause|caused by|[\w.]*(?:error|exception)): |╰─▶ )", re.IGNORECASE)
"""The beginning of a line with an error, of pip, uv (0.13 and earlier), git or a build backend."""
NOTHING = re.compile(r"error: (?:subprocess-exited-with-error|metadata-generation-failed)$")
"""Lines of pip around the error."""


@dataclass(frozen=True)
class Step:
    """One program to run.

    Attributes:
        command: the program and its arguments.
        env: variables to add to the environment of this process.
        trial: a dry run, which changes nothing.
    """

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    trial: bool = False


def pins() -> dict[str, str]:
    """The versions to keep: name -> version."""
    return {name: version for name in PINNED if (version := version_of(name))}


# -- the programs ------------------------------------------------------------------------------------------------------


def install_steps(target: Target, specs: Sequence[InstallSpec], folder: Path, *, upgrade: bool) -> list[Step]:
    """List the programs that install, in order. A failure changes nothing, except with pipx, which installs singly.

    Args:
        target: an environment that can be changed.
        specs: the distributions to install.
        folder: an empty folder, for files that the programs read.
        upgrade: install the newest versions instead of any that match.
    """
    constraints = folder / "constraints.txt"
    constraints.write_text("".join(f"{n}=={v}\n" for n, v in pins().items()), encoding="utf-8")
    if target.kind == "pip":
        return [Step((*_pip(target), "install", *(["--upgrade"] if upgrade else []), "--constraint", str(constraints),
                      *_pip_arguments(specs)))]  # fmt: skip
    if target.kind == "uv":
        again = _uv_again(specs) if upgrade else ()
        return [Step((*_uv_pip(target, "install"), *again, *_uv_constraints(constraints), *_pip_arguments(specs)))]
    if target.kind == "pipx":
        return [_inject(target, one, constraints, upgrade) for one in specs]
    receipt = read_receipt(target.prefix)
    others = dict(receipt.others)
    for one in specs:
        others[one.name or one.text] = ("--with-editable" if one.editable else "--with", one.text)
    # Only the trial has the constraint: the installation would write it into the receipt, and `uv tool upgrade` could
    # never upgrade deep-agent-core again. Without --upgrade uv keeps installed versions that match.
    every = [a.replace("--with-editable", "--editable") for how in (receipt.tool, *others.values()) for a in how]
    every = [argument for argument in every if argument != "--with"]
    look = _uv_pip(target, "install", folder, receipt)
    trial = Step((*look, "--dry-run", *_uv_constraints(constraints), *every), trial=True)
    again = _uv_again(specs) if upgrade else ()
    return [trial, _uv_tool(target, receipt, others, folder, again)]


def uninstall_steps(target: Target, distribution: str, folder: Path) -> list[Step]:
    """List the programs that uninstall a distribution.

    Raises:
        Failure: the environment was made for that distribution.
    """
    name = canonical(distribution)
    if target.kind in ("uv-tool", "pipx") and name == canonical(target.prefix.name):
        tool = "uv tool" if target.kind == "uv-tool" else "pipx"
        raise Failure(f"{distribution} is the environment itself; to remove all of it: {tool} uninstall {name}")
    if target.kind == "pip":
        return [Step((*_pip(target), "uninstall", "--yes", distribution))]
    if target.kind == "pipx":
        if name in injected_names(target.prefix):
            return [Step((target.program, "uninject", "--leave-deps", target.prefix.name, name), _pipx_home(target))]
        return [Step((target.program, "runpip", target.prefix.name, "uninstall", "--yes", name), _pipx_home(target))]
    remove = Step((*_uv_pip(target, "uninstall"), distribution))
    if target.kind == "uv-tool":
        receipt = read_receipt(target.prefix)
        if name in receipt.others:
            others = {other: how for other, how in receipt.others.items() if other != name}
            return [_uv_tool(target, receipt, others, folder, ())]
    return [remove]


def _pip(target: Target) -> tuple[str, ...]:
    # -P: do not take a pip.py of the current folder for pip.
    return (target.python, "-P", "-m", "pip", "--disable-pip-version-check", "--no-input")


def _pip_arguments(specs: Sequence[InstallSpec]) -> list[str]:
    return [argument for one in specs for argument in (("--editable", one.text) if one.editable else (one.text,))]


def _uv_pip(target: Target, verb: str, folder: Path | None = None, receipt: Receipt | None = None) -> tuple[str, ...]:
    settings = _settings(folder, receipt) if folder is not None and receipt is not None else ()
    return (target.program, *settings, "pip", verb, "--python", target.python)


def _uv_again(specs: Sequence[InstallSpec]) -> tuple[str, ...]:
    """Upgrade a name; reinstall a path or an address, whose content may change without a new version."""
    pairs = [("--reinstall-package" if one.address else "--upgrade-package", one.name) for one in specs if one.name]
    return tuple(argument for pair in pairs for argument in pair)


def _uv_constraints(file: Path) -> list[str]:
    """The option replaces the variable, so repeat the user's constraints."""
    files = [str(file), *os.environ.get("UV_CONSTRAINT", "").split()]
    return [argument for path in files for argument in ("--constraints", path)]


def _uv_tool(
    target: Target, receipt: Receipt, others: Mapping[str, tuple[str, ...]], folder: Path, again: Sequence[str]
) -> Step:
    command = [target.program, *_settings(folder, receipt), "tool", "install", *again]
    if receipt.python:
        command += ["--python", receipt.python]
    for option, lines in receipt.lists.items():
        file = folder / f"{option.strip('-')}.txt"
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        command += [option, str(file)]
    for name in receipt.executables:
        command += ["--with-executables-from", name]
    command += [argument for how in others.values() for argument in how]
    # The environment of this process, wherever uv would look for tools now.
    env = {"UV_TOOL_DIR": str(target.prefix.parent)} | ({"UV_TOOL_BIN_DIR": receipt.scripts} if receipt.scripts else {})
    return Step((*command, *receipt.tool), env)


def _settings(folder: Path, receipt: Receipt) -> tuple[str, ...]:
    """Repeat the tool's settings: uv reads them from the receipt for `upgrade` only, not for `install`."""
    if not receipt.options:
        return ()
    file = folder / "uv.toml"
    file.write_text(receipt.options, encoding="utf-8")
    return ("--config-file", str(file))


def _inject(target: Target, one: InstallSpec, constraints: Path, upgrade: bool) -> Step:
    # Variables, because pipx stores arguments for pip in the environment's metadata and uses them in every upgrade.
    env = {
        name: " ".join([*os.environ.get(name, "").split(), str(constraints)])
        for name in ("PIP_CONSTRAINT", "UV_CONSTRAINT")
    }
    more: list[str] = ["--editable"] if one.editable else []
    if upgrade and pipx_backend(target.prefix) == "uv":
        more += [f"--pip-args={' '.join(_uv_again([one]))}"]
    elif upgrade:
        env["PIP_UPGRADE"] = "1"
    # Without it pipx skips what is installed, and reports success. With it pipx installs all dependencies again too.
    force = ["--force"] if not one.name or version_of(one.name) else []
    return Step((target.program, "inject", *force, *more, target.prefix.name, one.text), env | _pipx_home(target))


def _pipx_home(target: Target) -> dict[str, str]:
    return {"PIPX_HOME": str(target.prefix.parent.parent)}


# -- running them ------------------------------------------------------------------------------------------------------


def perform(step: Step) -> tuple[int, str]:
    """Run a program to its end; return its exit code and output, which a terminal sees meanwhile.

    Runs in the root folder, so that pip's and uv's configuration files of the current folder (a project's, which the
    model may write) choose no index. Ctrl-C waits for the program, which cleans up.
    """
    show = sys.stderr.isatty() and not step.trial
    child = subprocess.Popen(
        step.command,
        cwd=os.path.abspath(os.sep),
        env={**os.environ, **step.env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )
    assert child.stdout is not None  # noqa: S101 - a pipe
    lines: list[str] = []
    try:
        for line in interruptible(cast("TextIO", child.stdout)):
            lines.append(line)
            if show:
                say((redact(line.rstrip("\n")), "dim"), err=True)
        code = exit_code(child)
    except KeyboardInterrupt:
        child.communicate()
        raise
    return code, "".join(lines) + _log("".join(lines))


def _log(output: str) -> str:
    """Pip's output, if pipx wrote it to a file."""
    path = re.search(r"Full pip output in file:\s+(\S+)", output)
    if path is None:
        return ""
    try:
        return "\n" + Path(path[1]).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def conflict(output: str, pinned: Mapping[str, str]) -> str:
    """Find in an installer's output which plugin requires another deep-agent-core or Pydantic AI; "" for none.

    pip and uv both name the constraint (`deep-agent-core==0.1.0`) and what `depends on` it.
    """
    for name, version in pinned.items():
        if f"{name}=={version}" not in output:
            continue
        # pip: `acme 1.0 depends on deep-agent-core<1`; uv: `all versions of acme depend on deep-agent-core<1 and …`
        for who, what in re.findall(rf"(\S+(?: [\d.]+)?) depends? on (?=({re.escape(name)}\b(?!==)[^\n]*))", output):
            wants = re.split(r",? (?:and (?=[a-z])|we can)|,$", what)[0]
            if canonical(who) != DEEP_CLI and not _content(wants.removeprefix(name), version):
                return f"{who} needs {one_line(wants, 200)}, and {name} {version} is installed"
    return ""


def _content(wants: str, version: str) -> bool:
    """Whether this version matches. Both installers also list plugins without a conflict."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        return SpecifierSet(wants.replace(" and ", ",")).contains(version, prereleases=True)
    except InvalidSpecifier:
        return False


def error_lines(output: str) -> str:
    """The lines of an installer's output with the error; the last line if none has it."""
    lines = [line for line in output.splitlines() if line.strip() and not NOTHING.search(line)]
    return " ".join(([line for line in lines if CAUSE.match(line)] or lines[-1:])[:3])


# -- what the user types -----------------------------------------------------------------------------------------------


def install_command(target: Target, texts: Sequence[str], *, flags: Sequence[str] = ()) -> str:
    """The command that installs these in this environment, for the user to type.

    Args:
        target: this environment, changeable or not.
        texts: requirements.
        flags: flags of pip: `--upgrade`, `--force-reinstall`.
    """
    if target.kind in ("temporary", "managed"):
        return shlex.join(["uv", "tool", "install", DEEP_CLI, *_each("--with", texts)])
    if target.kind == "uv-tool":
        return _uv_tool_command(target, texts, flags)
    if target.kind == "pipx":
        verb = ["runpip", target.prefix.name, "install", *flags] if flags else ["inject", target.prefix.name]
        return shlex.join(["pipx", *verb, *texts])
    if target.kind == "uv":
        uv_flags = ["--reinstall" if flag == "--force-reinstall" else flag for flag in flags]
        return shlex.join(["uv", "pip", "install", "--python", target.python, *uv_flags, *texts])
    install = shlex.join([*_pip_command(target), "install", *flags, *texts])
    return install if target.kind == "pip" else f"{shlex.join([target.python, '-m', 'ensurepip'])} && {install}"


def _uv_tool_command(target: Target, texts: Sequence[str], flags: Sequence[str], without: str = "") -> str:
    receipt = read_receipt(target.prefix)
    names = {text: _name_in(text) for text in texts}
    # deep-cli and its requirements are already installed, so they are only upgraded.
    added = [text for text in texts if names[text] not in (DEEP_CLI, *PINNED) or canonical(text) != names[text]]
    others = dict(receipt.others) | {names[text]: ("--with", text) for text in added}
    others.pop(without, None)
    again = [argument for flag in flags for argument in _each(UV_FLAGS[flag], names.values())]
    return shlex.join(["uv", "tool", "install", *receipt.tool, *again, *(a for how in others.values() for a in how)])


def _name_in(requirement: str) -> str:
    """The distribution at the start of a requirement."""
    return canonical(re.split(r"[^A-Za-z0-9._-]", requirement)[0])


def _each(option: str, values: Iterable[str]) -> list[str]:
    return [argument for value in values for argument in (option, value)]


def uninstall_command(target: Target, distribution: str) -> str:
    """The command that uninstalls a distribution from this environment, for the user to type.

    It also changes the records of uv or pipx, whose next upgrade would reinstall the distribution.
    """
    name = canonical(distribution)
    if target.kind == "pipx":
        if name in injected_names(target.prefix):
            return shlex.join(["pipx", "uninject", "--leave-deps", target.prefix.name, name])
        return shlex.join(["pipx", "runpip", target.prefix.name, "uninstall", name])
    if target.kind == "uv-tool" and name in read_receipt(target.prefix).others:
        return _uv_tool_command(target, (), (), without=name)
    if target.kind in ("uv", "uv-tool"):
        return shlex.join(["uv", "pip", "uninstall", "--python", target.python, distribution])
    uninstall = shlex.join([*_pip_command(target), "uninstall", distribution])
    return f"{shlex.join([target.python, '-m', 'ensurepip'])} && {uninstall}" if target.kind == "bare" else uninstall


def _pip_command(target: Target) -> list[str]:
    """`pip` alone if a shell finds this environment's, as in an activated virtual environment."""
    pip = shutil.which("pip")
    is_own = pip is not None and Path(pip).parent == Path(target.python).parent
    return ["pip"] if is_own and target.kind == "pip" else [target.python, "-m", "pip"]


def rewrite_pip(target: Target, text: str, plugins: Collection[str]) -> str:
    """Replace `pip install …` and `pip uninstall …` in a text of the kernel with commands for this environment.

    Args:
        target: this environment.
        text: the kernel's text.
        plugins: canonical names of the distributions with plugins, which `deep plugins` installs and uninstalls.
    """
    return PIP.sub(lambda match: _rewrite_one(target, match[1], shlex.split(match[2]), plugins), text)


def rewrite_pip_here(text: str) -> str:
    """Call `rewrite_pip` for this environment, if the text has a pip command."""
    if PIP.search(text) is None:
        return text
    plugins = {canonical(candidate.record.distribution or "") for candidate in scan()}
    try:
        return rewrite_pip(detect(), text, plugins)
    except Failure:  # an unknown receipt of uv: `deep doctor` reports it
        return text


def _rewrite_one(target: Target, verb: str, words: Sequence[str], plugins: Collection[str]) -> str:
    flags = ["--upgrade" if word == "-U" else word for word in words if word.startswith("-")]
    if not set(flags) <= set(UV_FLAGS):
        return shlex.join(["pip", verb, *words])  # flags that only pip has
    texts = [word for word in words if not word.startswith("-")]
    names = {_name_in(text) for text in texts}
    ours = target.changeable and not names & set(PINNED) and all(n in plugins or n.startswith("deep-") for n in names)
    if verb == "uninstall":
        return f"deep plugins uninstall {texts[0]}" if ours else uninstall_command(target, texts[0])
    if ours and set(flags) <= {"--upgrade"}:
        return shlex.join(["deep", "plugins", "install", *flags, *texts])
    return install_command(target, texts, flags=flags)
