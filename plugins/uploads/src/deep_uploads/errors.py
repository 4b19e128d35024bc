"""Errors of uploads."""

from __future__ import annotations

__all__ = ["UploadError", "UploadLimitError"]


class UploadError(RuntimeError):
    """Nothing was uploaded, neither to the workspace nor to the session. The message says why and what to do."""


class UploadLimitError(UploadError):
    """The upload exceeds an option's limit.

    Attributes:
        option: the option of `UploadsOptions`.
        allowed: its value: bytes, or a number of files.
    """

    def __init__(self, message: str, *, option: str, allowed: int) -> None:
        super().__init__(f"{message}; the option {option} of deep-uploads sets it")
        self.option = option
        self.allowed = allowed
