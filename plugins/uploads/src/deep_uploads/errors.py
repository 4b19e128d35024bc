"""Why an upload was not taken."""

from __future__ import annotations

__all__ = ["UploadError", "UploadLimitError"]


class UploadError(RuntimeError):
    """Nothing was uploaded: not into the workspace, not into the session. The message says why and what to do."""


class UploadLimitError(UploadError):
    """The upload is larger, or one more, than an option allows.

    Attributes:
        option: the option of `UploadsOptions` that says so.
        allowed: its value: bytes, or a number of files.
    """

    def __init__(self, message: str, *, option: str, allowed: int) -> None:
        super().__init__(f"{message}; the option {option} of deep-uploads sets it")
        self.option = option
        self.allowed = allowed
