"""The live section: read at the start of a run, and again when a call may have changed a file or leads elsewhere."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic_ai.messages import ModelResponse

from .files import FAILURES, folders_above, read_folder
from .slot import FOLDERS, READING

if TYPE_CHECKING:
    from pydantic_ai import RunContext

    from .files import InstructionsFile
    from .options import FoldersOptions
    from .slot import Reading

__all__ = ["InstructionsSection"]

MOST_FOLDERS = 20
"""Most folders below the workspace whose files apply at once; the earliest go first."""
MOST_CHECKED = 200
"""Most folders below the workspace that one run searches."""


class InstructionsSection:
    """The live section `folders.instructions`.

    Attributes:
        options: of its agent.
    """

    def __init__(self, options: FoldersOptions) -> None:
        self.options = options

    async def __call__(self, ctx: RunContext[Any]) -> str | None:
        """The current instructions; None if there are none."""
        workspace = ctx.workspace
        # A container that was not needed yet is not started for this: what it holds is read once it runs.
        if workspace.ref is None:
            return None
        reading = ctx.deps.state[READING]
        stale = reading.run_id != ctx.run_id
        responses = [message for message in ctx.messages if isinstance(message, ModelResponse)]
        if stale:
            # Earlier runs searched the history. Only calls of its last response may run now, once approved.
            reading.run_id, reading.responses, reading.checked = ctx.run_id, max(0, len(responses) - 1), set()
        if not stale and len(responses) == reading.responses:
            return reading.text
        try:
            root = await workspace.working_dir()
        except FAILURES:
            reading.run_id = None  # the next request tries again; until then the last text stays
            return reading.text
        if await self._look(ctx, root, reading, responses) or stale:
            reading.text = await self._read(ctx, root, reading)
        return reading.text

    async def _look(
        self, ctx: RunContext[Any], root: str, reading: Reading, responses: Sequence[ModelResponse]
    ) -> bool:
        """Search the calls of the new responses; return whether there is something to read again."""
        start = reading.responses if reading.responses <= len(responses) else 0  # fewer: a compaction
        reading.responses = len(responses)
        calls = [call.args_as_dict() for response in responses[start:] for call in response.tool_calls]
        if not calls:
            return False
        from .touched import folders_of, may_have_changed

        changed = False
        for arguments in calls:
            changed |= may_have_changed(arguments, self.options.names)
        if changed:
            reading.checked.clear()
        if self.options.nested:
            for arguments in calls:
                for folder in folders_of(arguments, root):
                    changed |= await self._enter(ctx, root, folder, reading)
        return changed

    async def _enter(self, ctx: RunContext[Any], root: str, folder: str, reading: Reading) -> bool:
        """Search a folder that the agent works in; return whether it has instructions that do not apply yet."""
        known = ctx.deps.state[FOLDERS]
        if folder in known or folder in reading.checked or len(reading.checked) >= MOST_CHECKED:
            return False
        reading.checked.add(folder)
        if await read_folder(ctx.workspace, posixpath.join(root, folder), self.options.names) is None:
            return False
        # Another list: what a session's dump shares with the slot stays as it was.
        ctx.deps.state[FOLDERS] = [*known, folder][-MOST_FOLDERS:]
        return True

    async def _read(self, ctx: RunContext[Any], root: str, reading: Reading) -> str | None:
        nested = sorted(ctx.deps.state[FOLDERS], key=lambda folder: (folder.count("/"), folder))
        below = [posixpath.join(root, folder) for folder in nested] if self.options.nested else []
        if reading.above is None:
            reading.above = await folders_above(ctx.workspace, root)
        folders = [*reading.above, root, *below]
        read = [await read_folder(ctx.workspace, folder, self.options.names) for folder in folders]
        files = [file for file in read if file is not None]
        if self.options.above:
            files = [*await self._read_host(ctx), *files]
        if not files:
            return None
        from .rendering import render

        return render(files, root, self.options.max_chars)

    async def _read_host(self, ctx: RunContext[Any]) -> list[InstructionsFile]:
        from anyio.to_thread import run_sync

        from .host import HOST, files_above

        ref = ctx.workspace.ref
        if ref is None or ref.provider not in HOST:
            return []
        return await run_sync(files_above, ref.id, self.options.names)
