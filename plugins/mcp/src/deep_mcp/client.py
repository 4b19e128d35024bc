"""The client of one server. It imports the MCP libraries, with `session.py` and `transports.py`, at first use."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from .contents import Parts, read_contents, read_messages, read_result
from .listing import RawPrompt, RawTool
from .servers import ServerConfig

if TYPE_CHECKING:
    import httpx2

__all__ = ["Client", "is_answer", "is_unreachable"]

CHANGES = ("ToolListChangedNotification", "PromptListChangedNotification")
NOT_FOUND = -32601
OWN = (-32000, -32001)
"""What the library itself says of a connection that ended, or took too long; servers use them for other things."""
MOST_NOTES = 500
"""Lines that a server prints beside the protocol, of each start."""
NOTE_CHARS = 2_000


@contextmanager
def _quiet_import() -> Generator[None]:
    # fastmcp reads `.env` of the current folder, which may be a stranger's, and gives its logger handlers.
    quiet = {"FASTMCP_ENV_FILE": os.devnull, "FASTMCP_LOG_ENABLED": "false"}
    before = {key: os.environ.get(key) for key in quiet}
    if "fastmcp" not in sys.modules:
        os.environ.update({key: value for key, value in quiet.items() if before[key] is None})
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)


class Client:
    """An open connection to one server. Use it in one event loop.

    Args:
        config: how to reach the server, with the values of its variables.
        log: where a program's stderr goes, and what it prints beside the protocol.
        call_timeout: seconds of one request.
        on_change: called when the server says that its tools or prompts are others now.
        auth: logs requests in, for a server at an address.
        mode: `legacy` for the handshake that every server knows; `auto` asks first whether it knows the newer one.
    """

    def __init__(
        self,
        config: ServerConfig,
        log: Path,
        call_timeout: float,
        on_change: Callable[[], object],
        auth: httpx2.Auth | None = None,
        mode: Literal["auto", "legacy"] = "auto",
    ) -> None:
        with _quiet_import():
            import fastmcp.client

            from .session import quiet_logs
            from .transports import transport_of

        quiet_logs()
        self._on_change, self._log, self._notes = on_change, log, 0
        self._client: Any = fastmcp.client.Client[Any](
            transport_of(config, log, auth),
            name=config.name,
            mode=mode,
            init_timeout=None,  # the connection has a limit of its own, for start and handshake together
            timeout=call_timeout,
            message_handler=self._note_change,
        )

    async def _note_change(self, message: Any) -> None:
        if type(getattr(message, "root", message)).__name__ in CHANGES:
            self._on_change()

    def _note(self, line: str) -> None:
        """Keep what a server prints where its stderr is."""
        self._notes += 1
        if self._notes > MOST_NOTES:
            return
        text = line.rstrip()[:NOTE_CHARS] if self._notes < MOST_NOTES else "[more of it is not kept]"
        try:
            with self._log.open("a", encoding="utf-8", errors="replace") as file:
                file.write(f"[stdout] {text}\n")
        except OSError:  # a full disk costs the log
            return

    async def open(self) -> None:
        """Start or reach the server."""
        from .session import NOTE

        token = NOTE.set(self._note)  # the tasks of the connection inherit it
        try:
            await self._client.__aenter__()
        finally:
            NOTE.reset(token)

    async def close(self) -> None:
        """End the connection, and the program."""
        await self._client.close()

    async def ping(self) -> None:
        """Ask whether the server is there. Any answer says that it is."""
        try:
            await self._client.ping()
        except Exception as error:
            if not is_answer(error):
                raise

    def _has(self, capability: str) -> bool:
        said = self._client.server_capabilities
        return getattr(said, capability, None) is not None

    @property
    def has_resources(self) -> bool:
        """Whether the server says that it has resources."""
        return self._has("resources")

    async def tools(self) -> tuple[list[RawTool], list[str]]:
        """List the tools that are for models, and those that cannot be read, each with its reason."""
        session = self._client.session
        session.left_out.clear()
        # Servers for prompts or resources alone refuse the question (google-gemini/gemini-cli#10365).
        if not self._has("tools") and (self._has("prompts") or self._has("resources")):
            return [], []
        try:
            listed = await self._client.list_tools()
        except Exception as error:
            if self._has("tools") or code_of(error) != NOT_FOUND:
                raise
            return [], []
        out: list[RawTool] = []
        for tool in listed:
            data: dict[str, Any] = tool.model_dump(by_alias=True)
            hints: dict[str, Any] = data.get("annotations") or {}
            out.append(RawTool(tool.name, tool.description or "", data.get("inputSchema") or {}, hints))
        return out, [*session.left_out]

    async def prompts(self) -> list[RawPrompt]:
        """List the prompts that are for people; none if the server has none."""
        if not self._has("prompts"):
            return []
        return [
            RawPrompt(
                prompt.name,
                prompt.description or prompt.title or "",
                tuple((argument.name, bool(argument.required)) for argument in prompt.arguments or ()),
            )
            for prompt in await self._client.list_prompts()
        ]

    async def prompt(self, name: str, arguments: dict[str, str]) -> list[tuple[str, str]]:
        """Return the role and the text of each message of a prompt."""
        from .session import read_raw

        return read_messages(read_raw(await self._client.get_prompt_mcp(name, arguments)))

    async def call(self, tool: str, args: dict[str, Any]) -> tuple[Parts, bool]:
        """Call a tool by the server's name of it. Return the parts of its result, and whether it failed.

        Raises:
            Exception: the request failed.
        """
        from .session import read_raw

        return read_result(read_raw(await self._client.call_tool_mcp(tool, args)))

    async def resources(self) -> list[tuple[str, str, str]]:
        """Return address, name and description of each resource and of each template."""
        found = [(str(r.uri), r.title or r.name, r.description or "") for r in await self._client.list_resources()]
        try:
            templates = await self._client.list_resource_templates()
        except Exception as error:
            if not is_answer(error):  # many servers have no templates
                raise
            return found
        return [*found, *((t.uri_template, t.title or t.name, t.description or "") for t in templates)]

    async def read_resource(self, uri: str) -> Parts:
        """Read a resource."""
        from .session import read_raw

        return read_contents(read_raw(await self._client.read_resource_mcp(uri)).get("contents"))


def code_of(error: BaseException) -> int | None:
    """Return the code of the protocol that an error has; None for none."""
    codes = [code for link in _chain(error) if isinstance(code := getattr(link, "code", None), int)]
    return codes[0] if codes else None


def is_answer(error: BaseException) -> bool:
    """Whether an error of a request is surely the server's answer. Others may be, too: ask with a ping."""
    code = code_of(error)
    return code is not None and code not in OWN


def is_unreachable(error: BaseException) -> bool:
    """Whether nothing was reached: the program or the address is not there, so that no other greeting helps."""
    return any(isinstance(link, OSError) or type(link).__module__.startswith("httpx2") for link in _chain(error))


def _chain(error: BaseException | None) -> Generator[BaseException]:
    while error is not None:
        yield error
        inner: Any = getattr(error, "exceptions", None)  # of a group, as task groups raise
        error = error.__cause__ or (inner[0] if inner else None)
