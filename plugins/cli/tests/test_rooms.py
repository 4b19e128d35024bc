"""The rooms of the command line, and which stands on which."""

from __future__ import annotations

from tests import import_graph
from tests.environments import REPOSITORY

PACKAGE = REPOSITORY / "plugins" / "cli" / "src" / "deep_cli"
STANDS_ON = {
    "terminal": set[str](),
    "plugins": {"terminal"},
    "config": {"terminal", "plugins"},
    "run": {"terminal", "plugins", "config"},
    "doctor": {"terminal", "plugins", "run"},
    "chat": {"terminal", "plugins", "run"},
}
"""Room -> the rooms that it may import, also inside functions and for types."""
SHARED = {
    "built_in", "collector", "differences", "errors", "failure", "flags", "options", "undo", "view",
}  # fmt: skip
"""Modules outside the rooms that every room may import; `terminal` may not."""


def test_a_room_imports_only_the_rooms_below_it() -> None:
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert rooms == set(STANDS_ON)
    modules = import_graph.read(PACKAGE)
    named = import_graph.edges(modules, types=True)
    for module, targets in import_graph.edges(modules).items():
        room = module.split(".")[1] if module.count(".") else ""
        if room in STANDS_ON:
            found = {target.split(".")[1] for target in targets | named[module] if target.count(".")} - {room}
            allowed = STANDS_ON[room] | (SHARED if room != "terminal" else set())
            assert found <= allowed, (module, sorted(found - allowed))
