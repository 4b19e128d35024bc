"""What holds for every test of the repository, the kernel's and the plugins'."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
import warnings
from collections.abc import Generator
from importlib import import_module
from pathlib import Path

import pytest

from tests.drawn import load_profile
from tests.needs import one_skip_for_all

load_profile()
# A shell starts a background job with Ctrl-C ignored, and every command that the tests start would ignore it too.
signal.signal(signal.SIGINT, signal.default_int_handler)
# No test speaks TLS, and every HTTP client reads all authorities that there are, for 30 ms. This file has one.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).parent / "tests" / "fixtures" / "no_authority.pem")
# Programs that tests start call `python3`. Where that is a script of pyenv, it takes longer than what it starts.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.base_prefix, "bin")), os.environ.get("PATH", os.defpath)])
gc.set_threshold(50_000, 20, 20)
OF_SERVERS = {
    "deep_sessions.requests.windows": ("_KNOWN", "_FACTS", "_TIMES"),
    "deep_sessions.requests.breaker": ("_BREAKERS",),
}
"""What a process remembers of servers, by address: the server of a later test may get the port of an earlier one."""


def pytest_xdist_auto_num_workers() -> int:
    """One worker more than there are cores: some tests wait for a process that they started."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """Mark as slow what needs a server: every worker starts one. Skip what this machine cannot run."""
    for item in items:
        if any("PostgreSQL" in mark.args for mark in item.iter_markers("needs")):
            item.add_marker("slow")
    yield
    one_skip_for_all(config, items)  # after -m and -k: it counts what they leave


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, object, object]:
    """Close the event loop that `run_sync` made and left: the collector would find it, unclosed, in a later test."""
    result = yield
    for module, names in OF_SERVERS.items():
        for name in names:
            getattr(sys.modules.get(module), name, dict[str, object]()).clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            loop = asyncio.get_event_loop()
        except RuntimeError:  # there is none, as after `asyncio.run`
            return result
    if not loop.is_running():
        loop.close()
        asyncio.set_event_loop(None)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Keep the garbage collector from looking at a million objects of collected tests again and again."""
    gc.disable()
    try:
        import_share(session.config)
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def import_share(config: pytest.Config) -> None:
    """In a worker that runs all tests, import some of their files before pytest collects all.

    Whoever imports a file first rewrites its assertions, and leaves the byte code for the others. All workers collect
    in the same order: in a fresh checkout, each of them would rewrite every file.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None or [*config.args] != config.getini("testpaths"):
        return
    files = [*config.rootpath.glob("tests/**/test_*.py"), *config.rootpath.glob("plugins/*/tests/**/test_*.py")]
    share = sorted(files)[int(worker["workerid"].removeprefix("gw")) :: worker["workercount"]]
    for file in share:
        with contextlib.suppress(Exception, pytest.skip.Exception):  # pytest imports it again, and reports it
            import_module(".".join(file.relative_to(config.rootpath).with_suffix("").parts))
