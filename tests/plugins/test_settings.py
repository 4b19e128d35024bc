"""The keys of `[plugins.<name>]`: a wrong one is one clear error."""

from __future__ import annotations

from typing import Any

import pytest

from tests.environments import Environment, plugin


@pytest.fixture
def installed(environment: Environment) -> Environment:
    environment.install(plugin("sun"))
    return environment


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        ({"plugins": {"sun": {"prefixx": "s"}}}, "code: plugins.sun.prefixx: unknown key. Did you mean 'prefix'?"),
        ({"plugins": {"sun": {"enabled": "no"}}}, "code: plugins.sun.enabled: must be true or false, not 'no'"),
        ({"plugins": {"allow": "sun"}}, "code: plugins.allow must be a list of names, not 'sun'"),
        ({"plugins": {"sun": {"order": {"prompt_section": 3}}}}, "Did you mean 'prompt_sections'?"),
        ({"plugins": {"sun": {"order": {"prompt_sections": "first"}}}}, "plugins.sun.order.prompt_sections"),
    ],
)
def test_a_wrong_setting_of_a_plugin_is_one_clear_error(
    installed: Environment, config: dict[str, Any], wanted: str
) -> None:
    assert wanted in installed.loaded(config=config).message
