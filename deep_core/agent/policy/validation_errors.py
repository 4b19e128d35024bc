"""Truncate argument errors before the model sees them. Imported with the first such call."""

from __future__ import annotations

from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

REPEATED = 500
"""The most characters of the input that an error repeats."""


def truncate_errors(error: ValidationError) -> ValidationError:
    """Return the same errors with a truncated input.

    Pydantic repeats the whole input. If an argument is missing or misspelt, that is every argument: with a file to
    write, its whole content.
    """
    details: list[InitErrorDetails] = []
    for each in error.errors(include_url=False, include_context=False):
        given = str(each["input"])
        shown = each["input"] if len(given) <= REPEATED else f"{given[:REPEATED]}..."
        kind = PydanticCustomError(each["type"], each["msg"])  # pyright: ignore[reportArgumentType]
        details.append(InitErrorDetails(type=kind, loc=each["loc"], input=shown))
    return ValidationError.from_exception_data(error.title, details)
