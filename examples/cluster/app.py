"""A service whose runs workers do: it takes messages, shows what happens, and records decisions. Any number of it runs.

    STORE=postgresql://me@db/agents TENANTS=acme:secret1,globex:secret2 uvicorn examples.cluster.app:app

It calls no model, so it has no key of one.
"""

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Annotated, Any

from deep_durable import Queue, QueueError, enqueue, open_queue
from deep_sessions import AgentDeps, AgentError, DeepAgent, SessionNotFound, Sessions, open_store
from fastapi import Body, Depends, FastAPI, Header, HTTPException, Request
from fastapi.responses import JSONResponse, StreamingResponse
from opentelemetry.metrics import get_meter
from pydantic_ai import DeferredToolResults

STATUS = {"session_not_found": 404, "store_error": 503, "queue_error": 503}  # others: 409
SECONDS = 15.0
"""Between two measurements of the queue."""
JOBS = get_meter("examples.cluster").create_gauge("deep.queue.jobs", "{session}", "sessions in the queue, by state")


async def measure(queue: Queue) -> dict[str, int]:
    """Count the sessions in the queue by state. Every service reports the same numbers: take the largest, no sum."""
    counts = Counter(job.state for job in await queue.jobs())
    for state in ("waiting", "running", "aside"):
        JOBS.set(counts[state], {"state": state})
    return {state: counts[state] for state in ("waiting", "running", "aside")}


async def report(queue: Queue) -> None:
    """Measure the queue again and again."""
    while True:
        with suppress(QueueError):  # the database is away: /readyz says so
            await measure(queue)
        await asyncio.sleep(SECONDS)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        store, app.state.queue = open_store(os.environ["STORE"]), open_queue(os.environ["STORE"])
        stack.push_async_callback(store.aclose)
        stack.push_async_callback(app.state.queue.aclose)
        app.state.tenants = {}
        for name, _, secret in (tenant.partition(":") for tenant in os.environ["TENANTS"].split(",")):
            agent = await DeepAgent.create(deps=AgentDeps(model="test", session_store=store.for_owner(name)))
            stack.push_async_callback(agent.close)
            app.state.tenants[f"Bearer {secret}"] = await stack.enter_async_context(Sessions(agent))
        reporting = asyncio.create_task(report(app.state.queue))
        stack.callback(reporting.cancel)
        yield


def sessions_of_tenant(request: Request, authorization: str = Header("")) -> Sessions:
    if authorization not in request.app.state.tenants:
        raise HTTPException(401)
    return request.app.state.tenants[authorization]


Mine = Annotated[Sessions, Depends(sessions_of_tenant)]
app = FastAPI(lifespan=lifespan)


@app.exception_handler(AgentError)
async def refused(request: Request, error: AgentError) -> JSONResponse:
    return JSONResponse({"code": error.code, "message": error.message}, STATUS.get(error.code, 409))


# -- for whoever keeps it running --------------------------------------------------------------------------------------


@app.get("/healthz")
async def healthz() -> dict[str, str]:
    """Say that the process answers. It asks no database: one that is away is no reason to start the service again."""
    return {"status": "ok"}


@app.get("/readyz")
async def readyz(request: Request) -> dict[str, str]:
    """Say that the database answers too: 503 if it does not."""
    await request.app.state.queue.outages()
    return {"status": "ok"}


@app.get("/queue")
async def queue(request: Request) -> dict[str, int]:
    """Say how long the queue is: the number of workers follows it."""
    return await measure(request.app.state.queue)


# -- for tenants -------------------------------------------------------------------------------------------------------


@app.post("/sessions/{name}/messages", status_code=202)
async def send(name: str, text: Annotated[str, Body()], id: Annotated[str, Body()], mine: Mine) -> None:
    """Take a message. A client that got no answer sends it again, with the same id: it is taken once."""
    is_known = False
    with suppress(SessionNotFound):
        is_known = await mine.has_message(name, id)
    # Also one that is known: the service may have died before the queue had it.
    await enqueue(mine.agent.store, name, None if is_known else text, message_id=id)


@app.get("/sessions/{name}/events")
async def events(name: str, mine: Mine, last_event_id: int = Header(0)) -> StreamingResponse:
    await mine.agent.store.info(name)  # 404 before the stream begins

    async def lines() -> AsyncIterator[str]:
        async for event in mine.stream(name, after=last_event_id):
            yield f"id: {event.n}\ndata: {json.dumps(event.to_json())}\n\n"

    return StreamingResponse(lines(), media_type="text/event-stream")


@app.get("/sessions/{name}/approvals")
async def approvals(name: str, mine: Mine) -> list[dict[str, Any]]:
    if (requests := await mine.waiting(name)) is None:
        return []
    return [
        {"id": f"{requests.approval}:{call.tool_call_id}", "tool": call.tool_name, "args": call.args_as_dict()}
        for call in requests.approvals
    ]


@app.post("/sessions/{name}/approvals/{id:path}", status_code=202)
async def decide(name: str, id: str, approve: Annotated[bool, Body(embed=True)], mine: Mine) -> None:
    approval, _, call = id.partition(":")
    await mine.agent.decide(name, DeferredToolResults(approvals={call: approve}), approval=approval)
    await enqueue(mine.agent.store, name)


@app.post("/sessions/{name}/cancel", status_code=202)
async def cancel(name: str, mine: Mine) -> None:
    await mine.cancel(name)
