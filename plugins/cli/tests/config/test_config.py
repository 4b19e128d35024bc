"""`deep config`: values and their sources, the schema, a first file, trust."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.environments import Distribution

OPTIONS = """
from deep_core import hookimpl

@hookimpl
def deep_options():
    from pydantic import SecretStr
    from deep_core import PluginOptions

    class VaultOptions(PluginOptions):
        pin: SecretStr = SecretStr("")
        api_key: str = ""
        dsn: str = ""
        url: str = ""
        unit: str = "celsius"

    return VaultOptions
"""
VAULT = Distribution("acme-vault", {"vault": "acme_vault"}, {"acme_vault.py": OPTIONS})


def shown(deep: Any, **env: str) -> dict[str, Any]:
    return json.loads(deep("config", "show", "--json", env=env).ok().out)


@pytest.mark.slow
def test_every_value_has_its_source(make_deep: Any) -> None:
    deep = make_deep(others=(VAULT,))
    deep.config('[agent]\nmodel = "openai:from-file"\n[plugins.vault]\nprefix = "v"\noptions = { unit = "kelvin" }\n')
    found = shown(deep)
    file = found["files"][0]["path"]
    assert found["schema"] == 1
    assert found["agent"]["model.model"] == {"value": "from-file", "source": file}
    assert found["agent"]["identity.name"] == {"value": "agent", "source": "default"}
    assert found["plugins"]["vault"]["settings"] == {"prefix": {"value": "v", "source": file}}
    assert found["plugins"]["vault"]["options"]["unit"] == {"value": "kelvin", "source": file}
    found = shown(deep, DEEP_MODEL="openai:from-env", DEEP_PLUGINS__VAULT__OPTIONS__UNIT="rankine")
    assert found["agent"]["model.model"] == {"value": "from-env", "source": "environment"}
    assert found["plugins"]["vault"]["options"]["unit"] == {"value": "rankine", "source": "environment"}


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('[agent]\ntool_filter = "name:a,name:b"\n', "agent.tool_filter"),
        ('[agent]\ninterrupt_on = "read &"\n', "agent.interrupt_on"),
        ('[agent.tools_policy]\nallow_list = "(("\n', "agent.tools_policy.allow_list"),
        ('[plugins.cli.options]\nplan_tools = "read write"\n', "plugins.cli.options.plan_tools"),
    ],
)
def test_a_tool_expression_that_does_not_parse_names_its_file_and_key(deep: Any, text: str, key: str) -> None:
    deep.config(text)
    for command in (("config", "show"), ("run", "hi", "--model", "test")):
        done = deep(*command)
        assert (done.code, done.out) == (2, "")
        assert re.match(rf"deep: \S+\.toml: {re.escape(key)}\b.*line 1, column ", done.err), done.err


def test_the_text_form_names_values_and_sources(make_deep: Any) -> None:
    deep = make_deep(others=(VAULT,))
    out = deep("config", "show", env={"DEEP_MODEL": "openai:x", "DEEP_PLUGINS_DISABLE": "vault"}).ok().out
    assert re.search(r'^model\.model = "x" +# environment$', out, re.M)
    assert "disable = vault (environment)" in out


@pytest.mark.slow
def test_secrets_in_commands_and_addresses_are_masked_in_both_forms(make_deep: Any) -> None:
    deep = make_deep(others=(VAULT,))
    url = "https://canary@host and PGPASSWORD=canary psql and redis://:canary@host"
    deep.config(f'[plugins.vault]\noptions = {{ url = "{url}", dsn = "canary", api_key = "canary", pin = "canary" }}\n')
    for form in ((), ("--json",)):
        out = deep("config", "show", *form).ok().out
        assert "canary" not in out
        assert "https://***@host and PGPASSWORD=*** psql and redis://***@host" in out


@pytest.mark.slow
def test_a_folders_name_moves_no_text(make_deep: Any) -> None:
    deep = make_deep()
    folder = deep.work / "a\x1b[2K\nb\u202e"
    folder.mkdir()
    (folder / "deep.toml").write_text("[agent]\nmodle = 1\n")
    shown = "a\\x1b[2K\\nb\\u202e"
    for text in ("[agent]\nmodle = 1\n", '[agent]\ntool_filter = "read"\n'):  # an error, and a value
        (folder / "deep.toml").write_text(text)
        done = deep.piped("", "config", "show", cwd=folder)
        assert shown.partition("\\n")[0] in done.out + done.err
        assert "\x1b[2K" not in done.out + done.err
        assert "\u202e" not in done.out + done.err
    assert f"{shown}/deep.toml" in done.out
    assert json.loads(deep.piped("", "config", "show", "--json", cwd=folder).out)["files"][0]["path"] == str(
        folder.resolve() / "deep.toml"
    )
    assert f"Trusted {folder.resolve().parent}/{shown}" in deep.piped("", "config", "trust", cwd=folder).out


@pytest.mark.slow
def test_what_an_untrusted_project_may_not_say_is_not_in_effect(make_deep: Any) -> None:
    deep = make_deep("backends")
    (deep.work / "deep.toml").write_text(
        '[agent]\nmodel = "openai:evil"\ntool_filter = "read"\n[plugins.backends]\noptions = { env = ["HOME"] }\n'
    )
    found = shown(deep)
    assert found["agent"]["model.model"]["value"] is None
    assert found["agent"]["tool_filter (added)"]["value"] == "read"
    assert found["plugins"]["backends"]["options"]["env"] == {"value": [], "source": "default"}
    assert any(key.endswith("agent.model") for key in found["ignored"])
    file = deep.work / "user.toml"
    file.write_text('[plugins.backends]\noptions = { env = ["LANG"] }\n')
    mine = json.loads(deep("config", "show", "--json", "--config", str(file)).ok().out)
    assert mine["plugins"]["backends"]["options"]["env"] == {"value": ["LANG"], "source": str(file)}
    done = deep("config", "trust").ok()
    assert "agent.model" in done.out
    found = shown(deep)
    assert found["agent"]["model.model"]["value"] == "evil"
    assert found["plugins"]["backends"]["options"]["env"]["value"] == ["HOME"]
    assert found["ignored"] == []


def test_trust_ends_when_the_content_changes(make_deep: Any) -> None:
    deep = make_deep()
    file = deep.work / "deep.toml"
    file.write_text('[agent]\nmodel = "openai:one"\n')
    deep("config", "trust", "deep.toml").ok()
    file.write_text('[agent]\nmodel = "openai:two"\n')
    assert shown(deep)["agent"]["model.model"]["value"] is None


def test_a_plugins_json_file_is_trusted_until_it_changes(make_deep: Any) -> None:
    deep = make_deep()
    file = deep.work / ".mcp.json"
    file.write_text('{"mcpServers": {}}')
    said = deep("config", "trust", ".mcp.json").ok().out
    assert said.startswith("Once you trust it, the plugin that reads it uses it\n")
    assert said.endswith(f"Trusted {file.resolve()} until it changes\n")
    (known,) = deep.environment.home.rglob("trusted.json")
    assert list(json.loads(known.read_text())) == [str(file.resolve())]


@pytest.mark.parametrize(
    ("text", "effect"),
    [
        ('[plugins.todo]\nrequire_approval = "read"\n', "nothing changes, no key of it needs trust"),
        ('[plugins]\nrequire = ["cli"]\n', "nothing changes, no key of it needs trust"),
        (
            '[agent]\nmodel = "openai:x"\n[plugins]\ndisable = ["ask"]\n'
            '[plugins.named_capabilities.options.entries.clock]\nuse = "acme:Clock"\n',
            "these count: plugins.disable, agent.model, plugins.named_capabilities.options.entries",
        ),
    ],
)
def test_trust_says_first_what_it_lets_the_file_set(text: str, effect: str, make_deep: Any) -> None:
    deep = make_deep()
    (deep.work / "deep.toml").write_text(text)
    assert deep("config", "trust").ok().out.startswith(f"Once you trust it, {effect}\n")


def test_there_must_be_something_to_trust(make_deep: Any) -> None:
    deep = make_deep()
    done = deep("config", "trust")
    assert done.code == 2
    assert "deep config init" in done.err
    (deep.work / "deep.toml").write_text("[agent\n")
    done = deep("config", "trust")
    assert done.code == 2
    assert "deep.toml" in done.err


@pytest.mark.slow
def test_init_writes_a_file_that_changes_nothing_and_never_overwrites(make_deep: Any) -> None:
    deep = make_deep("backends", "filesystem")
    before = shown(deep)
    deep("config", "init").ok()
    after = shown(deep)
    assert after["agent"] == before["agent"]
    assert after["plugins"] == before["plugins"]
    assert after["ignored"] == []
    text = (deep.work / "deep.toml").read_text()
    done = deep("config", "init")
    assert done.code == 1
    assert "deep.toml exists; edit it" in done.err
    assert (deep.work / "deep.toml").read_text() == text


@pytest.mark.slow
def test_every_line_that_init_suggests_is_accepted(make_deep: Any) -> None:
    deep = make_deep("backends", "filesystem", "todo")
    deep("config", "init", "--user").ok()
    file = deep.environment.home / ".config" / "deep" / "config.toml"
    text = re.sub(r"(?m)^# (?=[a-z_.]+ = )", "", file.read_text())
    assert text.count("\n# ") < file.read_text().count("\n# ")
    file.write_text(text)
    found = shown(deep)
    assert found["agent"]["prompt.system"]["value"] == "Answer in one paragraph."
    assert found["plugins"]["filesystem"]["options"]["read_lines"]["value"] == 1000
    deep("explain").ok()


@pytest.mark.slow
def test_the_schema_has_the_agent_and_every_active_plugins_options(make_deep: Any) -> None:
    deep = make_deep("backends", others=(VAULT,))
    schema = json.loads(deep("config", "schema").ok().out)
    plugins = schema["properties"]["plugins"]["properties"]
    assert {"allow", "disable", "require", "backends", "vault", "cli"} <= set(plugins)

    def resolved(part: dict[str, Any]) -> dict[str, Any]:
        return schema["$defs"][part["$ref"].rpartition("/")[2]] if "$ref" in part else part

    options = resolved(plugins["vault"]["properties"]["options"])
    assert set(options["properties"]) == {"pin", "api_key", "dsn", "url", "unit"}
    agent = resolved(schema["properties"]["agent"])
    assert {"type": "string"} in agent["properties"]["model"]["anyOf"]
    refs = re.findall(r'"\$ref": "#/\$defs/([^"]+)"', json.dumps(schema))
    assert refs
    assert set(refs) <= set(schema["$defs"])


# -- secrets -----------------------------------------------------------------------------------------------------------

CANARY = "sk-canary-4711-do-not-show"


@pytest.mark.slow
def test_no_command_shows_a_secret(make_deep: Any) -> None:
    deep = make_deep("backends", "filesystem", others=(VAULT,))
    deep.config(
        "[plugins.vault.options]\n"
        f'pin = "{CANARY}"\napi_key = "{CANARY}"\ndsn = "{CANARY}"\nurl = "https://me:{CANARY}@example.org/x"\n'
    )
    env = {
        "DEEP_MODEL": "openai-chat:stub",
        "OPENAI_API_KEY": CANARY,
        "ACME_TOKEN": CANARY,
        "DB_PASSWORD": CANARY,
        "DEEP_PLUGINS__VAULT__OPTIONS__UNIT": CANARY,  # its value is a secret elsewhere, whatever it is called here
    }
    for arguments in (
        ["config", "show"],
        ["config", "show", "--json"],
        ["config", "schema"],
        ["explain"],
        ["explain", "--json"],
        ["explain", "--prompt"],
        ["doctor"],
        ["doctor", "--json"],
        ["plugins", "list", "--json"],
    ):
        done = deep(*arguments, env=env)
        assert CANARY not in done.out + done.err, arguments
    options = shown(deep, **env)["plugins"]["vault"]["options"]
    assert options["url"]["value"] == "https://***@example.org/x"
    assert options["api_key"]["value"] == "***"


@pytest.mark.slow
def test_errors_and_tracebacks_show_no_secret(make_deep: Any) -> None:
    deep = make_deep("backends")
    (deep.work / "leaky.py").write_text("import os\nraise ValueError('key is ' + os.environ['ACME_TOKEN'])\n")
    done = deep("explain", "-p", "leaky.py", "--verbose", env={"ACME_TOKEN": CANARY})
    assert done.code == 1
    assert "key is ***" in done.err
    assert "Traceback" in done.err
    assert CANARY not in done.err
