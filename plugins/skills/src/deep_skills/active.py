"""A skill in use, as stored in a session."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ActiveSkill"]


@dataclass
class ActiveSkill:
    """A skill that the model has loaded in this session.

    Attributes:
        name: the skill's name.
        source: its origin: `project`, `user`, `package`.
        path: its folder.
        digest: SHA-256 of its instructions when loaded.
        instructions: their beginning, repeated after a compaction.
        allowed_tools: the list in its frontmatter.
        call_id: the `load_skill` call whose result has the instructions.
        run_id: the run that loaded it.
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
