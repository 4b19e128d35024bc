"""The files of one memory: a folder with one Markdown file for each topic. Blocking: call it in a thread."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from .errors import MemoryRefused
from .secrets import find_secret
from .topic import Topic, as_note, one_line, topic_key

__all__ = ["Store"]

LOCK_SECONDS = 10.0
MOST_FILES = 2_000
"""More files in a folder are not looked at."""
MOST_BYTES = 1_048_576
"""More of a file that a person wrote is not read."""
EXAMPLES = 3
"""Notes that a message shows."""


class Store:
    """The memory in a folder, which `remember` creates.

    `remember` appends, and `forget` replaces the file at once, both under a lock that all processes share. So no
    process loses what another wrote, and a reader sees whole notes.

    Attributes:
        folder: of the files.
        note_chars: see `MemoryOptions`.
        max_topics: see `MemoryOptions`.
        topic_chars: see `MemoryOptions`.
    """

    def __init__(self, folder: Path, *, note_chars: int, max_topics: int, topic_chars: int) -> None:
        self.folder = folder
        self.note_chars = note_chars
        self.max_topics = max_topics
        self.topic_chars = topic_chars

    def topics(self) -> list[Topic]:
        """Read all topics, by name. A file that cannot be read is left out."""
        found = [self._read(path) for path in self._files()]
        return sorted((topic for topic in found if topic is not None), key=lambda topic: topic.name)

    def find(self, name: str) -> Topic | None:
        """Read the topic of this name, in any spelling."""
        path = self._path(topic_key(name))
        return self._read(path) if path is not None else None

    def remember(self, topic: str, note: str) -> str:
        """Add a note to a topic; return the topic's name as stored.

        Raises:
            MemoryRefused: no name, no note, too long, too many, or a secret. Nothing was written.
            OSError: the folder is not writable.
        """
        key, line = topic_key(topic), one_line(note)
        if not key:
            raise MemoryRefused(f"a topic needs a name of letters or digits, such as 'build', not {topic[:60]!r}")
        if not line:
            raise MemoryRefused("the note is empty")
        if len(note) > self.note_chars:
            raise MemoryRefused(f"the note has {len(note)} characters, at most {self.note_chars} are kept: shorten it")
        if kind := find_secret(f"{topic}: {note}") or find_secret(note):
            raise MemoryRefused(
                f"this seems to have {kind}, and secrets are not kept. Say where it is stored, not its value"
            )
        with self._lock():
            path = self._path(key)
            if path is None:
                if len(self._files()) >= self.max_topics:
                    raise MemoryRefused(
                        f"there are {self.max_topics} topics already: add to one of them, or forget one"
                    )
                path = self.folder / f"{key}.md"
            old = self._read(path) if path.exists() else Topic(key, "")
            if old is None:
                raise MemoryRefused(
                    f"the file {one_line(path.name)} of this topic cannot be read: choose another topic"
                )
            if line in old.notes:
                return old.name
            if len(old.text) + len(note) > self.topic_chars:
                raise MemoryRefused(f"{old.name} is full ({len(old.text)} characters): forget notes, or open a topic")
            head = "" if old.text.strip() else f"# {one_line(topic)}\n\n"
            gap = "" if not old.text or old.text.endswith("\n") else "\n"
            # Appending: what an editor saved a moment ago stays.
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
                file.write(head + gap + as_note(note))
            return old.name

    def forget(self, topic: str, note: str = "") -> str:
        """Remove the one note of a topic that has this text, or the whole topic; return what was removed.

        Raises:
            MemoryRefused: there is no such topic, or not exactly one such note. Nothing was removed.
            OSError: the folder is not writable.
        """
        with self._lock():
            path = self._path(topic_key(topic))
            if path is None:
                raise MemoryRefused(f"there is no topic {topic[:60]!r}. recall without a query lists them")
            wanted = one_line(note).casefold()
            if not wanted:
                path.unlink()
                return f"the topic {one_line(path.stem)}"
            old = self._read(path)
            if old is None or old.is_cut:
                raise MemoryRefused(f"the file {one_line(path.name)} cannot be read whole: forget the whole topic")
            lines = [one_line(block) for block in old.blocks]
            matches = [n for n, line in enumerate(lines) if wanted in line.casefold() and not line.startswith("#")]
            exact = [n for n in matches if lines[n].casefold().lstrip("-*+ ") == wanted]
            matches = exact[:1] or matches
            if len(matches) != 1:
                shown = "; ".join(lines[n][:100] for n in matches[:EXAMPLES])
                many = f"{len(matches)} notes have this text ({shown}): give more of it" if matches else ""
                raise MemoryRefused(f"{old.name}: {many or 'no note has this text; recall shows them'}")
            text = "".join(block for n, block in enumerate(old.blocks) if n not in matches)
            if Topic(old.name, text).notes:
                self._replace(path, text)
            else:
                path.unlink()
            return f"from {old.name}: {lines[matches[0]][:200]}"

    def _files(self) -> list[Path]:
        try:
            with os.scandir(self.folder) as scan:
                names = [entry.name for _, entry in zip(range(MOST_FILES), scan, strict=False)]
        except OSError:
            return []
        return [self.folder / name for name in sorted(names) if name.endswith(".md") and not name.startswith(".")]

    def _path(self, key: str) -> Path | None:
        return next((path for path in self._files() if key and topic_key(path.stem) == key), None)

    def _read(self, path: Path) -> Topic | None:
        try:
            # O_NONBLOCK: a pipe in the folder would wait for a writer.
            descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
            with os.fdopen(descriptor, "rb") as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    return None
                data = file.read(MOST_BYTES)
        except OSError:
            return None
        # Damaged bytes come back as they are when `forget` writes the rest of the file.
        text = data.decode("utf-8-sig", errors="surrogateescape")
        return Topic(one_line(path.stem), text, status.st_mtime_ns, len(data) == MOST_BYTES)

    def _replace(self, path: Path, text: str) -> None:
        descriptor, temporary = tempfile.mkstemp(dir=self.folder, prefix=".writing-")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
                file.write(text)
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    @contextmanager
    def _lock(self) -> Generator[None]:
        from filelock import FileLock, Timeout

        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            with FileLock(self.folder / ".lock", timeout=LOCK_SECONDS):
                yield
        except Timeout as error:
            raise MemoryRefused("another process is writing to this memory; try again later") from error
