"""One spelling of a distribution's name."""

from __future__ import annotations

from entry_point_index import canonical
from hypothesis import given
from hypothesis import strategies as st
from packaging.utils import canonicalize_name


@given(st.text("aB1-_.", max_size=12))
def test_a_name_is_spelled_as_packaging_spells_it(name: str) -> None:
    assert canonical(name) == canonicalize_name(name)
