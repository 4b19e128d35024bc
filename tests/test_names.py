"""Names of folders that are made from any text."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from deep_core.names import folder_name

TEXTS = st.text(alphabet=st.characters(), max_size=200)


@given(TEXTS, TEXTS)
@example("ann", "Ann")
@example("CON", "con")
@example("a/b", "a-b")
@example("", "session")
def test_folder_names_are_portable_and_no_two_texts_share_one(one: str, other: str) -> None:
    name = folder_name(one)
    assert 0 < len(name) <= 80
    assert not set(name) - set("abcdefghijklmnopqrstuvwxyz0123456789-_.")
    assert name[0].isalnum()
    assert name.partition(".")[0] not in ("con", "prn", "aux", "nul", "com1", "lpt1")
    assert (name.casefold() == folder_name(other).casefold()) == (one == other)
