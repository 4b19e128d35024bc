"""The coroutine of `deps.upload_file(…)`, which says so if it is not awaited: in pydantic-deep the call was enough."""

from __future__ import annotations

import warnings
from collections.abc import Coroutine, Generator
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from .record import UploadedFile

__all__ = ["Upload"]


class Upload(Coroutine[Any, Any, "UploadedFile"]):
    """An upload that begins when it is awaited.

    Using it as the path that it is not raises a TypeError. Dropping it warns: Python lets nothing raise there, unless
    warnings are errors (`python -W error`, pytest's `filterwarnings = error`).
    """

    def __init__(self, coroutine: Coroutine[Any, Any, UploadedFile], name: object) -> None:
        self._coroutine = coroutine
        self._name = name
        self._begun = False

    def __await__(self) -> Generator[Any, Any, UploadedFile]:
        self._begun = True
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        """As a coroutine's: `asyncio.run` and tasks take this object, too."""
        self._begun = True
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        """As a coroutine's."""
        self._begun = True
        return self._coroutine.throw(*error)

    def close(self) -> None:
        """As a coroutine's."""
        self._begun = True
        self._coroutine.close()

    def _advice(self) -> str:
        return f"deps.upload_file({self._name!r:.80}, …) was not awaited: nothing is uploaded. Write await before it"

    def _refuse(self, *_: object) -> NoReturn:
        raise TypeError(f"{self._advice()}; its result has the .path")

    __str__ = __format__ = __fspath__ = __bytes__ = __iter__ = __truediv__ = __rtruediv__ = __add__ = __radd__ = _refuse

    def __getattr__(self, name: str) -> Any:
        if name in ("path", "name", "size", "line_count", "mime_type", "encoding", "sha256", "startswith", "split"):
            self._refuse()
        raise AttributeError(name)

    def __del__(self) -> None:
        if not self._begun:
            self._coroutine.close()  # it would warn, too, without a word of what to do
            warnings.warn(self._advice(), RuntimeWarning, stacklevel=2, source=self)
