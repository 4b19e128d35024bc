"""The programs that change this environment, and how they are run: pip, `uv pip`, `uv tool install`, `pipx inject`."""

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

import click

from deep_core.plugin_api import canonical, scan

from .failure import Failure
from .installed import version_of
from .receipts import Receipt, injected, pipx_backend, read_receipt
from .screen import one_line, plain, redact
from .target import Target, detect
from .waiting import exit_code, interruptible
from .wanted import Wanted

__all__ = [
    "PINNED",
    "Step",
    "conflict",
    "install_steps",
    "mend",
    "mended",
    "perform",
    "pins",
    "told",
    "typed",
    "typed_uninstall",
    "uninstall_steps",
]

PINNED = ("deep-core", "pydantic-ai-slim", "pydantic-ai")
"""A plugin's requirement never changes these: every other plugin rests on them."""
DEEP_CLI = "deep-cli"
UV_FLAGS = {"--upgrade": "--upgrade-package", "--force-reinstall": "--reinstall-package"}
"""A flag of pip -> the option of `uv tool install` that does it for one distribution."""
PIP = re.compile(r"(?<!-m )(?<!uv )\bpip (install|uninstall)((?: (?:'[^']*'|[^\s,;:()']+))+)")

CAUSE = re.compile(r"\s*(?:(?:error|fatal|cause|caused by|[\w.]*(?:error|exception)): |╰─▶ )", re.IGNORECASE)
"""How a line begins that says what went wrong, with pip, with uv (0.13 and earlier), with git or a build backend."""
NOTHING = re.compile(r"error: (?:subprocess-exited-with-error|metadata-generation-failed)$")
"""Lines of pip's that stand around what went wrong."""


@dataclass(frozen=True)
class Step:
    """One program to run.

    Attributes:
        command: it and its arguments.
        env: what is added to the environment of this process.
        trial: whether it only looks; nothing is changed by it.
    """

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    trial: bool = False


def pins() -> dict[str, str]:
    """The versions that stay as they are: name -> version."""
    return {name: version for name in PINNED if (version := version_of(name))}


# -- what is run -------------------------------------------------------------------------------------------------------


def install_steps(target: Target, wanted: Sequence[Wanted], folder: Path, *, upgrade: bool) -> list[Step]:
    """The programs that install, in order. A failure of any changes nothing, but pipx's, which takes one at a time.

    Args:
        target: an environment that can be changed.
        wanted: what is to be installed.
        folder: an empty one, for files that the programs read.
        upgrade: newest versions of what is wanted, instead of any that will do.
    """
    constraints = folder / "constraints.txt"
    constraints.write_text("".join(f"{n}=={v}\n" for n, v in pins().items()), encoding="utf-8")
    if target.kind == "pip":
        return [Step((*_pip(target), "install", *(["--upgrade"] if upgrade else []), "--constraint", str(constraints),
                      *_pip_arguments(wanted)))]  # fmt: skip
    if target.kind == "uv":
        again = _uv_again(wanted) if upgrade else ()
        return [Step((*_uv_pip(target, "install"), *again, *_uv_constraints(constraints), *_pip_arguments(wanted)))]
    if target.kind == "pipx":
        return [_inject(target, one, constraints, upgrade) for one in wanted]
    receipt = read_receipt(target.prefix)
    others = dict(receipt.others)
    for one in wanted:
        others[one.name or one.text] = ("--with-editable" if one.editable else "--with", one.text)
    # The trial has the constraint, the installation has not: it would be written into the receipt, and then
    # `uv tool upgrade` could never upgrade deep-core again. Without --upgrade uv keeps what is installed and will do.
    every = [a.replace("--with-editable", "--editable") for how in (receipt.tool, *others.values()) for a in how]
    every = [argument for argument in every if argument != "--with"]
    look = _uv_pip(target, "install", folder, receipt)
    trial = Step((*look, "--dry-run", *_uv_constraints(constraints), *every), trial=True)
    again = _uv_again(wanted) if upgrade else ()
    return [trial, _uv_tool(target, receipt, others, folder, again)]


def uninstall_steps(target: Target, distribution: str, folder: Path) -> list[Step]:
    """The programs that uninstall a distribution.

    Raises:
        Failure: it is what the environment was made for.
    """
    name = canonical(distribution)
    if target.kind in ("uv-tool", "pipx") and name == canonical(target.prefix.name):
        tool = "uv tool" if target.kind == "uv-tool" else "pipx"
        raise Failure(f"{distribution} is the environment itself; to remove all of it: {tool} uninstall {name}")
    if target.kind == "pip":
        return [Step((*_pip(target), "uninstall", "--yes", distribution))]
    if target.kind == "pipx":
        if name in injected(target.prefix):
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
    # -P: a pip.py in the current folder is not pip.
    return (target.python, "-P", "-m", "pip", "--disable-pip-version-check", "--no-input")


def _pip_arguments(wanted: Sequence[Wanted]) -> list[str]:
    return [argument for one in wanted for argument in (("--editable", one.text) if one.editable else (one.text,))]


def _uv_pip(target: Target, verb: str, folder: Path | None = None, receipt: Receipt | None = None) -> tuple[str, ...]:
    settings = _settings(folder, receipt) if folder is not None and receipt is not None else ()
    return (target.program, *settings, "pip", verb, "--python", target.python)


def _uv_again(wanted: Sequence[Wanted]) -> tuple[str, ...]:
    """A name is upgraded; what a path or an address has may have changed without a new version."""
    pairs = [("--reinstall-package" if one.address else "--upgrade-package", one.name) for one in wanted if one.name]
    return tuple(argument for pair in pairs for argument in pair)


def _uv_constraints(file: Path) -> list[str]:
    """The option replaces the variable, so what the user constrains is said again."""
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
    # The environment that runs this, wherever uv would look for tools now.
    env = {"UV_TOOL_DIR": str(target.prefix.parent)} | ({"UV_TOOL_BIN_DIR": receipt.scripts} if receipt.scripts else {})
    return Step((*command, *receipt.tool), env)


def _settings(folder: Path, receipt: Receipt) -> tuple[str, ...]:
    """uv takes the settings of a tool from the receipt for `upgrade` only; `install` has to be told."""
    if not receipt.options:
        return ()
    file = folder / "uv.toml"
    file.write_text(receipt.options, encoding="utf-8")
    return ("--config-file", str(file))


def _inject(target: Target, one: Wanted, constraints: Path, upgrade: bool) -> Step:
    # Variables, because arguments for pip are written into the environment's metadata and used by every upgrade.
    env = {
        name: " ".join([*os.environ.get(name, "").split(), str(constraints)])
        for name in ("PIP_CONSTRAINT", "UV_CONSTRAINT")
    }
    more: list[str] = ["--editable"] if one.editable else []
    if upgrade and pipx_backend(target.prefix) == "uv":
        more += [f"--pip-args={' '.join(_uv_again([one]))}"]
    elif upgrade:
        env["PIP_UPGRADE"] = "1"
    # --force: without it pipx leaves a plugin as it is that was injected before, and says that all went well.
    return Step((target.program, "inject", "--force", *more, target.prefix.name, one.text), env | _pipx_home(target))


def _pipx_home(target: Target) -> dict[str, str]:
    return {"PIPX_HOME": str(target.prefix.parent.parent)}


# -- running it --------------------------------------------------------------------------------------------------------


def perform(step: Step) -> tuple[int, str]:
    """Run a program to its end; returns its exit code and what it printed, which a terminal sees meanwhile.

    Started in the root folder: pip's and uv's configuration files of the current folder (a project's, which the model
    may write) choose no index. After Ctrl-C the program is waited for: it cleans up after itself.
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
    assert child.stdout is not None  # noqa: S101 - it is a pipe
    lines: list[str] = []
    try:
        for line in interruptible(cast("TextIO", child.stdout)):
            lines.append(line)
            if show:
                click.echo(click.style(plain(redact(line.rstrip("\n"))), dim=True), err=True)
        code = exit_code(child)
    except KeyboardInterrupt:
        child.communicate()
        raise
    return code, "".join(lines) + _log("".join(lines))


def _log(output: str) -> str:
    """What pip said, where pipx keeps it in a file."""
    found = re.search(r"Full pip output in file:\s+(\S+)", output)
    if found is None:
        return ""
    try:
        return "\n" + Path(found[1]).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def conflict(output: str, pinned: Mapping[str, str]) -> str:
    """What of an installer's output says that a plugin wants another deep-core or Pydantic AI; "" for nothing.

    pip and uv both name the constraint (`deep-core==0.1.0`) and who `depends on` what.
    """
    for name, version in pinned.items():
        if f"{name}=={version}" not in output:
            continue
        # pip: `acme 1.0 depends on deep-core<1`; uv: `all versions of acme depend on deep-core<1 and …`
        for who, what in re.findall(rf"(\S+(?: [\d.]+)?) depends? on (?=({re.escape(name)}\b(?!==)[^\n]*))", output):
            wants = re.split(r",? (?:and (?=[a-z])|we can)|,$", what)[0]
            if canonical(who) != DEEP_CLI and not _content(wants.removeprefix(name), version):
                return f"{who} needs {one_line(wants, 200)}, and {name} {version} is installed"
    return ""


def _content(wants: str, version: str) -> bool:
    """Whether this version will do. Both installers also list the plugins that are not in the way."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        return SpecifierSet(wants.replace(" and ", ",")).contains(version, prereleases=True)
    except InvalidSpecifier:
        return False


def told(output: str) -> str:
    """The lines of an installer's output that say what went wrong; its last one where none does."""
    lines = [line for line in output.splitlines() if line.strip() and not NOTHING.search(line)]
    return " ".join(([line for line in lines if CAUSE.match(line)] or lines[-1:])[:3])


# -- what a person types -----------------------------------------------------------------------------------------------


def typed(target: Target, texts: Sequence[str], *, flags: Sequence[str] = ()) -> str:
    """The command that installs these in this environment, for a person to type.

    Args:
        target: this environment, changeable or not.
        texts: requirements.
        flags: of pip: `--upgrade`, `--force-reinstall`.
    """
    if target.kind in ("temporary", "managed"):
        return shlex.join(["uv", "tool", "install", DEEP_CLI, *_each("--with", texts)])
    if target.kind == "uv-tool":
        return _typed_uv_tool(target, texts, flags)
    if target.kind == "pipx":
        verb = ["runpip", target.prefix.name, "install", *flags] if flags else ["inject", target.prefix.name]
        return shlex.join(["pipx", *verb, *texts])
    if target.kind == "uv":
        uv_flags = ["--reinstall" if flag == "--force-reinstall" else flag for flag in flags]
        return shlex.join(["uv", "pip", "install", "--python", target.python, *uv_flags, *texts])
    install = shlex.join([*_typed_pip(target), "install", *flags, *texts])
    return install if target.kind == "pip" else f"{shlex.join([target.python, '-m', 'ensurepip'])} && {install}"


def _typed_uv_tool(target: Target, texts: Sequence[str], flags: Sequence[str], without: str = "") -> str:
    receipt = read_receipt(target.prefix)
    names = {text: _name_in(text) for text in texts}
    # deep-cli and what it rests on are there anyway: they are only upgraded.
    added = [text for text in texts if names[text] not in (DEEP_CLI, *PINNED) or canonical(text) != names[text]]
    others = dict(receipt.others) | {names[text]: ("--with", text) for text in added}
    others.pop(without, None)
    again = [argument for flag in flags for argument in _each(UV_FLAGS[flag], names.values())]
    return shlex.join(["uv", "tool", "install", *receipt.tool, *again, *(a for how in others.values() for a in how)])


def _name_in(requirement: str) -> str:
    """The distribution that a requirement begins with."""
    return canonical(re.split(r"[^A-Za-z0-9._-]", requirement)[0])


def _each(option: str, values: Iterable[str]) -> list[str]:
    return [argument for value in values for argument in (option, value)]


def typed_uninstall(target: Target, distribution: str) -> str:
    """The command that uninstalls a distribution from this environment, for a person to type.

    What uv or pipx wrote down is changed too: else their next upgrade brings it back.
    """
    name = canonical(distribution)
    if target.kind == "pipx":
        if name in injected(target.prefix):
            return shlex.join(["pipx", "uninject", "--leave-deps", target.prefix.name, name])
        return shlex.join(["pipx", "runpip", target.prefix.name, "uninstall", name])
    if target.kind == "uv-tool" and name in read_receipt(target.prefix).others:
        return _typed_uv_tool(target, (), (), without=name)
    if target.kind in ("uv", "uv-tool"):
        return shlex.join(["uv", "pip", "uninstall", "--python", target.python, distribution])
    uninstall = shlex.join([*_typed_pip(target), "uninstall", distribution])
    return f"{shlex.join([target.python, '-m', 'ensurepip'])} && {uninstall}" if target.kind == "bare" else uninstall


def _typed_pip(target: Target) -> list[str]:
    """`pip` alone where a shell finds this environment's: as in a virtual environment that is activated."""
    found = shutil.which("pip")
    is_own = found is not None and Path(found).parent == Path(target.python).parent
    return ["pip"] if is_own and target.kind == "pip" else [target.python, "-m", "pip"]


def mend(target: Target, text: str, plugins: Collection[str]) -> str:
    """A text with `pip install …` and `pip uninstall …` in it, as the kernel writes, with what is typed here instead.

    Args:
        target: this environment.
        text: what the kernel says.
        plugins: canonical names of distributions with plugins: `deep plugins` installs and uninstalls these.
    """
    return PIP.sub(lambda match: _mended(target, match[1], shlex.split(match[2]), plugins), text)


def mended(text: str) -> str:
    """`mend` for this environment, where the text has a command of pip at all."""
    if PIP.search(text) is None:
        return text
    plugins = {canonical(candidate.record.distribution or "") for candidate in scan()}
    try:
        return mend(detect(), text, plugins)
    except Failure:  # a receipt of uv that is not understood: `deep doctor` says so
        return text


def _mended(target: Target, verb: str, words: Sequence[str], plugins: Collection[str]) -> str:
    flags = ["--upgrade" if word == "-U" else word for word in words if word.startswith("-")]
    if not set(flags) <= set(UV_FLAGS):
        return shlex.join(["pip", verb, *words])  # of pip alone
    texts = [word for word in words if not word.startswith("-")]
    names = {_name_in(text) for text in texts}
    ours = target.changeable and not names & set(PINNED) and all(n in plugins or n.startswith("deep-") for n in names)
    if verb == "uninstall":
        return f"deep plugins uninstall {texts[0]}" if ours else typed_uninstall(target, texts[0])
    if ours and set(flags) <= {"--upgrade"}:
        return shlex.join(["deep", "plugins", "install", *flags, *texts])
    return typed(target, texts, flags=flags)
