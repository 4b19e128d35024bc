"""Wheels for tests without an index: written by hand, or packed again from what is installed here."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterable, Sequence
from email.parser import HeaderParser
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.environments import Distribution

__all__ = ["build", "repack", "write_wheel"]

NOT_IN_A_WHEEL = {"INSTALLER", "REQUESTED", "direct_url.json", "RECORD"}


def write_wheel(distribution: Distribution, folder: Path) -> Path:
    """The wheel that would install a distribution."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{distribution.dist_info.removesuffix('.dist-info')}-py3-none-any.whl"
    unpacked = folder / f".{path.stem}"
    distribution.write(unpacked)
    files = {p.relative_to(unpacked).as_posix(): p.read_bytes() for p in unpacked.rglob("*") if p.is_file()}
    _pack(path, files, "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    return path


def _pack(path: Path, files: dict[str, bytes], wheel: str) -> None:
    dist_info = next(name.partition("/")[0] for name in files if name.partition("/")[0].endswith(".dist-info"))
    kept = {name: data for name, data in files.items() if name.rpartition("/")[2] not in NOT_IN_A_WHEEL}
    kept[f"{dist_info}/WHEEL"] = wheel.encode()
    record = "".join(f"{name},,\n" for name in [*kept, f"{dist_info}/RECORD"])
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in {**kept, f"{dist_info}/RECORD": record.encode()}.items():
            archive.writestr(name, data)


def repack(names: Iterable[str], folder: Path) -> None:
    """Wheels of installed third-party distributions, and of all that they require."""
    waiting, done = [(name, "") for name in names], set[tuple[str, str]]()
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in done:
            continue
        done.add((name, extra))
        found = metadata.distribution(name)
        if (name, "") == (name, extra) or (name, "") not in done:
            _repack(found, folder)
        for text in found.requires or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                waiting += [(canonicalize_name(requirement.name), more) for more in ("", *requirement.extras)]


def _repack(found: metadata.Distribution, folder: Path) -> None:
    files = {
        str(file): Path(str(file.locate())).read_bytes()
        for file in found.files or ()
        if file.parts[0] != ".." and file.suffix != ".pyc"
    }
    wheel = found.read_text("WHEEL") or ""
    tags = [tag.split("-") for tag in HeaderParser().parsestr(wheel).get_all("Tag", [])]
    tag = "-".join(".".join(dict.fromkeys(part)) for part in zip(*tags, strict=True))
    name = canonicalize_name(found.name).replace("-", "_")
    _pack(folder / f"{name}-{found.version}-{tag}.whl", files, wheel)


def build(projects: Sequence[Path], folder: Path) -> None:
    """Wheels of projects of this checkout, built by the real pip."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-index"]
    command += ["--no-build-isolation", "--no-deps", "--wheel-dir", str(folder), *map(str, projects)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
