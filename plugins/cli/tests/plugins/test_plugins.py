"""`deep plugins list`, `deep --help` and plugins' commands: told from metadata, imported when typed."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest
from deep_cli.plugins.installing.target import Target
from deep_cli.plugins.installing.tools import rewrite_pip

from plugins.cli.tests.conftest import started
from tests.drawn import sample
from tests.environments import Distribution

HOOK = """
from deep_core import PromptSection, hookimpl

@hookimpl
def deep_prompt_sections(context):
    return [PromptSection.static("sun", "The sun shines.")]
"""
COMMAND = """
import click

@click.command()
@click.argument("city")
def command(city):
    "Tomorrow's weather."
    click.echo(f"Sunny in {city}")
"""
MARK = "import pathlib; pathlib.Path({path!r}).write_text('imported')\n"
SUN = Distribution("acme-sun", {"sun": "acme_sun"}, {"acme_sun.py": HOOK})
BROKEN = Distribution("acme-broken", {"broken": "acme_broken"}, {"acme_broken.py": "def ("}, version="3.1")
WEATHER = Distribution(
    "acme-weather", {}, {"acme_weather.py": COMMAND}, commands={"weather": "acme_weather:command"}, version="2.0"
)


def failing(name: str, code: str, value: str = "") -> Distribution:
    module = f"acme_{name}"
    return Distribution(f"acme-{name}", {}, {f"{module}.py": code}, commands={name: value or f"{module}:command"})


# -- deep plugins list -------------------------------------------------------------------------------------------------


def test_the_list_is_json_in_the_documented_form_and_a_broken_plugin_is_in_it(make_deep: Any) -> None:
    deep = make_deep(others=(SUN, BROKEN))
    listed = json.loads(deep("plugins", "list", "--json").ok().out)
    assert set(listed) == {"schema", "plugins"}
    assert listed["schema"] == 1
    keys = {"name", "distribution", "version", "status", "reason", "path", "editable", "hooks"}
    assert all(set(plugin) == keys for plugin in listed["plugins"])
    broken, cli, _, sun = listed["plugins"]
    assert (broken["name"], broken["distribution"], broken["version"]) == ("broken", "acme-broken", "3.1")
    assert Path(broken["path"]).is_dir()
    # Nothing was loaded yet: it would load, as far as anybody knows.
    assert (broken["status"], broken["hooks"], cli["status"], sun["status"]) == ("active", None, "active", "active")


@pytest.mark.slow
def test_the_list_shows_what_became_of_a_plugin_when_it_was_last_loaded(make_deep: Any) -> None:
    deep = make_deep(others=(SUN, BROKEN))
    deep("explain", "--json").ok()
    plugins = {p["name"]: p for p in json.loads(deep("plugins", "list", "--json").ok().out)["plugins"]}
    assert plugins["broken"]["status"] == "failed"
    assert "SyntaxError" in plugins["broken"]["reason"]
    assert plugins["sun"]["hooks"] == ["deep_prompt_sections"]


def test_the_table_has_name_version_distribution_status_and_reason(make_deep: Any) -> None:
    deep = make_deep(others=(SUN,))
    lines = deep("plugins", "list", env={"DEEP_PLUGINS_DISABLE": "sun"}).ok().out.splitlines()
    assert lines[0].split() == ["NAME", "VERSION", "DISTRIBUTION", "STATUS", "REASON"]
    assert lines[3].split()[:4] == ["sun", "1.0", "acme-sun", "disabled"]
    assert "environment" in lines[3]


def test_the_table_obeys_no_color_on_a_terminal(make_deep: Any) -> None:
    deep = make_deep(others=(SUN,))
    assert "\x1b[32m" in deep.typed("plugins", "list", answers=[], env={}).ok().out
    assert "\x1b" not in deep.typed("plugins", "list", answers=[], env={"NO_COLOR": "1"}).ok().out


@pytest.mark.exhaustive
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_the_list_is_the_same_the_quick_way_and_with_click(make_deep: Any, form: tuple[str, ...]) -> None:
    old = Distribution("acme-old", {"old": "acme_old"}, {"acme_old.py": HOOK}, requires=("deep-agent-core<0.1",))
    deep = make_deep(others=(SUN, old, BROKEN))
    deep("explain").ok()  # the broken one's outcome, a reason of several lines, is cached
    quick, whole = deep("plugins", "list", *form).ok(), deep("plugins", "list", *form, "--verbose").ok()
    assert (quick.out, quick.err) == (whole.out, whole.err)
    assert "SyntaxError" in quick.out
    shown = [deep.typed("plugins", "list", *form, *more, answers=[], env={}).ok().out for more in ((), ("--verbose",))]
    assert shown[0] == shown[1] != ""
    assert ("\x1b[31m" in shown[0]) is not bool(form)


def test_listing_imports_neither_click_nor_logging(make_deep: Any) -> None:
    deep = make_deep(others=(SUN,))
    code = (
        "import sys; sys.argv[1:] = ['plugins', 'list']; from deep_cli.__main__ import main; main()\n"
        "print(*sorted({'click', 'logging', 'inspect', 'pydantic'} & {*sys.modules}), file=sys.stderr)"
    )
    deep("plugins", "list").ok()  # the first one reads the plugins' metadata, with libraries
    done = deep.environment.run(str(deep.environment.python), "-c", code)
    assert (done.code, done.err.strip()) == (0, "")
    assert "acme-sun" in done.out


@pytest.mark.slow
@pytest.mark.parametrize("streams", ["1", "2", "0"])
def test_the_list_goes_where_it_can_when_a_stream_is_closed(make_deep: Any, streams: str) -> None:
    deep = make_deep(others=(SUN,))
    command = shlex.join(deep.command("plugins", "list"))
    done = deep.environment.run("sh", "-c", f"{command} {streams}{'<' if streams == '0' else '>'}&-")
    assert (done.code, done.err) == (0, "")
    assert ("acme-sun" in done.out) is (streams != "1")


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("plugins", "list"), ("--version",)])
def test_what_is_answered_at_once_and_cannot_be_written_is_no_traceback(make_deep: Any, arguments: Any) -> None:
    deep = make_deep(others=(SUN,))
    started = deep.start(*arguments)
    started.stdout.close()  # before anything is written: starting Python takes longer
    assert (started.wait(), started.stderr.read()) == (1, "")
    started.stderr.close()
    if os.path.exists("/dev/full"):
        done = deep.environment.run("sh", "-c", f"{shlex.join(deep.command(*arguments))} > /dev/full")
        assert (done.code, done.err) == (1, "deep: cannot write: No space left on device\n")


def test_listing_imports_no_plugin(make_deep: Any, tmp_path: Any) -> None:
    mark = tmp_path / "mark"
    deep = make_deep(others=(Distribution("acme-m", {"m": "acme_m"}, {"acme_m.py": MARK.format(path=str(mark))}),))
    deep("plugins", "list").ok()
    deep("--help").ok()
    assert not mark.exists()


def test_a_wrong_configuration_is_one_line_and_exit_code_2(make_deep: Any) -> None:
    deep = make_deep()
    deep.config("[plugin]\n")
    done = deep("plugins", "list")
    assert (done.code, done.out) == (2, "")
    assert len(done.err.splitlines()) == 1
    assert "Did you mean 'plugins'?" in done.err


def test_what_concerns_a_plugin_is_one_warning_line(make_deep: Any) -> None:
    deep = make_deep()
    deep.config("[plugins.gone]\nprefix = 'x'\n")
    err = deep("plugins", "list").ok().err
    assert err.count("[plugins.gone] is for a plugin that is not installed") == 1
    assert err.startswith("deep: warning: ")


# -- commands of plugins -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_distribution_with_commands_only_can_be_allowed_and_disabled(make_deep: Any) -> None:
    deep = make_deep("backends", "demo", others=(WEATHER,))
    own = "deep-backends,deep-cli,deep-sessions,deep-demo"
    assert deep("weather", "Oslo", env={"DEEP_PLUGINS_ALLOW": own}).code == 1
    allowed = {"DEEP_PLUGINS_ALLOW": f"{own},acme-weather"}
    deep("weather", "Oslo", env=allowed).ok()
    assert deep("run", "hi", "-m", "demo:echo", env=allowed).ok().out == "hi\n"
    disabled = {"DEEP_PLUGINS_DISABLE": "acme-weather"}
    assert deep("weather", "Oslo", env=disabled).code == 1
    assert "warning" not in deep("run", "hi", "-m", "demo:echo", env=disabled).ok().err


@pytest.mark.slow
def test_a_plugins_command_is_listed_and_runs(make_deep: Any) -> None:
    deep = make_deep(others=(WEATHER,))
    assert "weather   From acme-weather 2.0." in deep("--help").ok().out
    assert deep("weather", "Oslo").ok().out == "Sunny in Oslo\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "value", "said"),
    [
        ("1 / 0", "", "ZeroDivisionError"),
        ("raise SystemExit(0)", "", "SystemExit"),
        ("import not_there_at_all", "", "pip install not_there_at_all"),
        ("command = 3", "", "is a int, not a click command"),
        ("x = 1", "", "AttributeError"),
        ("x = 1", "acme_absent:command", "reinstall acme-bad"),
    ],
)
def test_a_broken_command_is_one_line_and_the_others_work(make_deep: Any, code: str, value: str, said: str) -> None:
    deep = make_deep(others=(WEATHER, failing("bad", code, value)))
    help_text = deep("--help").ok().out
    assert "weather" in help_text
    assert "bad" in help_text
    assert deep("weather", "Oslo").ok().out == "Sunny in Oslo\n"
    done = deep("bad")
    assert done.code == 1
    assert len(done.err.splitlines()) == 1
    assert done.err.startswith("deep: command bad of plugin acme-bad 1.0: ")
    assert said in done.err


def test_typing_one_command_imports_no_other(make_deep: Any, tmp_path: Any) -> None:
    mark = tmp_path / "mark"
    deep = make_deep(others=(WEATHER, failing("other", MARK.format(path=str(mark)) + COMMAND)))
    deep("weather", "Oslo").ok()
    assert not mark.exists()
    deep("other", "Oslo").ok()
    assert mark.exists()


def test_a_plugins_command_cannot_take_the_name_of_a_built_in_one(make_deep: Any) -> None:
    deep = make_deep(others=(failing("config", COMMAND),))
    assert "schema" in deep("config", "--help").ok().out
    assert "From acme-config" not in deep("--help").ok().out


def test_two_distributions_with_one_command_are_an_error_that_names_both(make_deep: Any) -> None:
    other = Distribution("zeta-weather", {}, {"zeta.py": COMMAND}, commands={"weather": "zeta:command"})
    done = make_deep(others=(WEATHER, other))("weather", "Oslo")
    assert done.code == 1
    assert "acme-weather and zeta-weather" in done.err
    assert "pip uninstall zeta-weather" in done.err


GROUP = """
import click

@click.group()
def group():
    "{help}"

@group.command({name!r})
def command():
    click.echo("{name} ran")

@group.command("both")
def both():
    pass
"""


def group_of(name: str, *, code: str = "") -> Distribution:
    code = code or GROUP.format(help=f"The group of {name}.", name=name)
    return Distribution(f"acme-{name}", {}, {f"acme_{name}.py": code}, commands={"sky": f"acme_{name}:group"})


@pytest.mark.slow
def test_groups_of_one_name_are_joined(make_deep: Any) -> None:
    deep = make_deep(others=(group_of("moon"), group_of("star")))
    assert "moon ran" in deep("sky", "moon").ok().out
    assert "star ran" in deep("sky", "star").ok().out
    shown = deep("sky", "--help").ok().out
    assert "The group of moon. The group of star." in " ".join(shown.split())
    assert "From acme-moon 1.0 and acme-star 1.0." in deep("--help").ok().out
    done = deep("sky", "both")
    assert done.code == 1
    assert "deep sky both: acme-moon and acme-star both have it; " in done.err
    assert "pip uninstall acme-star" in done.err
    misspelt = deep("sky", "sta")
    assert misspelt.code == 2
    assert "star" in misspelt.err


def test_a_group_that_fails_leaves_the_other_with_its_commands(make_deep: Any) -> None:
    deep = make_deep(others=(group_of("moon"), group_of("star", code="1 / 0")))
    assert "moon ran" in deep("sky", "moon").ok().out
    done = deep("sky", "star")
    assert done.code == 1
    assert "acme-star" in done.err
    assert "ZeroDivisionError" in done.err


def test_a_group_that_is_disabled_leaves_the_other_with_its_commands(make_deep: Any) -> None:
    deep = make_deep(others=(group_of("moon"), group_of("star")))
    off = {"DEEP_PLUGINS_DISABLE": "acme-star"}
    assert "moon ran" in deep("sky", "moon", env=off).ok().out
    assert deep("sky", "star", env=off).code == 2


def test_a_group_with_options_of_its_own_is_not_joined(make_deep: Any) -> None:
    code = GROUP.format(help="", name="star").replace("@click.group()", '@click.group()\n@click.option("--x")')
    deep = make_deep(others=(group_of("moon"), group_of("star", code=code.replace("def group()", "def group(x)"))))
    done = deep("sky", "moon")
    assert done.code == 1
    assert "acme-moon and acme-star both have a command of this name" in done.err


@pytest.mark.parametrize(
    "env", [{"DEEP_PLUGINS_DISABLE": "sun"}, {"DEEP_PLUGINS_DISABLE": "acme-sun"}, {"DEEP_PLUGINS_ALLOW": "cli"}]
)
def test_lists_hold_for_commands_before_they_are_imported(make_deep: Any, env: dict[str, str], tmp_path: Any) -> None:
    mark = tmp_path / "mark"
    files = {"acme_sun.py": HOOK, "acme_sun_command.py": MARK.format(path=str(mark)) + COMMAND}
    sun = Distribution("acme-sun", {"sun": "acme_sun"}, files, commands={"sunny": "acme_sun_command:command"})
    deep = make_deep(others=(sun,))
    done = deep("sunny", "Oslo", env=env)
    assert done.code == 1
    assert not mark.exists()
    assert "plugins." in done.err
    deep("sunny", "Oslo").ok()


@pytest.mark.slow
def test_a_file_in_the_current_folder_cannot_become_a_command(make_deep: Any, tmp_path: Any) -> None:
    mark = tmp_path / "mark"
    deep = make_deep(others=(WEATHER,))
    (deep.work / "acme_weather.py").write_text(MARK.format(path=str(mark)) + COMMAND)
    shadowed = deep.environment.run(deep.environment.python, "-m", "deep_cli", "weather", "Oslo")  # without -P
    assert shadowed.code == 1
    assert "did not install" in shadowed.err
    assert not mark.exists()
    deep("weather", "Oslo").ok()


def test_help_works_with_a_wrong_configuration(make_deep: Any) -> None:
    deep = make_deep(others=(WEATHER,))
    deep.config("[plugin]\n")
    done = deep("--help")
    assert done.code == 0
    assert "doctor" in done.out
    assert "not listed" in done.out
    assert "Did you mean 'plugins'?" in " ".join(done.out.split())


def test_a_misspelt_command_has_a_suggestion(make_deep: Any) -> None:
    done = make_deep()("docter")
    assert done.code == 2
    assert "Did you mean 'doctor'?" in done.err


@pytest.mark.slow
def test_what_to_type_is_for_this_environment_and_not_for_any_pip(make_deep: Any) -> None:
    old = Distribution("acme-old", {"old": "acme_old"}, {"acme_old.py": HOOK}, requires=("deep-agent-core<0.1",))
    deep = make_deep("backends", "demo", others=(old,))
    typed = f"{deep.environment.python} "  # pip, uv and ensurepip are all told which Python
    (reason,) = [p["reason"] for p in json.loads(deep("plugins", "list", "--json").ok().out)["plugins"] if p["reason"]]
    assert typed in reason
    assert typed in deep("plugins", "list").ok().out
    assert typed in deep("run", "hello", "--model", "demo:echo").ok().err  # a warning
    deep.config('[plugins]\nrequire = ["old"]\n')
    refused = deep("run", "hello", "--model", "demo:echo")
    assert (refused.code, typed in refused.err) == (1, True)


def test_what_only_pip_can_do_is_left_to_pip() -> None:
    target = Target("uv-tool", Path("/tools/deep-cli"), "/tools/deep-cli/bin/python", "uv")
    text = "reinstall deep-cli: pip install --force-reinstall --no-deps deep-cli"
    assert rewrite_pip(target, text, ()) == text


# -- one broken plugin among the others --------------------------------------------------------------------------------

TALKING = Distribution("acme-talking", {"talking": "acme_talking"}, {"acme_talking.py": "print('Hi!')\n" + HOOK})


@pytest.mark.slow
def test_stdout_has_what_a_command_says_and_not_what_a_plugin_prints(make_deep: Any) -> None:
    deep = make_deep("backends", "demo", others=(TALKING,))
    for arguments in (
        ("run", "hello", "--model", "demo:echo", "--output", "json"),
        ("explain", "--json"),
        ("config", "show", "--json"),
        ("config", "schema"),
    ):
        done = deep(*arguments).ok()
        assert json.loads(done.out)
        assert "Hi!" in done.err
    assert deep("run", "hello", "--model", "demo:echo").ok().out == "hello\n"
    assert deep("explain", "--prompt").ok().out == "The sun shines.\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    sample(
        [
            (("run", "hello", "--model", "demo:echo"), "acme-garbage"),
            (("explain",), "acme-garbage"),
            (("config", "schema"), "acme-garbage"),
            (("chat", "--resume"), "no chat"),
            (("demo", "--help"), ""),
        ],
        (("run", "hello", "--model", "demo:echo"), "acme-garbage"),
        (("chat", "--resume"), "no chat"),
    ),
)
def test_an_unreadable_distribution_stops_no_command(make_deep: Any, arguments: tuple[str, ...], said: str) -> None:
    deep = started(make_deep("backends", "filesystem", "demo"))  # the import of pydantic would end there
    dist_info = Distribution("acme-garbage").write(deep.environment.site)
    (dist_info / "entry_points.txt").write_text("[deep]\nnot an entry point\n", encoding="utf-8")
    done = deep(*arguments)
    assert said in done.err
    assert "Pair" not in done.err  # what the standard library says of it, when pydantic asks


@pytest.mark.exhaustive
def test_metadata_that_end_pydantic_are_reported_with_who_knows_which(make_deep: Any) -> None:
    # Without a plugin of ours it is only read when pydantic asks everybody, and then it ends every agent.
    deep = started(make_deep("backends", "demo"))
    dist_info = Distribution("some-thing").write(deep.environment.site)
    (dist_info / "entry_points.txt").write_bytes(b"\xff\xfe")
    done = deep("run", "hello", "--model", "demo:echo")
    assert done.code == 1
    assert "deep: the metadata of a package cannot be read ('utf-8' codec can't decode" in done.err
    assert "; deep doctor says which one" in done.err
    assert str(dist_info) in deep("doctor").out


# -- deep plugins uninstall --------------------------------------------------------------------------------------------


def test_what_is_not_installed_is_not_uninstalled_and_suggested(make_deep: Any) -> None:
    done = make_deep(others=(SUN,))("plugins", "uninstall", "sum", "--yes")
    assert done.code == 2
    assert "no plugin 'sum' is installed. Did you mean 'sun'?" in done.err


def test_without_a_terminal_uninstalling_needs_yes(make_deep: Any) -> None:
    deep = make_deep(others=(SUN,))
    done = deep("plugins", "uninstall", "sun")
    assert done.code == 2
    assert "add --yes to uninstall acme-sun" in done.err
    assert "sun" in deep("plugins", "list").ok().out
