"""Read a document: JSON or YAML, from a file or an address, with what its references name."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import unquote, urlsplit

from referencing import Registry, Resource, Specification
from referencing.exceptions import Unresolvable

from .problems import DocumentError

__all__ = ["MOST_BYTES", "Document", "Place", "check_digest", "parse", "read_file"]

MOST_BYTES = 50_000_000
"""Of a document, and of each file that it names. The largest public ones have 12 MB."""
MOST_HOPS = 50
"""References that lead to references."""
LONGER = 10
"""How many times as long as its text a document may be with its aliases filled in; a million characters is never
too long."""


class Place(NamedTuple):
    """A part of a document, and the resolver of the references in it."""

    value: Any
    resolver: Any

    def child(self, value: Any) -> Place:
        """Return a part of this part, with references followed.

        Raises:
            DocumentError: a reference leads nowhere, or in a circle.
        """
        resolver = self.resolver
        for _ in range(MOST_HOPS):
            reference = cast("Mapping[str, Any]", value).get("$ref") if isinstance(value, Mapping) else None
            if not isinstance(reference, str):
                return Place(value, resolver)
            try:
                found = resolver.lookup(reference)
            except (Unresolvable, ValueError) as error:
                raise DocumentError(f"{reference[:200]} {_why(error)}") from error
            value, resolver = found.contents, found.resolver
        raise DocumentError("references lead in a circle")


def _why(error: BaseException | None) -> str:
    """What a file said that a reference names; the library wraps it."""
    while error is not None:
        if isinstance(error, DocumentError):
            return f"cannot be read: {error}"
        error = error.__cause__
    return "leads nowhere"


class Document:
    """A document and its references.

    Args:
        root: as parsed.
        folder: from which other files may be read; None for none.
        name: of the document's file in the folder.
    """

    def __init__(self, root: Mapping[str, Any], folder: Path | None = None, name: str = "document") -> None:
        self.root, self._folder = root, folder
        base = "urn:deep:document" if folder is None else (folder / name).as_uri()
        registry: Any = Registry[Any](retrieve=cast("Any", self._retrieve))
        made = registry.with_resource(base, Resource(contents=root, specification=cast("Any", Specification.OPAQUE)))
        self.place = Place(root, made.resolver(base))

    def _retrieve(self, uri: str) -> Resource[Any]:
        parts = urlsplit(uri)
        if self._folder is None or parts.scheme != "file":
            raise DocumentError(f"it names another document, {uri[:200]}, which is not read")
        path = Path(unquote(parts.path)).resolve()
        if not path.is_relative_to(self._folder):
            raise DocumentError(f"it names {path}, which is outside its folder")
        return Resource(contents=parse(_bytes_of(path), str(path)), specification=cast("Any", Specification.OPAQUE))


def read_file(path: Path, digest: str | None) -> Document:
    """Read a document from a file.

    Raises:
        DocumentError: it cannot be read, or the model may have written it.
    """
    path = path.expanduser().resolve()
    data = _bytes_of(path)
    if digest is not None:
        check_digest(data, digest)
        return Document(parse(data, str(path)))  # alone: the digest is of one file
    if path.is_relative_to(Path.cwd().resolve()):
        # The credential would do what a document says that the model may have written.
        raise DocumentError(
            f"{path.name} is in the current directory, where the model may write; keep it elsewhere, or write "
            f'digest = "{sha256(data).hexdigest()[:32]}"'
        )
    return Document(parse(data, str(path)), path.parent, path.name)


def check_digest(data: bytes, digest: str) -> None:
    """Raise DocumentError if the document is not the one that was pinned."""
    found = sha256(data).hexdigest()
    if not found.startswith(digest):
        raise DocumentError(f'the document is not the pinned one; if you trust it: digest = "{found[:32]}"')


def _bytes_of(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise DocumentError(f"{path}: {error.strerror or error}") from error
    if len(data) > MOST_BYTES:
        raise DocumentError(f"{path} has more than {MOST_BYTES:,} bytes")
    return data


def parse(data: bytes, name: str) -> Mapping[str, Any]:
    """Parse JSON or YAML.

    Raises:
        DocumentError: it is neither, or no mapping.
    """
    try:
        text = data.decode("utf-8-sig")
        found: Any = json.loads(text) if text.lstrip()[:1] == "{" else _yaml(text)
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"{name} is neither JSON nor YAML: {' '.join(str(error).split())[:300]}") from error
    if not isinstance(found, Mapping):
        why = "it is empty" if found is None else "it is no mapping"
        raise DocumentError(f"{name} is no OpenAPI document: {why}")
    return cast("Mapping[str, Any]", found)


def _yaml(text: str) -> Any:
    import yaml

    try:
        found: Any = yaml.load(text, Loader=_loader())  # noqa: S506 - a safe loader with fewer types
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
    if _length(found, {}) > max(1_000_000, LONGER * len(text)):
        raise ValueError("its aliases make it too large")
    return _merged(found, {})


def _merged(value: Any, known: dict[int, Any]) -> Any:
    """Put in what `<<` names, as YAML 1.1 did and documents still use. `_length` has counted what it brings."""
    if not isinstance(value, dict | list):
        return value
    if id(parts := cast("dict[str, Any] | list[Any]", value)) not in known:
        if isinstance(parts, list):
            known[id(parts)] = [_merged(each, known) for each in parts]
        else:
            own = {key: _merged(each, known) for key, each in parts.items()}
            given = own.get("<<")
            others = cast("list[Any]", given) if isinstance(given, list) else [given]
            if others and all(isinstance(each, dict) for each in others):
                del own["<<"]
                own = {key: each for other in (*reversed(others), own) for key, each in other.items()}
            known[id(parts)] = own
    return known[id(parts)]


def _length(value: object, known: dict[int, float]) -> float:
    """Count the characters and values in a value, those of an alias each time; endless if it is in itself."""
    if isinstance(value, str):
        return 1 + len(value)
    if not isinstance(value, dict | list):
        return 1
    parts = cast("dict[object, object] | list[object]", value)
    if id(parts) not in known:
        known[id(parts)] = inf
        inside = (*parts, *parts.values()) if isinstance(parts, dict) else parts
        known[id(parts)] = 1 + sum(_length(part, known) for part in inside)
    return known[id(parts)]


@cache
def _loader() -> Any:
    """A safe loader of YAML 1.2's types: in 1.1, `no` is False, `12:30` a number, and `2020-01-01` a date."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader: Any = type("Loader", (base,), {"yaml_implicit_resolvers": {}})
    # `<<` is a key, as in 1.2: in a chain each mapping would be as large as all before it, before anything counts.
    loader.flatten_mapping = lambda self, node: None  # pyright: ignore[reportUnknownLambdaType]
    loader.add_implicit_resolver(
        "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), "tTfF"
    )
    loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^(?:0|[-+]?[1-9][0-9]*)$"), "-+0123456789")
    number = r"^[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)$"
    loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(number), "-+.0123456789")
    loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])
    return loader
