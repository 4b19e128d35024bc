"""Whether an exception of an import is a person's Ctrl-C, or the module's own."""

from __future__ import annotations

from types import FrameType

__all__ = ["is_interrupt", "raise_interrupt"]


def is_interrupt(error: BaseException) -> bool:
    """Whether an exception that an import raised must end the program.

    A module may raise anything at its import: SystemExit, GeneratorExit, CancelledError, even KeyboardInterrupt. Ctrl-C
    raises the last of them anywhere in its code, or in a handler of signals, which is called with a frame.
    """
    trace = error.__traceback__
    if not isinstance(error, KeyboardInterrupt) or trace is None:
        return isinstance(error, KeyboardInterrupt)
    from dis import opmap

    while trace.tb_next is not None:
        trace = trace.tb_next
    frame = trace.tb_frame
    says = frame.f_code.co_code[trace.tb_lasti] == opmap["RAISE_VARARGS"]
    return not says or any(isinstance(value, FrameType) for value in frame.f_locals.values())


def raise_interrupt(error: BaseException) -> None:
    """Raise an exception that an import raised if it is an interrupt."""
    if is_interrupt(error):
        raise error
