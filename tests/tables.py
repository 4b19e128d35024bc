"""Tables of many small rows, each table one test."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

__all__ = ["table"]


def table(names: str | tuple[str, ...], rows: Iterable[Any], *, ids: Callable[[Any], str] = repr) -> Any:
    """Run a test for every row, like `pytest.mark.parametrize`, but as one test: rows share its fixtures.

    To set up, report and tear down a test takes longer than most rows do. A row that fails stops no other one: the
    error of a single one is the test's, with a note that names the row; those of several are a group.

    Args:
        names: the test's parameters that a row fills, as for `parametrize`.
        rows: their values, a tuple for several; or `pytest.param(…)` with an `id`. A row has no marks.
        ids: makes the name of a row that has none.

    Raises:
        ValueError: there are no rows, or a row has a mark or another number of values.
    """
    keys = tuple(name.strip() for name in names.split(",")) if isinstance(names, str) else names
    every = [*_read(keys, rows, ids)]
    if not every:
        raise ValueError("a table without rows tests nothing")

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(test):

            @functools.wraps(test)
            async def run_async(**fixtures: Any) -> None:
                failed: list[Exception] = []
                for name, values in every:
                    with _Row(name, failed):
                        await test(**fixtures, **values)
                _tell(failed, len(every))

            run = run_async
        else:

            @functools.wraps(test)
            def run_sync(**fixtures: Any) -> None:
                failed: list[Exception] = []
                for name, values in every:
                    with _Row(name, failed):
                        test(**fixtures, **values)
                _tell(failed, len(every))

            run = run_sync

        signature = inspect.signature(test)
        left = [parameter for name, parameter in signature.parameters.items() if name not in keys]
        if len(left) + len(keys) != len(signature.parameters):
            raise ValueError(f"{test.__name__} has no parameters {keys}")
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return run

    return decorate


class _Row:
    def __init__(self, name: str, failed: list[Exception]) -> None:
        self._name, self._failed = name, failed

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, pytest.skip.Exception):
            raise AssertionError(f"row {self._name} would skip the others") from error
        if isinstance(error, pytest.fail.Exception):
            error = AssertionError(str(error))  # of `pytest.raises`, and no Exception
        if not isinstance(error, Exception):
            return False
        error.add_note(f"row: {self._name}")
        self._failed.append(error)
        return True


def _tell(failed: list[Exception], rows: int) -> None:
    if len(failed) == 1:
        raise failed[0]
    if failed:
        raise ExceptionGroup(f"{len(failed)} of {rows} rows failed", failed)


def _read(
    keys: tuple[str, ...], rows: Iterable[Any], ids: Callable[[Any], str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    for row in rows:
        given = row if isinstance(row, type(pytest.param())) else None
        values = given.values if given else row if len(keys) > 1 else (row,)
        if given and given.marks:
            raise ValueError(f"a row of a table has no marks: {given}")
        if len(values) != len(keys):
            raise ValueError(f"{len(keys)} values are wanted: {values}")
        name = str(given.id) if given and given.id is not None else ", ".join(map(ids, values))
        yield name, dict(zip(keys, values, strict=True))
