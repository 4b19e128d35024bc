"""A table is one test, and says which of its rows failed."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from tests.tables import table


def test_every_row_runs_and_a_failed_one_is_named() -> None:
    seen: list[int] = []

    @table("number", [1, 2, 3])
    def check(number: int, seen: list[int]) -> None:
        seen.append(number)
        assert number != 2

    with pytest.raises(AssertionError) as failed:
        check(seen=seen)
    assert seen == [1, 2, 3]
    assert failed.value.__notes__ == ["row: 2"]


def test_several_failed_rows_are_a_group() -> None:
    @table("given, wanted", [(1, 1), pytest.param(1, 2, id="wrong"), (2, 3)])
    async def check(given: int, wanted: int) -> None:
        assert given == wanted

    with pytest.raises(ExceptionGroup, match="2 of 3 rows failed") as failed:
        anyio.run(check)
    assert [error.__notes__ for error in failed.value.exceptions] == [["row: wrong"], ["row: 2, 3"]]


def test_a_row_that_raises_nothing_where_it_should_fails() -> None:
    @table("text", ["1", "x"])
    def check(text: str) -> None:
        with pytest.raises(ValueError, match="invalid"):
            int(text)

    with pytest.raises(AssertionError, match="DID NOT RAISE"):
        check()


def test_a_row_cannot_skip_the_others() -> None:
    @table("number", [1])
    def check(number: int) -> None:
        pytest.skip("no")

    with pytest.raises(AssertionError, match="would skip the others"):
        check()


def test_what_a_table_does_not_do_is_refused() -> None:
    def check(number: int) -> None: ...

    rows: list[Any] = [[], [pytest.param(1, marks=pytest.mark.exhaustive)]]
    for wrong in rows:
        with pytest.raises(ValueError, match=r"rows tests nothing|no marks"):
            table("number", wrong)
    with pytest.raises(ValueError, match="1 values are wanted"):
        table("number", [pytest.param(1, 2)])
    with pytest.raises(ValueError, match="has no parameters"):
        table("other", [1])(check)


@table("one", [1, 2])
@table("other", [3, 4])
def test_tables_of_tables_take_fixtures_too(one: int, other: int, tmp_path: Any) -> None:
    assert one < other
    assert tmp_path.is_dir()
