"""The object store, over HTTP: get, put, delete, and a list by prefix."""

from __future__ import annotations

import os
from urllib.parse import quote

import httpx2
from pydantic_ai.workspaces import WorkspaceUnavailableError

from .options import ObjectsOptions

__all__ = ["ObjectStore"]

NOT_FOUND = 404


class ObjectStore:
    """One bucket. Each request has a connection of its own, so that no loop and no session owns one."""

    def __init__(self, options: ObjectsOptions) -> None:
        self._options = options

    async def get(self, key: str) -> bytes | None:
        """Return an object's content; None if there is none of this name."""
        answer = await self._send("GET", f"/{quote(key)}")
        return None if answer.status_code == NOT_FOUND else answer.content

    async def put(self, key: str, data: bytes) -> None:
        """Write an object."""
        await self._send("PUT", f"/{quote(key)}", data)

    async def delete(self, key: str) -> None:
        """Remove an object, if it is there."""
        await self._send("DELETE", f"/{quote(key)}")

    async def names(self, prefix: str) -> dict[str, int]:
        """Return name -> size of the objects whose names begin so."""
        answer = await self._send("GET", f"/?prefix={quote(prefix)}")
        return {str(name): int(size) for name, size in answer.json().items()}

    async def _send(self, method: str, path: str, content: bytes | None = None) -> httpx2.Response:
        token = os.environ.get(self._options.token_env)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            async with httpx2.AsyncClient(timeout=self._options.seconds, headers=headers) as client:
                answer = await client.request(method, self._options.url.rstrip("/") + path, content=content)
        except httpx2.HTTPError as error:
            raise WorkspaceUnavailableError(f"the object store does not answer: {type(error).__name__}") from error
        if answer.is_error and answer.status_code != NOT_FOUND:
            raise WorkspaceUnavailableError(f"the object store refuses {method}: {answer.status_code}")
        return answer
