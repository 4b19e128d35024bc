"""The lease that a runner holds for a run: renewed, lost, given back."""

from __future__ import annotations

import asyncio

import pytest
from deep_sessions import Lease, LeaseLost, MemoryStore, StoreError
from deep_sessions.lease import Leases
from deep_sessions.mailbox import Mailbox
from pydantic_ai import CancellationToken

pytestmark = pytest.mark.anyio
TTL = 0.06


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Renewing(MemoryStore):
    """Counts the renewals; each raises the given error, if any."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.error, self.renewed = error, 0

    async def renew(self, lease: Lease) -> None:
        self.renewed += 1
        if self.error is not None:
            raise self.error
        await super().renew(lease)


@pytest.mark.parametrize("error", [LeaseLost("another has it"), StoreError("the store is gone")])
async def test_a_run_is_stopped_when_its_lease_is_lost_or_ends(error: LeaseLost | StoreError) -> None:
    token, store = CancellationToken(), Renewing(error)
    async with Leases(store, Mailbox(store), TTL).hold("s", create=True, token=token) as held:
        async with asyncio.timeout(60):
            while not token.cancelled:
                await asyncio.sleep(0.01)
        assert held.lost is error


async def test_a_lease_is_renewed_while_it_is_held_and_free_afterwards() -> None:
    token, store = CancellationToken(), Renewing()
    async with Leases(store, Mailbox(store), TTL).hold("s", create=True, token=token) as held:
        async with asyncio.timeout(60):
            while store.renewed < 3:
                await asyncio.sleep(0.01)
        assert (held.lost, token.cancelled) == (None, False)
    assert (await store.info("s")).holder is None
    again = await store.acquire("s")
    assert again.fence != held.lease.fence


@pytest.mark.parametrize("ticks", range(6))
async def test_mail_that_comes_as_a_run_ends_does_not_keep_its_lease(ticks: int) -> None:
    store = MemoryStore()
    leases = Leases(store, Mailbox(store), 60.0)
    async with asyncio.timeout(60):
        async with leases.hold("s", create=True, token=CancellationToken()):
            await asyncio.sleep(0)
            leases.poke("s")
            for _ in range(ticks):
                await asyncio.sleep(0)
    assert (await store.info("s")).holder is None
