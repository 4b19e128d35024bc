"""Copy the libraries of the page from npm into the package: `python plugins/web/vendor.py`.

A new version: change it in `LIBRARIES`, run this, and enter the hash that it prints.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

VENDOR = Path(__file__).parent / "src" / "deep_web" / "static" / "vendor"


@dataclass(frozen=True)
class Library:
    """A package of npm.

    Attributes:
        name: its name.
        version: its version.
        sha256: of the archive.
        files: paths in the archive -> names here.
    """

    name: str
    version: str
    sha256: str
    files: dict[str, str]


LIBRARIES = (
    Library(
        "markdown-it",
        "15.0.3",
        "98a7453983ab0e268c17dbd5260bf7190ba46b4cca912327fc1c1a2578e4b56d",
        {
            "package/dist/browser/markdown-it.esm.min.mjs": "markdown-it.esm.min.mjs",
            "package/LICENSE": "markdown-it.LICENSE",
        },
    ),
    Library(
        "dompurify",
        "3.4.18",
        "8b86f79c6481fec23dd81d4de32179422668912ed033c0c47e786a6e70cb3379",
        {"package/dist/purify.es.mjs": "purify.es.mjs", "package/LICENSE": "dompurify.LICENSE"},
    ),
)


def files_of(library: Library, folder: Path) -> dict[str, bytes]:
    """Fetch a library; return its files by their names here.

    Raises:
        SystemExit: it is not the archive that `LIBRARIES` names.
    """
    command = ["npm", "pack", "--json", "--pack-destination", str(folder), f"{library.name}@{library.version}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    archive = folder / json.loads(done.stdout)[0]["filename"]
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != library.sha256:
        raise SystemExit(f"{library.name} {library.version} has the hash {found}, not {library.sha256}")
    with tarfile.open(archive) as tar:
        contents: dict[str, bytes] = {}
        for path, name in library.files.items():
            file = tar.extractfile(path)
            if file is None:
                raise SystemExit(f"{library.name} {library.version}: {path} is no file")
            contents[name] = file.read()
        return contents


def main() -> int:
    """Write the files of all libraries."""
    VENDOR.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for library in LIBRARIES:
            for name, data in files_of(library, Path(folder)).items():
                (VENDOR / name).write_bytes(data)
                print(f"{library.name} {library.version}: {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
