"""The modules that the plugin loads, and the memory of a large upload, in fresh interpreters."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.drawn import sample


def run(code: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


LOADED = "import sys; print(*sorted({'pydantic', 'pydantic_ai', 'charset_normalizer', 'anyio'} & set(sys.modules)))"


def test_importing_the_plugin_loads_no_framework() -> None:
    assert run(f"import deep_uploads; deep_uploads.__all__; {LOADED}") == ""


def test_loading_the_plugin_loads_no_framework() -> None:
    code = (
        "import deep_uploads; from deep_core import Kernel; Kernel(plugins=[deep_uploads], discover=False, strict=True)"
    )
    assert run(f"{code}; {LOADED}") == ""


def test_what_is_known_of_a_file_needs_no_framework() -> None:
    assert run(f"import deep_uploads; deep_uploads.UploadedFile, deep_uploads.UPLOADS; {LOADED}") == ""


@pytest.mark.slow
def test_the_guesser_is_loaded_only_to_guess() -> None:
    code = """
import asyncio, sys
import deep_backends, deep_uploads
from deep_core import Kernel, create_default_deps
kernel = Kernel(plugins=[deep_uploads, deep_backends], discover=False, strict=True)
deps = create_default_deps(deep_backends.memory_backend(), kernel=kernel)
for data in "plain — text".encode(), "Grüße".encode("cp1252"), "Grüße".encode("cp1252") * 9:
    asyncio.run(deps.upload_file("a.txt", data))
    print("charset_normalizer" in sys.modules)
"""
    assert run(code).split() == ["False", "False", "True"]


LARGE = """
import asyncio, pathlib, resource, sys
import deep_backends, deep_uploads
from deep_core import Kernel, create_default_deps

root, way, size = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
unit = 1024 if sys.platform == "darwin" else 1
kernel = Kernel(plugins=[deep_uploads, deep_backends], discover=False, strict=True)
deps = create_default_deps(deep_backends.local_backend(root), kernel=kernel)
block = b"a line of the log, as long as most of them are, and a word more\\n" * 1024

async def generated(size):
    while size > 0:
        yield block[:size]
        size -= len(block)

async def upload(size):
    if way == "path":
        source = root.parent / "sparse"
        source.touch()
        with source.open("r+b") as file:
            file.truncate(size)
    return await deep_uploads.upload_file(deps, "big.log", source if way == "path" else generated(size))

async def main():
    await upload(4 * 1024 * 1024)  # whatever is loaded and allocated once
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    uploaded = await upload(size)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert uploaded.size == size == (root / uploaded.path).stat().st_size
    assert uploaded.line_count == (None if way == "path" else -(-size // 64)), uploaded
    print((after - before) // unit)

asyncio.run(main())
"""


def growth(tmp_path: Path, way: str, size: int) -> int:
    """The growth of the process in KiB during an upload of `size` bytes."""
    if shutil.disk_usage(tmp_path).free < 2 * size:
        pytest.skip(f"{2 * size // 1024**2} MiB of disk space are needed")
    (tmp_path / "workspace").mkdir()
    try:
        return int(run(LARGE, str(tmp_path / "workspace"), way, str(size)))
    finally:
        shutil.rmtree(tmp_path / "workspace")


@pytest.mark.slow
@pytest.mark.parametrize("way", sample(["stream", "path"], "stream"))
def test_256_mib_are_taken_at_constant_memory(tmp_path: Path, way: str) -> None:
    assert growth(tmp_path, way, 256 * 1024**2) < 16 * 1024


@pytest.mark.wheels  # not a wheel, but as large as one of those tests
def test_2_gib_are_taken_at_constant_memory(tmp_path: Path) -> None:
    assert growth(tmp_path, "stream", 2 * 1024**3) < 16 * 1024
