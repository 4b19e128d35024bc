"""What the model is told of arguments that do not fit, bounded. Imported with the first such call."""

from __future__ import annotations

from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

__all__ = ["truncate_errors"]

REPEATED = 500
"""Characters of what was given that an error repeats."""


def truncate_errors(error: ValidationError) -> ValidationError:
    """The same errors, with less of what was given.

    Pydantic repeats it whole, and with a missing or misspelt argument that is all of them: of a file that was to be
    written, its content.
    """
    details: list[InitErrorDetails] = []
    for each in error.errors(include_url=False, include_context=False):
        given = str(each["input"])
        shown = each["input"] if len(given) <= REPEATED else f"{given[:REPEATED]}..."
        kind = PydanticCustomError(each["type"], each["msg"])  # pyright: ignore[reportArgumentType]
        details.append(InitErrorDetails(type=kind, loc=each["loc"], input=shown))
    return ValidationError.from_exception_data(error.title, details)
