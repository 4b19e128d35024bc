"""What is wrong with a task, a suite or a folder of trials."""

from __future__ import annotations

__all__ = ["AgentNotFound", "SuiteError", "TaskError", "TrialsError"]


class TrialsError(Exception):
    """The base: the message is for people, and says what to type."""


class TaskError(TrialsError):
    """A task's folder is not a task."""


class SuiteError(TrialsError):
    """A suite is missing, has no tasks, or was changed since it was validated."""


class AgentNotFound(TrialsError):
    """`--agent` names nothing that can be measured."""
