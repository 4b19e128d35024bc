"""The errors: what each says to install or to write."""

from __future__ import annotations

import pytest

from deep_core import MissingExtra


@pytest.mark.parametrize(
    ("extra", "distribution", "install"),
    [
        ("skills[pdf]", None, "deep-skills[pdf]"),
        ("skills[pdf]", "deep-skills", "deep-skills[pdf]"),
        ("deep-skills[pdf]", "deep-skills", "deep-skills[pdf]"),
        ("acme-weather[radar]", None, "acme-weather[radar]"),
        ("acme-weather[radar]", "acme-weather", "acme-weather[radar]"),
        ("weather[radar]", "Weather", "weather[radar]"),
        ("radar", "acme-weather", "acme-weather[radar]"),
        ("some-library", "acme-weather", "some-library"),
    ],
)
def test_a_missing_extra_names_what_brings_it(extra: str, distribution: str | None, install: str) -> None:
    assert MissingExtra(extra).advice(distribution) == f"needs an optional dependency: pip install '{install}'"
