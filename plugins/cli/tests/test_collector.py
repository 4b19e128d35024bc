"""The garbage collector is off while `deep` starts, and on during anything that may take long."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from deep_cli.collector import resume

from tests.environments import Distribution

WATCHING = """
import gc, sys
from deep_core import hookimpl

print("loaded with", gc.isenabled(), file=sys.stderr)

@hookimpl
def deep_run_event(event):
    print("ran with", gc.isenabled(), file=sys.stderr)
"""
COMMAND = """
import click, gc

@click.command()
def command():
    print(gc.isenabled())
"""


@pytest.mark.slow
def test_it_is_off_until_the_agent_is_assembled_and_on_while_it_runs(make_deep: Any) -> None:
    deep = make_deep("backends", "demo")
    (deep.work / "watching.py").write_text(WATCHING, encoding="utf-8")
    said = deep("run", "hi", "-m", "demo:echo", "-p", "watching.py").ok().err
    assert "loaded with False" in said
    assert "ran with True" in said
    assert "ran with False" not in said


def test_a_plugins_command_runs_with_it(make_deep: Any) -> None:
    sky = Distribution("acme-sky", files={"acme_sky.py": COMMAND}, commands={"sky": "acme_sky:command"})
    assert make_deep(others=(sky,))("sky").ok().out == "True\n"


def test_an_application_that_turned_it_off_keeps_it_off() -> None:
    gc.disable()
    try:
        resume()
        assert not gc.isenabled()
    finally:
        gc.enable()
