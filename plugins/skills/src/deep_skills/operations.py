"""The work of the three tools."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai import RunContext
from pydantic_ai.exceptions import ToolFailed, UserError

from deep_core.plugin_api import suggest

from .active import ActiveSkill
from .catalog import list_text
from .library import Library, SkillChoice, View
from .options import SkillsOptions
from .problem import one_line
from .repetition import RESTATED_CHARS, heading, is_present
from .resources import EscapesSkill
from .slot import SKILLS

if TYPE_CHECKING:
    from deep_core import SessionState

__all__ = ["Operations"]

NAMED = 20
"""Maximum names of resources, or of similar skills, in one answer."""
RESOURCE_LINES = 100


class Operations:
    """The tools of one agent. Holds no session.

    Args:
        library: combines all loaders.
        options: of the agent.
    """

    def __init__(self, library: Library, options: SkillsOptions) -> None:
        self.library = library
        self.options = options

    async def list_skills(self, ctx: RunContext[Any], arguments: Mapping[str, Any]) -> str:
        """List or find skills."""
        query = " ".join([_text(arguments, "query", ""), *_words(arguments.get("tags"))])
        view = await self.library.view(ctx)
        return list_text(view, query, self.options.list_chars, _number(arguments, "offset", "skills"))

    async def load_skill(self, ctx: RunContext[Any], arguments: Mapping[str, Any]) -> str:
        """Load a skill's instructions and put it in use; or say that it already is."""
        state = _state(ctx)
        choice = _find(await self.library.view(ctx), _text(arguments, "skill_name"))
        meta, offset = choice.meta, _number(arguments, "offset")
        try:
            body = await choice.loader.read(ctx, meta.name)
        except (KeyError, OSError, ValueError, RuntimeError) as error:
            raise ToolFailed(f"Skill {one_line(meta.name)!r} cannot be read: {_reason(error)}") from error
        if offset:
            return _page(body, offset, self.options.page_chars)
        # No await from here to the new state: of two parallel calls only one gets the instructions.
        digest = hashlib.sha256(body.encode(errors="surrogatepass")).hexdigest()
        before = state[SKILLS].get(meta.name)
        same = before is not None and (before.digest, before.path) == (digest, meta.path)
        if before is not None and same and is_present(before, ctx.messages):
            before.run_id, before.narrows = ctx.run_id or "", True
            return f"Skill {meta.name!r} is already in use: its instructions are above."
        skill = ActiveSkill(
            name=meta.name,
            source=meta.source,
            path=meta.path,
            digest=digest,
            instructions=body[:RESTATED_CHARS],
            allowed_tools=meta.allowed_tools,
            call_id=ctx.tool_call_id or "",
            run_id=ctx.run_id or "",
        )
        # A new mapping, because another thread may be reading the old one.
        state[SKILLS] = {**state[SKILLS], meta.name: skill}
        return await self._format_skill(ctx, choice, body)

    async def _format_skill(self, ctx: RunContext[Any], choice: SkillChoice, body: str) -> str:
        meta = choice.meta
        about = {
            "Version": meta.metadata.get("version"),
            "Author": meta.metadata.get("author"),
            "Tags": meta.metadata.get("tags"),
            "Directory": meta.path,
            "Needs": meta.compatibility,
            "Allowed tools": " ".join(meta.allowed_tools),
        }
        lines = [heading(meta.name), *(f"{key}: {one_line(value)}" for key, value in about.items() if value)]
        lines += ["", "## Instructions", "", _page(body, 0, self.options.page_chars) or "(none)"]
        try:
            resources = await self.library.resources(choice, ctx)
        except (KeyError, OSError, ValueError, RuntimeError) as error:
            resources = [f"(cannot be listed: {_reason(error)})"]
        if resources:
            lines += ["", "## Resources (read_skill_resource; scripts: run by path)", ""]
            lines += [f"- {path}" for path in resources[:RESOURCE_LINES]]
            if len(resources) > RESOURCE_LINES:
                lines.append(f"- and {len(resources) - RESOURCE_LINES} more")
        return "\n".join(lines)

    async def read_skill_resource(self, ctx: RunContext[Any], arguments: Mapping[str, Any]) -> str:
        """Read a page of a skill's file."""
        choice = _find(await self.library.view(ctx), _text(arguments, "skill_name"))
        name, path = choice.meta.name, _text(arguments, "resource_name")
        try:
            data = await choice.loader.resource(ctx, name, path)
        except EscapesSkill as error:
            raise ToolFailed(f"{error}.") from error
        except (FileNotFoundError, KeyError, IsADirectoryError, NotADirectoryError) as error:
            raise ToolFailed(await self._missing(ctx, choice, path, error)) from error
        except (OSError, ValueError, RuntimeError) as error:
            raise ToolFailed(f"{one_line(path, 200)} of {name!r} cannot be read: {_reason(error)}") from error
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = None
        if text is None or "\0" in text:
            return f"{one_line(path, 200)} is not text ({len(data):,} bytes). Folder: {one_line(choice.meta.path)}."
        return _page(text, _number(arguments, "offset"), self.options.page_chars) or "(an empty file)"

    async def _missing(self, ctx: RunContext[Any], choice: SkillChoice, path: str, error: Exception) -> str:
        what = "is a folder" if isinstance(error, IsADirectoryError) else "does not exist"
        try:
            names = list(await self.library.resources(choice, ctx))
        except (KeyError, OSError, ValueError, RuntimeError):
            names = []
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        hint = suggest(path, names) or (f" There are: {', '.join(names[:NAMED])}{more}." if names else "")
        return f"Skill {choice.meta.name!r}: {one_line(path, 200)} {what}.{hint}"


def _find(view: View, name: str) -> SkillChoice:
    choice = view.skills.get(name) or view.skills.get(one_line(name))
    if choice is not None:
        return choice
    lower = {each.casefold(): each for each in view.skills}
    if name.strip().casefold() in lower:
        return view.skills[lower[name.strip().casefold()]]
    names = list(view.skills)
    more = f" and {len(names) - NAMED} more (list_skills)" if len(names) > NAMED else ""
    alternatives = f" There are: {', '.join(names[:NAMED])}{more}." if names else " There are no skills."
    hint = suggest(name, names) or alternatives
    raise ToolFailed(f"No skill {one_line(name, 80)!r}.{hint}")


def _page(text: str, offset: int, most: int) -> str:
    page = text[offset : offset + most]
    if offset and not page:
        return f"(offset {offset} is beyond the end: {len(text)} characters)"
    left = len(text) - offset - len(page)
    return f"{page}\n… ({left} more characters: offset={offset + len(page)})" if left > 0 else page


def _text(arguments: Mapping[str, Any], key: str, default: str | None = None) -> str:
    value = arguments.get(key, default)
    if value is None and default is not None:
        return default
    if not isinstance(value, str) or (default is None and not value.strip()):
        raise ToolFailed(f"{key} is missing or not text.")
    return value


def _words(value: object) -> list[str]:
    """Words of an argument that is not in the schema: models call `list_skills(tags=[…])` as they know it."""
    items = cast("list[object]", value) if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, str)]


def _number(arguments: Mapping[str, Any], key: str, what: str = "characters") -> int:
    value = arguments.get(key) or 0
    try:
        number = int(value)
    except (TypeError, ValueError):
        raise ToolFailed(f"{key} counts {what}, such as 20.") from None
    if number < 0:
        raise ToolFailed(f"{key} counts {what} from the beginning: it cannot be negative.")
    return number


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return one_line(str(error), 300) or type(error).__name__


def _state(ctx: RunContext[Any]) -> SessionState:
    state = getattr(ctx.deps, "state", None)
    if state is None:
        raise UserError(
            "The skill tools use `deps.state`, and this run's deps have none. "
            "Pass `deps=deep_core.create_default_deps()`, with your object as `app=...`."
        )
    return cast("SessionState", state)
