"""The operations of all services as one toolset."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio.to_thread
from pydantic_ai import RunContext, ToolDefinition
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.toolsets import AbstractToolset
from pydantic_ai.toolsets.abstract import ToolsetTool
from pydantic_core import SchemaValidator, core_schema
from tool_expressions import UnmatchedExpression, check_matches

from deep_core import DeepAgentDeps, ToolFacts
from deep_core.plugin_api import RESERVED_TOOL_NAMES

from .apis import PLUGIN, Api, is_address, report
from .problems import CallError, DocumentError
from .schemas import clip

if TYPE_CHECKING:
    from deep_core import AgentContext, StateSlot

    from .operations import Listing, Operation
    from .options import OpenapiOptions

__all__ = ["OpenapiToolset"]

AGAIN = 60.0
"""Seconds after which a document that could not be had is asked for again."""
CHARS_PER_TOKEN = 4
"""As `deep explain` estimates."""
NAME_CHARS = 64
Stamp = tuple[object, ...]


@dataclass(frozen=True)
class _Offered:
    """An operation as the model sees it, and who calls it."""

    api: Api
    operation: Operation
    definition: ToolDefinition
    validator: SchemaValidator


class OpenapiToolset(AbstractToolset[Any]):
    """The operations of an agent's services. A document is read when tools are first listed, and when it changed.

    Args:
        apis: the services.
        options: limits.
        context: of the agent, for reports.
        used: which of its tools a conversation has used.
    """

    def __init__(
        self, apis: list[Api], options: OpenapiOptions, context: AgentContext, used: StateSlot[dict[str, str]]
    ) -> None:
        self._apis, self._options, self._context, self._used = apis, options, context, used
        self._failed: dict[str, tuple[Stamp, float]] = {}
        self._cached: tuple[Stamp, dict[str, _Offered]] = ((), {})

    @property
    def id(self) -> str:
        """`openapi`."""
        return PLUGIN

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """List the operations of every service whose document can be read."""
        used = self._used_in(ctx)
        out: dict[str, ToolsetTool[Any]] = {}
        for name, each in (await self._offered()).items():
            definition = each.definition
            if definition.defer_loading and used.get(name, ctx.run_id) != ctx.run_id:
                definition = replace(definition, defer_loading=False)
            out[name] = ToolsetTool[Any](
                toolset=self, tool_def=definition, max_retries=ctx.max_retries, args_validator=each.validator
            )
        return out

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Call the operation that the model saw.

        Raises:
            ToolFailed: the call was not made, or failed.
        """
        from .calls import Caller

        offered = (await self._offered()).get(name)
        # The definition that was decided about: the document may have changed since.
        if offered is None or offered.definition.parameters_json_schema != tool.tool_def.parameters_json_schema:
            raise ToolFailed(f"the document of the service changed, and {name} with it; nothing was called")
        self._used_in(ctx).setdefault(name, ctx.run_id or "")
        try:
            return await Caller(offered.api, self._options).call(offered.operation, tool_args)
        except CallError as error:
            raise ToolFailed(str(error)) from error

    def _used_in(self, ctx: RunContext[Any]) -> dict[str, str]:
        deps: object = ctx.deps
        return deps.state[self._used] if isinstance(deps, DeepAgentDeps) else {}

    async def _offered(self) -> dict[str, _Offered]:
        listings = {api.name: (api, listing) for api in self._apis if (listing := await self._listing(api))}
        key = tuple((name, id(listing)) for name, (_, listing) in listings.items())
        if not listings or self._cached[0] != key:
            self._cached = (key, self._define(listings))
        return self._cached[1]

    async def _listing(self, api: Api) -> Listing | None:
        stamp = await anyio.to_thread.run_sync(_stamp, api)
        failed = self._failed.get(api.name)
        if failed is not None and failed[0] == stamp and time.monotonic() < failed[1]:
            return None
        try:
            listing = _LISTINGS.get((api.settings.spec, api.settings.digest, stamp))
            if listing is None:
                listing = await _read_listing(api, stamp)
                for reason in listing.left_out:
                    self._context.logger.info("service %s: left out %s", api.name, reason)
        except DocumentError as error:
            self._failed[api.name] = (stamp, time.monotonic() + AGAIN)
            report(self._context, api.name, f"spec: {error}")
            return None
        return listing

    def _define(self, listings: Mapping[str, tuple[Api, Listing]]) -> dict[str, _Offered]:
        chosen = {name: self._chosen(api, listing) for name, (api, listing) in listings.items()}
        shown = _shown(chosen, self._options)
        out: dict[str, _Offered] = {}
        for name, (api, _) in listings.items():
            for facts, operation in chosen[name]:
                if facts.name in out or facts.name in RESERVED_TOOL_NAMES:
                    self._context.logger.warning("service %s: left out %s: a name twice", name, facts.name)
                    continue
                out[facts.name] = _offer(api, facts, operation, deferred=name not in shown)
        return out

    def _chosen(self, api: Api, listing: Listing) -> list[tuple[ToolFacts, Operation]]:
        known: list[tuple[ToolFacts, Operation]] = []
        for operation in listing.operations:
            if operation.is_at(api.settings.base_url):
                known.append((_facts(api, operation), operation))
            else:
                where, at = f"{operation.method} {operation.path}", clip(operation.servers[0], 200)
                why = f"it is at {at}, so it needs a service of its own"
                self._context.logger.info("service %s: left out %s: %s", api.name, where, why)
        if api.offered is None:
            return known
        try:
            check_matches(api.offered, [facts for facts, _ in known], where="tools")
        except UnmatchedExpression as error:
            report(self._context, api.name, f"{error} among its {len(known):,} operations")
        return [each for each in known if api.offered.matches(each[0])]


_LISTINGS: dict[tuple[str, str | None, Stamp], Listing] = {}
"""Of the documents that this process read, for all its agents: the last few, the oldest first."""


async def _read_listing(api: Api, stamp: Stamp) -> Listing:
    from .document import Document, parse, read_file
    from .operations import list_operations

    def listed() -> Listing:
        return list_operations(read_file(Path(api.settings.spec), api.settings.digest))

    if is_address(api.settings.spec):
        from .download import download

        data = await download(api.settings.spec, api.settings.digest)
        found = await anyio.to_thread.run_sync(lambda: list_operations(Document(parse(data, api.settings.spec))))
    else:
        found = await anyio.to_thread.run_sync(listed)
    while len(_LISTINGS) >= 16:
        _LISTINGS.pop(next(iter(_LISTINGS)), None)
    _LISTINGS[api.settings.spec, api.settings.digest, stamp] = found
    return found


def _stamp(api: Api) -> Stamp:
    """What changes with a file; an address is asked once a process."""
    if is_address(api.settings.spec):
        return ()
    try:
        path = Path(api.settings.spec).expanduser().resolve()
        about = path.stat()
    except (OSError, RuntimeError):
        return ("missing",)
    return (str(path), str(Path.cwd()), about.st_mtime_ns, about.st_size)


def _facts(api: Api, operation: Operation) -> ToolFacts:
    name = f"{api.name}_{operation.name}"
    if len(name) > NAME_CHARS:
        from hashlib import sha256

        name = f"{name[: NAME_CHARS - 9]}_{sha256(name.encode()).hexdigest()[:8]}"
    return ToolFacts(name, operation.name, PLUGIN, operation.tags)


def _shown(chosen: Mapping[str, list[tuple[ToolFacts, Operation]]], options: OpenapiOptions) -> set[str]:
    """The services whose operations are in each request: whole, the cheapest first."""
    few = {name: each for name, each in chosen.items() if len(each) <= options.defer_above}
    costs = {name: sum(o.chars for _, o in each) // CHARS_PER_TOKEN for name, each in few.items()}
    spent, shown = 0, set[str]()
    for name in sorted(costs, key=lambda name: (costs[name], name)):
        spent += costs[name]
        if spent <= options.tool_tokens:
            shown.add(name)
    return shown


def _offer(api: Api, facts: ToolFacts, operation: Operation, *, deferred: bool) -> _Offered:
    definition = ToolDefinition(
        name=facts.name,
        description=operation.description,
        parameters_json_schema=operation.schema,
        # The kernel gates a tool of this kind, and sends it as a function.
        kind="function" if "read" in operation.tags else "unapproved",
        defer_loading=deferred,
        metadata={
            "tags": [*operation.tags],
            "source": f"service {api.name} ({api.settings.base_url})",
            "identity": f"{api.identity} {operation.method} {operation.path}",
        },
    )
    return _Offered(api, operation, definition, _validator(operation.schema))


def _validator(schema: dict[str, Any]) -> SchemaValidator:
    """Checks arguments before anyone is asked to approve them."""
    given = core_schema.dict_schema(core_schema.str_schema(), core_schema.any_schema())
    return SchemaValidator(core_schema.no_info_after_validator_function(partial(_checked, schema), given))


def _checked(schema: dict[str, Any], args: dict[str, Any]) -> dict[str, Any]:
    best_match, validator = _library()
    error = best_match(validator(schema).iter_errors(args))
    if error is not None:
        where = ".".join(str(part) for part in error.absolute_path)
        raise ValueError(f"{where}: {error.message}"[:500] if where else error.message[:500])
    return args


@cache
def _library() -> tuple[Any, Any]:
    """Return jsonschema's choice of the best message, and its validator, without types: the library has none."""
    validators: Any = import_module("jsonschema.validators")
    # The service checks patterns: they are a stranger's, written for another language, and some take forever.
    made = validators.extend(validators.Draft202012Validator, {"pattern": None})
    return import_module("jsonschema.exceptions").best_match, made
