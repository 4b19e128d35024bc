"""The operations of a document: OpenAPI 3.0 and 3.1, and Swagger 2.0."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal, NamedTuple, cast
from urllib.parse import urlsplit

from .document import Document, Place
from .problems import DocumentError
from .schemas import SCHEMA_CHARS, SchemaWriter, clip

__all__ = ["Body", "Credential", "Listing", "Operation", "Parameter", "list_operations"]

Where = Literal["path", "query", "header", "cookie"]
METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
READS = frozenset({"get", "head", "options", "trace", "query"})
MOST_OPERATIONS = 5_000
NAME_CHARS = 64
"""What every provider takes as the name of a tool, and of a parameter."""
DESCRIPTION_CHARS = 1_024
IGNORED_HEADERS = frozenset(
    {
        *("accept", "authorization", "content-type"),  # OpenAPI says that these have no effect
        # These are the client's: a wrong one is no request, or one for another host.
        *("host", "content-length", "content-encoding", "transfer-encoding", "accept-encoding"),
        *("connection", "keep-alive", "expect", "te", "trailer", "upgrade"),
    }
)
STYLES: Mapping[str, str] = {"path": "simple", "query": "form", "header": "simple", "cookie": "form"}
# Swagger 2.0's word -> style and explode of OpenAPI 3.
COLLECTIONS: Mapping[str, tuple[str, bool]] = {
    "csv": ("form", False),
    "ssv": ("spaceDelimited", False),
    "tsv": ("tabDelimited", False),
    "pipes": ("pipeDelimited", False),
    "multi": ("form", True),
}


class Parameter(NamedTuple):
    """One parameter of an operation.

    Attributes:
        argument: what the model calls it.
        name: what the document calls it.
        where: it is sent.
        style: how an array or an object is written, as OpenAPI names it; `json` for JSON.
        explode: whether each value of it stands for itself.
        reserved: whether characters such as `/` stay as they are.
    """

    argument: str
    name: str
    where: Where
    style: str
    explode: bool
    reserved: bool = False


class Body(NamedTuple):
    """The body of an operation.

    Attributes:
        argument: what the model calls it.
        media: its media type; of a range such as `image/*`, what fits.
        files: the properties of a form that are files.
        encoding: of the properties of a form: name -> (media type, style, explode).
    """

    argument: str
    media: str
    files: frozenset[str] = frozenset()
    encoding: Mapping[str, tuple[str, str, bool]] = {}


class Credential(NamedTuple):
    """Where a credential goes.

    Attributes:
        kind: `bearer`, `basic`, `header`, `query` or `cookie`.
        name: of the header, parameter or cookie.
    """

    kind: str
    name: str = ""


@dataclass(frozen=True)
class Operation:
    """One operation as a tool.

    Attributes:
        name: of the tool without its service's; unique in the document.
        method: in upper case.
        path: with `{names}`.
        description: for the model.
        schema: of the arguments.
        parameters: in the document's order.
        body: None without one.
        credential: where the credential goes; None if the operation takes none.
        tags: the standard tags.
        servers: where it is, if not where the document's other operations are; with `{variables}`.
    """

    name: str
    method: str
    path: str
    description: str
    schema: dict[str, Any]
    parameters: tuple[Parameter, ...]
    body: Body | None
    credential: Credential | None
    tags: tuple[str, ...]
    servers: tuple[str, ...] = ()

    def is_at(self, base_url: str) -> bool:
        """Whether calls below an address reach the operation."""
        given = urlsplit(base_url)
        patterns = [re.sub(r"\\\{.*?\\\}", "[^/]+", re.escape(each.rstrip("/"))) for each in self.servers]
        places = (base_url.rstrip("/"), given.path.rstrip("/"))
        return not patterns or any(re.fullmatch(pattern, place) for pattern in patterns for place in places)

    @property
    def chars(self) -> int:
        """Characters of the tool in a request, about."""
        return len(self.name) + len(self.description) + len(json.dumps(self.schema, separators=(",", ":")))


class Listing(NamedTuple):
    """What a document offers, and what of it cannot be offered, with the reason."""

    operations: tuple[Operation, ...]
    left_out: tuple[str, ...]


def list_operations(document: Document) -> Listing:
    """Return the operations of a document. One that cannot be read costs itself.

    Raises:
        DocumentError: it is no OpenAPI document, or has no operation that can be offered.
    """
    root = document.root
    version = str(root.get("openapi") or root.get("swagger") or "")
    if not version.startswith(("3.", "2.")):
        raise DocumentError("it is no OpenAPI document of version 3, nor a Swagger document of version 2.0")
    reader = _Reader(document, old=version.startswith("2."))
    found: dict[str, Operation] = {}
    left_out: list[str] = []
    for method, path, shared, given in reader.entries(left_out):
        what = f"{method.upper()} {clip(path, 200)}"
        if len(found) >= MOST_OPERATIONS:
            left_out.append(f"{what}: more than {MOST_OPERATIONS:,} operations")
            continue
        try:
            operation = reader.read(method, path, shared, given, frozenset(found))
        except DocumentError as error:
            left_out.append(f"{what}: {error}")
        except RecursionError:
            left_out.append(f"{what}: it is nested too deeply")
        else:
            found[operation.name] = operation
    if not found:
        raise DocumentError(
            f"none of its operations can be offered: {left_out[0]}" if left_out else "it has no operations"
        )
    return Listing(tuple(found.values()), tuple(left_out))


class _Reader:
    def __init__(self, document: Document, *, old: bool) -> None:
        self.place, self.root, self.old = document.place, document.root, old
        schemes: Any = _mapping(self.root.get("securityDefinitions" if old else "components"))
        self.schemes = schemes if old else _mapping(schemes.get("securitySchemes"))
        self.servers = frozenset(_servers(self.root))

    def entries(self, left_out: list[str]) -> Iterator[tuple[str, str, Place, Place]]:
        for path, item in _mapping(self.root.get("paths")).items():
            try:
                shared = self.place.child(item)
            except DocumentError as error:
                left_out.append(f"{clip(str(path), 200)}: {error}")
                continue
            for method in METHODS:
                if isinstance(given := _mapping(shared.value).get(method), Mapping):
                    yield method, str(path), shared, shared._replace(value=given)

    def read(self, method: str, path: str, shared: Place, place: Place, taken: frozenset[str]) -> Operation:
        given = place.value
        for depth, describe in (
            (40, True),
            (40, False),
            (8, False),
            (5, False),
            (3, False),
            (2, False),
            (1, False),
            (0, False),
        ):
            writer = SchemaWriter(depth, describe=describe)
            schema, parameters, body = self._arguments(writer, shared, place)
            if writer.defs:
                schema["$defs"] = writer.defs
            if len(json.dumps(schema)) <= SCHEMA_CHARS:
                break
        check_path(path, parameters)
        about = "\n".join(
            dict.fromkeys(text for key in ("summary", "description") if (text := clip(given.get(key), 2_000)))
        )
        deprecated = "Deprecated. " if given.get("deprecated") is True else ""
        return Operation(
            name=_name(given.get("operationId"), f"{method}_{path}", taken),
            method=method.upper(),
            path=path,
            description=clip(f"{method.upper()} {path}: {deprecated}{about}".rstrip(": "), DESCRIPTION_CHARS),
            schema=schema,
            parameters=tuple(parameters),
            body=body,
            credential=self._credential(given),
            tags=tags_of(method),
            servers=self._own_servers(_servers(given) or _servers(shared.value)),
        )

    def _own_servers(self, own: tuple[str, ...]) -> tuple[str, ...]:
        return own if self.servers and self.servers.isdisjoint(own) else ()

    def _arguments(
        self, writer: SchemaWriter, shared: Place, place: Place
    ) -> tuple[dict[str, Any], list[Parameter], Body | None]:
        properties: dict[str, Any] = {}
        required: list[str] = []
        parameters: list[Parameter] = []
        form: list[tuple[Mapping[str, Any], Place]] = []
        body = None if self.old else self._body(writer, place, properties, required)
        for where, given in self._parameters(shared, place).items():
            if where[0] == "body":
                properties["body"] = writer.write(given._replace(value=given.value.get("schema", {})))
                required += ["body"] if given.value.get("required") is True else []
                media = self._consumes(place, "application/json")
                body = Body("body", _sent(media, _kind(media)))
            elif where[0] == "formData":
                form.append((given.value, given))
            elif where[0] in STYLES and not (where[0] == "header" and where[1].lower() in IGNORED_HEADERS):
                parameter, schema = self._parameter(writer, given, properties)
                parameters.append(parameter)
                properties[parameter.argument] = schema
                if given.value.get("required") is True or parameter.where == "path":
                    required.append(parameter.argument)
        if form:
            body = self._old_form(writer, place, form, properties, required)
        out: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
        return ({**out, "required": required} if required else out), parameters, body

    def _parameters(self, shared: Place, place: Place) -> dict[tuple[str, str], Place]:
        """The parameters by place and name: an operation's own replace those of its path."""
        found: dict[tuple[str, str], Place] = {}
        for owner in (shared, place):
            given = owner.value.get("parameters")
            for each in cast("list[Any]", given) if isinstance(given, list) else []:
                part = owner.child(each)
                value = _mapping(part.value)
                if isinstance(name := value.get("name"), str) and isinstance(where := value.get("in"), str):
                    found[where, name] = part
        secret = {(str(_mapping(s).get("in")), _mapping(s).get("name")) for s in self.schemes.values()}
        return {key: part for key, part in found.items() if key not in secret}

    def _parameter(
        self, writer: SchemaWriter, place: Place, taken: Mapping[str, Any]
    ) -> tuple[Parameter, dict[str, Any]]:
        given, where = place.value, cast("Where", place.value["in"])
        argument = _argument(given["name"], where, taken)
        style = given.get("style") if isinstance(given.get("style"), str) else STYLES[where]
        explode = given["explode"] if isinstance(given.get("explode"), bool) else style == "form"
        if self.old:
            style, explode = COLLECTIONS.get(str(given.get("collectionFormat", "csv")), COLLECTIONS["csv"])
            style = style if where == "query" else STYLES[where]
            schema = writer.write(place._replace(value={**given, "required": None}))
        elif "schema" not in given and (media := _first(_mapping(given.get("content")))):
            style, schema = "json", writer.write(place._replace(value=_mapping(media[1]).get("schema", {})))
        else:
            schema = writer.write(place._replace(value=given.get("schema", {})))
        if writer.describe and (about := clip(given.get("description"), 300)):
            schema = {**schema, "description": about}
        reserved = given.get("allowReserved") is True
        return Parameter(argument, given["name"], where, str(style), explode, reserved), schema

    def _body(self, writer: SchemaWriter, place: Place, properties: dict[str, Any], required: list[str]) -> Body | None:
        if not isinstance(given := place.value.get("requestBody"), Mapping):
            return None
        part = place.child(given)
        content = _mapping(part.value.get("content"))
        if not content:
            return None
        media = min(content, key=_preference)
        inner = part.child(content[media])
        value = _mapping(inner.value)
        schema = writer.write(inner._replace(value=value.get("schema", {})))
        kind = _kind(media)
        if "*" in media and "contentEncoding" in _resolved(schema, writer.defs):
            kind = "bytes"
        if kind not in ("json", "form", "multipart"):
            schema = {"type": "string", "description": f"The body as {clip(media, 80)}."}
            if kind == "bytes":
                schema |= {"contentEncoding": "base64", "description": f"The body as {clip(media, 80)}, in base64."}
        properties["body"] = schema
        required += ["body"] if part.value.get("required") is True else []
        files = _files(_resolved(schema, writer.defs), writer.defs)
        return Body("body", _sent(media, kind), files, _encoding(value.get("encoding")))

    def _old_form(
        self,
        writer: SchemaWriter,
        place: Place,
        form: Sequence[tuple[Mapping[str, Any], Place]],
        properties: dict[str, Any],
        required: list[str],
    ) -> Body:
        fields = {str(v["name"]): writer.write(p._replace(value={**v, "required": None})) for v, p in form}
        needed = [str(v["name"]) for v, _ in form if v.get("required") is True]
        properties["body"] = {"type": "object", "properties": fields, **({"required": needed} if needed else {})}
        required += ["body"] if needed else []
        files = frozenset(name for name, schema in fields.items() if "contentEncoding" in schema)
        given = self._consumes(place, "application/x-www-form-urlencoded")
        media = "multipart/form-data" if files else given if _kind(given) in ("form", "multipart") else ""
        encoding = {
            str(v["name"]): ("", *COLLECTIONS.get(str(v.get("collectionFormat", "csv")), COLLECTIONS["csv"]))
            for v, _ in form
        }
        return Body("body", media or "application/x-www-form-urlencoded", files, encoding)

    def _consumes(self, place: Place, otherwise: str) -> str:
        given = place.value.get("consumes") or self.root.get("consumes")
        texts = [each for each in cast("list[Any]", given) if isinstance(each, str)] if isinstance(given, list) else []
        return min(texts, key=_preference) if texts else otherwise

    def _credential(self, given: Mapping[str, Any]) -> Credential | None:
        needs = given.get("security", self.root.get("security"))
        if needs is None:
            # Many documents of real services do not say how to log in.
            return _credential(_mapping(next(iter(self.schemes.values()), None))) or Credential("bearer")
        alternatives = [_mapping(each) for each in cast("list[Any]", needs)] if isinstance(needs, list) else []
        for names in sorted((each for each in alternatives if each), key=len):
            for name in names:
                if found := _credential(_mapping(self.schemes.get(name))):
                    return found
        return None


def tags_of(method: str) -> tuple[str, ...]:
    """Return the standard tags of a method, which HTTP gives its meaning."""
    if method in READS:
        return ("read", "network")
    return ("write", "network", "destructive") if method == "delete" else ("write", "network")


def check_path(path: str, parameters: Sequence[Parameter]) -> None:
    """Raise DocumentError if a path cannot be filled."""
    if not path.startswith("/"):
        raise DocumentError("its path does not begin with /")
    missing = set(re.findall(r"\{([^{}]+)\}", path)) - {p.name for p in parameters if p.where == "path"}
    if missing:
        raise DocumentError(f"its path has {{{clip(min(missing), 60)}}}, which is no parameter")


def _credential(scheme: Mapping[str, Any]) -> Credential | None:
    kind, where, name = scheme.get("type"), scheme.get("in"), scheme.get("name")
    if kind == "apiKey" and where in ("header", "query", "cookie") and isinstance(name, str):
        return Credential(str(where), name)
    if kind == "basic" or (kind == "http" and str(scheme.get("scheme")).lower() == "basic"):
        return Credential("basic")
    return Credential("bearer") if kind in ("http", "oauth2", "openIdConnect") else None


def _name(given: object, otherwise: str, taken: frozenset[str]) -> str:
    text = given if isinstance(given, str) and given.strip() else otherwise
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", text).strip("_-") or re.sub(r"[^a-z]", "", otherwise)
    if len(name) > NAME_CHARS or name in taken:
        digest = sha256(f"{text} {otherwise}".encode(errors="replace")).hexdigest()[:8]
        name = f"{name[: NAME_CHARS - 9]}_{digest}"
    return name


def _argument(name: str, where: str, taken: Mapping[str, Any]) -> str:
    clean = re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip("_")[:NAME_CHARS] or where
    # `id` of the path and `id` of the query are two parameters; `body` is the body.
    candidates = [
        clean,
        f"{clean[: NAME_CHARS - 8]}_{where}",
        *(f"{clean[: NAME_CHARS - 6]}_{n}" for n in range(2, 999)),
    ]
    return next(each for each in candidates if each not in taken and (each != "body"))


def _kind(media: str) -> str:
    plain = media.partition(";")[0].strip().lower()
    if plain in ("", "*/*", "application/*") or plain == "application/json" or plain.endswith("+json"):
        return "json"
    if plain == "application/x-www-form-urlencoded":
        return "form"
    if plain.startswith("multipart/"):
        return "multipart"
    text = plain.startswith("text/") or plain.endswith(("+xml", "/xml", "/yaml", "ndjson", "graphql"))
    return "text" if text else "bytes"


def _sent(media: str, kind: str) -> str:
    """What to send for a range of media types."""
    if kind == "bytes":
        return "application/octet-stream" if media.strip().startswith(("*", "application/*")) or not media else media
    if "*" in media or not media:
        return "text/plain" if kind == "text" else "application/json"
    return media


def _preference(media: str) -> int:
    return ("json", "form", "multipart", "text", "bytes").index(_kind(media))


def _resolved(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Mapping[str, Any]:
    for _ in range(20):
        if not isinstance(reference := schema.get("$ref"), str):
            break
        schema = _mapping(defs.get(reference.rpartition("/")[2]))
    return schema


def _variants(schema: object, defs: Mapping[str, Any], seen: set[int]) -> Iterator[Mapping[str, Any]]:
    """A schema, and all that it may be or is made of."""
    found = _resolved(_mapping(schema), defs)
    if id(found) in seen:
        return
    seen.add(id(found))
    yield found
    for key in ("allOf", "anyOf", "oneOf"):
        for part in found.get(key, ()):
            yield from _variants(part, defs, seen)


def _files(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(
        name
        for each in _variants(schema, defs, set())
        for name, given in _mapping(each.get("properties")).items()
        if _is_file(given, defs)
    )


def _is_file(schema: object, defs: Mapping[str, Any]) -> bool:
    """Whether a field is a file or a list of files; one that may be a text too is a text."""
    variants = [*_variants(schema, defs, set())]
    variants += [inner for each in variants for inner in _variants(each.get("items"), defs, set())]
    texts = [each for each in variants if "string" in str(each.get("type"))]
    return bool(texts) and all("contentEncoding" in each for each in texts)


def _encoding(given: object) -> dict[str, tuple[str, str, bool]]:
    found: dict[str, tuple[str, str, bool]] = {}
    for name, value in _mapping(given).items():
        part = _mapping(value)
        style = str(part.get("style", "form"))
        media, explode = (
            str(part.get("contentType", "")).partition(",")[0].strip(),
            part.get("explode", style == "form"),
        )
        found[str(name)] = (media, style, explode is True)
    return found


def _servers(owner: Mapping[str, Any]) -> tuple[str, ...]:
    given = owner.get("servers")
    urls = [_mapping(each).get("url") for each in cast("list[Any]", given)] if isinstance(given, list) else []
    return tuple(each for each in urls if isinstance(each, str) and each)


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _first(value: Mapping[str, Any]) -> tuple[str, Any] | None:
    return next(iter(value.items()), None)
