"""Functions as tools: their names, schemas, validation, injection and threads."""

from __future__ import annotations

import asyncio
import pickle
import threading
from dataclasses import dataclass
from functools import cache, partial
from typing import Annotated, Any

import pytest
from deep_universe import FunctionTool, Injected, InvalidArguments, MissingContextKey, ToolNameError
from pydantic import BaseModel, Field
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ToolReturn
from pydantic_ai.tools import RunContext

pytestmark = pytest.mark.anyio


def get_balance(account: str, user_id: Annotated[str, Injected("uid")], limit: int = 3) -> str:
    """Read a balance.

    Args:
        account: which account.
        user_id: never shown.
        limit: how many lines.
    """
    return f"{user_id}:{account}:{limit}"


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a b", "x" * 65, "", "a.b", "é", "a\n", 3])
def test_U8_a_name_that_a_wire_format_refuses_is_rejected_at_registration(name: Any) -> None:
    with pytest.raises(ToolNameError, match="is not a name for a tool: use 1 to 64"):
        FunctionTool(get_balance, name=name)


@pytest.mark.parametrize("name", ["a", "x" * 64, "Get-Balance_2"])
def test_U8_a_name_that_fits_is_kept(name: str) -> None:
    assert FunctionTool(get_balance, name=name).definition.name == name


def test_U8_a_function_without_a_usable_name_needs_one() -> None:
    with pytest.raises(ToolNameError, match="<lambda>"):
        FunctionTool(lambda: 1)


# -- what the model sees -----------------------------------------------------------------------------------------------


def test_X15_an_injected_parameter_is_nowhere_in_the_definition() -> None:
    definition = FunctionTool(get_balance).definition
    assert list(definition.parameters_json_schema["properties"]) == ["account", "limit"]
    assert definition.parameters_json_schema["required"] == ["account"]
    assert definition.parameters_json_schema["properties"]["account"]["description"] == "which account."
    assert definition.description == "Read a balance."
    assert "user_id" not in repr(definition)
    assert "uid" not in repr(definition)


@dataclass
class Holder:
    secret: Annotated[str, Injected("uid")]


def in_a_list(ids: list[Annotated[str, Injected("uid")]]) -> None: ...
def in_a_union(id: Annotated[str, Injected("uid")] | None = None) -> None: ...
def in_a_model(id: Holder) -> None: ...


@pytest.mark.parametrize("function", [in_a_list, in_a_union, in_a_model])
def test_X15_a_mark_that_would_be_shown_is_an_error(function: Any) -> None:
    with pytest.raises((TypeError, UserError), match="marks a whole parameter"):
        FunctionTool(function)


def test_X15_two_marks_and_injected_varargs_are_errors() -> None:
    def two(id: Annotated[str, Injected("a"), Injected("b")]) -> None: ...
    def rest(**rest: Annotated[str, Injected("a")]) -> None: ...

    with pytest.raises(TypeError, match="one key, not from a and b"):
        FunctionTool(two)
    with pytest.raises(TypeError, match="cannot be injected"):
        FunctionTool(rest)
    with pytest.raises(TypeError, match="a non-empty string"):
        Injected("")


def test_a_run_context_is_refused_with_the_way_out() -> None:
    def ask(ctx: RunContext[None], question: str) -> None: ...

    with pytest.raises(TypeError, match="ctx is a RunContext, and a universe has no run"):
        FunctionTool(ask)


def test_tags_are_in_the_metadata_and_in_the_facts() -> None:
    tool = FunctionTool(get_balance, tags={"finance", "api"})
    assert tool.definition.metadata == {"tags": ["api", "finance"]}
    assert tool.facts.tags == ("api", "finance")
    assert FunctionTool(get_balance).facts.tags == ("write",)
    with pytest.raises(TypeError, match=r'write tags=\{"finance"\}'):
        FunctionTool(get_balance, tags="finance")


# -- calls -------------------------------------------------------------------------------------------------------------


async def test_X15_the_context_fills_the_injected_parameter() -> None:
    tool = FunctionTool(get_balance)
    assert await tool.call({"account": "a"}, {"uid": "u1", "other": 1}) == "u1:a:3"


async def test_X15_a_model_that_passes_the_injected_parameter_is_rejected() -> None:
    def with_rest(user_id: Annotated[str, Injected("uid")], **rest: str) -> str:
        return user_id

    for function in (get_balance, with_rest):
        with pytest.raises(InvalidArguments, match="user_id"):
            await FunctionTool(function).call({"account": "a", "user_id": "root"}, {"uid": "u1"})


async def test_X15_the_models_arguments_are_validated_before_the_context_is_read() -> None:
    with pytest.raises(InvalidArguments, match=r"limit: Input should be a valid integer.*") as error:
        await FunctionTool(get_balance).call({"account": "a", "limit": "many"}, {})
    assert error.value.tool == "get_balance"
    assert "many" not in str(error.value)


async def test_arguments_are_converted_to_the_functions_types() -> None:
    def total(numbers: set[int], factor: float = 1) -> float:
        return sum(numbers) * factor

    assert await FunctionTool(total).call({"numbers": ["1", 2], "factor": "0.5"}) == 1.5


async def test_many_problems_are_truncated() -> None:
    with pytest.raises(InvalidArguments) as error:
        await FunctionTool(get_balance).call({f"x{n}": 1 for n in range(1000)})
    assert len(error.value.problems) == 6
    assert error.value.problems[-1] == "and 996 more"


async def test_X16_a_missing_key_is_an_error_of_its_own() -> None:
    with pytest.raises(MissingContextKey, match="the context has no 'uid', which user_id needs") as error:
        await FunctionTool(get_balance).call({"account": "a"}, {})
    assert (error.value.key, error.value.parameter) == ("uid", "user_id")


def test_X16_both_errors_can_be_pickled() -> None:
    for error in (MissingContextKey("k", "p"), InvalidArguments("t", ["a: b"])):
        assert str(pickle.loads(pickle.dumps(error))) == str(error)


async def test_X16_a_default_of_an_injected_parameter_stands_in() -> None:
    def greet(user: Annotated[str, Injected("uid")] = "nobody") -> str:
        return user

    assert await FunctionTool(greet).call({}, {}) == "nobody"
    assert await FunctionTool(greet).call({}, {"uid": "me"}) == "me"


async def test_an_injected_value_is_passed_on_unchanged() -> None:
    def use(lock: Annotated[Any, Injected("lock")]) -> Any:
        return lock

    lock = threading.Lock()
    assert await FunctionTool(use).call({}, {"lock": lock}) is lock


class Query(BaseModel):
    uid: str
    top: int = Field(alias="limit", default=1)


async def test_one_model_as_the_only_shown_parameter_is_flat() -> None:
    def search(query: Query, user_id: Annotated[str, Injected("uid")]) -> tuple[str, int, str]:
        return query.uid, query.top, user_id

    tool = FunctionTool(search)
    assert set(tool.definition.parameters_json_schema["properties"]) == {"uid", "limit"}
    assert await tool.call({"uid": "theirs", "limit": 2}, {"uid": "mine"}) == ("theirs", 2, "mine")


async def test_every_kind_of_parameter_reaches_its_place() -> None:
    def places(
        first: int, /, second: int, who: Annotated[str, Injected("k")], *rest: int, key: int = 0, **more: int
    ) -> Any:
        return first, second, who, rest, key, more

    call = {"first": 1, "second": 2, "rest": [3, 4], "key": 5, "z": 6}
    assert await FunctionTool(places).call(call, {"k": "w"}) == (1, 2, "w", (3, 4), 5, {"z": 6})


class Bank:
    def open(self, name: str) -> str:
        """Open an account."""
        return f"{name} opened"

    async def __call__(self, name: str) -> str:
        """Call it."""
        return f"{name} called"


async def test_methods_partials_and_callable_objects_are_tools() -> None:
    assert await FunctionTool(Bank().open).call({"name": "x"}) == "x opened"
    assert FunctionTool(Bank().open).definition.description == "Open an account."
    assert FunctionTool(Bank()).name == "Bank"
    assert await FunctionTool(Bank(), name="bank").call({"name": "x"}) == "x called"
    assert FunctionTool(Bank(), name="bank").definition.description == "Call it."
    fixed = FunctionTool(partial(get_balance, limit=9))
    assert fixed.name == "get_balance"
    assert await fixed.call({"account": "a"}, {"uid": "u"}) == "u:a:9"


@cache
def cached(account: str, user_id: Annotated[str, Injected("uid")]) -> str:
    """Read once."""
    return f"{user_id}:{account}"


async def test_a_cached_function_hides_its_injected_parameter_too() -> None:
    tool = FunctionTool(cached)
    assert (tool.name, tool.definition.description) == ("cached", "Read once.")
    assert list(tool.definition.parameters_json_schema["properties"]) == ["account"]
    assert await tool.call({"account": "a"}, {"uid": "u"}) == "u:a"


def test_what_has_no_readable_parameters_is_an_error() -> None:
    with pytest.raises(TypeError, match="has no readable signature; write a function that calls it"):
        FunctionTool(max, name="pick")
    with pytest.raises(TypeError, match=r"Bank is a class, and a tool is a function: bind\(Bank\(…\)\)"):
        FunctionTool(Bank)


async def test_a_tool_return_gives_its_value() -> None:
    def rich() -> ToolReturn[int]:
        return ToolReturn(return_value=3, content="for an agent")

    assert await FunctionTool(rich).call({}) == 3


# -- threads -----------------------------------------------------------------------------------------------------------


async def test_X17_a_sync_function_runs_in_a_thread_while_the_loop_continues() -> None:
    release = threading.Event()

    def wait() -> int:
        assert release.wait(30)  # only the loop, below, can set it
        return threading.get_ident()

    async def here() -> int:
        return threading.get_ident()

    call = asyncio.create_task(FunctionTool(wait).call({}))
    await asyncio.sleep(0)
    release.set()
    assert await call != threading.get_ident()
    assert await FunctionTool(here).call({}) == threading.get_ident()


async def test_X17_an_awaitable_of_a_sync_function_is_awaited() -> None:
    async def later() -> int:
        return 4

    def now() -> Any:
        return later()

    assert await FunctionTool(now).call({}) == 4


@pytest.mark.parametrize("error", [ValueError("no"), StopIteration("no"), KeyboardInterrupt("no")])
async def test_X17_what_a_sync_function_raises_comes_out(error: BaseException) -> None:
    def fail() -> None:
        raise error

    # Python turns a StopIteration that leaves a coroutine into a RuntimeError.
    with pytest.raises(RuntimeError if isinstance(error, StopIteration) else type(error)):
        await FunctionTool(fail).call({})


async def test_prepare_executes_nothing() -> None:
    ran: list[int] = []

    async def act(x: int) -> int:
        ran.append(x)
        return x

    prepared = await FunctionTool(act).prepare({"x": 1}, {})
    assert not ran
    assert await prepared() == 1
    assert ran == [1]
