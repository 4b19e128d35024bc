"""Sessions of several tenants in one database, over HTTP: streamed, approved, resumed, deleted.

    TENANTS=acme:secret1,globex:secret2 STORE=postgresql://me@db/agents DEEP_MODEL=openai:gpt-5.2 \
        PUBLISHER=https://pages.example/publish uvicorn examples.service.app:app
"""

import json
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Annotated, Any

import httpx
from deep_sessions import AgentDeps, AgentError, Compacted, DeepAgent, Sessions, delete, effect_key, open_store
from fastapi import Body, Depends, FastAPI, Header, HTTPException, Request
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic_ai import DeferredToolResults, RunContext, Tool

from deep_core import default_kernel

CONFLICTS = ("session_busy", "decisions_pending", "not_pending", "nothing_to_resume", "not_compacted", "usage_error")
STATUS = {"session_not_found": 404, **dict.fromkeys(CONFLICTS, 409)}


async def publish(ctx: RunContext[Any], page: str) -> str:
    """Publish a page. The publisher ignores a key that it has seen, so an attempt after a crash does no harm."""
    async with httpx.AsyncClient(timeout=60) as client:
        key = {"Idempotency-Key": effect_key(ctx)}
        return (await client.post(os.environ["PUBLISHER"], content=page, headers=key)).raise_for_status().text


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        store = open_store(os.environ.get("STORE", "sqlite:///service.db"))
        stack.push_async_callback(store.aclose)
        app.state.tenants = {}
        for name, _, secret in (tenant.partition(":") for tenant in os.environ["TENANTS"].split(",")):
            deps = AgentDeps(model=os.environ["DEEP_MODEL"], session_store=store.for_owner(name))
            tool = Tool(publish, metadata={"tags": ["write"], "on_unknown": "retry"})
            agent = await DeepAgent.create(config={"interrupt_on": {"publish": True}}, deps=deps, tools=[tool])
            stack.push_async_callback(agent.close)
            app.state.tenants[f"Bearer {secret}"] = await stack.enter_async_context(Sessions(agent))
        yield


def sessions_of_tenant(request: Request, authorization: str = Header("")) -> Sessions:
    if authorization not in request.app.state.tenants:
        raise HTTPException(401)
    return request.app.state.tenants[authorization]


Mine = Annotated[Sessions, Depends(sessions_of_tenant)]
app = FastAPI(lifespan=lifespan)


@app.exception_handler(AgentError)
async def refused(request: Request, error: AgentError) -> JSONResponse:
    return JSONResponse({"code": error.code, "message": error.message}, STATUS.get(error.code, 500))


@app.post("/sessions/{name}/messages", status_code=202)
async def send(name: str, text: Annotated[str, Body(embed=True)], mine: Mine) -> dict[str, str]:
    return {"run_id": await mine.send(name, text)}


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
    # A call alone is no question: a model may use its id again, and a late answer must not reach what it asks then.
    return [
        {"id": f"{requests.approval}:{call.tool_call_id}", "tool": call.tool_name, "args": call.args_as_dict()}
        for call in requests.approvals
    ]


@app.post("/sessions/{name}/approvals/{id:path}", status_code=202)
async def decide(name: str, id: str, approve: Annotated[bool, Body(embed=True)], mine: Mine) -> None:
    approval, _, call = id.partition(":")
    await mine.decide(name, DeferredToolResults(approvals={call: approve}), approval=approval)


@app.post("/sessions/{name}/resume", status_code=202)
async def resume(name: str, mine: Mine) -> None:
    await mine.resume(name)


@app.post("/sessions/{name}/retry", status_code=202)
async def retry(name: str, mine: Mine) -> None:
    await mine.retry(name)


@app.post("/sessions/{name}/compact")
async def compact(name: str, mine: Mine, keep: Annotated[str, Body(embed=True)] = "") -> Compacted:
    return await mine.compact(name, keep)


@app.delete("/sessions/{name}", status_code=204)
async def forget(name: str, mine: Mine) -> None:
    await mine.cancel(name)
    await delete(mine.agent.store, name, kernel=default_kernel())
