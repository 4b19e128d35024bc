"""`@file`, pasted paths and `--file` attach what they name; the output of a `!` command goes with `@!`."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from deep_cli.chat.mentions import Mentions, dropped_paths, fold_files, mention
from deep_cli.chat.own_command import wants_terminal

from plugins.cli.tests.chat_terminal import CTRL_D, UP, Terminal
from tests.stubs import OpenAIStub, Script

CHAT = ("chat", "--model", "openai-chat:stub")
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
BLIND = """
from deep_core import hookimpl

@hookimpl
def deep_resolve_model(model_id, config):
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles import ModelProfile

    return OpenAIChatModel("stub", profile=ModelProfile(supports_image_input=False)) if model_id == "blind" else None
"""


def mentions(folder: Path, most: int = 1_000) -> Mentions:
    return Mentions(str(folder.resolve()), most, lambda: ("ls data", "march.csv"))


def leave(chat: Terminal) -> None:
    chat.prompt()
    chat.type(CTRL_D)
    assert chat.end() == 0


# -- what a message mentions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("see @a.txt.", ["a.txt"]),
        ("(@a.txt, @sub/b.txt)", ["a.txt", "sub/b.txt"]),
        ('@"my notes.md" and @a.txt @a.txt', ["my notes.md", "a.txt"]),
        ("me@a.txt, @dataclass, @app.route('/x'), @sub", []),
        ("why? @!", ["output of: ls data"]),
        ("why @!?", ["output of: ls data"]),
    ],
)
def test_a_mention_is_a_file_after_at(tmp_path: Path, text: str, names: list[str]) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("a.txt", "my notes.md", "sub/b.txt"):
        (tmp_path / name).write_text("text")
    found = mentions(tmp_path).find(text)
    assert ([each.name for each in found.attachments], found.problems) == (names, [])


def test_what_is_not_attached_says_why(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "secret").write_text("key")
    (folder / "big").write_text("x" * 900)
    (folder / "more").write_text("x" * 900)
    (folder / "data.bin").write_bytes(b"\xff\xfe\x00\x01")
    (folder / "link").symlink_to(tmp_path / "secret")
    read = mentions(folder)
    found = read.find(f"@../secret @{tmp_path}/secret @link @data.bin @big @more")
    assert [each.name for each in found.attachments] == ["big"]
    reasons = {name: why.split(":")[0] for name, why in found.problems}
    outside = "it is outside this folder"
    assert reasons == {
        "../secret": outside,
        f"{tmp_path}/secret": outside,
        "link": outside,
        "data.bin": "not UTF-8 text, nor a PNG, JPEG, GIF or WebP picture",
        "more": "more than 1,000 characters in all",
    }
    read.dropped.add(str(tmp_path / "secret"))
    assert [each.name for each in read.find(f"@{tmp_path}/secret").attachments] == [f"{tmp_path}/secret"]


def test_terminals_paste_dropped_files_in_several_ways(tmp_path: Path) -> None:
    one, two = tmp_path / "one.txt", tmp_path / "my two.png"
    one.touch()
    two.touch()
    for text in (str(one), f"'{one}'", f"file://{one}", f"{one}\n"):
        assert dropped_paths(text) == [str(one)]
    spaced = str(two).replace(" ", "\\ ")
    for text in (f"'{one}' '{two}'", f"{one} {spaced}", f"{one}\n{two}\n"):
        assert dropped_paths(text) == [str(one), str(two)]
    assert dropped_paths(f"see {one}") == dropped_paths("one.txt") == dropped_paths("it's") == []
    assert mention(str(one), str(tmp_path)) == "@one.txt"
    assert mention(str(two), str(tmp_path)) == '@"my two.png"'
    assert mention(str(two), "/elsewhere") == f'@"{two}"'


def test_the_screen_names_attached_files_instead_of_their_text() -> None:
    text = 'Read it.\n\n<file name="a.txt">\none\ntwo\n</file>\n\n<file_ name="b">\n</file>\n</file_>'
    assert fold_files(text) == "Read it.\n  attached a.txt (2 lines)\n  attached b (1 line)"


@pytest.mark.parametrize(
    ("command", "wants"),
    [
        ("vim x", True),
        ("EDITOR=vi sudo nano /etc/hosts", True),
        ("git commit", True),
        ("git -c a=b rebase -i HEAD~2", False),  # its verb is not the first word
        ("git rebase -i HEAD~2", True),
        ("git commit -m 'x'", False),
        ("git commit -am x", False),
        ("git log", False),
        ("python3", True),
        ("python3 -m pytest", False),
        ("ls; vim x", False),
        ("echo 'half", False),
    ],
)
def test_a_program_that_wants_the_terminal_is_known_by_its_name(command: str, wants: bool) -> None:
    assert wants_terminal(command) is wants


# -- in a terminal -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_mentioned_file_is_shown_and_sent_and_a_resumed_chat_names_it(deep: Any) -> None:
    (deep.work / "my notes.md").write_text("line one\nline two\n")
    with OpenAIStub(Script("Read.", "Again.")) as stub:
        with Terminal(deep, *CHAT, env=stub.env) as chat:
            chat.prompt()
            chat.type("What is in @my\t")
            chat.see('> What is in @"my notes.md"')
            chat.type("?\r")
            chat.expect("attached my notes.md (2 lines)")
            chat.expect("Read.")
            leave(chat)
        content = stub.requests[-1]["messages"][-1]["content"]
        assert content == ('What is in @"my notes.md"?\n\n<file name="my notes.md">\nline one\nline two\n\n</file>')
        with Terminal(deep, *CHAT, "--resume", env=stub.env) as chat:
            chat.expect("attached my notes.md (2 lines)")
            leave(chat)
            assert "line one" not in chat.screen


@pytest.mark.slow
def test_a_picture_dropped_on_the_terminal_goes_with_the_message(deep: Any, tmp_path: Path) -> None:
    picture = tmp_path / "a shot.png"
    picture.write_bytes(PNG)
    with OpenAIStub(Script("A dot.")) as stub, Terminal(deep, *CHAT, env=stub.env) as chat:
        chat.prompt()
        chat.type(f"What is \x1b[200~'{picture}'\x1b[201~?\r")
        chat.expect(f"(a picture of {len(PNG):,} bytes)")
        chat.expect("A dot.")
        leave(chat)
    text, image = stub.requests[-1]["messages"][-1]["content"]
    assert text["text"].startswith(f'What is @"{picture}" ?')
    assert image["image_url"]["url"] == "data:image/png;base64," + base64.b64encode(PNG).decode()


@pytest.mark.slow
def test_a_model_that_takes_no_pictures_is_said_before_anything_is_sent(deep: Any) -> None:
    (deep.work / "shot.png").write_bytes(PNG)
    (deep.work / "blind.py").write_text(BLIND)
    with OpenAIStub(Script("Fine.")) as stub:
        blind = ("-p", "blind.py", "--model", "blind")
        for command in (("run", "Look."), ("chat",)):
            done = deep(*command, *blind, "--file", "shot.png", env=stub.env)
            assert (done.code, stub.requests) == (2, [])
            assert "shot.png: this model takes no pictures" in done.err
        with Terminal(deep, "chat", *blind, env=stub.env) as chat:
            chat.say("Look at @shot.png")
            chat.expect("takes no pictures: shot.png")
            chat.prompt()
            chat.type(UP)
            chat.see("> Look at @shot.png")  # it is not lost
            chat.type("\x15no\r")
            chat.expect("Fine.")
            leave(chat)
    assert len(stub.requests) == 1


@pytest.mark.slow
def test_a_task_takes_a_picture(deep: Any) -> None:
    (deep.work / "shot.png").write_bytes(PNG)
    with OpenAIStub(Script("A dot.")) as stub:
        deep("run", "What is it?", "--model", "openai-chat:stub", "--file", "shot.png", env=stub.env).ok()
    text, image = stub.requests[-1]["messages"][-1]["content"]
    assert text["text"] == "What is it?\n\n(picture: shot.png)"
    assert image["image_url"]["url"].startswith("data:image/png;base64,")


# -- commands of the user ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_output_of_a_command_goes_with_a_message_that_asks_for_it(deep: Any) -> None:
    with OpenAIStub(Script("It has three lines.")) as stub, Terminal(deep, *CHAT, env=stub.env) as chat:
        chat.say("!printf 'one\\ntwo\\n'; exit 3")
        chat.expect("exit code 3")
        chat.expect("@! in a message gives the agent this output")
        chat.say("Why? @!")
        chat.expect("It has three lines.")
        leave(chat)
    content = stub.requests[-1]["messages"][-1]["content"]
    assert content.startswith("Why? @!\n\n<file name=\"output of: printf 'one\\ntwo\\n'; exit 3\">\n")
    assert content.endswith("\none\ntwo\nexit code 3\n</file>")


@pytest.mark.slow
def test_a_program_that_wants_the_terminal_gets_it(deep: Any) -> None:
    with OpenAIStub(Script("Here.")) as stub, Terminal(deep, *CHAT, env=stub.env) as chat:
        chat.say('!!test -t 0 && test -t 1 && echo begun && read -r line && echo "got <$line>"')
        chat.expect("begun\n")
        chat.type("are you there\r")
        chat.expect("got <are you there>")
        chat.say("!!trap 'echo caught; exit 4' INT; echo begun; read -r line")
        chat.expect("begun\n")
        chat.type("\x03")
        chat.expect("caught")
        chat.expect("exit code 4")
        chat.say("!test -t 0 || { echo 'not a tty' && exit 1; }")
        chat.expect("To give it the terminal: !!test -t 0")
        chat.say("hello")
        chat.expect("Here.")
        leave(chat)
    assert stub.requests[-1]["messages"][-1]["content"] == "hello"
