"""A resumed chat has its `-p` files again while they are unchanged, and names those that it does not have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.stubs import Call, OpenAIStub, Script

MODEL = ("--model", "openai-chat:stub")
WEATHER = '''
from deep_core import hookimpl

@hookimpl
def deep_toolsets(context):
    from pydantic_ai import FunctionToolset

    def forecast(city: str) -> str:
        """Tomorrow's weather."""
        return f"{city}: sunny"

    return [FunctionToolset([forecast])]
'''
FORECAST = Call("forecast", {"city": "Oslo"})


@pytest.fixture
def weather(deep: Any) -> Path:
    file = deep.work / "weather.py"
    file.write_text(WEATHER)
    return file


def said(deep: Any, stub: OpenAIStub, *arguments: str, message: str = "go\n") -> str:
    """One message in a chat; returns what stderr says, each line once, without line breaks."""
    return " ".join(deep.piped(message, "chat", *MODEL, *arguments, env=stub.env).ok().err.split())


def tools(stub: OpenAIStub) -> set[str]:
    """What the last request offered."""
    return {tool["function"]["name"] for tool in stub.requests[-1]["tools"]}


@pytest.mark.slow
@pytest.mark.parametrize("began", ["chat", "run"])
def test_a_resumed_chat_has_the_plugin_files_of_its_runs_again(deep: Any, weather: Path, began: str) -> None:
    with OpenAIStub(Script(FORECAST, "Sunny.", FORECAST, "Still sunny.", FORECAST, "As ever.")) as stub:
        if began == "chat":
            said(deep, stub, "-p", "weather.py")
        else:
            deep("run", "go", *MODEL, "-p", "weather.py", env=stub.env).ok()
        for _ in range(2):  # the second time, what the first one remembered
            assert f"with -p {weather.resolve()}, as before" in said(deep, stub, "--resume")
            assert "forecast" in tools(stub)
            assert "Oslo: sunny" in str(stub.requests[-1]["messages"][-1])


@pytest.mark.slow
def test_a_changed_file_is_not_loaded_but_named_with_what_to_type(deep: Any, weather: Path) -> None:
    with OpenAIStub(Script(FORECAST, "Sunny.", "I cannot.", "Nor now.", FORECAST, "Rain.", FORECAST, "Rain.")) as stub:
        said(deep, stub, "-p", "weather.py")
        mark = deep.work / "ran"
        weather.write_text(WEATHER.replace("sunny", "rain") + f"open({str(mark)!r}, 'w').close()\n")
        for _ in range(2):  # it stays named until it is given
            err = said(deep, stub, "--resume")
            assert f"this chat used -p {weather.resolve()}, and has it no longer: it has changed since" in err
            assert "forecast" not in tools(stub)
            assert not mark.exists()
        typed = err.partition("To have them: deep chat ")[2].split()[:4]
        assert typed[0] == "--resume"
        assert typed[2:] == ["-p", str(weather.resolve())]
        said(deep, stub, *typed)
        assert "Oslo: rain" in str(stub.requests[-1]["messages"][-1])
        assert "as before" in said(deep, stub, "--resume")  # what was given is trusted now
        assert mark.exists()


@pytest.mark.slow
def test_a_file_that_is_gone_or_fails_is_named(deep: Any, weather: Path) -> None:
    weather.write_text(WEATHER + "open('needed.txt').close()\n")
    (deep.work / "needed.txt").write_text("")
    with OpenAIStub(Script("Hello.", "Hello.", "Hello.")) as stub:
        said(deep, stub, "-p", "weather.py")
        (deep.work / "needed.txt").unlink()
        line = len(weather.read_text().splitlines())
        assert f"weather.py:{line}: FileNotFoundError" in said(deep, stub, "--resume")
        weather.unlink()
        assert "it is not there any more" in said(deep, stub, "--resume")
        assert "forecast" not in tools(stub)


@pytest.mark.slow
def test_the_same_plugin_from_another_place_takes_its_place(deep: Any, weather: Path) -> None:
    other = deep.work / "new" / "weather.py"
    other.parent.mkdir()
    other.write_text(WEATHER.replace("sunny", "snow"))
    with OpenAIStub(Script("Hello.", FORECAST, "Snow.", FORECAST, "Snow.")) as stub:
        said(deep, stub, "-p", "weather.py")
        said(deep, stub, "--resume", "-p", "new/weather.py")
        assert "Oslo: snow" in str(stub.requests[-1]["messages"][-1])
        assert f"with -p {other.resolve()}, as before" in said(deep, stub, "--resume")
        assert "Oslo: snow" in str(stub.requests[-1]["messages"][-1])


@pytest.mark.slow
def test_a_folder_with_the_users_data_loads_nothing_by_itself(deep: Any, weather: Path) -> None:
    home = deep.environment.home
    with OpenAIStub(Script("Hello.", "Hello.")) as stub:
        deep.piped("go\n", "chat", *MODEL, "-p", str(weather), cwd=home, env=stub.env).ok()
        err = deep.piped("go\n", "chat", *MODEL, "--resume", cwd=home, env=stub.env).ok().err
    assert "the agent could write what" in " ".join(err.split())
    assert "forecast" not in tools(stub)


@pytest.mark.slow
def test_another_chat_that_needs_a_file_names_it(deep: Any, weather: Path) -> None:
    with OpenAIStub(Script("Hello.", "Again.")) as stub:
        said(deep, stub, "-p", "weather.py", message="about weather\n")
        (found,) = json.loads(deep("sessions", "list", "--json").ok().out)["sessions"]
        err = said(deep, stub, message=f"/resume {found['id'][-8:]}\nand now\n")
    assert f"this chat used -p {weather.resolve()}, and has it no longer: this process began without it" in err
