"""docs/troubleshooting.md: each symptom is produced by real parts, and reads as the page says; fixes are typed too."""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests import forked
from tests.docs_pages import ROOT, blocks
from tests.drawn import sample
from tests.environments import Distribution, Environment, Finished
from tests.stubs import AnthropicStub, Failure, Script

PAGE = ROOT / "docs" / "troubleshooting.md"
PLUGINS = ("backends", "cli", "demo", "filesystem", "mcp", "sessions", "todo", "universe", "uploads", "web")
SECONDS = 60
CLAUDE = "anthropic:claude-sonnet-4-5"
BROKEN = Distribution("acme-broken", {"broken": "acme_broken"}, {"acme_broken.py": "import nothing_here\n"})
FUTURE = Distribution(
    "acme-future", {"future": "acme_future"}, {"acme_future.py": ""}, requires=("deep-agent-core>=9",)
)
PAY = '''
import asyncio
from deep_core import Kernel, create_deep_agent, create_default_deps

def pay(amount: int) -> str:
    """Pay an amount."""
    return "paid"

'''
"""The start of programs with a tool that moves money."""
SESSION = """
import asyncio
from deep_sessions import AgentDeps, DeepAgent, SessionBusy

def agent(**more):
    return DeepAgent.create(deps=AgentDeps(model="test", session_store="sqlite:///runs.db"), **more)

"""


def symptoms() -> dict[str, str]:
    """Heading of the page -> the text that a reader sees."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    headings = {number: line[4:] for number, line in enumerate(lines, 1) if line.startswith("### ")}
    found = dict[str, str]()
    for block in blocks(PAGE):
        if block.language == "text":
            last = max(number for number in headings if number < block.line)
            assert headings[last] not in found, f"{headings[last]} has two texts"
            found[headings[last]] = block.code
    assert list(found) == list(headings.values())
    return found


SYMPTOMS = symptoms()
MADE: dict[str, Callable[[Reader], Finished]] = {}
"""Heading -> the function that produces what it shows."""


def symptom(heading: str) -> Callable[[Callable[[Reader], Finished]], Callable[[Reader], Finished]]:
    def add(function: Callable[[Reader], Finished]) -> Callable[[Reader], Finished]:
        assert heading not in MADE, heading
        MADE[heading] = function
        return function

    return add


@dataclass(frozen=True)
class Reader:
    """A person with a folder and a home of their own.

    Attributes:
        environment: what is installed.
        folder: the current folder.
        home: with no configuration and no key.
    """

    environment: Environment
    folder: Path
    home: Path

    def deep(self, *arguments: str, env: Mapping[str, str] | None = None) -> Finished:
        """Type `deep ARGUMENTS`, without a terminal."""
        return self._python(["-P", "-m", "deep_cli", *arguments], env)

    def program(self, code: str) -> Finished:
        """Run a program; its last line of output is that of the exception."""
        return self._python(["-P", "-c", code], None)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    def variables(self, **more: str) -> dict[str, str]:
        home = {"HOME": str(self.home), "NO_COLOR": "1", "NO_PROXY": "*", "COLUMNS": "100"}
        return self.environment.variables(**(home | more))

    def _python(self, arguments: list[str], env: Mapping[str, str] | None) -> Finished:
        command = [str(self.environment.python), *arguments]
        variables = self.variables(**(env or {}))
        return Finished(*forked.run(self.environment.prefix, command, self.folder, variables, ""))


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    found = Environment.create(tmp_path_factory.mktemp("troubles"))
    found.install(*(Distribution.of_project(ROOT / "plugins" / name) for name in PLUGINS))
    return found


@pytest.fixture
def reader(environment: Environment, tmp_path: Path) -> Reader:
    for name in ("folder", "home"):
        (tmp_path / name).mkdir()
    return Reader(environment, tmp_path / "folder", tmp_path / "home")


def test_the_page_has_thirty_symptoms_and_each_is_produced() -> None:
    assert len(SYMPTOMS) >= 30
    assert list(MADE) == list(SYMPTOMS)


@pytest.mark.slow
@pytest.mark.parametrize("heading", sample(SYMPTOMS, *[*SYMPTOMS][::5]))
def test_a_reader_sees_what_the_page_says(heading: str, reader: Reader) -> None:
    done = MADE[heading](reader)
    printed = f"{done.out}\n{done.err}"
    said = SYMPTOMS[heading].splitlines()
    pattern = "\n".join(".*".join(re.escape(part) for part in line.split("…")) for line in said)
    assert re.search(rf"^{pattern}$", printed, re.M), f"{heading}\n--- the page says\n{said}\n--- seen\n{printed}"


@contextlib.contextmanager
def installed(reader: Reader, *distributions: Distribution) -> Iterator[None]:
    reader.environment.install(*distributions)
    try:
        yield
    finally:
        for distribution in distributions:
            reader.environment.uninstall(distribution)


@contextlib.contextmanager
def hidden(reader: Reader, package: str) -> Iterator[None]:
    """A package that may be on this machine is not there."""
    file = reader.environment.site / f"{package}.py"
    file.write_text(f"raise ModuleNotFoundError({f'No module named {package!r}'!r}, name={package!r})\n", "utf-8")
    try:
        yield
    finally:
        file.unlink()


# -- install ----------------------------------------------------------------------------------------------------------


@symptom("The shell does not find deep")
def _(reader: Reader) -> Finished:
    empty = reader.variables(PATH="/usr/bin:/bin")
    if shutil.which("deep", path=empty["PATH"]):
        pytest.skip("this machine has a deep in /usr/bin")
    done = subprocess.run(["bash", "-c", "deep --version"], env=empty, capture_output=True, text=True, check=False)
    active = f'. "{Path(sys.executable).parent}/activate" && deep --version'
    subprocess.run(["bash", "-c", active], env=empty, capture_output=True, check=True)
    return Finished(done.returncode, done.stdout, done.stderr)


@symptom("Python does not find deep_core")
def _(reader: Reader) -> Finished:
    bare = Environment.create(reader.folder / "bare", kernel=False)
    (bare.site / "dependencies.pth").unlink()
    return bare.run(bare.python, "-P", "-c", "import deep_core")


@symptom("A command is missing")
def _(reader: Reader) -> Finished:
    return reader.deep("worker", "--model", "demo:echo")


@symptom("The provider's package is not installed")
def _(reader: Reader) -> Finished:
    with hidden(reader, "groq"):
        return reader.deep("run", "hi", "-m", "groq:llama-3")


# -- plugins ----------------------------------------------------------------------------------------------------------


@symptom("An installed plugin is failed")
def _(reader: Reader) -> Finished:
    with installed(reader, BROKEN):
        seen = reader.deep("run", "hi", "-m", "demo:echo")
        reader.write("deep.toml", '[plugins]\ndisable = ["broken"]\n')
        reader.deep("config", "trust").ok()
        assert "broken" not in reader.deep("run", "hi", "-m", "demo:echo").ok().err
    return seen.ok()


@symptom("A plugin is incompatible")
def _(reader: Reader) -> Finished:
    with installed(reader, FUTURE):
        return reader.deep("run", "hi", "-m", "demo:echo").ok()


@symptom("A plugin is installed and does nothing")
def _(reader: Reader) -> Finished:
    seen = reader.deep("plugins", "list", env={"DEEP_PLUGINS_DISABLE": "todo"})
    # The columns are as wide as what is installed.
    return Finished(seen.code, re.sub(r"(todo|0\.1\.0|deep-todo) {2,}", widths, seen.out), seen.err)


def widths(found: re.Match[str]) -> str:
    return found[1].ljust({"todo": 15, "0.1.0": 9, "deep-todo": 20}[found[1]])


@symptom("A hook has the wrong name")
def _(reader: Reader) -> Finished:
    code = "from deep_core import hookimpl\n@hookimpl\ndef deep_toolset{}(context):\n    return []\n"
    reader.write("misspelled.py", code.format(""))
    seen = reader.deep("run", "hi", "-m", "demo:echo", "-p", "./misspelled.py")
    reader.write("misspelled.py", code.format("s"))
    reader.deep("run", "hi", "-m", "demo:echo", "-p", "./misspelled.py").ok()
    return seen


@symptom("Two plugins have a tool of one name")
def _(reader: Reader) -> Finished:
    reader.write(
        "radar.py",
        '''
from deep_core import hookimpl

@hookimpl
def deep_toolsets(context):
    from pydantic_ai import FunctionToolset
    toolset = FunctionToolset(id="radar")
    @toolset.tool_plain
    def read_file(path: str) -> str:
        """Read a file by radar."""
        return path
    return [toolset]
''',
    )
    seen = reader.deep("explain", "-p", "./radar.py")
    reader.write("mine.toml", '[plugins.radar]\nprefix = "radar"\n')
    assert "radar_read_file" in reader.deep("explain", "-p", "./radar.py", "--config", "mine.toml").ok().out
    return seen


@symptom("An option is unknown")
def _(reader: Reader) -> Finished:
    reader.write("deep.toml", "[plugins.todo.options]\nmax_todo = 3\n")
    seen = reader.deep("run", "hi", "-m", "demo:echo", "--config", "deep.toml")
    reader.write("deep.toml", "[plugins.todo.options]\nmax_todos = 3\n")
    reader.deep("run", "hi", "-m", "demo:echo", "--config", "deep.toml").ok()
    return seen


# -- configuration ----------------------------------------------------------------------------------------------------


@symptom("A setting of a project is ignored")
def _(reader: Reader) -> Finished:
    reader.write("deep.toml", '[agent]\nmodel = "demo:echo"\n')
    seen = reader.deep("run", "hi")
    reader.deep("config", "trust").ok()
    assert reader.deep("run", "hi").ok().out == "hi\n"
    return seen


# -- models -----------------------------------------------------------------------------------------------------------


@symptom("No model is configured")
def _(reader: Reader) -> Finished:
    assert reader.deep("run", "hi", env={"DEEP_MODEL": "demo:echo"}).ok().out == "hi\n"
    return reader.deep("run", "hi")


@symptom("The model has no key")
def _(reader: Reader) -> Finished:
    return reader.deep("run", "hi", "-m", "openai-chat:gpt-5.2")


@symptom("The model is unknown")
def _(reader: Reader) -> Finished:
    return reader.deep("run", "hi", "-m", "opnai:gpt")


NO_WAIT = {"DEEP_AGENT__MODEL__RETRY__MAX_WAIT_MS": "0"}
"""What the page shows is said after two minutes, which change nothing of it."""


def with_provider(reader: Reader, status: int) -> Finished:
    with AnthropicStub(Script(*[Failure(status)] * 20)) as stub:
        variables = {"ANTHROPIC_API_KEY": "x", "ANTHROPIC_BASE_URL": stub.base_url}
        return reader.deep("run", "hi", "-m", CLAUDE, env={**variables, **NO_WAIT})


@symptom("The provider refuses more requests")
def _(reader: Reader) -> Finished:
    return with_provider(reader, 429)


@symptom("The run needs more requests than it may send")
def _(reader: Reader) -> Finished:
    return reader.program(
        PAY
        + """
from pydantic_ai import UsageLimits
agent = create_deep_agent("test", tools=[pay], tool_filter="name:pay")
agent.run_sync("x", deps=create_default_deps(), usage_limits=UsageLimits(request_limit=1))
"""
    )


# -- approvals --------------------------------------------------------------------------------------------------------

ASKS = """
agent = create_deep_agent("test", tools=[pay], interrupt_on={"pay": True}, tool_filter="name:pay")
deps = create_default_deps()
result = agent.run_sync("x", deps=deps)
"""


@symptom("A call is denied without a question")
def _(reader: Reader) -> Finished:
    reader.deep("call", "execute", "command=ls", "--approve", "allow").ok()
    seen = reader.deep("call", "execute", "command=ls")
    assert seen.code == 3
    return seen


@symptom("A rule names a tool that does not exist")
def _(reader: Reader) -> Finished:
    return reader.program(PAY + 'create_deep_agent("test", tools=[pay], interrupt_on={"pya": True})')


@symptom("The output is no text")
def _(reader: Reader) -> Finished:
    return reader.program(PAY + ASKS + "print(result.output.upper())")


@symptom("A waiting call has no decision")
def _(reader: Reader) -> Finished:
    again = """
from pydantic_ai import DeferredToolResults
history = result.all_messages()
agent.run_sync(deps=deps, message_history=history, deferred_tool_results=DeferredToolResults())
"""
    return reader.program(PAY + ASKS + again)


# -- files and commands -----------------------------------------------------------------------------------------------


@symptom("The agent has no tool for commands")
def _(reader: Reader) -> Finished:
    return reader.deep("call", "execute", "command=ls", "--backend", "memory", "--approve", "allow")


@symptom("The sandbox does not start")
def _(reader: Reader) -> Finished:
    return reader.deep("call", "ls", "--backend", "sandbox", env={"PATH": str(reader.home)})


@symptom("An edit is refused")
def _(reader: Reader) -> Finished:
    reader.write("a.txt", "one\n")
    return reader.deep("call", "edit_file", "path=a.txt", "old_string=one", "new_string=two")


# -- programs ---------------------------------------------------------------------------------------------------------


@symptom("An agent has no session")
def _(reader: Reader) -> Finished:
    return reader.program(PAY + 'create_deep_agent("demo:tour", backend="memory", interrupt_on=False).run_sync("x")')


@symptom("A session has two runs at a time")
def _(reader: Reader) -> Finished:
    return reader.program(
        PAY
        + """
async def main():
    deps = create_default_deps()
    agent = create_deep_agent("demo:echo", backend="memory")
    await asyncio.gather(agent.run("one", deps=deps), agent.run("two", deps=deps))

asyncio.run(main())
"""
    )


@symptom("The event loop is already running")
def _(reader: Reader) -> Finished:
    return reader.program(
        PAY
        + """
async def main():
    create_deep_agent("demo:echo", backend="memory").run_sync("x", deps=create_default_deps())

asyncio.run(main())
"""
    )


# -- sessions ---------------------------------------------------------------------------------------------------------


@symptom("A session is busy")
def _(reader: Reader) -> Finished:
    return reader.program(
        SESSION
        + """
async def main():
    running, end = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        "Wait."
        running.set()
        await end.wait()
        return "waited"

    one, two = await agent(tools=[slow], tool_filter="name:slow"), await agent()
    run = asyncio.create_task(one.run("x", session_id="b"))
    await running.wait()
    try:
        await two.run("y", session_id="b")
    except SessionBusy as error:
        print(f"{type(error).__name__}: {error}")
    end.set()
    await run
    await one.close()
    await two.close()

asyncio.run(main())
"""
    ).ok()


@symptom("A session waits for decisions")
def _(reader: Reader) -> Finished:
    return reader.program(
        SESSION
        + '''
def pay(amount: int) -> str:
    """Pay an amount."""
    return "paid"

async def main():
    payer = await agent(tools=[pay], interrupt_on={"pay": True}, tool_filter="name:pay")
    await payer.run("Pay.", session_id="a")
    try:
        await payer.run("And now?", session_id="a")
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
    await payer.close()

asyncio.run(main())
'''
    ).ok()


# -- MCP --------------------------------------------------------------------------------------------------------------


@symptom("A server is blocked")
def _(reader: Reader) -> Finished:
    reader.write(".mcp.json", '{"mcpServers": {"notes": {"command": "no-such-program"}}}')
    seen = reader.deep("run", "hi", "-m", "demo:echo").ok()
    reader.deep("config", "trust", ".mcp.json").ok()
    assert "blocked" not in reader.deep("mcp", "list").ok().out
    return seen


@symptom("A server does not start")
def _(reader: Reader) -> Finished:
    reader.deep("mcp", "add", "notes", "--", "no-such-program").ok()
    return reader.deep("mcp", "test", "notes")


# -- servers ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def taken(*, listening: bool = False) -> Iterator[int]:
    """A port of this machine that nobody else gets."""
    with socket.socket() as here:
        here.bind(("127.0.0.1", 0))
        if listening:
            here.listen()
        yield here.getsockname()[1]


@symptom("The port is taken")
def _(reader: Reader) -> Finished:
    with taken(listening=True) as port:
        return reader.deep("mcp", "serve", "--http", f"127.0.0.1:{port}")


@symptom("The port of the page is taken")
def _(reader: Reader) -> Finished:
    with taken(listening=True) as port:
        return reader.deep("web", "--no-browser", "-m", "demo:echo", "--port", str(port))


@contextlib.contextmanager
def page(reader: Reader) -> Iterator[str]:
    """`deep web` on a free port: the address that it prints."""
    command = [str(reader.environment.python), "-P", "-m", "deep_cli", "web", "--no-browser", "--port", "0"]
    server = subprocess.Popen(
        [*command, "-m", "demo:echo"],
        cwd=reader.folder,
        env=reader.variables(PYTHONUNBUFFERED="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        assert "?token=" in address, (address, server.poll())
        yield address
    finally:
        server.terminate()
        server.communicate(timeout=SECONDS)


def refused(reader: Reader, path: str, **headers: str) -> Finished:
    with page(reader) as address, httpx.Client(trust_env=False, timeout=SECONDS) as client:
        assert client.get(address, follow_redirects=True).status_code == 200
        answer = httpx.get(address.partition("?")[0] + path, headers=headers, trust_env=False, timeout=SECONDS)
        assert answer.status_code >= 400
        return Finished(1, answer.json()["error"], "")


@symptom("The page has no token")
def _(reader: Reader) -> Finished:
    return refused(reader, "api/info")


@symptom("The page has another name")
def _(reader: Reader) -> Finished:
    return refused(reader, "", host="agents.example.org")


@symptom("Another host needs a token")
def _(reader: Reader) -> Finished:
    return reader.deep("mcp", "serve", "--http", "0.0.0.0:8124")


@symptom("A client is refused")
def _(reader: Reader) -> Finished:
    with taken() as free:
        port = free
    command = [str(reader.environment.python), "-P", "-m", "deep_cli", "mcp", "serve", "--http", f"127.0.0.1:{port}"]
    server = subprocess.Popen(
        command,
        cwd=reader.folder,
        env=reader.variables(DEEP_MCP_TOKEN="secret"),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        answer = ask(server, f"http://127.0.0.1:{port}/mcp")
        return Finished(0, f"{answer.status_code} {answer.reason_phrase}\n", "")
    finally:
        server.terminate()
        server.communicate(timeout=SECONDS)


def ask(server: subprocess.Popen[str], url: str) -> httpx.Response:
    """Post to a server that may not listen yet."""
    deadline = time.monotonic() + SECONDS
    with httpx.Client(trust_env=False) as client:
        while True:
            with contextlib.suppress(httpx.TransportError):
                return client.post(url, json={})
            assert server.poll() is None, server.communicate()
            assert time.monotonic() < deadline, "the server does not answer"
            time.sleep(0.05)
