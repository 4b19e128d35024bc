"""Wheels for tests without an index: built from the checkout, written by hand, or packed again from what is here."""

from __future__ import annotations

import fcntl
import importlib.util
import marshal
import os
import shutil
import tarfile
import tomllib
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from email.parser import HeaderParser
from importlib import metadata
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.environments import FIXTURES, REPOSITORY, Distribution

__all__ = ["PROJECTS", "build", "made_once", "of_the_checkout", "repack", "unpack", "unpack_sdist", "write_wheel"]

PROJECTS = [
    REPOSITORY,
    *sorted(path.parent for path in (REPOSITORY / "plugins").glob("*/pyproject.toml")),
    FIXTURES / "acme-weather",
    FIXTURES / "acme-cities",
]
"""Every distribution of the checkout, and the third party's."""

HEADER = 16
"""Bytes before the code in a file of byte code."""
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
    """Wheels of installed third-party distributions, and of all that they require, with their byte code.

    An index has wheels without byte code. To compile Pydantic AI anew in every environment takes longer than the tests.
    """
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
    paths = {
        str(file): Path(str(file.locate()))
        for file in found.files or ()
        if file.parts[0] != ".." and file.suffix != ".pyc"
    }
    files = {name: path.read_bytes() for name, path in paths.items()}
    for name, path in paths.items():
        if name.endswith(".py"):
            files[importlib.util.cache_from_source(name)] = _byte_code(path, files[name])
    wheel = found.read_text("WHEEL") or ""
    tags = [tag.split("-") for tag in HeaderParser().parsestr(wheel).get_all("Tag", [])]
    tag = "-".join(".".join(dict.fromkeys(part)) for part in zip(*tags, strict=True))
    name = canonicalize_name(found.name).replace("-", "_")
    _pack(folder / f"{name}-{found.version}-{tag}.whl", files, wheel)


def _byte_code(path: Path, source: bytes) -> bytes:
    """A module's byte code, valid wherever and whenever the module is unpacked (PEP 552, unchecked)."""
    compiled = Path(importlib.util.cache_from_source(str(path)))
    if compiled.exists():
        code = compiled.read_bytes()[HEADER:]
    else:
        code = marshal.dumps(compile(source, str(path), "exec", dont_inherit=True))
    return importlib.util.MAGIC_NUMBER + b"\x01\x00\x00\x00" + importlib.util.source_hash(source) + code


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """A folder that is filled once in a run of pytest, by whichever of its processes asks first.

    Args:
        factory: the fixture.
        name: of the folder.
        make: makes and fills the folder it is given.
    """
    own = factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / name
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            begun = folder.with_suffix(".begun")
            shutil.rmtree(begun, ignore_errors=True)
            make(begun)
            begun.rename(folder)
    return folder


def unpack_sdist(sdist: Path, folder: Path) -> None:
    """Unpack one of our own sdists. Python has filters from 3.11.4, and Debian 12 has 3.11.2."""
    with tarfile.open(sdist) as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extractall(folder, filter="data")
        else:
            archive.extractall(folder)


def of_the_checkout(factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """The wheels of PROJECTS, built once in a run of pytest: name of the distribution -> path."""
    folder = made_once(factory, "wheels-of-the-checkout", lambda folder: build(PROJECTS, folder))
    built = {path.name.partition("-")[0].replace("_", "-"): path for path in folder.glob("*.whl")}
    names = {tomllib.loads((p / "pyproject.toml").read_text("utf-8"))["project"]["name"] for p in PROJECTS}
    assert built.keys() == names
    return built


def build(projects: Sequence[Path], folder: Path) -> None:
    """Wheels of projects of this checkout, by their build backend in this process: pip takes a second for each."""
    for project in projects:
        list(WheelBuilder(str(project)).build(directory=str(folder), versions=["standard"]))


def unpack(wheels: Iterable[Path], site: Path) -> None:
    """Put the files of wheels where an installer would: pip takes a second. Commands get no scripts."""
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
