"""The service: one client for all sessions of an agent, which logs in when it must."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import httpx2
from pydantic_ai.exceptions import ToolFailed

from .options import TicketsOptions

__all__ = ["Service"]

UNAUTHORIZED = 401


class Service:
    """Calls the service as one user.

    The client is made at the first call, in the loop that calls: a kernel may outlive a loop.
    """

    def __init__(self, options: TicketsOptions) -> None:
        self._options = options
        self._client: httpx2.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._token = ""

    async def call(self, method: str, path: str, **body: Any) -> Any:
        """Return what the service answers.

        Raises:
            ToolFailed: it does not answer, or refuses; the model reads why.
        """
        try:
            answer = await self._send(method, path, body)
            if answer.status_code == UNAUTHORIZED:  # the token is old, or there is none yet
                await self._log_in()
                answer = await self._send(method, path, body)
        except httpx2.HTTPError as error:
            raise ToolFailed(f"The service of tickets does not answer: {type(error).__name__}.") from error
        if answer.is_error:
            raise ToolFailed(f"The service of tickets refuses this ({answer.status_code}): {answer.text[:300]}")
        return answer.json()

    async def _send(self, method: str, path: str, body: dict[str, Any]) -> httpx2.Response:
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            self._client, self._loop = httpx2.AsyncClient(timeout=self._options.seconds), loop
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        address = self._options.url.rstrip("/") + path
        return await self._client.request(method, address, json=body or None, headers=headers)

    async def _log_in(self) -> None:
        password = os.environ.get(self._options.password_env)
        if not password:
            raise ToolFailed(f"Nobody can log in: the variable {self._options.password_env} is not set.")
        answer = await self._send("POST", "/login", {"user": self._options.user, "password": password})
        if answer.is_error:
            raise ToolFailed(f"The service of tickets does not let {self._options.user} in.")
        self._token = answer.json()["token"]

    async def close(self) -> None:
        """Close the client, if this loop made it."""
        if self._client is not None and self._loop is asyncio.get_running_loop():
            await self._client.aclose()
