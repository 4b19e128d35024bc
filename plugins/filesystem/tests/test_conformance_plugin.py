"""The plugin passes the suite for plugins."""

from __future__ import annotations

from typing import ClassVar

from pytest_deep import PluginConformance


class TestPlugin(PluginConformance):
    plugin = "filesystem"
    strict_import = True
    files: ClassVar = {"notes/a.txt": "one\ntwo\n", "b.bin": b"\x00\x01"}
    examples: ClassVar = {
        "ls": {"path": "notes"},
        "read_file": [{"path": "notes/a.txt"}, {"path": "b.bin"}],
        "write_file": {"path": "out.txt", "content": "{canary}"},
        "edit_file": {"path": "notes/a.txt", "old_string": "two", "new_string": "{canary}"},
        "glob": {"pattern": "**/*.txt"},
        "grep": {"pattern": "one|{canary}"},
        "execute": {"command": "printf '%s' '{canary}'"},
    }
