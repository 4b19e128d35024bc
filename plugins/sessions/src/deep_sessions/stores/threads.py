"""Await work that another thread does, so that a cancelled task leaves all of it done or undone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TypeVar

from ..errors import StoreError

__all__ = ["outcome"]

T = TypeVar("T")


async def outcome(future: Future[T], undo: Callable[[T], object] | None = None) -> T:
    """Return the outcome of work in another thread, in any event loop.

    Args:
        future: the work. If the task is cancelled before it begins, it is not done.
        undo: called in the other thread with the result, if the task is cancelled while the work is done.
    """
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        if undo is not None:
            future.add_done_callback(partial(_undo, undo))
        raise


def _undo(undo: Callable[[T], object], future: Future[T]) -> None:
    if not future.cancelled() and future.exception() is None:
        # A store that was closed meanwhile, or fails, leaves what is to be undone to its own end.
        with suppress(StoreError):
            undo(future.result())
