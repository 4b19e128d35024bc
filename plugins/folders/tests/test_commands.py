"""`deep folders`: add, list, show, update with a diff, remove; from a path and from a git repository."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from deep_folders.commands import folders
from deep_folders.skill_commands import skills
from deep_folders.snapshot import BadFolder, digest_of, files_of
from deep_folders.store import Added, Store
from deep_skills.commands import skills as check_of_skills
from hypothesis import given, settings
from hypothesis import strategies as st

from .layouts import GUARD, LAYOUTS, METHODS, skill, write

Deep = Callable[..., Result]


@pytest.fixture
def deep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deep:
    """`deep("add", "PATH", typed="y\\n")`: run `deep folders …` for a user of the test's own."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("CONFIG", "CACHE", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / "home" / name))
    monkeypatch.setenv("DEEP_PLUGINS_ALLOW", "cli,folders,sessions,skills")
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setattr("deep_folders.commands._terminal", lambda: True)

    def deep(*arguments: str, typed: str = "") -> Result:
        return CliRunner().invoke(folders, arguments, input=typed)

    return deep


def message(result: Result) -> str:
    return result.output + str(getattr(result.exception, "message", ""))


def listed(deep: Deep) -> dict[str, Any]:
    found = json.loads(deep("list", "--output", "json").output)["folders"]
    return {folder["name"]: folder for folder in found}


@pytest.mark.slow
def test_a_folder_is_shown_before_it_is_added_and_pinned_by_its_content(deep: Deep, tmp_path: Path) -> None:
    origin = write(tmp_path / "guard", GUARD)
    refused = deep("add", str(origin), typed="n\n")
    assert "hook PreToolUse of Edit|Write|MultiEdit: " in refused.output
    assert "unsupported: hooks/hooks.json: Stop" in refused.output
    assert "Its hooks run as you" in refused.output
    assert (refused.exit_code, listed(deep)) == (1, {})

    assert deep("add", str(origin), typed="y\n").exit_code == 0
    assert listed(deep)["guard"]["hooks"] == ["PreToolUse Edit|Write|MultiEdit", "PostToolUse Write"]
    assert "there is a folder 'guard'" in message(deep("add", str(origin), "--yes"))
    assert deep("update").output == "guard: unchanged\n"

    # A change counts when its diff was seen and agreed to.
    write(origin, {"hooks/check.sh": "#!/bin/sh\nexit 0\n", "commands/new.md": "New\x1b[2J.\n"})
    (origin / "logo.png").write_bytes(b"\x89PNG\xff")
    shown = deep("update", "guard", typed="n\n").output
    assert "-call=$(cat)\n" in shown
    assert "+++ b/commands/new.md" in shown
    assert "\x1b" not in shown
    assert "binary file logo.png differs" in shown
    assert listed(deep)["guard"]["commands"] == []
    assert "Updated guard" in deep("update", "--yes").output
    assert listed(deep)["guard"]["commands"] == ["guard:new"]
    (origin / "hooks" / "check.sh").chmod(0o644)
    assert "-a program\n+a file\n" in deep("update", typed="n\n").output

    assert deep("remove", "guard").output == "Removed guard.\n"
    assert listed(deep) == {}
    assert "no added folder 'guard'" in message(deep("remove", "guard"))
    assert deep("remove", "../../x").exit_code != 0


@pytest.mark.slow
def test_a_folder_comes_from_a_git_repository_and_from_one_place_in_it(deep: Deep, tmp_path: Path) -> None:
    plugins = [{"name": name, "source": f"./plugins/{name}"} for name in [*LAYOUTS, *map(str, range(30))]]
    market = {"name": "market", "plugins": plugins}
    files = {f"plugins/{name}/{path}": text for name, layout in LAYOUTS.items() for path, text in layout.items()}
    repository = write(tmp_path / "market", {**files, ".claude-plugin/marketplace.json": market})

    def git(*arguments: str) -> None:
        who = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main"]
        subprocess.run(["git", *who, *arguments], cwd=repository, check=True, capture_output=True)

    git("init")
    git("add", "-A")
    git("commit", "-m", "one")
    url = repository.as_uri()
    said = message(deep("add", url, "--yes"))
    assert "--path is one of plugins/methods, plugins/features" in said
    assert f" and {len(plugins) - 20} more\n" in said
    for name in ("methods", "features"):
        assert deep("add", url, "--path", f"plugins/{name}", "--yes").exit_code == 0
    found = listed(deep)
    assert {name: len(folder["notes"]) for name, folder in found.items()} == {"methods": 0, "features": 5}
    assert "invalid: agents/nameless.md" in deep("show", "features").output
    write(repository, {"plugins/methods/commands/plan.md": "Another plan.\n"})
    assert "methods: unchanged" in deep("update").output  # what was not committed
    git("commit", "-am", "two")
    assert "+Another plan." in deep("update", "methods", "--yes").output
    assert "does not exist" in message(deep("add", url, "--path", "plugins/none", "--yes"))
    assert "is not a folder of it" in message(deep("add", url, "--path", "..", "--yes"))
    assert "git: " in message(deep("add", f"{url}-none", "--yes"))
    assert deep("add", "ext::sh -c id", "--yes").exit_code != 0


TAKEN: dict[str, tuple[dict[str, Any], str]] = {
    # name: a server, and the variable that it takes
    "an address": ({"type": "http", "url": "https://x.example/${KEY_1}/mcp"}, "KEY_1"),
    "a header": ({"type": "http", "url": "https://x.example", "headers": {"X": "Bearer ${KEY_2}"}}, "KEY_2"),
    "the name of a header": ({"type": "http", "url": "https://x.example", "headers": {"${KEY_3}": "v"}}, "KEY_3"),
    "with a default": ({"type": "sse", "url": "https://x.example", "headers": {"X": "${KEY_4:-none}"}}, "KEY_4"),
    "an argument": ({"command": "npx", "args": ["mcp-remote", "--header", "A: ${KEY_5}"]}, "KEY_5"),
    "the command": ({"command": "${KEY_6}"}, "KEY_6"),
    "the working directory": ({"command": "x", "cwd": "${KEY_7}"}, "KEY_7"),
    "a variable": ({"command": "x", "env": {"T": "${KEY_8}"}}, "KEY_8"),
    "the name of a variable": ({"command": "x", "env": {"${KEY_9}": "1"}}, "KEY_9"),
    "one in another": ({"command": "x", "env": {"T": "${A_${KEY_10}}"}}, "KEY_10"),
    "two in one": ({"command": "x", "args": ["${A}${KEY_11}"]}, "KEY_11"),
}


def test_every_variable_that_a_program_gets_is_shown_before_the_question(deep: Deep, tmp_path: Path) -> None:
    servers = {name.replace(" ", "-"): server for name, (server, _) in TAKEN.items()}
    files = {".claude-plugin/plugin.json": {"name": "taker"}, ".mcp.json": {"mcpServers": servers}}
    shown = deep("add", str(write(tmp_path / "taker", files)), typed="n\n").output.splitlines()
    for name, (_, variable) in TAKEN.items():
        [place] = [n for n, line in enumerate(shown) if line.startswith(f"  MCP server {name.replace(' ', '-')}: ")]
        assert "gets of your environment" in shown[place + 1], name
        assert variable in shown[place + 1], name


READERS = {
    # what a hook runs, directly or by others, and the variables that it takes of the user's environment
    "hooks/run.sh": '#!/bin/sh\nLEVEL=1; export MODE="${MODE:-fast}"\nfor EACH in a; do echo $LEVEL $EACH $HOME; done\n'
    'exec python3 "$(dirname $0)/review.py" ${ACME_TOKEN}\n',
    "hooks/review.py": "import os\nfrom rules import RULES\nos.environ.get('ENABLE_REVIEW', '1')\n"
    "os.getenv('REVIEW_MODEL')\n",
    "hooks/rules.py": "import os\nRULES = [os.environ.get(each) for each in ('USE_CLOUD', 'USE_LOCAL')]\n",
    "hooks/other.py": "import os\nos.environ['NEVER_RUN']\n",
    "hooks/tell.mjs": "const {env} = process\nfetch(process.env.TELL_URL, process.env['TELL_HEADER'], env.PATH)\n",
}


def test_what_hooks_read_and_do_not_get_is_shown_with_what_to_type(
    deep: Deep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME_TOKEN", "sk-1")
    monkeypatch.setenv("ENABLE_REVIEW", "0")
    commands = ['"${CLAUDE_PLUGIN_ROOT}/hooks/run.sh"', "node ${CLAUDE_PLUGIN_ROOT}/hooks/tell.mjs $INLINE"]
    stop = [{"hooks": [{"type": "command", "command": command} for command in commands]}]
    origin = write(tmp_path / "reader", {**READERS, "hooks/hooks.json": {"Stop": stop}})
    missing = "ACME_TOKEN, ENABLE_REVIEW, INLINE, MODE, REVIEW_MODEL, TELL_HEADER, TELL_URL, USE_CLOUD, USE_LOCAL"
    shown = deep("add", str(origin), typed="n\n").output
    assert f"they read more, which they do not get: {missing}\n" in shown
    assert '[plugins.folders.options.hook_env]\n      "reader" = ["ENABLE_REVIEW"]\n' in shown
    assert "sk-1" not in shown

    [file] = [line.split()[-1].rstrip(":") for line in shown.splitlines() if "config.toml" in line]
    named = '[plugins.folders.options.hook_env]\nreader = ["ENABLE_REVIEW", "%s"]\n'
    write(Path(file).parent, {"config.toml": named % "*_URL"})
    assert "hook_env" in str(deep("add", str(origin), typed="n\n").exception)
    write(Path(file).parent, {"config.toml": named % "ACME_*"})
    shown = deep("add", str(origin), typed="y\n").output
    assert "SYSTEMROOT, TEMP, TERM, TMPDIR, USER, ENABLE_REVIEW, ACME_*\n" in shown
    assert f"which they do not get: {missing.replace(' ENABLE_REVIEW,', '')}\n" in shown
    assert listed(deep)["reader"]["variables"][-2:] == ["ENABLE_REVIEW", "ACME_*"]
    write(origin, {"hooks/other.py": "\n"})
    assert "hooks get of your environment: " in deep("update", typed="n\n").output


def test_a_hook_is_shown_with_the_calls_that_it_is_narrowed_to(deep: Deep, tmp_path: Path) -> None:
    look = {"type": "command", "command": "look", "if": "Bash(git push *)"}
    once = "hooks:\n  Stop:\n    - hooks: [{type: command, command: look, once: true}]"
    files = {
        "hooks/hooks.json": {"PostToolUse": [{"matcher": "Bash", "hooks": [{**look, "async": True}]}]},
        "skills/plans/SKILL.md": f"---\nname: plans\ndescription: Use it to plan.\n{once}\n---\nPlan.\n",
    }
    shown = deep("add", str(write(tmp_path / "review", files)), typed="n\n").output
    assert "  hook PostToolUse of Bash, if Bash(git push *), beside the run: look\n" in shown
    assert "  hook Stop, while skill plans is in use, once: look\n" in shown


def test_programs_that_are_not_here_or_not_pinned_are_shown(
    deep: Deep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = {
        "npm": '#!/bin/sh\ncase $2 in gone*) echo "npm error code E404" >&2; exit 1;; esac\n',
        "jq": "#!/bin/sh\n",
    }
    monkeypatch.setenv("PATH", str(write(tmp_path / "bin", programs)))
    script = "#!/bin/sh\n# claude is not started\njq . | pnpm x\nif command -v deno >/dev/null; then bun run x; fi\n"
    commands = ['"${CLAUDE_PLUGIN_ROOT}/run.sh"', "npx -y gone@1.0 check; npx prettier ."]
    stop = [{"hooks": [{"type": "command", "command": command} for command in commands]}]
    origin = write(tmp_path / "tools", {"run.sh": script, "hooks/hooks.json": {"Stop": stop}})
    shown = deep("add", str(origin), typed="n\n").output
    assert "they start programs that are not here: bun, deno, npx, pnpm\n" in shown
    assert "they run what a registry has then, which nothing pins: npx gone@1.0, npx prettier\n" in shown
    assert "npm has no such package, so hooks that run it do nothing: gone@1.0\n" in shown


def test_a_copy_has_the_name_of_its_origin(deep: Deep, tmp_path: Path) -> None:
    origin = write(tmp_path / "pdf", {"SKILL.md": skill("pdf"), "pdf.py": "\n"})
    deep("add", str(origin), "--name", "papers", "--yes")
    [copy] = (tmp_path / "home").rglob("pdf.py")
    assert copy.parent.name == "pdf"
    assert "1 skills, problems: 0" in CliRunner().invoke(check_of_skills, ["check"]).output


def test_a_copy_that_is_not_what_was_added_is_made_again(deep: Deep, tmp_path: Path) -> None:
    deep("add", str(write(tmp_path / "guard", GUARD)), "--yes", "--no-programs")
    [copy] = (tmp_path / "home").rglob("content/guard-*/guard")
    kept = Store(copy.parents[2]).data("guard") / "kept"
    write(kept.parent, {"kept": "what its programs kept"})
    copy.rename(copy.parent.with_name("old"))
    copy.parent.rmdir()
    copy.parent.with_name("old").rename(copy.parent)  # as a copy once was: without the folder of the origin's name
    why = "its copy is not what was added; deep folders update guard"
    assert listed(deep)["guard"]["problem"] == why
    assert f"  {why}\n" in deep("list").output
    assert deep("update").output == "guard: unchanged; its copy was made again\n"
    assert deep("update").output == "guard: unchanged\n"
    assert listed(deep)["guard"]["problem"] == ""
    assert listed(deep)["guard"]["blocked"] != ""  # still without programs
    assert [path.name for path in copy.parent.iterdir()] == ["guard"]
    assert kept.exists()

    # What a changed copy has is not what the user agreed to: the whole is shown.
    write(copy, {"commands/new.md": "Evil.\n"})
    write(tmp_path / "guard", {"commands/new.md": "Evil.\n"})
    assert "+Evil.\n" in deep("update", typed="n\n").output


def test_skills_are_added_and_nothing_else_of_their_folder(deep: Deep, tmp_path: Path) -> None:
    def add(*arguments: str, typed: str = "") -> Result:
        return CliRunner().invoke(skills, ["add", *arguments], input=typed)

    origin = write(tmp_path / "methods", METHODS)
    shown = add(str(origin), typed="y\n").output
    assert "skill tests-first" in shown
    assert "hook" not in shown
    folder = listed(deep)["methods"]
    assert (folder["skills"], folder["hooks"], folder["agents"]) == (["debugging", "tests-first"], [], [])
    write(origin, {"skills/debugging/SKILL.md": skill("debugging", "Look first."), "hooks/start.sh": "#!/bin/sh\n"})
    assert "+Look first." in deep("update", "methods", "--yes").output
    assert listed(deep)["methods"]["hooks"] == []

    for name, text in [("one", {"SKILL.md": skill("one")}), ("many", {"a/SKILL.md": skill("a")})]:
        assert add(str(write(tmp_path / name, text)), "--yes").exit_code == 0
        assert len(listed(deep)[name]["skills"]) == 1
    write(tmp_path / "loop", {"commands/go.md": "Go.\n"})
    assert "has no skill" in message(add(str(tmp_path / "loop"), "--yes"))


def test_a_check_of_skills_sees_those_of_folders(deep: Deep, tmp_path: Path) -> None:
    long = {"skills/long/SKILL.md": skill("long", description="x" * 1_100)}
    assert deep("add", str(write(tmp_path / "long", long)), "--yes").exit_code == 0
    said = CliRunner().invoke(check_of_skills, ["check"]).output
    assert "description has 1100 characters" in said
    assert "1 skills, problems: 1" in said


def test_without_a_terminal_nothing_is_added_unless_told(
    deep: Deep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deep_folders.commands._terminal", lambda: False)
    origin = write(tmp_path / "methods", METHODS)
    assert "--yes" in message(deep("add", str(origin)))
    assert listed(deep) == {}
    assert deep("add", str(origin), "--yes", "--no-programs", "--name", "ways").exit_code == 0
    assert "added without programs" in listed(deep)["ways"]["blocked"]


def test_a_folder_that_is_none_says_so(deep: Deep, tmp_path: Path) -> None:
    write(tmp_path / "none", {"README.md": "Nothing.\n"})
    assert "has no plugin.json" in message(deep("add", str(tmp_path / "none"), "--yes"))
    write(tmp_path / "links", {"SKILL.md": skill("links")})
    (tmp_path / "links" / "passwords").symlink_to("/etc/passwd")
    assert "a link out of the folder" in message(deep("add", str(tmp_path / "links"), "--yes"))
    assert listed(deep) == {}


@pytest.mark.slow
@given(
    st.dictionaries(st.sampled_from(["a", "b", "c/d", "c/e"]), st.binary(max_size=3)),
    st.dictionaries(st.sampled_from(["a", "b", "c/d", "c/e"]), st.binary(max_size=3)),
)
@settings(max_examples=40, deadline=None)
def test_two_folders_have_one_digest_if_their_files_are_equal(
    tmp_path_factory: pytest.TempPathFactory, one: dict[str, bytes], two: dict[str, bytes]
) -> None:
    digests: list[str] = []
    for files in (one, two):
        root = tmp_path_factory.mktemp("folder")
        for name, content in files.items():
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_bytes(content)
        digests.append(digest_of(root))
    assert (digests[0] == digests[1]) == (one == two)


def test_a_link_inside_is_what_it_leads_to_and_one_to_a_folder_above_is_refused(tmp_path: Path) -> None:
    root = write(tmp_path / "a", {"x/y": "z", "b/c": "d"})
    (root / "b" / "x").symlink_to(root / "x")
    assert [name for name, _ in files_of(root)] == ["b/c", "b/x/y", "x/y"]
    (root / "x" / "up").symlink_to(root / "b")  # and that leads back to x
    with pytest.raises(BadFolder, match="a link to a folder that it is in"):
        digest_of(root)


def test_an_update_leaves_the_copy_that_running_programs_use(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    copies: list[int] = []
    for text in ("one", "two", "three"):
        root = write(tmp_path / "origin", {"SKILL.md": skill("a", text)})
        store.add(Added("a", "https://me:geheim@example.com/a.git", "", "", "", digest_of(root), True), root)
        store.add(Added("a-z", str(root), "", "", "", digest_of(root), True), root)
        copies.append(len(list((tmp_path / "store" / "content").glob("a-[0-9a-f]*"))))
    assert copies == [1, 2, 2]
    b, a = store.folders()
    assert (a.problem, b.problem) == ("", "")
    assert a.source == f"deep folders add https://***@example.com/a.git, digest {digest_of(root)[:12]}"
    of_a_repository = Added("p", "https://example.com/a.git", "skills/p", "v1", "0123456789abcdef", "", False, True)
    said = "deep skills add https://example.com/a.git --path skills/p --ref v1, commit 0123456789ab"
    assert of_a_repository.source == said
    assert store.remove("a")
    assert [folder.name for folder in store.folders()] == ["a-z"]
    assert list((tmp_path / "store" / "content").glob("a-[0-9a-f]*")) == []
