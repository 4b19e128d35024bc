"""The tools of an agent as an MCP server, under the agent's policy. Needs `deep-universe[mcp]`."""

from __future__ import annotations

import base64
import json
import secrets
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic_ai import BinaryContent, ToolDefinition
from pydantic_ai.messages import MultiModalContent

from deep_core import ToolExpression, tool_facts
from deep_core.plugin_api import suggest, visible

from .agents import AgentTools, CallOutcome, ToolSession
from .drivers.mcp import McpDriver

__all__ = ["ApprovalMode", "make_mcp_server"]

ApprovalMode: TypeAlias = Literal["ask", "allow", "deny"]
T = TypeVar("T")

REMEMBERED: Final = 1_000
"""Sessions and open questions that a server keeps; the one used longest ago goes first."""
QUESTION: Final = "approval"
NOT_EXECUTED = "The call was not executed."
FORM: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "approve": {"type": "boolean", "title": "Approve", "description": "Execute this call?", "default": False},
        "reason": {"type": "string", "title": "Reason", "description": "If not: what the model reads."},
    },
    "required": ["approve"],
}


def make_mcp_server(
    tools: AgentTools,
    *,
    name: str = "deep",
    version: str = "",
    only: ToolExpression | None = None,
    approve: ApprovalMode = "ask",
) -> Server[Any]:
    """Make an MCP server of an agent's tools. Each call is executed as in a run of the agent.

    Clients of one server share its workspace. Those that open an MCP session have a session of the agent each; all
    others share one: clients over stdio, and those of protocol versions without sessions.

    Args:
        tools: of `agent_tools`, which stays open as long as the server.
        name: the server's name.
        version: the server's version.
        only: the tools to serve; None serves all. A tool that starts subagents is served only if all other tools are:
            give `tool_filter` to the agent instead, which its subagents obey.
        approve: `ask` asks through MCP elicitation about calls that need approval, and refuses them where the client
            offers none; `allow` approves, `deny` refuses.

    Raises:
        ValueError: `only` selects no tool.
    """
    known = {tool.name: tool_facts(tool) for tool in tools.definitions}
    served = [tool for tool in tools.definitions if only is None or only.matches(known[tool.name])]
    others = [facts for facts in known.values() if "subagent" not in facts.tags]
    if only is not None and not all(map(only.matches, others)):
        # Its subagents have every tool of the agent: more than is served.
        served = [tool for tool in served if "subagent" not in known[tool.name].tags]
    if only is not None and not served:
        raise ValueError(f"no tool to serve: none matches {only}")
    handlers = _Handlers(tools, served, approve)
    return Server(
        name,
        version=version,
        instructions="Tools of a deep agent. Some calls need an approval: a refused call was not executed.",
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
    )


@dataclass(frozen=True)
class _Question:
    """A question that waits for the client's next request."""

    session: ToolSession
    outcome: CallOutcome
    arguments: Mapping[str, Any]


class _Handlers:
    def __init__(self, tools: AgentTools, served: Sequence[ToolDefinition], approve: ApprovalMode) -> None:
        self._tools = tools
        self._approve: ApprovalMode = approve
        rendered = map(types.Tool.model_validate, McpDriver().render(served))
        self._served = {tool.name: tool for tool in rendered}
        self._shared = tools.session()
        self._sessions: OrderedDict[str, ToolSession] = OrderedDict()
        self._questions: OrderedDict[str, _Question] = OrderedDict()

    async def list_tools(
        self, ctx: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[*self._served.values()])

    async def call_tool(
        self, ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        if params.name not in self._served:
            message = f"no tool {params.name!r}.{suggest(params.name, self._served)} tools/list lists them"
            raise MCPError(types.INVALID_PARAMS, message)
        arguments = params.arguments or {}
        if params.request_state is not None:
            session, outcome = await self._answered(params.name, arguments, params)
        else:
            session = self._session(ctx)
            outcome = await session.call(params.name, arguments)
        while outcome.status == "waiting":
            if self._approve == "ask" and _can_ask(ctx) and _is_modern(ctx):
                return self._question(_Question(session, outcome, arguments))
            outcome = await session.decide(outcome, await self._decide(ctx, outcome))
        return _result(outcome)

    async def _decide(self, ctx: ServerRequestContext[Any, Any], outcome: CallOutcome) -> bool | str:
        if self._approve == "allow":
            return True
        if self._approve == "deny":
            return f"{outcome.tool} needs an approval, and this server approves no call. {NOT_EXECUTED}"
        if not (_can_ask(ctx) and ctx.session.can_send_request):
            return (
                f"{outcome.tool} needs an approval, and this client cannot ask its user: it does not offer MCP "
                f"elicitation. {NOT_EXECUTED}"
            )
        try:
            return _decision(await ctx.session.elicit_form(_ask(outcome), FORM, ctx.request_id))
        except MCPError as error:
            return f"{outcome.tool} needs an approval, and the client could not ask: {error}. {NOT_EXECUTED}"

    def _question(self, question: _Question) -> types.InputRequiredResult:
        state = secrets.token_urlsafe(32)
        _remember(self._questions, state, question)
        form = types.ElicitRequestFormParams(message=_ask(question.outcome), requested_schema=FORM)
        return types.InputRequiredResult(
            input_requests={QUESTION: types.ElicitRequest(params=form)}, request_state=state
        )

    async def _answered(
        self, name: str, arguments: Mapping[str, Any], params: types.CallToolRequestParams
    ) -> tuple[ToolSession, CallOutcome]:
        # Whatever the client sends, the call that runs is the one that was asked about.
        question = self._questions.pop(params.request_state or "", None)
        if question is None:
            raise MCPError(types.INVALID_PARAMS, "this question is closed or unknown: call the tool again")
        answer = (params.input_responses or {}).get(QUESTION)
        same = question.outcome.tool == name and question.arguments == arguments
        decision: bool | str = f"The answer is about another call. {NOT_EXECUTED}"
        if same:
            decision = _decision(answer) if isinstance(answer, types.ElicitResult) else f"No answer. {NOT_EXECUTED}"
        return question.session, await question.session.decide(question.outcome, decision)

    def _session(self, ctx: ServerRequestContext[Any, Any]) -> ToolSession:
        request = ctx.request
        session_id = None if request is None or _is_modern(ctx) else request.headers.get("mcp-session-id")
        if session_id is None:
            return self._shared
        session = self._sessions.pop(session_id, None) or self._tools.session()
        return _remember(self._sessions, session_id, session)


def _remember(kept: OrderedDict[str, T], key: str, value: T) -> T:
    kept[key] = value
    while len(kept) > REMEMBERED:
        kept.popitem(last=False)
    return value


def _is_modern(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Whether the protocol has neither sessions nor requests to the client."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def _can_ask(ctx: ServerRequestContext[Any, Any]) -> bool:
    capabilities = ctx.session.client_capabilities
    offered = capabilities.elicitation if capabilities is not None else None
    # `{}` means forms: older versions of the protocol have no other.
    return offered is not None and (offered.form is not None or offered.url is None)


def _ask(outcome: CallOutcome) -> str:
    """Show a person every call that waits, in full: nothing hidden, nothing left out."""
    lines: list[str] = []
    for call in outcome.waiting:
        who = f"The subagent {call.subagent}" if call.subagent else "The client"
        lines.append(f"{who} calls {call.tool} (plugin {call.plugin})" + (f": {call.reason}" if call.reason else ""))
        # The lines of a value are further in than any call: it cannot make one up.
        lines += [f"  {key}: {_written(value)}".replace("\n", "\n    ") for key, value in call.arguments.items()]
    return visible("\n".join(lines))


def _written(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _decision(answer: types.ElicitResult) -> bool | str:
    content = answer.content or {}
    if answer.action == "accept" and content.get("approve") is True:
        return True
    reason = content.get("reason")
    told = f": {reason}" if isinstance(reason, str) and reason else "."
    return f"The user refused this call{told} {NOT_EXECUTED}"


def _result(outcome: CallOutcome) -> types.CallToolResult:
    content: list[types.ContentBlock] = []
    if outcome.text or not outcome.files:
        content.append(types.TextContent(text=outcome.text))
    content += [_block(file) for file in outcome.files]
    return types.CallToolResult(content=content, is_error=outcome.status != "done")


def _block(file: MultiModalContent) -> types.ContentBlock:
    if not isinstance(file, BinaryContent):
        return types.TextContent(text=str(cast("Any", getattr(file, "url", None) or file.identifier)))
    data = base64.b64encode(file.data).decode()
    if file.is_image:
        return types.ImageContent(data=data, mime_type=file.media_type)
    if file.is_audio:
        return types.AudioContent(data=data, mime_type=file.media_type)
    resource = types.BlobResourceContents(uri=f"file:///{file.identifier}", mime_type=file.media_type, blob=data)
    return types.EmbeddedResource(resource=resource)
