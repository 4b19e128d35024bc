"""Find SKILL.md files below a directory, and check each by its frontmatter."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from deep_core import SkillMeta

from .index import SkillIndex, Stamp, stamp_of
from .problem import Problem
from .reading import TooLong, read_head
from .record import Record, read_record
from .roots import Root

__all__ = ["LocatedSkill", "Scan", "find_skills"]

MOST_DEPTH = 4
"""Maximum folders between a searched directory and a skill: enough to sort skills by team and topic."""
MOST_FOLDERS = 10_000
"""Maximum folders to search in one directory, so that a search of a home directory ends."""
SKIPPED = frozenset({"node_modules", "__pycache__", "site-packages"})
MOST_LOOKED = 200
"""Maximum folders to look into for skills that are not searched, so that a report about them costs little."""
FILE_NAMES = ("SKILL.md", "skill.md")
"""The standard's file name; the reference validator accepts the second one too."""


@dataclass(frozen=True)
class LocatedSkill:
    """A skill and its folder, resolved."""

    meta: SkillMeta
    folder: str
    file: str


@dataclass(frozen=True)
class Scan:
    """The result of a search."""

    skills: tuple[LocatedSkill, ...] = ()
    problems: tuple[Problem, ...] = ()


def find_skills(roots: Sequence[Root], source: str, *, strict: bool, index: SkillIndex) -> Scan:
    """Search directories in order, each by path. A missing one is fine.

    The first skill of a name counts, a later one is a problem. A folder found both directly and through
    a link is one skill.

    Args:
        roots: the directories to search.
        source: the value for `SkillMeta.source`.
        strict: see `read_record`.
        index: avoids reading unchanged files.
    """
    names: dict[str, LocatedSkill] = {}
    folders: set[str] = set()
    problems: list[Problem] = []
    for root in roots:
        search = _Search(root, strict, index)
        for place in search.places():
            if place.folder in folders:
                continue
            folders.add(place.folder)
            record = search.record(place)
            if record is None:
                continue
            problems += [Problem(place.file, *remark) for remark in record.remarks]
            if not record.name:
                continue
            skill = LocatedSkill(_meta(record, source, place), place.folder, place.file)
            first = names.setdefault(record.name, skill)
            if first is not skill:
                problems.append(Problem(place.file, 0, f"the name {record.name!r} is that of {first.file}", True))
        search.finish()
        problems += search.problems
    return Scan(tuple(names.values()), tuple(problems))


def _meta(record: Record, source: str, place: _Place) -> SkillMeta:
    return SkillMeta(
        name=record.name,
        description=record.description,
        source=source,
        path=place.folder,
        license=record.license,
        compatibility=record.compatibility,
        metadata=record.metadata,
        allowed_tools=record.allowed_tools,
    )


@dataclass(frozen=True)
class _Place:
    file: str
    folder: str
    name: str
    """The folder's name as found; a link's name."""
    stamp: Stamp


@dataclass
class _Search:
    root: Root
    strict: bool
    index: SkillIndex
    problems: list[Problem] = field(default_factory=list[Problem])
    new_records: dict[str, tuple[Stamp, Record]] = field(default_factory=dict[str, tuple[Stamp, Record]])
    folder_count: int = 0
    unsearched: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def __post_init__(self) -> None:
        self.top = os.path.realpath(os.path.expanduser(self.root.path))
        self.within = os.path.realpath(self.root.within) if self.root.within is not None else self.top
        self.records = self.index.records(self.top, strict=self.strict)

    def places(self) -> Iterator[_Place]:
        """Every skill file, by folder name."""
        if not os.path.isdir(self.top):
            return
        yield from self._folder(self.top, os.path.basename(self.top), 0)

    def _folder(self, path: str, name: str, depth: int, *, linked: bool = False) -> Iterator[_Place]:
        self.folder_count += 1
        if self.folder_count > MOST_FOLDERS:
            if self.folder_count == MOST_FOLDERS + 1:
                text = f"more than {MOST_FOLDERS} folders; the others were not searched"
                self.problems.append(Problem(self.top, 0, text, True))
            return
        try:
            yield from self._place(path, name, FILE_NAMES[0], os.lstat(os.path.join(path, FILE_NAMES[0])))
            return
        except (FileNotFoundError, NotADirectoryError):
            pass  # not a skill: maybe a folder of skills
        except OSError as error:
            self._cannot(path, error)
            return
        try:
            with os.scandir(path) as iterator:
                entries = sorted(iterator, key=lambda entry: entry.name)
            lower = [entry.stat(follow_symlinks=False) for entry in entries if entry.name == FILE_NAMES[1]]
        except OSError as error:
            self._cannot(path, error)
            return
        if lower:
            yield from self._place(path, name, FILE_NAMES[1], lower[0])
            return
        if linked or (not self.root.recursive and depth >= 1):
            return  # do not search below a link: links may form a cycle
        if depth >= MOST_DEPTH:
            self._leave_out(f"deeper than {MOST_DEPTH} folders", _skills_below(path))
            return
        for entry in entries:
            yield from self._entry(entry, depth)

    def _entry(self, entry: os.DirEntry[str], depth: int) -> Iterator[_Place]:
        try:
            if entry.name in SKIPPED or not entry.is_dir():
                return
            if entry.name.startswith("."):
                # Not deeper: a hidden folder such as `.git` is large, and its content is not skills.
                self._leave_out("hidden", _skills_below(entry.path, depth=1, top=True))
                return
        except OSError as error:  # a link to itself
            self._cannot(entry.path, error)
            return
        path = entry.path
        if entry.is_symlink():
            path = os.path.realpath(path)
            if not _inside(path, self.within):
                if any(os.path.lexists(os.path.join(path, name)) for name in FILE_NAMES):
                    text = f"a link out of {self.within}; the skill is skipped"
                    self.problems.append(Problem(entry.path, 0, text, True))
                return
        yield from self._folder(path, entry.name, depth + 1, linked=entry.is_symlink())

    def _place(self, folder: str, name: str, file_name: str, status: os.stat_result) -> Sequence[_Place]:
        """The skill in a folder; a problem if its file is not regular, or belongs to another folder."""
        file = os.path.join(folder, file_name)
        if stat.S_ISLNK(status.st_mode):
            target = os.path.realpath(file)
            if not _inside(target, folder):
                self.problems.append(Problem(file, 0, "a link out of the skill's folder; skipped", True))
                return ()
            try:
                file, status = target, os.stat(target)
            except OSError as error:
                self._cannot(file, error)
                return ()
        if not stat.S_ISREG(status.st_mode):
            self.problems.append(Problem(file, 0, "not a regular file; skipped", True))
            return ()
        return (_Place(file, folder, name, stamp_of(status)),)

    def record(self, place: _Place) -> Record | None:
        """Return the file's record: from the index if unchanged, else from its frontmatter."""
        stamp, record = self.records.get(place.file, (None, None))
        if stamp != place.stamp or record is None:
            try:
                record = read_record(read_head(place.file, strict=self.strict), place.name, strict=self.strict)
                # In the index too, so that the folders of a skill are looked into only when it changes.
                if below := _skills_below(place.folder):
                    remark = (0, _left_out("below this skill", below, place.folder), False)
                    record = replace(record, remarks=(*record.remarks, remark))
            except TooLong as error:
                record = Record(remarks=((1, str(error), True),))
            except OSError as error:
                self._cannot(place.file, error)
                return None
        self.new_records[place.file] = place.stamp, record
        return record

    def finish(self) -> None:
        """Store the results for the next search."""
        for why, files in self.unsearched.items():
            self.problems.append(Problem(self.top, 0, _left_out(why, files, self.top), True))
        if self.new_records or self.records:
            self.index.keep(self.top, self.new_records, strict=self.strict)

    def _leave_out(self, why: str, files: list[str]) -> None:
        if files:
            self.unsearched.setdefault(why, []).extend(files)

    def _cannot(self, path: str, error: Exception) -> None:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        self.problems.append(Problem(path, 0, f"cannot be read: {reason}", True))


def _skills_below(folder: str, *, depth: int = 3, top: bool = False) -> list[str]:
    """Find files of skills in the folders below one that is not searched; with `top`, in that folder too."""
    found: list[str] = []
    for looked, (path, folders, files) in enumerate(os.walk(folder)):
        found += [os.path.join(path, name) for name in FILE_NAMES if name in files and (top or path != folder)]
        level = os.path.relpath(path, folder).count(os.sep) + (path != folder)
        folders[:] = [] if level >= depth or looked > MOST_LOOKED else sorted({*folders} - SKIPPED)
    return found


def _left_out(why: str, files: list[str], top: str) -> str:
    skills = "1 skill" if len(files) == 1 else f"{len(files)} skills"
    return (
        f"{skills} {why}, not searched: {os.path.relpath(files[0], top)}; move it, or name its folder in `directories`"
    )


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
