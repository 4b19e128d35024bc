"""Throw-away Python environments for tests: a real interpreter with site-packages of its own and a home of its own.

What the environment installs is in its site directory and so can be discovered. Third-party dependencies come from the
environment that runs the tests, through a `.pth` file: importable, but in no site directory, so nothing of ours that
is installed there is discovered.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import importlib.util
import io
import json
import marshal
import os
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests import forked

__all__ = [
    "BELOW",
    "FIXTURES",
    "REPOSITORY",
    "SECTION_PLUGIN",
    "Distribution",
    "Environment",
    "Finished",
    "Here",
    "Outcome",
    "plugin",
]

REPOSITORY = Path(__file__).resolve().parent.parent
FIXTURES = REPOSITORY / "tests" / "fixtures"
BELOW = ("entry-point-index", "tool-expressions")
"""Our distributions that deep-agent-core requires: pip would install them, and a test without an index names them."""
MARK = "=== answer: "
"""Stands before the JSON that `Environment.ask` reads: what else a program prints does not matter."""
PRELUDE = f"""
def answer(value):
    import json, sys
    print({MARK!r} + json.dumps(value), flush=True)
"""
KERNEL = """
import sys, warnings
from dataclasses import asdict

before = set(sys.modules)
error = None
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from deep_core import PluginError
    from deep_core import Kernel
    from deep_core.plugins.status import find_plugins
    try:
        found = {what}(**{arguments!r})
        {then}
        records = found.records
    except PluginError as raised:
        error, records = [type(raised).__name__, raised.plugin, str(raised)], ()
plain = ("name", "distribution", "version", "path", "status", "reason", "import_ms", "hooks", "editable")
answer({{
    "plugins": [
        {{**{{key: getattr(record, key) for key in plain}}, "error": record.error and type(record.error).__name__}}
        for record in records
    ],
    "warnings": [str(w.message) for w in caught],
    "told": list(getattr(locals().get("found"), "warnings", ())),
    "error": error,
    "imported": sorted(set(sys.modules) - before),
}})
"""
KEPT = ("PATH", "SYSTEMROOT", "TMPDIR", "TEMP", "TMP", "LANG", "LC_ALL", "SSL_CERT_FILE")
"""What a started interpreter sees of this process's environment: no key, no DEEP_ or PYTHON setting."""


@dataclass(frozen=True)
class Distribution:
    """A distribution to be written into a site directory as an installer would leave it.

    Attributes:
        name: of the distribution.
        plugins: entry points of group `deep`: plugin name -> `module` or `module:object`.
        files: path below the site directory -> text; half of a surrogate pair in it is a byte that is no UTF-8.
        version: of the distribution.
        requires: `Requires-Dist` lines.
        commands: entry points of group `deep.commands`.
        editable: the project folder of an editable install; its files are not copied.
    """

    name: str
    plugins: Mapping[str, str] = field(default_factory=dict[str, str])
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    version: str = "1.0"
    requires: Sequence[str] = ("deep-agent-core>=0.1,<1",)
    commands: Mapping[str, str] = field(default_factory=dict[str, str])
    editable: Path | None = None

    @classmethod
    def of_project(cls, folder: Path) -> Distribution:
        """What installing a project of a `src` layout would install, read off its folder without building it."""
        project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
        sources = [p for p in (folder / "src").rglob("*") if p.is_file() and "__pycache__" not in p.parts]
        points = project.get("entry-points", {})
        files = {
            path.relative_to(folder / "src").as_posix(): path.read_bytes().decode("utf-8", "surrogateescape")
            for path in sorted(sources)
        }
        if folder.name == "cli":  # as its hatch_build.py
            files["deep_cli/plugins.json"] = (REPOSITORY / "docs" / "plugins.json").read_text("utf-8")
        if folder.name == "demo":
            sample = REPOSITORY / "examples" / "sample-project"
            texts = [path for path in sorted(sample.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
            files |= {
                f"deep_demo/sample/{path.relative_to(sample).as_posix()}": path.read_text("utf-8") for path in texts
            }
        return cls(
            project["name"],
            points.get("deep", {}),
            files,
            version=project["version"],
            requires=project.get("dependencies", ()),
            commands=points.get("deep.commands", {}),
        )

    @property
    def dist_info(self) -> str:
        """The name of its dist-info folder."""
        return f"{self.name.replace('-', '_')}-{self.version}.dist-info"

    def write(self, site: Path) -> Path:
        """Install into a site directory, with byte code, as pip does; returns the dist-info folder."""
        metadata = [f"Name: {self.name}", f"Version: {self.version}"]
        metadata += [f"Requires-Dist: {requirement}" for requirement in self.requires]
        points = ["[deep]", *(f"{name} = {value}" for name, value in self.plugins.items())]
        points += ["", "[deep.commands]", *(f"{name} = {value}" for name, value in self.commands.items())]
        files = {
            **self.files,
            f"{self.dist_info}/METADATA": "\n".join(["Metadata-Version: 2.1", *metadata, ""]),
            f"{self.dist_info}/entry_points.txt": "\n".join([*points, ""]),
            f"{self.dist_info}/INSTALLER": "pip\n",
        }
        if self.editable is not None:
            url = {"url": self.editable.as_uri(), "dir_info": {"editable": True}}
            files[f"{self.dist_info}/direct_url.json"] = json.dumps(url)
            files[f"_editable_{self.name.replace('-', '_')}.pth"] = f"{self.editable}\n"
        written = {path: text.encode("utf-8", "surrogateescape") for path, text in files.items()}
        for path, data in written.items():
            target = site / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
            if path.endswith(".py"):
                _write_byte_code(target, files[path])
        lines = [f"{path},{_digest(data)},{len(data)}" for path, data in written.items()]
        record = site / self.dist_info / "RECORD"
        record.write_text("\n".join([*lines, f"{self.dist_info}/RECORD,,", ""]), encoding="utf-8")
        return record.parent


SECTION_PLUGIN = """
from deep_core import PromptSection, hookimpl

@hookimpl
def deep_prompt_sections(context):
    return [PromptSection.static({name!r}, "This is {name}.")]
"""
"""The module of a plugin that contributes a section of its name."""


def plugin(
    name: str,
    *,
    requires: Sequence[str] = ("deep-agent-core>=0.1,<1",),
    version: str = "1.0",
    text: str = SECTION_PLUGIN,
) -> Distribution:
    """The distribution `acme-<name>` with the plugin `<name>`, whose module is `acme_<name>`."""
    files = {f"acme_{name}.py": text.format(name=name)}
    return Distribution(f"acme-{name}", {name: f"acme_{name}"}, files, version=version, requires=requires)


def _write_byte_code(module: Path, text: str) -> None:
    """What each environment would compile anew; nothing for text that does not compile."""
    with contextlib.suppress(SyntaxError, ValueError):
        compiled = Path(importlib.util.cache_from_source(str(module)))
        compiled.parent.mkdir(exist_ok=True)
        compiled.write_bytes(_byte_code(text))


@cache
def _byte_code(text: str) -> bytes:
    """Valid wherever the text is written, and no longer when it is changed there (PEP 552, checked)."""
    code = marshal.dumps(compile(text, "<installed>", "exec", dont_inherit=True))
    checked = (0b11).to_bytes(4, "little")
    return importlib.util.MAGIC_NUMBER + checked + importlib.util.source_hash(text.encode()) + code


def _digest(data: bytes) -> str:
    raw = hashlib.sha256(data).digest()
    return "sha256=" + base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


@dataclass(frozen=True)
class Finished:
    """How a program ended."""

    code: int
    out: str
    err: str

    @property
    def value(self) -> Any:
        """What the program gave to `answer`."""
        lines = [line for line in self.out.splitlines() if line.startswith(MARK)]
        if len(lines) != 1:
            raise AssertionError(f"expected one answer(…), got {len(lines)}; exit {self.code}\n{self.out}\n{self.err}")
        return json.loads(lines[0].removeprefix(MARK))

    def ok(self) -> Finished:
        """Itself, if the exit code was 0."""
        if self.code != 0:
            raise AssertionError(f"exit {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}")
        return self


@dataclass(frozen=True)
class Outcome:
    """What a kernel, or a survey without import, said about the plugins.

    Attributes:
        plugins: every record, in order, as a mapping of its fields.
        warnings: texts of the warnings.
        told: what a survey has to tell (its `warnings`).
        error: type, plugin and text of the PluginError that was raised, or None.
        imported: modules that were imported meanwhile.
    """

    plugins: Sequence[Mapping[str, Any]]
    warnings: Sequence[str]
    told: Sequence[str]
    error: tuple[str, str | None, str] | None
    imported: Sequence[str]

    def __getitem__(self, plugin: str) -> Mapping[str, Any]:
        (record,) = (record for record in self.plugins if record["name"] == plugin)
        return record

    @property
    def statuses(self) -> dict[str, str]:
        """Plugin name -> status."""
        return {record["name"]: record["status"] for record in self.plugins}

    @property
    def message(self) -> str:
        """The text of the error that was raised."""
        if self.error is None:
            raise AssertionError(f"nothing was raised: {self.statuses}, {self.warnings}")
        return self.error[2]


@dataclass(frozen=True)
class Environment:
    """An interpreter with its own site-packages.

    Attributes:
        root: the environment's folder.
    """

    root: Path

    @classmethod
    def create(cls, root: Path, *, kernel: bool = True) -> Environment:
        """Make one.

        Args:
            root: an empty or absent folder.
            kernel: makes `deep_core`, and our distributions that it needs, importable from the checkout. False where
                its wheel will be installed.
        """
        venv.EnvBuilder(symlinks=True, with_pip=False).create(root / "env")
        environment = cls(root)
        environment.home.mkdir()
        environment.work.mkdir()
        paths = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
        if kernel:
            paths += [str(REPOSITORY), *(str(REPOSITORY / "plugins" / name / "src") for name in BELOW)]
        lines = [*dict.fromkeys(paths), ""]
        (environment.site / "dependencies.pth").write_text("\n".join(lines), encoding="utf-8")
        return environment

    @property
    def prefix(self) -> Path:
        """Its `sys.prefix`."""
        return self.root / "env"

    @property
    def site(self) -> Path:
        """Its site-packages."""
        base = str(self.prefix)
        return Path(sysconfig.get_path("purelib", "venv", vars={"base": base, "platbase": base}))

    @property
    def scripts(self) -> Path:
        """Where its console scripts are."""
        base = str(self.prefix)
        return Path(sysconfig.get_path("scripts", "venv", vars={"base": base, "platbase": base}))

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.scripts / ("python.exe" if os.name == "nt" else "python")

    @property
    def home(self) -> Path:
        """The home of whoever uses it: user configuration, cache and data are below."""
        return self.root / "home"

    @property
    def work(self) -> Path:
        """The working directory of what it runs, unless another is named."""
        return self.root / "work"

    # -- what is installed ---------------------------------------------------------------------------------------

    def install(self, *distributions: Distribution) -> None:
        """Write distributions into the site directory, without pip: fast, and any metadata can be written."""
        for distribution in distributions:
            distribution.write(self.site)

    def uninstall(self, distribution: Distribution) -> None:
        """Remove what `install` wrote."""
        for path in distribution.files:
            (self.site / path).unlink()
        shutil.rmtree(self.site / distribution.dist_info)

    def pip(self, *arguments: str | Path) -> None:
        """Run the real pip on this environment, without an index and without dependencies."""
        offline = ["--no-index", "--no-deps", "--no-warn-conflicts"] if arguments[0] == "install" else ["--yes"]
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(self.python)]
        command = [*pip, str(arguments[0]), "--quiet", *offline, *map(str, arguments[1:])]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=self.variables())
        Finished(done.returncode, done.stdout, done.stderr).ok()

    # -- what is run ---------------------------------------------------------------------------------------------

    def variables(self, **more: str) -> dict[str, str]:
        """The process environment that its programs get."""
        kept = {key: os.environ[key] for key in KEPT if key in os.environ}
        home = {"HOME": str(self.home), "USERPROFILE": str(self.home), "LOCALAPPDATA": str(self.home)}
        # In the folder of the tests, its pytest would remove the files of an earlier `make test`, for minutes.
        return {**kept, **home, "PYTHONUTF8": "1", "PYTEST_DEBUG_TEMPROOT": str(self.root), **more}

    def run(
        self, *command: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None, timeout: float = 120
    ) -> Finished:
        """Run a program of the environment (`command[0]` by its path) and wait for it."""
        done = subprocess.run(
            [str(part) for part in command],
            cwd=cwd or self.work,
            env=self.variables(**(env or {})),
            capture_output=True,
            encoding="utf-8",
            stdin=subprocess.DEVNULL,
            timeout=timeout,
            check=False,
        )
        return Finished(done.returncode, done.stdout, done.stderr)

    def fork(self, *arguments: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Finished:
        """`run` its interpreter with these arguments, in a fork that has made the third-party imports.

        Only `run` shows what an interpreter loads when it starts, and what can go wrong there.
        """
        command = [str(self.python), *map(str, arguments)]
        return Finished(*forked.run(self.prefix, command, cwd or self.work, self.variables(**(env or {}))))

    def ask(
        self,
        code: str,
        *,
        start: bool = True,
        flags: Sequence[str] = (),
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Any:
        """Run code that calls `answer(value)` once, and return the value (through JSON); not `start`: in a fork."""
        arguments = [*flags, "-c", PRELUDE + code]
        done = self.run(self.python, *arguments, cwd=cwd, env=env) if start else self.fork(*arguments, cwd=cwd, env=env)
        return done.ok().value

    def listed(
        self, *, start: bool = False, cwd: Path | None = None, env: Mapping[str, str] | None = None, **asked: Any
    ) -> Outcome:
        """What `deep_core.plugins.status.find_plugins` (what a list shows) says, in a process of its own."""
        code = KERNEL.format(what="find_plugins", arguments=asked, then="")
        return Outcome(**self.ask(code, start=start, cwd=cwd, env=env))

    def loaded(
        self,
        *,
        agent: bool = False,
        start: bool = False,
        flags: Sequence[str] = (),
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        **kernel: Any,
    ) -> Outcome:
        """What `deep_core.Kernel` says, in a process of its own; with `agent`, after it has made an agent too."""
        then = "found.create_agent('test')" if agent else ""
        code = KERNEL.format(what="Kernel", arguments=kernel, then=then)
        return Outcome(**self.ask(code, start=start or bool(flags), flags=flags, cwd=cwd, env=env))

    def application(self, *calls: tuple[str, Mapping[str, Any]], env: Mapping[str, str] | None = None) -> Any:
        """Run `tests/fixtures/application.py`, its model making these tool calls; returns its report."""
        return json.loads(self.fork(FIXTURES / "application.py", json.dumps(calls), env=env).ok().out)


class Here:
    """This interpreter, with another site directory: for what needs no fresh process, a hundred times cheaper.

    Args:
        site: the site directory that is discovered instead of the real ones.
        monkeypatch: undoes it all.
    """

    def __init__(self, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        site.mkdir()
        self.site = site
        self._monkeypatch = monkeypatch
        monkeypatch.setattr("entry_point_index.index.site_directories", lambda: [os.path.realpath(site)])
        # As if the process had started after the installation, and after every change.
        monkeypatch.setattr("entry_point_index.cache.STARTED", sys.maxsize)
        monkeypatch.setattr(sys, "path", [*sys.path, str(site)])
        monkeypatch.chdir(site.parent)

    def install(self, *distributions: Distribution) -> None:
        """Write distributions into the site directory."""
        for distribution in distributions:
            distribution.write(self.site)
        importlib.invalidate_caches()

    def forget(self) -> list[str]:
        """Drop what was imported from the site directory; returns the modules' names."""
        prefix = str(self.site) + os.sep
        found = [
            name for name, module in sys.modules.items() if (getattr(module, "__file__", "") or "").startswith(prefix)
        ]
        for name in found:
            del sys.modules[name]
        return found

    def application(self, *calls: tuple[str, Mapping[str, Any]]) -> Any:
        """As `Environment.application`."""
        self._monkeypatch.setattr(sys, "argv", ["application.py", json.dumps(calls)])
        with contextlib.redirect_stdout(io.StringIO()) as out:
            runpy.run_path(str(FIXTURES / "application.py"), run_name="__main__")
        return json.loads(out.getvalue())
