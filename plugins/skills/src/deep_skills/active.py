"""A skill in use, as a session keeps it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ActiveSkill"]


@dataclass
class ActiveSkill:
    """A skill that the session's model has loaded.

    Attributes:
        name: of the skill.
        source: where it came from: `project`, `user`, `package`.
        path: its folder.
        digest: SHA-256 of its instructions as they were loaded.
        instructions: their beginning, said again after a compaction.
        allowed_tools: what its frontmatter lists.
        call_id: of the `load_skill` call whose result has the instructions.
        run_id: of the run that loaded it.
        narrows: whether its `allowed_tools` still decide which calls ask: until the user's next message.
    """

    name: str
    source: str
    path: str
    digest: str
    instructions: str
    allowed_tools: tuple[str, ...]
    call_id: str
    run_id: str
    narrows: bool = True
