"""Documents with the structures of twenty public ones: how each writes parameters, bodies, references and logins.

Names and texts are the tests' own. Each has the traits by which real documents broke readers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["DOCUMENTS", "large"]

Json = dict[str, Any]
STRING: Json = {"type": "string", "minLength": 1, "maxLength": 12}
INTEGER: Json = {"type": "integer", "minimum": 0, "maximum": 1000}
OK: Json = {"200": {"description": "done", "content": {"application/json": {"schema": {}}}}}


def param(name: str, where: str, schema: Json | None = None, **more: Any) -> Json:
    needed = {"required": True} if where == "path" else {}
    return {"name": name, "in": where, "schema": schema or STRING, **needed, **more}


def op(name: str, *parameters: Json, body: Json | None = None, **more: Any) -> Json:
    made: Json = {"operationId": name, "summary": f"Do {name}", "parameters": [*parameters], "responses": OK, **more}
    return {**made, "requestBody": body} if body else made


def content(schema: Json, media: str = "application/json", *, required: bool = True, **more: Any) -> Json:
    return {"required": required, "content": {media: {"schema": schema, **more}}}


def doc(paths: Json, *, version: str = "3.0.3", **components: Any) -> Json:
    info = {"title": "A service", "version": "1"}
    return {"openapi": version, "info": info, "paths": paths, "components": components}


def obj(required: list[str] | None = None, **properties: Json) -> Json:
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def ref(name: str, kind: str = "schemas") -> Json:
    return {"$ref": f"#/components/{kind}/{name}"}


def code_host() -> Json:
    """Parameters by reference, shared by a path; nullable; names with slashes."""
    shared = [ref("owner", "parameters"), ref("repo", "parameters")]
    issue = obj(
        ["title"], title=STRING, body={"type": "string", "nullable": True}, labels={"type": "array", "items": STRING}
    )
    return doc(
        {
            "/repos/{owner}/{repo}/issues": {
                "parameters": shared,
                "get": op("issues/list-for-repo", param("state", "query", {"type": "string", "enum": ["open", "all"]})),
                "post": op("issues/create", body=content(issue)),
            },
            "/repos/{owner}/{repo}": {"parameters": shared, "delete": op("repos/delete")},
        },
        parameters={"owner": param("owner", "path"), "repo": param("repo", "path")},
    )


def payments() -> Json:
    """Bodies are forms with nested objects; filters are deep objects."""
    created = {"type": "object", "properties": {"gt": INTEGER, "lt": INTEGER}}
    charge = obj(
        ["amount"],
        amount=INTEGER,
        currency=STRING,
        metadata=obj(order=STRING),
        expand={"type": "array", "items": STRING},
    )
    encoding = {"expand": {"style": "form", "explode": True}, "metadata": {"style": "deepObject", "explode": True}}
    return doc(
        {
            "/v1/charges": {
                "get": op("GetCharges", param("created", "query", created, style="deepObject", explode=True)),
                "post": op("PostCharges", body=content(charge, "application/x-www-form-urlencoded", encoding=encoding)),
            }
        }
    )


def cluster() -> Json:
    """Long names, references in references, patches with types of their own."""
    meta = obj(name=STRING, labels={"type": "object", "additionalProperties": STRING})
    pod = obj(["spec"], metadata=ref("io.k8s.Meta"), spec=ref("io.k8s.PodSpec"))
    spec = obj(
        ["containers"], containers={"type": "array", "items": ref("io.k8s.Container"), "minItems": 1, "maxItems": 3}
    )
    return doc(
        {
            "/api/v1/namespaces/{namespace}/pods": {
                "parameters": [param("namespace", "path"), param("pretty", "query")],
                "post": op("createCoreV1NamespacedPod", param("dryRun", "query"), body=content(ref("io.k8s.Pod"))),
            },
            "/api/v1/namespaces/{namespace}/pods/{name}": {
                "parameters": [param("namespace", "path"), param("name", "path")],
                "patch": op(
                    "patchCoreV1NamespacedPod", body=content(ref("io.k8s.Meta"), "application/merge-patch+json")
                ),
            },
        },
        schemas={
            "io.k8s.Meta": meta,
            "io.k8s.Pod": pod,
            "io.k8s.PodSpec": spec,
            "io.k8s.Container": obj(["image"], image=STRING),
        },
    )


def telephone() -> Json:
    """Names in capitals, dots in paths."""
    message = obj(["To", "From"], To=STRING, From=STRING, MediaUrl={"type": "array", "items": STRING})
    return doc(
        {
            "/Accounts/{AccountSid}/Messages.json": {
                "get": op("ListMessage", param("AccountSid", "path"), param("PageSize", "query", INTEGER)),
                "post": op(
                    "CreateMessage",
                    param("AccountSid", "path"),
                    body=content(message, "application/x-www-form-urlencoded"),
                ),
            }
        }
    )


def models() -> Json:
    """Files in forms; one of several schemas; 3.1 with types as lists."""
    upload = obj(["file", "purpose"], file={"contentMediaType": "application/octet-stream"}, purpose=STRING)
    part = {"oneOf": [obj(["text"], text=STRING), obj(["number"], number=INTEGER)]}
    chat = obj(
        ["parts"],
        parts={"type": "array", "items": part, "minItems": 1},
        temperature={"type": ["number", "null"], "minimum": 0, "maximum": 2},
    )
    return doc(
        {
            "/files": {"post": op("createFile", body=content(upload, "multipart/form-data"))},
            "/chat": {"post": op("createChat", body=content(chat))},
        },
        version="3.1.0",
    )


def music() -> Json:
    """Lists with commas."""
    ids = {"type": "array", "items": STRING, "minItems": 1, "maxItems": 4}
    return doc(
        {"/albums": {"get": op("get-multiple-albums", param("ids", "query", ids, explode=False, required=True))}}
    )


def tracker() -> Json:
    """A schema that contains itself; names with dots."""
    node = obj(["type"], type=STRING, content={"type": "array", "items": ref("Node"), "maxItems": 2})
    return doc(
        {
            "/rest/api/3/issue/{issueIdOrKey}/comment": {
                "post": op(
                    "addComment", param("issueIdOrKey", "path"), param("expand", "query"), body=content(ref("Node"))
                )
            }
        },
        schemas={"Node": node},
    )


def search_engine() -> Json:
    """Many optional parameters, booleans and numbers in the query."""
    return doc(
        {
            "/{index}/_search": {
                "get": op(
                    "search",
                    param("index", "path", {"type": "array", "items": STRING, "minItems": 1, "maxItems": 3}),
                    param("explain", "query", {"type": "boolean"}),
                    param("from", "query", INTEGER),
                    param("boost", "query", {"type": "number", "minimum": 0.5, "maximum": 9}),
                    param("sort", "query", {"type": "array", "items": STRING, "minItems": 1}),
                )
            }
        }
    )


def notes() -> Json:
    """A version in a header that every call needs; bodies that are optional."""
    version = param("Notion-Version", "header", {"type": "string", "enum": ["2022-06-28"]}, required=True)
    return doc(
        {
            "/v1/pages/{page_id}": {
                "patch": op(
                    "patch-page", param("page_id", "path"), version, body=content(obj(archived={"type": "boolean"}))
                )
            },
            "/v1/search": {"post": op("post-search", version, body=content(obj(query=STRING), required=False))},
        }
    )


def chat_rooms() -> Json:
    """Any of several, with null; big integers as text; no operation ids."""
    flags = {"anyOf": [{"type": "null"}, {"type": "integer", "minimum": 0, "maximum": 64}]}
    return doc(
        {
            "/channels/{channel_id}/messages": {
                "post": {
                    "parameters": [
                        param("channel_id", "path", {"type": "string", "pattern": "^[0-9]+$", "example": "1"})
                    ],
                    "requestBody": content(obj(content={"type": ["string", "null"]}, flags=flags)),
                    "responses": OK,
                }
            }
        },
        version="3.1.0",
    )


def storage() -> Json:
    """A body of bytes, and one of text."""
    return doc(
        {
            "/objects/{key}": {
                "put": op(
                    "putObject",
                    param("key", "path"),
                    param("x-amz-acl", "header"),
                    body=content({"type": "string", "format": "binary"}, "application/octet-stream"),
                ),
            },
            "/policies/{key}": {
                "put": op("putPolicy", param("key", "path"), body=content({"type": "string"}, "text/plain"))
            },
        }
    )


def maps() -> Json:
    """Lists in paths. Labels and matrices are in the table of styles: openapi-core has names of its own for them."""
    at = {"type": "array", "items": INTEGER, "minItems": 2, "maxItems": 2}
    names = {"type": "array", "items": STRING, "minItems": 1, "maxItems": 3}
    return doc(
        {
            "/tiles/{at}/raw": {"get": op("tile", param("at", "path", at))},
            "/areas/{names}": {"get": op("area", param("names", "path", names, style="simple"))},
        }
    )


def analytics() -> Json:
    """A parameter that is JSON; pipes between values."""
    where = obj(["field"], field=STRING, above=INTEGER)
    return doc(
        {
            "/query": {
                "get": op(
                    "query",
                    {
                        "name": "where",
                        "in": "query",
                        "required": True,
                        "content": {"application/json": {"schema": where}},
                    },
                    param(
                        "by",
                        "query",
                        {"type": "array", "items": STRING, "minItems": 2},
                        style="pipeDelimited",
                        explode=False,
                    ),
                )
            }
        }
    )


def calendar() -> Json:
    """Dates and times; constraints of 3.0; all of several."""
    base = obj(["start"], start={"type": "string", "enum": ["2026-01-01T12:00:00Z"]})
    event = {
        "allOf": [
            ref("Base"),
            obj(
                ["title"], title=STRING, hours={"type": "number", "minimum": 0, "exclusiveMinimum": True, "maximum": 24}
            ),
        ]
    }
    return doc(
        {
            "/calendars/{calendarId}/events": {
                "post": op("calendar.events.insert", param("calendarId", "path"), body=content(event))
            }
        },
        schemas={"Base": base},
    )


def accounts() -> Json:
    """What only answers have stands in what is sent, and is required there."""
    user = obj(
        ["id", "email"],
        id={"type": "integer", "readOnly": True},
        email=STRING,
        secret={"type": "string", "writeOnly": True, "minLength": 1},
    )
    return doc({"/users": {"post": op("createUser", body=content(ref("User")))}}, schemas={"User": user})


def sessions() -> Json:
    """Cookies, and one name at two places."""
    return doc(
        {
            "/things/{id}": {
                "get": op("thing", param("id", "path"), param("id", "query", INTEGER), param("lang", "cookie"))
            }
        }
    )


def droplets() -> Json:
    """Bodies and parameters by reference; a body that is a list."""
    return doc(
        {
            "/tags/{tag}/resources": {
                "post": op("tag_assign", param("tag", "path"), body=ref("Resources", "requestBodies"))
            }
        },
        requestBodies={
            "Resources": content({"type": "array", "items": obj(["id"], id=STRING), "minItems": 1, "maxItems": 3})
        },
    )


def shop() -> Json:
    """Maps of anything; defaults; enumerations of numbers."""
    return doc(
        {
            "/orders": {
                "post": op(
                    "placeOrder",
                    body=content(
                        obj(
                            ["items"],
                            items={"type": "object", "additionalProperties": INTEGER},
                            priority={"type": "integer", "enum": [1, 2, 3], "default": 1},
                        )
                    ),
                ),
                "get": op("orders", param("filter[status]", "query"), param("$top", "query", INTEGER)),
            }
        }
    )


def weather() -> Json:
    """An object in the query, its keys and values in one text."""
    point = obj(["lat", "lon"], lat=INTEGER, lon=INTEGER)
    return doc(
        {
            "/forecast": {
                "get": op(
                    "forecast",
                    param("point", "query", point, required=True, explode=False),
                    param("X-Units", "header", {"type": "array", "items": STRING, "minItems": 1}),
                )
            }
        }
    )


def tickets() -> Json:
    """Files beside JSON in one form; references to parts of paths."""
    form = obj(
        ["ticket"],
        ticket=obj(["subject"], subject=STRING),
        files={"type": "array", "items": {"type": "string", "format": "binary"}, "maxItems": 2},
    )
    first = {"$ref": "#/paths/~1tickets~1{id}/get/parameters/0"}
    return doc(
        {
            "/tickets/{id}": {"get": op("ticket", param("id", "path", INTEGER))},
            "/tickets/{id}/reply": {"post": op("reply", first, body=content(form, "multipart/form-data"))},
        }
    )


DOCUMENTS: tuple[Callable[[], Json], ...] = (
    code_host, payments, cluster, telephone, models, music, tracker, search_engine, notes, chat_rooms, storage, maps,
    analytics, calendar, accounts, sessions, droplets, shop, weather, tickets,
)  # fmt: skip


def large(count: int = 1_000) -> Json:
    """A document of many operations, as the largest public ones have."""
    paths = {f"/things{n}/{{id}}": {"get": op(f"getThing{n}", param("id", "path"))} for n in range(count)}
    return doc(paths)
