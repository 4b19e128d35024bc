"""One collection of tools: register them, select by expression, render for a model, execute its calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, overload

from deep_core import ToolExpression
from deep_core.plugin_api import suggest

from .binding import instance_of, methods_of
from .driver import ToolDriver
from .errors import DriverContractError, DuplicateToolError, ToolNotFoundError
from .expressions import matching
from .negotiation import driver_named
from .tool_set import ToolSet
from .tools import FunctionTool, UniverseTool, check_tool_name

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from pydantic_ai import Agent

    from .agents import Approve
    from .calls import ToolResult
    from .middleware import Layer, Middleware

__all__ = ["Universe"]

Function = TypeVar("Function", bound=Callable[..., Any])
Instance = TypeVar("Instance")


class Universe:
    """Tools, drivers and middleware. An ordinary object: make as many as you need.

    Args:
        drivers: its drivers, in order of preference among equals; None for all of this package.

    Raises:
        DriverContractError: two drivers have one name.
    """

    def __init__(self, drivers: Iterable[ToolDriver] | None = None) -> None:
        self._tools: dict[str, UniverseTool] = {}
        self._drivers: dict[str, ToolDriver] = {}
        self._layers: list[Layer] = []
        if drivers is None:
            from .drivers import default_drivers

            drivers = default_drivers()
        for driver in drivers:
            self.add_driver(driver)

    @classmethod
    def from_agent(
        cls,
        agent: Agent[Any, Any],
        *,
        deps: object = None,
        approve: Approve | None = None,
        drivers: Iterable[ToolDriver] | None = None,
    ) -> AbstractAsyncContextManager[Universe]:
        """Make a universe of every tool that an agent offers: `async with Universe.from_agent(agent) as universe:`.

        Tools are those of all plugins, selectable by tag, name, prefix and plugin. Each call is executed as one of the
        agent's model: validation, filters, approvals, hooks and redaction apply. All calls are in one session, which
        executes them one after the other. A call that the policy refuses is an error for the model. In the block, the
        agent's toolsets stay open.

        Args:
            agent: of `create_deep_agent`, or any other Pydantic AI agent.
            deps: the agent's deps, such as a session; None makes a session.
            approve: decides on calls that ask; None refuses them.
            drivers: as for `Universe`; None for those of this package and of the agent's plugins.

        Raises:
            ToolNameError: the name of a tool fits no wire format.
            PluginError: two drivers have one name.
        """
        from .agent_universe import agent_universe

        return agent_universe(cls, agent, deps=deps, approve=approve, drivers=drivers)

    # -- tools ---------------------------------------------------------------------------------------------------------

    @overload
    def tool(self, function: Function, /) -> Function: ...

    @overload
    def tool(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        tags: Iterable[str] = (),
        middlewares: Iterable[Middleware | Layer] = (),
    ) -> Callable[[Function], Function]: ...

    def tool(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        tags: Iterable[str] = (),
        middlewares: Iterable[Middleware | Layer] = (),
    ) -> Any:
        """Register a function as a tool: `@universe.tool` or `@universe.tool(tags={"read"})`. Returns the function.

        Raises:
            DuplicateToolError: a tool has this name.
            ToolNameError: the name fits no wire format.
        """
        if function is not None:
            self.register(function, name=name, tags=tags, middlewares=middlewares)
            return function

        def decorate(function: Function) -> Function:
            self.register(function, name=name, tags=tags, middlewares=middlewares)
            return function

        return decorate

    def register(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        tags: Iterable[str] = (),
        middlewares: Iterable[Middleware | Layer] = (),
    ) -> UniverseTool:
        """Register a function as a tool.

        Args:
            function: the function, a bound method or a callable object.
            name: its name for models; None for the function's own.
            tags: its tags; without any the tool has the tag `write`.
            middlewares: its own middlewares, outermost first.

        Raises:
            DuplicateToolError: a tool has this name; the first one stays.
            ToolNameError: the name does not match `^[a-zA-Z0-9_-]{1,64}$`.
        """
        return self.register_tool(FunctionTool(function, name=name, tags=tags, middlewares=middlewares))

    def register_tool(self, tool: UniverseTool) -> UniverseTool:
        """Register a tool of any kind.

        Raises:
            DuplicateToolError: a tool has this name; the first one stays.
            ToolNameError: the name does not match `^[a-zA-Z0-9_-]{1,64}$`.
        """
        self._check_free(check_tool_name(tool.name))
        self._tools[tool.name] = tool
        return tool

    def _check_free(self, name: str) -> None:
        if name in self._tools:
            raise DuplicateToolError(
                f"there is a tool {name!r} already: register this one under another name, or unregister({name!r}) first"
            )

    def unregister(self, name: str) -> None:
        """Remove a tool. Sets that were selected before still contain it.

        Raises:
            ToolNotFoundError: no tool has this name.
        """
        if name not in self._tools:
            raise ToolNotFoundError(f"there is no tool {name!r}.{suggest(name, self._tools)}")
        del self._tools[name]

    @overload
    def bind(
        self,
        obj: Instance,
        /,
        *,
        prefix: str = "",
        tags: Iterable[str] = (),
        exclude: Iterable[str] = (),
        middlewares: Iterable[Middleware | Layer] = (),
    ) -> Instance: ...

    @overload
    def bind(
        self,
        /,
        *,
        prefix: str = "",
        tags: Iterable[str] = (),
        exclude: Iterable[str] = (),
        middlewares: Iterable[Middleware | Layer] = (),
    ) -> Callable[[Instance], Instance]: ...

    def bind(
        self,
        *objects: Any,
        prefix: str = "",
        tags: Iterable[str] = (),
        exclude: Iterable[str] = (),
        middlewares: Iterable[Middleware | Layer] = (),
    ) -> Any:
        """Register every public method of an object as a tool. Returns the object.

        `@universe.bind` and `@universe.bind(prefix="bank_")` decorate a class that is instantiated without arguments.

        Args:
            objects: one instance or class; none for a decorator.
            prefix: put before each method's name.
            tags: the tags of each tool.
            exclude: method names that are left out; one that does not exist is ignored with a warning.
            middlewares: each tool's own middlewares.

        Raises:
            DuplicateToolError: a tool has one of the names; then no method is registered.
            ToolNameError: a name fits no wire format; then no method is registered.
        """
        if not objects:
            return partial(self.bind, prefix=prefix, tags=tags, exclude=exclude, middlewares=middlewares)
        (obj,) = objects
        methods = methods_of(instance_of(obj), exclude)
        tools = [
            FunctionTool(method, name=f"{prefix}{name}", tags=tags, middlewares=middlewares) for name, method in methods
        ]
        for tool in tools:  # all are checked before the first one is registered
            self._check_free(tool.name)
        for tool in tools:
            self.register_tool(tool)
        return obj

    @property
    def tools(self) -> tuple[UniverseTool, ...]:
        """All tools, in the order of registration."""
        return tuple(self._tools.values())

    def get(self, name: str) -> UniverseTool | None:
        """Return the tool of this name; None if there is none."""
        return self._tools.get(name)

    def __getitem__(self, key: str | ToolExpression) -> ToolSet:
        """Select tools: `universe["finance & ~internal"]`. A bare word is a tag, never a name.

        Raises:
            ExpressionParseError: the text is not an expression.
            TypeError: the key is neither a text nor an expression.
        """
        return self.select(key)

    def select(self, expression: str | ToolExpression, *, sorted: bool = False) -> ToolSet:
        """Select tools by an expression or its text; none is a valid selection.

        Args:
            expression: what selects them.
            sorted: order them by name; else they stand in the order of registration.

        Raises:
            ExpressionParseError: the text is not an expression.
            TypeError: `expression` is neither a text nor an expression.
        """
        if isinstance(expression, str):
            expression = ToolExpression.parse(expression)
        elif not isinstance(expression, ToolExpression):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"a universe is indexed by an expression or its text, not by {type(expression).__name__}")
        tools = self.tools
        selected = matching(expression, [tool.facts for tool in tools])
        chosen = [tool for at, tool in enumerate(tools) if at in selected]
        if sorted:
            chosen.sort(key=lambda tool: tool.name)
        return ToolSet(tuple(chosen), expression, self.drivers)

    # Python would fall back on `universe[0]`, whose error does not help: iterate over `tools`.
    __iter__ = None

    # -- drivers -------------------------------------------------------------------------------------------------------

    @property
    def drivers(self) -> tuple[ToolDriver, ...]:
        """All drivers, in the order of registration."""
        return tuple(self._drivers.values())

    def driver(self, name: str) -> ToolDriver:
        """Return the driver of this name.

        Raises:
            DriverNotFoundError: there is none; the message lists the names.
        """
        return driver_named(self.drivers, name)

    def add_driver(self, driver: ToolDriver) -> ToolDriver:
        """Add a driver behind the others. Sets that were selected before do not have it.

        Raises:
            DriverContractError: a driver has this name, or it is not a driver.
        """
        if not isinstance(driver, ToolDriver):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DriverContractError(f"a driver is an instance of a subclass of ToolDriver, not {driver!r}")
        if driver.name in self._drivers:
            raise DriverContractError(f"there is a driver {driver.name!r} already: give the other one another name")
        self._drivers[driver.name] = driver
        return driver

    # -- execution -----------------------------------------------------------------------------------------------------

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The middleware around calls, in the order in which it was added."""
        return tuple(self._layers)

    def use(
        self,
        middleware: Middleware,
        *,
        scope: ToolExpression | str | None = None,
        uid: str | None = None,
        critical: bool = True,
    ) -> Middleware:
        """Surround calls with a middleware. Returns the middleware, so that a function can be decorated.

        Args:
            middleware: an async function of `(call, next)`, or an object with such a `__call__`.
            scope: the tools that it surrounds, as an expression or its text; None for all.
            uid: its identity; None for the name of the function or class. Of equal ones the last runs.
            critical: whether its own failure fails the call.

        Raises:
            MiddlewareError: it is not callable, or has no name of its own and no `uid`.
            ExpressionParseError: `scope` is a text that is not an expression.
        """
        from .middleware import Layer

        self._layers.append(Layer(middleware, scope=scope, uid=uid, critical=critical))
        return middleware

    async def dispatch(
        self,
        response: object,
        *,
        driver: str | ToolDriver | None = None,
        tool_filter: ToolExpression | None = None,
        context: Mapping[str, Any] | None = None,
        max_parallel: int | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - of each call, not of this function
    ) -> list[ToolResult]:
        """Execute the calls in a model's response; return one result for each, in their order.

        What goes wrong with a call is its result: `error`, and `meta["error_code"]`. A response in no known format is
        one such result; a response without calls is an empty list.

        Args:
            response: a provider's response as a dict, list, text or SDK object, or a Pydantic AI `ModelResponse`.
            driver: what parses it, by name or itself; None for the one that recognizes it best.
            tool_filter: which tools may be executed; None for all.
            context: what `Injected` parameters and middleware read; each call gets its own copy of its containers.
            max_parallel: how many calls run at once; None for all.
            timeout: seconds for each call; None for no limit.

        Raises:
            TypeError: `tool_filter` is not an expression, or `context` not a mapping; nothing was executed.
            ValueError: `max_parallel` or `timeout` is not positive; nothing was executed.
        """
        from .dispatch import dispatch as run_calls

        return await run_calls(
            self,
            response,
            driver=driver,
            tool_filter=tool_filter,
            context=context,
            max_parallel=max_parallel,
            timeout=timeout,
        )
