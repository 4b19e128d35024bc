"""One server: start it on first use, list its tools, call them, and connect again after it ended."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from deep_core.plugin_api import visible

from .client import Client, is_answer, is_unreachable
from .contents import Parts
from .listing import ListedPrompt, ListedTool, Listing, RawPrompt, make_listing
from .sanitize import clean_text
from .servers import ServerConfig
from .store import Store

if TYPE_CHECKING:
    from .oauth import StoredLogin

__all__ = ["Connection", "Limits", "ServerFailed"]

T = TypeVar("T")

CLOSE_SECONDS = 10.0
"""More than the library takes to end a program that ignores SIGTERM: 6.5 seconds, of mcp 2.3."""
CHECK_SECONDS = 5.0
MOST_BACKOFF = 60.0
LOG_BYTES = 1_000_000
REASON_CHARS = 600
PROMPT_CHARS = 50_000
"""Of the messages of one prompt."""


class ServerFailed(Exception):
    """A server does not start, does not answer, or ended. The message is for people and models, without secrets."""


@dataclass(frozen=True)
class Limits:
    """Seconds: to start, to list tools, for a call."""

    start: float = 30.0
    list: float = 30.0
    call: float = 300.0


class Connection:
    """One server's connection. Everything but the attributes belongs to the worker's event loop.

    Attributes:
        config: of the server, with variables as they were written.
        listing: what it offers, as it said last; None if it never did.
        changed: tools whose descriptions differ from what was accepted.
        problem: why the last attempt failed; "" if it did not.
        clock: returns seconds, for the pauses between attempts.
    """

    def __init__(self, config: ServerConfig, limits: Limits, store: Store, logger: logging.Logger) -> None:
        self.config, self.limits = config, limits
        self._store, self._logger = store, logger
        self.listing: Listing | None = None
        self.changed: tuple[str, ...] = ()
        self.problem = ""
        self.clock: Callable[[], float] = time.monotonic
        self._closed = False
        self._opening: asyncio.Future[Client] | None = None
        self._client: Client | None = None
        self._login: StoredLogin | None = None
        self._lock = asyncio.Lock()
        self._failures = 0
        self._next_attempt = 0.0
        self._lists: set[asyncio.Task[None]] = set()

    async def list_tools(self) -> Listing:
        """List the tools; connect if needed.

        Raises:
            ServerFailed: the server does not start or answer.
        """
        client = await self._connected()
        return await self._list(client)

    async def call(self, tool: ListedTool, args: dict[str, Any]) -> Parts:
        """Call a tool, if it is still what was offered. Return the parts of its result.

        Raises:
            ServerFailed: the server does not start or answer, ended, or changed the tool.
            ToolFailed: the tool failed; its message is the server's.
        """
        client = await self._connected()
        now = next((t for t in self.listing.tools if t.original == tool.original), None) if self.listing else None
        if now is None:
            raise ServerFailed(f"{self._label} has no tool {tool.name!r} any more; nothing was called")
        if now.digest != tool.digest:
            raise ServerFailed(
                f"{self._label} changed {tool.name!r} since it was offered; nothing was called. Read its new "
                "description before you call it"
            )
        parts, failed = await self._request(client, lambda: client.call(tool.original, args))
        if failed:
            from pydantic_ai.exceptions import ToolFailed  # `deep mcp list` calls no tool

            texts = [part if isinstance(part, str) else f"[left out: {part.media_type}]" for part in parts]
            raise ToolFailed(self._hide("\n".join(filter(None, texts)) or f"{tool.original} returned an error"))
        return parts

    async def resources(self) -> list[tuple[str, str, str]]:
        """Return address, name and description of each resource and of each template."""
        client = await self._connected()
        if not client.has_resources:
            return []
        return await self._request(client, client.resources)

    async def read_resource(self, uri: str) -> Parts:
        """Read a resource of the server."""
        client = await self._connected()
        return await self._request(client, lambda: client.read_resource(uri))

    async def prompt(self, prompt: ListedPrompt, arguments: dict[str, str]) -> str:
        """Return the text of a prompt's messages.

        Raises:
            ServerFailed: the server does not start or answer, or refuses.
        """
        client = await self._connected()
        messages = await self._request(client, lambda: client.prompt(prompt.original, arguments))
        several = any(role != "user" for role, _ in messages)
        texts = [f"{role}: {text}" if several else text for role, text in messages]
        return clean_text("\n\n".join(texts), PROMPT_CHARS)

    async def close(self) -> None:
        """End the connection, and the server's program."""
        self._closed = True
        for task in (*self._lists, self._opening):
            if task is not None:
                task.cancel()
        async with self._lock:
            await self._drop(self._client)

    @property
    def can_start(self) -> bool:
        """Whether no pause between attempts is under way."""
        return self.clock() >= self._next_attempt

    @property
    def _label(self) -> str:
        return f"MCP server {self.config.name}"

    # -- life ----------------------------------------------------------------------------------------------------

    async def _connected(self) -> Client:
        """Return the open client; open one, and list its tools, if there is none."""
        async with self._lock:
            if self._client is not None:
                return self._client
            if self._closed:
                raise ServerFailed(f"{self._label} was closed with its kernel")
            pause = self._next_attempt - self.clock()
            if pause > 0:
                raise ServerFailed(f"{self.problem}; the next attempt is possible in {pause:.0f} s")
            self._opening = asyncio.ensure_future(self._opened())
            try:
                client = await self._opening
            except ServerFailed as error:
                self._failed(str(error))
                raise
            except asyncio.CancelledError:
                if self._closed:
                    raise ServerFailed(f"{self._label} was closed with its kernel") from None
                raise
            self._client = client
            return client

    async def _opened(self) -> Client:
        try:
            config = self.config.expanded(os.environ)
        except ValueError as error:
            raise ServerFailed(f"{self._label}: {error}") from None
        if changed := self.config.changed_programs():
            which = ", ".join(map(visible, changed[:3]))
            raise ServerFailed(f"{self._label} is not started: {which} changed since it was trusted; deep config trust")
        try:
            log = self._store.log_path(config.name)
            if log.exists() and log.stat().st_size > LOG_BYTES:
                log.unlink()
            begin = log.stat().st_size if log.exists() else 0
        except OSError as error:
            raise ServerFailed(f"{self._label}: its log cannot be written: {error}") from None
        auth = self._login = self._stored_login(config)
        client = Client(config, log, self.limits.call, self._note_change, auth)
        try:
            async with asyncio.timeout(self.limits.start):
                try:
                    await client.open()
                except Exception as error:
                    if is_unreachable(error) or (self._login is not None and self._login.needs_login):
                        raise
                    # Servers of older SDKs end at a question that they do not know, as mcp 1.6 does.
                    await self._close(client)
                    client = Client(config, log, self.limits.call, self._note_change, auth, "legacy")
                    await client.open()
        except TimeoutError:
            await self._close(client)
            raise ServerFailed(f"{self._label} did not start within {self.limits.start:g} s") from None
        except Exception as error:  # noqa: BLE001 - whatever the library raises, only this server is affected
            said = ""
            if config.transport == "stdio":
                with suppress(OSError), log.open("rb") as file:
                    file.seek(max(begin, log.stat().st_size - 2_000))
                    said = file.read().decode("utf-8", "replace").strip()
            what = self._explain(error) + (f"; its stderr ends: {said[-300:]}" if said else "")
            raise ServerFailed(self._redact(f"{self._label} does not start: {what}")) from None
        except BaseException:
            await self._close(client)
            raise
        try:
            await self._list(client)
        except BaseException:
            await self._close(client)
            raise
        return client

    async def _list(self, client: Client) -> Listing:
        try:
            async with asyncio.timeout(self.limits.list):
                raw, odd = await client.tools()
                prompts = await self._prompts(client)
                listing = make_listing(raw, resources=client.has_resources, prompts=prompts, odd=odd)
        except TimeoutError:
            raise ServerFailed(f"{self._label} did not list its tools within {self.limits.list:g} s") from None
        except Exception as error:  # noqa: BLE001
            raise ServerFailed(self._redact(f"{self._label} cannot list its tools: {self._explain(error)}")) from None
        changed = self._store.changed(self.config, listing)
        if new := sorted({*changed} - {*self.changed}):
            self._logger.warning(
                "%s changed what it says about %s since you last accepted it; until then these tools ask. "
                "Read it, and accept it: deep mcp test %s --accept",
                self._label,
                ", ".join(new),
                self.config.name,
            )
        if odd and (self.listing is None or self.listing.left_out != listing.left_out):
            name, more = self.config.name, f" and {len(odd) - 1} more" if len(odd) > 1 else ""
            self._logger.warning(
                "%s: left out %s%s; deep mcp test %s shows all", self._label, self._redact(odd[0]), more, name
            )
        for reason in listing.left_out:
            self._logger.info("%s: left out %s", self._label, reason)
        self.listing, self.changed = listing, changed
        self._store.keep(self.config, listing)
        return listing

    async def _prompts(self, client: Client) -> list[RawPrompt]:
        try:
            return await client.prompts()
        except Exception as error:  # noqa: BLE001
            if not is_answer(error):
                await client.ping()  # raises if it is gone
            self._logger.warning("%s: no prompts: %s", self._label, self._redact(self._explain(error)))
            return []

    def _note_change(self) -> None:
        client = self._client
        if client is None:
            return
        task = asyncio.get_running_loop().create_task(self._list_again(client))
        self._lists.add(task)
        task.add_done_callback(self._lists.discard)

    async def _list_again(self, client: Client) -> None:
        with suppress(ServerFailed):
            await self._list(client)

    async def _request(self, client: Client, send: Callable[[], Awaitable[T]]) -> T:
        try:
            async with asyncio.timeout(self.limits.call):
                result = await send()
        except TimeoutError:
            await self._check(client)
            raise ServerFailed(
                f"{self._label} did not answer within {self.limits.call:g} s; the call may still have an effect"
            ) from None
        except Exception as error:  # noqa: BLE001
            what = self._redact(self._explain(error))
            # A restart loses what the server holds (a browser, a transaction), so it must be dead for one.
            if is_answer(error) or await self._check(client, what):
                raise ServerFailed(f"{self._label} refused the request: {what}") from None
            raise ServerFailed(
                f"{self._label} ended during the request: {what}. The request may have had an effect. The next call "
                "starts the server again"
            ) from None
        self._failures, self.problem = 0, ""
        return result

    async def _check(self, client: Client, why: str = "") -> bool:
        """Keep a server that still answers, and say whether it does: one bad call must not end the others."""
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                await client.ping()
        except Exception as error:  # noqa: BLE001
            await self._discard(client, why or self._explain(error))
            return False
        return True

    async def _discard(self, client: Client, why: str) -> None:
        async with self._lock:
            if self._client is client:  # else another call has noticed first
                self._failed(self._redact(why), ended=True)
                await self._drop(client)

    def _failed(self, why: str, *, ended: bool = False) -> None:
        why = why if why.startswith(self._label) else f"{self._label}: {why}"
        # A server that ended is started by the next call; one that does not start, or ends again and again, waits.
        pause = 0.0 if ended and self._failures == 0 else min(2.0**self._failures, MOST_BACKOFF)
        self._failures += 1
        self._next_attempt = self.clock() + pause
        if why != self.problem:
            self._logger.warning("%s", why)
        self.problem = why

    async def _drop(self, client: Client | None) -> None:
        self._client = None
        if client is not None:
            await self._close(client)

    async def _close(self, client: Client) -> None:
        with suppress(Exception):
            async with asyncio.timeout(CLOSE_SECONDS):
                await client.close()

    def _stored_login(self, config: ServerConfig) -> StoredLogin | None:
        if not config.takes_login:
            return None
        from .oauth import StoredLogin, token_path

        try:
            return StoredLogin(token_path(self._store.data, config.url), config.url)
        except OSError:  # an unwritable folder has no logins
            return None

    def _explain(self, error: BaseException) -> str:
        if self._login is not None and self._login.needs_login:
            return f"it asks for a login: deep mcp login {self.config.name}"
        while isinstance(error, BaseExceptionGroup):
            error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
        return str(error) or type(error).__name__

    def _redact(self, text: str) -> str:
        text = self._hide(text)
        return text if len(text) <= REASON_CHARS else text[: REASON_CHARS - 1] + "…"

    def _hide(self, text: str) -> str:
        for secret in self.config.secrets(os.environ):
            text = text.replace(secret, "***")
        return text
