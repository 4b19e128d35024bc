"""The suite for stores of sessions: each mistake that a store can make fails the test about it."""

from __future__ import annotations

import pytest

from tests.authors_pytest import RunPytest

pytest_plugins = ["pytester"]

AUTHOR = """
import asyncio
import itertools
from dataclasses import replace

import pytest
from deep_sessions import MemoryStore, SessionNotFound
from pytest_deep import SessionStoreConformance, session_store_suite

session_store_suite.FREE_SECONDS = 0.2  # Waits leaves a lease that nobody releases


class NoFence(MemoryStore):
    def _held(self, lease):
        return self._find(lease.session_id)

class SameFence(MemoryStore):
    async def delete(self, session_id):
        await super().delete(session_id)
        self._numbers = itertools.count(1)

class NoOwner(MemoryStore):
    async def list(self, **how):
        view, view.owner = self.for_owner(self.owner or "x"), None
        return await MemoryStore.list(view, **how)

class Half(MemoryStore):
    async def commit(self, lease, commit):
        for entry in commit.entries:
            await super().commit(lease, replace(commit, entries=[entry], put={}, drop=(), read=(), status=None))
        return await super().commit(lease, replace(commit, entries=()))

class Twice(MemoryStore):
    def commit_now(self, lease, commit):
        asyncio.run(self.commit(lease, commit))

class Folded(MemoryStore):
    async def acquire(self, session_id, **how):
        return await super().acquire(session_id.strip().lower() or session_id, **how)

class Waits(MemoryStore):
    async def acquire(self, session_id, **how):
        lease = await super().acquire(session_id, **how)
        await asyncio.sleep(0)
        return lease

class DecidesTwice(MemoryStore):
    async def decide(self, session_id, seq, decisions):
        for data in decisions.values():
            await self.post(session_id, "decision", data)
        return True

class AllEntries(MemoryStore):
    async def load(self, session_id):
        return replace(await super().load(session_id), entries=await self.entries(session_id))
"""
CAUGHT = {
    "NoFence": "test_a_lease_that_ended_is_taken_over",
    "SameFence": "test_a_deleted_session_is_gone_and_its_lease_with_it",
    "NoOwner": "test_lists_show_an_owner_only_its_own",
    "Half": "test_a_commit_that_fails_leaves_nothing",
    "Twice": "test_commits_with_and_without_waiting_are_one_journal",
    "Folded": "test_an_id_may_be_any_text",
    "Waits": "test_a_cancelled_acquisition_holds_nothing",
    "DecidesTwice": "test_of_tasks_that_decide_at_once_one_succeeds",
    "AllEntries": "test_loading_begins_at_the_last_base",
}
SUBCLASS = """
class Test{name}(SessionStoreConformance):
    @pytest.fixture
    def store(self):
        return {name}()
"""


@pytest.mark.slow
def test_every_mistake_is_caught(pytester: pytest.Pytester, run_pytest: RunPytest) -> None:
    pytester.makepyfile(AUTHOR + "".join(SUBCLASS.format(name=name) for name in CAUGHT))
    chosen = " or ".join(f"(Test{name} and {test})" for name, test in CAUGHT.items())
    result = run_pytest("-k", chosen)
    outcomes = result.parseoutcomes()
    # Warnings: of a commit that a mistake never awaits, if the garbage collector comes to it before the end.
    assert outcomes.keys() - {"warnings"} == {"failed", "deselected"}
    assert outcomes["failed"] == len(CAUGHT)
    result.stdout.fnmatch_lines_random([f"FAILED *::Test{name}::{test}*" for name, test in CAUGHT.items()])
