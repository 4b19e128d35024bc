"""Whether an exception of an import is a person's Ctrl-C, or the module's own."""

from __future__ import annotations

from types import FrameType, ModuleType

__all__ = ["import_plugin", "is_interrupt"]


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


def import_plugin(name: str) -> ModuleType:
    """Import a module. What it raises that would end a program, such as KeyboardInterrupt, is an ImportError.

    Raises:
        KeyboardInterrupt: a person's Ctrl-C, and not the module's own.
        BaseException: whatever else the module raises.
    """
    import importlib

    try:
        return importlib.import_module(name)
    except BaseException as error:
        from asyncio import CancelledError

        ends = isinstance(error, KeyboardInterrupt | GeneratorExit | CancelledError | BaseExceptionGroup)
        if not ends or isinstance(error, Exception) or is_interrupt(error):
            raise
        raise ImportError(f"its import raised {type(error).__name__}", name=name) from error
