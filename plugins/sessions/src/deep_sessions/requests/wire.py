"""What the wire says of a stream's end, beyond what an adapter of Pydantic AI keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .ends import INCOMPLETE, End, RequestFailed

if TYPE_CHECKING:
    from pydantic_ai.models import StreamedResponse

__all__ = ["check_whole", "watch_mark"]

MARK = "[DONE]"


def watch_mark(stream: StreamedResponse) -> Callable[[], bool]:
    """Return a function that says whether the stream has had the mark that ends it in Chat Completions.

    Some compatible servers send the mark and no finish reason. The SDK drops the mark, so its decoder is listened to;
    where a later SDK has no such decoder, only the finish reason counts.
    """
    source: Any = getattr(getattr(stream, "_response", None), "source", None)
    decoder: Any = getattr(source, "_decoder", None)
    decode: Any = getattr(decoder, "decode", None)
    if decode is None:
        return lambda: False
    seen: list[bool] = []

    def listen(line: str) -> Any:
        if line.startswith("data:") and line[5:].lstrip().startswith(MARK):  # a text may hold it too
            seen.append(True)
        return decode(line)

    decoder.decode = listen
    return lambda: bool(seen)


def check_whole(stream: StreamedResponse, has_mark: Callable[[], bool]) -> None:
    """Check that a stream that ended has all of the answer.

    Raises:
        RequestFailed: it ended with neither a finish reason nor the mark, or a terminal event is missing.
    """
    response = stream.get()
    if response.state in ("suspended", "interrupted") or stream.provider_url is None:  # a scripted model has no wire
        return
    said = bool(response.finish_reason or (response.provider_details or {}).get("finish_reason"))
    if response.finish_reason == "stop":
        # For Chat Completions, Pydantic AI makes `stop` of none.
        said = getattr(stream, "_has_finish_reason", True)
    if response.state == "incomplete" or not (said or has_mark()):
        raise RequestFailed(stream.model_name, End(kind="incomplete", code="cut", words=INCOMPLETE))
