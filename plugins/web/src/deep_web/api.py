"""The requests below `/api`, but for the socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import quote

from deep_filesystem import list_files
from deep_sessions import (
    MODE,
    PLAN,
    AgentError,
    BackgroundCommands,
    DecisionsPending,
    NotCompacted,
    NothingToResume,
    NotPending,
    SessionBusy,
    SessionInfo,
    Sessions,
    SessionStore,
    UsageError,
    chat_commands,
    find_messages,
    is_planned,
    load_session,
    questions_of,
)
from deep_uploads import upload_file
from pydantic import BaseModel, Field, StringConstraints, ValidationError
from pydantic_ai import DeferredToolRequests
from pydantic_ai.workspaces import Workspace, WorkspaceError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from .approvals import Verdict, answers
from .lists import Lists
from .redact import result_text
from .site import Site
from .standing import MODES, Mode
from .state import described, status_of

__all__ = ["Refused", "owner_of", "read_body", "ready", "routes", "site_of"]

MESSAGE_CHARS = 200_000
REASON_CHARS = 20_000
BODY_BYTES = 2 * 1024**2
"""Most bytes of a request that is no upload."""
LISTED = 500
"""Most sessions of a list."""
SEARCHED = 3
"""Fewest characters that are searched for in messages."""
WAITING = "A call waits for your answer: approve or deny it first."
WORKING = "The agent is still working: wait for it, or stop it."
ANSWERED = "This was answered already."
MOVED = "Something was added meanwhile: look at it, then send your message again."
COMPLETED = "There is nothing to try again: the last run completed, or there was none."
T = TypeVar("T", bound=BaseModel)


class Refused(Exception):
    """The session is in a state in which this cannot be done: the answer is 409, with a code."""

    def __init__(self, code: Literal["busy", "stale", "waiting"], text: str) -> None:
        super().__init__(text)
        self.code = code


# -- what a page may send ----------------------------------------------------------------------------------------------


class Message(BaseModel, extra="forbid"):
    """A message of the user."""

    id: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{8,64}$")]
    text: Annotated[str, Field(min_length=1, max_length=MESSAGE_CHARS)]
    mode: Literal["send", "queue", "steer"] = "send"
    model: str | None = None
    instead_of: int | None = None
    """The number of the event `run_started` of an earlier message, which is taken back with all that followed."""
    seen: int | None = None
    """The last event that the page has: nothing is taken back that the user has not seen."""


class Said(BaseModel, extra="forbid"):
    """The user's decision about one call, or the answer to a question of the model."""

    approve: bool = False
    reason: Annotated[str, Field(max_length=REASON_CHARS)] = ""
    answer: Annotated[str, Field(min_length=1, max_length=REASON_CHARS)] | None = None
    always: str | None = None
    """A rule of the question, in its words: the same is approved from now on."""
    keep: bool = False
    """Whether the rule is kept for the folder."""

    def verdict(self) -> Verdict:
        """Return it as `answers` takes it."""
        if self.answer is not None:
            return {"answer": self.answer}
        return {"approve": self.approve, "reason": self.reason}


class Decisions(BaseModel, extra="forbid"):
    """The user's answers to an approval: to every question, by its path."""

    approval: str
    verdicts: dict[str, Said]


class Chosen(BaseModel, extra="forbid"):
    """The mode of a conversation."""

    mode: Mode
    keep: bool = False
    """Whether the folder's later conversations begin in it."""


class Title(BaseModel, extra="forbid"):
    """A new title; "" for the beginning of the first message."""

    title: Annotated[str, Field(max_length=1_000)]


class Keep(BaseModel, extra="forbid"):
    """What a summary keeps above all, in words."""

    keep: Annotated[str, Field(max_length=REASON_CHARS)] = ""


class Fork(BaseModel, extra="forbid"):
    """Where to fork: the number of an entry; the last without it."""

    at: int | None = None


async def read(request: Request, kind: type[T], *, optional: bool = False) -> T:
    """Return the body of a request.

    Raises:
        HTTPException: it is too large, or not of this kind.
    """
    body = await read_body(request, BODY_BYTES)
    try:
        return kind.model_validate_json(body or (b"{}" if optional else b""))
    except ValidationError as error:
        wrong = [f"{'.'.join(map(str, found['loc'])) or 'body'}: {found['msg']}" for found in error.errors()]
        raise HTTPException(422, "; ".join(wrong)) from error


async def read_body(request: Request, most: int) -> bytes:
    """Return the body of a request of at most so many bytes. Raises HTTPException."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > most:
            raise HTTPException(413, f"a request may have {most:,} bytes")
    return bytes(body)


# -- whose and which ---------------------------------------------------------------------------------------------------


def site_of(request: Request) -> Site:
    """Return what the application serves."""
    return request.app.state.site


def owner_of(request: Request) -> str | None:
    """Return whose a request is. Raises NoOwner."""
    return request.app.state.owners.owner_of(request, site_of(request))


def ring(request: Request) -> None:
    """Tell the pages of the request's owner that its list changed."""
    lists: Lists = request.app.state.lists
    lists.ring(owner_of(request))


async def own_session(request: Request) -> SessionInfo:
    """Return the session of a path, if it is the caller's.

    Raises:
        SessionNotFound: it does not exist, or is another owner's; the error does not say which.
    """
    site = site_of(request)
    return await site.own(owner_of(request), request.path_params["session_id"])


# -- requests ----------------------------------------------------------------------------------------------------------


async def info(request: Request) -> Response:
    """What the page needs to begin."""
    owner_of(request)
    site = site_of(request)
    commands = [
        {"name": command.name, "description": command.about, "usage": command.usage}
        for command in chat_commands(site.kernel).values()
    ]
    return JSONResponse({
        "model": site.models[0] if site.models else "",
        "models": [*site.models],
        "modes": [] if site.standing is None else [*MODES],
        "backend": site.backend,
        "folder": site.folder,
        "commands": commands,
        "examples": [*site.examples],
        "max_upload_bytes": site.max_upload_bytes,
        "sessions": True,
    })  # fmt: skip


async def list_sessions(request: Request) -> Response:
    """The caller's sessions, newest change first; with `search`, those with it in the title or in a message."""
    site, search = site_of(request), request.query_params.get("search", "").casefold()
    store = site.store_of(owner_of(request))
    said: dict[str, str] = {}
    if len(search) >= SEARCHED:
        said = {hit.session_id: hit.text for hit in reversed(await find_messages(store, search, limit=LISTED))}
    found: list[dict[str, Any]] = []
    async for each in shown(site, store):
        row = await request.app.state.rows.get(site, each)
        if search in row["title"].casefold() or search in each.id:
            found.append(row)
        elif each.id in said:
            found.append({**row, "excerpt": said[each.id]})
        if len(found) == LISTED:
            break
    return JSONResponse(found)


async def shown(site: Site, store: SessionStore) -> AsyncIterator[SessionInfo]:
    """Yield the sessions that pages show."""
    offset = 0
    while page := await store.list(limit=100, offset=offset):
        offset += len(page)
        for each in page:
            if site.shows(each):
                yield each


async def create_session(request: Request) -> Response:
    """Create a session."""
    site, owner = site_of(request), owner_of(request)
    session_id = await site.create(owner, request)
    ring(request)
    return JSONResponse(await described(site, await site.store.info(session_id)), 201)


async def get_session(request: Request) -> Response:
    """One session."""
    return JSONResponse(await described(site_of(request), await own_session(request)))


async def rename_session(request: Request) -> Response:
    """Give a session a title."""
    session, body = await own_session(request), await read(request, Title)
    site = site_of(request)
    await site.current(session.id).rename(session.id, body.title)
    site.notify(session.id)
    ring(request)
    return JSONResponse(await described(site, await site.store.info(session.id)))


async def delete_session(request: Request) -> Response:
    """Stop a session's run, and erase it."""
    session = await own_session(request)
    await site_of(request).delete(session.id)
    ring(request)
    return Response(status_code=204)


async def fork_session(request: Request) -> Response:
    """Create a session that continues from a state of this one."""
    session, body = await own_session(request), await read(request, Fork, optional=True)
    site = site_of(request)
    try:
        copy = await site.fork(session.id, owner_of(request), request, at=body.at)
    except AgentError as error:
        if type(error) is AgentError:
            raise HTTPException(422, error.message) from error
        raise
    ring(request)
    return JSONResponse(await described(site, await site.store.info(copy)), 201)


async def post_message(request: Request) -> Response:
    """Send, queue or steer a message. The same id again does nothing."""
    session, message = await own_session(request), await read(request, Message)
    site = site_of(request)
    text = await render(site, message.text)
    async with site.lock(session.id):
        if not await site.knows_message(session.id, message.id):
            await _send(site, session, message, text)
            site.note_message(session.id, message.id)
    site.notify(session.id)
    return JSONResponse({}, 202)


async def _send(site: Site, session: SessionInfo, message: Message, text: str) -> None:
    try:
        if message.mode == "steer":
            await site.current(session.id).steer(session.id, text, message_id=message.id)
        else:
            await _send_or_queue(site, session, message, text)
    except LookupError as error:
        raise HTTPException(422, str(error)) from error
    except SessionBusy as error:
        raise Refused("busy", WORKING) from error
    except DecisionsPending as error:
        raise Refused("waiting", WAITING) from error
    site.attend(session.id)


async def _send_or_queue(site: Site, session: SessionInfo, message: Message, text: str) -> None:
    if message.mode == "queue":
        await site.current(session.id).queue(session.id, text, message_id=message.id)
        return
    plan = await _mode(site, session.id) == "plan"
    runs = await site.choose(session.id, message.model or await _last_model(site, session.id), plan=plan)
    labels = {**site.labels(site.model_of(runs)), **({MODE: PLAN} if plan else {})}
    if message.instead_of is not None:
        if status_of(await site.store.info(session.id)) == "running":
            raise Refused("busy", WORKING)
        if message.seen is not None and await runs.has_more(session.id, message.seen):
            raise Refused("stale", MOVED)
        await runs.cancel(session.id)  # calls that wait, and a run whose process died
        await runs.take_back(session.id, message.instead_of)
    elif (await site.store.info(session.id)).sends != "runner" and await runs.queued(session.id):
        # What waits since a stop comes first: its order is the user's.
        await runs.queue(session.id, text, message_id=message.id, labels=labels)
        return
    await runs.send(session.id, text, run_id=message.id, labels=labels)


async def _mode(site: Site, session_id: str) -> Mode:
    if site.standing is None:
        return "ask"
    run = (await load_session(site.store, session_id)).run
    return site.standing.mode(session_id, {} if run is None else run.labels)


async def _last_model(site: Site, session_id: str) -> str | None:
    """Return the model of a session's last run, if it is offered here."""
    run = (await load_session(site.store, session_id)).run
    model = None if run is None else run.labels.get("model")
    return model if model in site.models else None


async def render(site: Site, text: str) -> str:
    """Return what a message says: for a command that a plugin adds to chats, what that makes of it."""
    name, _, words = text[1:].partition(" ") if text.startswith("/") else ("", "", "")
    command = chat_commands(site.kernel).get(name) if name else None
    if command is None:
        return text
    try:
        made = command.render(words.strip())
        return made if isinstance(made, str) else await made
    except ValueError as error:
        raise HTTPException(422, f"/{name}: {error}") from error


async def choose_mode(request: Request) -> Response:
    """Choose the mode of a conversation. A question that the mode answers is answered at once."""
    session, body = await own_session(request), await read(request, Chosen)
    site = site_of(request)
    if site.standing is None:
        raise HTTPException(422, "There are no modes here.")
    try:
        site.standing.set_mode(session.id, body.mode, keep=body.keep)
    except (ValueError, OSError) as error:
        raise HTTPException(422, f"The mode is not kept: {error}") from error
    if status_of(session) == "waiting":
        site.attend(session.id)
    site.notify(session.id)
    return JSONResponse({}, 202)


async def forget_rules(request: Request) -> Response:
    """Forget what the user approved always: the conversation's rules, and those that the folder keeps."""
    session, site = await own_session(request), site_of(request)
    if site.standing is not None:
        site.standing.rules(session.id).drop()
    site.notify(session.id)
    return Response(status_code=204)


async def post_decisions(request: Request) -> Response:
    """Answer the calls that wait, and continue."""
    session, body = await own_session(request), await read(request, Decisions)
    site = site_of(request)
    async with site.lock(session.id):
        await _decide(site, session.id, body.approval, body.verdicts)
    site.attend(session.id)
    site.notify(session.id)
    return JSONResponse({}, 202)


async def _decide(site: Site, session_id: str, approval: str, said: Mapping[str, Said]) -> None:
    runs = await ready(site, session_id)
    requests = await runs.waiting(session_id)
    if requests is None:
        if status_of(await site.store.info(session_id)) == "waiting":
            await _resume(runs, session_id)  # the server may have died between the answer and the run
        raise Refused("stale", ANSWERED)
    run = (await load_session(site.store, session_id)).run
    covered = [] if site.standing is None else site.standing.covered(session_id, requests, run.labels if run else {})
    verdicts: dict[str, Verdict] = {path: {"approve": True} for path in covered}
    verdicts |= {path: each.verdict() for path, each in said.items()}
    try:
        results = answers(requests, verdicts)
        if requests.approval == approval:
            _add_rules(site, session_id, requests, said)
    except ValueError as error:
        if requests.approval != approval:
            raise Refused("stale", ANSWERED) from error
        raise HTTPException(422, str(error)) from error
    except OSError as error:
        raise HTTPException(422, f"The rule cannot be kept: {error.strerror}") from error
    try:
        await runs.decide(session_id, results, approval=approval)
    except NotPending as error:
        raise Refused("stale", ANSWERED) from error


def _add_rules(site: Site, session_id: str, requests: DeferredToolRequests, said: Mapping[str, Said]) -> None:
    """Take the rules of approvals. Raises ValueError for one that its question does not offer."""
    for question in questions_of(requests):
        each = said.get(question.path)
        if each is not None and each.approve and each.always is not None:
            if site.standing is None:
                raise ValueError("there are no rules here")
            site.standing.add(session_id, question, each.always, keep=each.keep)


async def ready(site: Site, session_id: str) -> Sessions:
    """Return the sessions that continue a session: those of its last run's model."""
    run = (await load_session(site.store, session_id)).run
    plan = site.standing is not None and run is not None and is_planned(run.labels)
    return await site.choose(session_id, await _last_model(site, session_id), plan=plan)


async def stop_run(request: Request) -> Response:
    """Stop the run of a session, or end the calls that wait; what was done stays."""
    session = await own_session(request)
    site = site_of(request)
    await site.current(session.id).cancel(session.id)
    site.notify(session.id)
    return JSONResponse({}, 202)


async def resume_run(request: Request) -> Response:
    """Continue a run that was interrupted, in this process or another, if there is one."""
    session = await own_session(request)
    site = site_of(request)
    async with site.lock(session.id):
        await _resume(await ready(site, session.id), session.id)
    site.attend(session.id)
    site.notify(session.id)
    return JSONResponse({}, 202)


async def _resume(runs: Sessions, session_id: str) -> None:
    try:
        await runs.resume(session_id)
    except (SessionBusy, NothingToResume):  # another page was faster
        return


async def retry_run(request: Request) -> Response:
    """Try the last run again, where it failed or was stopped."""
    session = await own_session(request)
    site = site_of(request)
    async with site.lock(session.id):
        runs = await ready(site, session.id)
        try:
            await runs.retry(session.id)
        except SessionBusy as error:
            raise Refused("busy", WORKING) from error
        except DecisionsPending as error:
            raise Refused("waiting", WAITING) from error
        except NothingToResume as error:
            raise Refused("stale", COMPLETED) from error
    site.attend(session.id)
    site.notify(session.id)
    return JSONResponse({}, 202)


async def compact(request: Request) -> Response:
    """Summarize the conversation so far, and go on from the summary."""
    session, body = await own_session(request), await read(request, Keep, optional=True)
    site = site_of(request)
    async with site.lock(session.id):
        runs = await ready(site, session.id)
        try:
            done = await runs.compact(session.id, body.keep.strip())
        except SessionBusy as error:
            raise Refused("busy", WORKING) from error
        except DecisionsPending as error:
            raise Refused("waiting", WAITING) from error
        except (NotCompacted, UsageError) as error:
            raise Refused("stale", f"{error.message[:1].upper()}{error.message[1:]}.") from error
    site.notify(session.id)
    return JSONResponse({"messages": done.messages, "before": done.before, "after": done.after, "text": str(done)})


async def upload(request: Request) -> Response:
    """Put a file into the session's workspace; the agent sees it listed at its next request."""
    session, name = await own_session(request), request.query_params.get("name")
    site = site_of(request)
    if not name:
        raise HTTPException(422, "name: Field required")
    too_large = HTTPException(413, f"{name}: an upload may have {site.max_upload_bytes:,} bytes.")
    length = request.headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > site.max_upload_bytes:
        raise too_large

    async def pieces() -> AsyncIterator[bytes]:
        size = 0
        async for piece in request.stream():
            size += len(piece)
            if size > site.max_upload_bytes:
                raise too_large
            yield piece

    runs = site.current(session.id)
    async with runs.edit(session.id) as deps:
        done = await upload_file(deps, name, pieces(), agent=runs.agent.runner.agent)
    return JSONResponse({"path": done.path, "size": done.size, "mime_type": done.mime_type}, 201)


async def get_files(request: Request) -> Response:
    """List the files of a session's workspace."""
    session = await own_session(request)
    async with site_of(request).workspace(session.id) as backend:
        found = await list_files(Workspace(backend))
    return JSONResponse({"files": [{"path": each.path, "size": each.size} for each in found.files], "more": found.more})


async def get_file(request: Request) -> Response:
    """Send one file of a session's workspace."""
    session, path = await own_session(request), request.path_params["path"]
    site = site_of(request)
    async with site.workspace(session.id) as backend:
        try:
            size = (await Workspace(backend).stat(path)).size or 0
            if size > site.max_file_bytes:
                most = site.max_file_bytes
                raise HTTPException(413, f"{path}: a file of {size:,} bytes; sent are those up to {most:,}.")
            data = await Workspace(backend).read_bytes(path)
        except (OSError, ValueError, WorkspaceError) as error:
            raise HTTPException(404, "There is no such file.") from error
    # Download, never show: a page written by the agent must not run as part of this site.
    name = quote(path.rpartition("/")[2], safe="")
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
    return Response(data, media_type="application/octet-stream", headers=headers)


async def list_commands(request: Request) -> Response:
    """The background commands of a session."""
    session, site = await own_session(request), site_of(request)
    async with site.workspace(session.id) as backend:
        found = await BackgroundCommands(site.kernel, session.id, backend, alone=True).list()
    return JSONResponse({"commands": [{**asdict(each), "status": each.status} for each in found]})


async def stop_command(request: Request) -> Response:
    """Stop a background command, with all that it started."""
    session, site = await own_session(request), site_of(request)
    async with site.workspace(session.id) as backend:
        try:
            await BackgroundCommands(site.kernel, session.id, backend, alone=True).stop(request.path_params["name"])
        except LookupError as error:
            raise HTTPException(404, f"{error.args[0][:1].upper()}{error.args[0][1:]}") from error
    site.notify(session.id)
    return JSONResponse({}, 202)


async def keep_command(request: Request) -> Response:
    """Let a background command go on when its session or this server ends."""
    session, site = await own_session(request), site_of(request)
    async with site.workspace(session.id) as backend:
        try:
            await BackgroundCommands(site.kernel, session.id, backend, alone=True).keep(request.path_params["name"])
        except LookupError as error:
            raise HTTPException(404, f"{error.args[0][:1].upper()}{error.args[0][1:]}") from error
    return JSONResponse({}, 202)


async def get_call(request: Request) -> Response:
    """The arguments and the result of a call, whole."""
    session, call_id = await own_session(request), request.path_params["call_id"]
    site = site_of(request)
    try:
        call = await site.current(session.id).call(session.id, call_id, request.query_params.get("path", ""))
    except LookupError as error:
        raise HTTPException(404, "There is no such call.") from error
    result = call.result
    if result is not None and call.outcome == "failed" and not request.app.state.show_errors:
        result = result_text(session.id, {"call_id": call_id, "result": result})
    return JSONResponse({"args": call.args, "result": result})


def routes() -> list[Route]:
    """Return the routes."""
    one = "/api/sessions/{session_id}"
    return [
        Route("/api/info", info, methods=["GET"]),
        Route("/api/sessions", list_sessions, methods=["GET"]),
        Route("/api/sessions", create_session, methods=["POST"]),
        Route(one, get_session, methods=["GET"]),
        Route(one, rename_session, methods=["PATCH"]),
        Route(one, delete_session, methods=["DELETE"]),
        Route(f"{one}/fork", fork_session, methods=["POST"]),
        Route(f"{one}/messages", post_message, methods=["POST"]),
        Route(f"{one}/mode", choose_mode, methods=["POST"]),
        Route(f"{one}/rules", forget_rules, methods=["DELETE"]),
        Route(f"{one}/decisions", post_decisions, methods=["POST"]),
        Route(f"{one}/stop", stop_run, methods=["POST"]),
        Route(f"{one}/resume", resume_run, methods=["POST"]),
        Route(f"{one}/retry", retry_run, methods=["POST"]),
        Route(f"{one}/compact", compact, methods=["POST"]),
        Route(f"{one}/uploads", upload, methods=["POST"]),
        Route(f"{one}/files", get_files, methods=["GET"]),
        Route(f"{one}/files/{{path:path}}", get_file, methods=["GET"]),
        Route(f"{one}/commands", list_commands, methods=["GET"]),
        Route(f"{one}/commands/{{name}}/stop", stop_command, methods=["POST"]),
        Route(f"{one}/commands/{{name}}/keep", keep_command, methods=["POST"]),
        Route(f"{one}/calls/{{call_id:path}}", get_call, methods=["GET"]),
    ]
