"""A model at `agent.model.base_url`: its profile is its server's, and its server's replies are made OpenAI's."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import httpx2
from openai import AsyncOpenAI
from pydantic_ai.models import CompletedStreamedResponse
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from .ends import End, RequestFailed
from .nearly_openai import CHAT
from .overflow import CHARS, tokens_of
from .repairing import Repair
from .servers import Facts, profile_of, server_of
from .windows import learn_window

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse, ModelResponseStreamEvent
    from pydantic_ai.models import ModelRequestParameters, StreamedResponse
    from pydantic_ai.profiles import ModelProfile
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.tools import RunContext

    from deep_core import AgentConfig

__all__ = ["ServedModel", "served_model"]

LOGGER = logging.getLogger("deep.sessions")
LONGEST = 8
"""Characters of a token at most, on average: what is counted below that was not there."""
MANY = 50
"""Tokens of tools from which they are looked for."""
DROPPED = (
    "%s: the server counted %s tokens where the tools alone have at least %s: it drops the tools. From the next "
    "request on they are written into the prompt as text (deep-prompted-tools)"
)
CUT = (
    "%s: ollama counted %s tokens of a request with at least %s: it dropped the beginning. From now on conversations "
    "are made shorter before. For a larger window: OLLAMA_CONTEXT_LENGTH=8192 for the server"
)
NOT_STREAMED = (
    "%s: the server drops calls from its streams: the same answer, not streamed, has one. "
    "From now on answers that may hold calls are not streamed"
)
TIMEOUT = httpx2.Timeout(600, connect=5)
"""As Pydantic AI's own clients have it."""


class ServedModel(OpenAIChatModel):
    """A model on a server that is nearly OpenAI.

    Args:
        model_name: its name there.
        base_url: the server's address.
        api_key: its key.
        called: `agent.model.provider`: what the server is until it is asked.

    Attributes:
        called: what the configuration calls the server.
        facts: what is known of it.
    """

    def __init__(self, model_name: str, base_url: str, api_key: str, called: str | None) -> None:
        hooks = {each: [Repair(CHAT)] for each in ("request", "response")}
        http = httpx2.AsyncClient(timeout=TIMEOUT, follow_redirects=True, event_hooks=hooks)
        client = AsyncOpenAI(base_url=base_url, api_key=api_key, http_client=cast("Any", http))
        self.called = called
        self.facts = Facts(server_of(called, base_url))
        self._drops_calls = False
        """Whether the server was seen to drop calls from its streams."""
        self._profiles: dict[tuple[str, bool], ModelProfile] = {}
        super().__init__(model_name, provider=OpenAIProvider(openai_client=client))

    @property
    def profile(self) -> ModelProfile:  # type: ignore[override]
        """What the model takes on this server."""
        server, has_tools = self.facts.server, self.facts.has_tools is not False
        key = server.kind, has_tools
        if key not in self._profiles:
            made = dict[str, Any](profile_of(server, self.model_name, super().profile))
            self._profiles[key] = cast("ModelProfile", made if has_tools else {**made, "supports_tools": False})
        return self._profiles[key]

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Send a request, and notice if the tools did not reach the model."""
        response = await super().request(messages, model_settings, model_request_parameters)
        self._weigh(response, messages, model_request_parameters)
        return response

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Stream a reply, and notice if the tools did not reach the model, or its calls not us."""
        asked = (messages, model_settings, model_request_parameters)
        has_tools = bool(model_request_parameters.tool_defs)
        if has_tools and self._drops_calls:
            whole = await self.request(*asked)
            yield CompletedStreamedResponse(whole, model_request_parameters=asked[2], replay_events=True)
            return
        async with super().request_stream(*asked, run_context) as stream:
            if has_tools:
                self._complete(stream, asked)
            yield stream
        self._weigh(stream.get(), messages, model_request_parameters)

    def _complete(
        self, stream: Any, asked: tuple[list[ModelMessage], ModelSettings | None, ModelRequestParameters]
    ) -> None:
        """Let a stream end with the calls that the server dropped: some gateways pass on none, and say nothing."""
        of_the_server = stream._get_event_iterator

        async def events() -> AsyncGenerator[ModelResponseStreamEvent]:
            async for event in of_the_server():
                yield event
            streamed: ModelResponse = stream.get()
            had_call = streamed.finish_reason == "tool_call"
            is_silent = not streamed.text and streamed.finish_reason not in ("length", "content_filter")
            if streamed.tool_calls or not (had_call or is_silent):
                return
            whole = await self.request(*asked)
            if whole.tool_calls:
                self._drops_calls = True
                LOGGER.warning(NOT_STREAMED, self.model_name)
            elif had_call:
                words = "the server dropped a call from its stream"
                raise RequestFailed(self.model_name, End(kind="incomplete", code="cut", words=words))
            for part in whole.parts if is_silent else whole.tool_calls:
                yield stream._parts_manager.handle_part(vendor_part_id=None, part=part)
            stream._usage, stream.finish_reason = streamed.usage + whole.usage, whole.finish_reason

        stream._get_event_iterator = events

    def _weigh(self, response: ModelResponse, messages: list[ModelMessage], parameters: ModelRequestParameters) -> None:
        if self.facts.cuts:
            self._weigh_messages(response, messages)
        else:
            self._weigh_tools(response, parameters)

    def _weigh_messages(self, response: ModelResponse, messages: list[ModelMessage]) -> None:
        """Compare what ollama counted with what was sent: it cuts, and answers as if nothing was."""
        least, counted = tokens_of(messages) * CHARS // LONGEST, response.usage.input_tokens
        if 0 < counted < least:
            LOGGER.warning(CUT, self.model_name, counted, least)
            learn_window(self, counted)

    def _weigh_tools(self, response: ModelResponse, parameters: ModelRequestParameters) -> None:
        """Compare what llama.cpp counted with the tools: 37 tokens cannot hold 14 of them."""
        if self.facts.server.kind != "llama.cpp" or self.facts.has_tools is not None:
            return
        sent = [(tool.name, tool.description, tool.parameters_json_schema) for tool in parameters.function_tools]
        least, counted = len(json.dumps(sent)) // LONGEST, response.usage.input_tokens
        if least >= MANY and 0 < counted < least and not response.tool_calls:
            self.facts = replace(self.facts, has_tools=False)
            LOGGER.warning(DROPPED, self.model_name, counted, least)
        elif response.tool_calls or counted > least >= MANY:
            self.facts = replace(self.facts, has_tools=True)


def served_model(config: AgentConfig) -> ServedModel | None:
    """Return the configured model on the server at `base_url`; None without such a server.

    Raises:
        ConfigError: the variable of `api_key_env` is not set.
    """
    found = config.model.served(config.model.id or "")
    if found is None:
        return None
    client = cast("OpenAIChatModel", found).client
    return ServedModel(found.model_name, str(client.base_url), client.api_key, config.model.provider)
