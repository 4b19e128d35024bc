"""Rewrite the kernel's advice for the installer of this environment."""

from __future__ import annotations

__all__ = ["rewrite_advice"]


def rewrite_advice(text: str) -> str:
    """Replace `pip` commands in a text with the commands of this environment's installer."""
    if "pip " not in text:
        return text
    from .installing.tools import rewrite_pip_here  # needed only for errors

    return rewrite_pip_here(text)
