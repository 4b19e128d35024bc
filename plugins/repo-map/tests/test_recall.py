"""What a map is worth, in small: the numbers of the page *Repository map* come from `recall.py`, of whole trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.environments import REPOSITORY

from .recall import Task, name_tasks, read_tree, recall, ways

TREE = REPOSITORY / "plugins" / "sessions" / "src"
TOKENS = 300


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, float]]:
    """Kind of task -> way -> recall."""
    sources = read_tree(TREE)
    defined, used = name_tasks(TREE, sources, 15)
    home = "deep_sessions"
    changes = [
        Task(("search", "conversations", "text"), frozenset({f"{home}/full_text.py"})),
        Task(("import", "foreign", "conversations"), frozenset({f"{home}/foreign.py"})),
        Task(("postgresql", "store"), frozenset({f"{home}/stores/postgresql.py"})),
        Task(("patience", "failed", "requests"), frozenset({f"{home}/requests/patience.py"})),
        Task(("model", "window", "overflow"), frozenset({f"{home}/requests/overflow.py"})),
    ]
    assert all((TREE / path).exists() for task in changes for path in task.answers)
    kinds = {"defines": defined, "uses": used, "changes": changes}
    return {
        kind: {name: recall(tasks, way, TOKENS) for name, way in ways(TREE, sources).items()}
        for kind, tasks in kinds.items()
    }


def test_a_map_with_a_focus_names_who_defines_and_uses_a_name(found: dict[str, dict[str, float]]) -> None:
    assert found["defines"]["map with focus"] == 1
    assert found["uses"]["map with focus"] > 0.95
    assert found["defines"]["glob"] < 0.9


def test_for_the_words_of_a_task_it_names_more_than_a_listing_and_a_search(found: dict[str, dict[str, float]]) -> None:
    shares = found["changes"]
    assert shares["map with focus"] >= 0.8
    assert shares["map with focus"] > max(shares["glob"], shares["grep"])


def test_a_file_counts_only_by_its_whole_path() -> None:
    from .recall import is_named

    assert is_named("a/b.py", "x is used in a/b.py, c.py")
    assert not is_named("b.py", "a/b.py")
    assert not is_named("a/b.py", "a/b.pyi a/b.py/c")
    assert Path(TREE).is_dir()
