"""The conformance suite for stores of sessions: one runner, whole commits, owners who see nothing of each other."""

# A test suite: its checks are assertions.
# ruff: noqa: S101

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar, overload

import pytest
from deep_sessions import (
    Commit,
    Entry,
    Lease,
    LeaseLost,
    MemoryStore,
    NewEntry,
    SessionBusy,
    SessionNotFound,
    SessionStore,
)

from .conversations_suite import ConversationsConformance
from .decisions_suite import DecisionsConformance

__all__ = ["SessionStoreConformance"]

T = TypeVar("T")

HOUR = 3600.0
IDS = (
    *("plain", "two words", " ends with a space ", "Ünïcødé 日本語 🦉", "a/b/../c", "100%_of_*", "line\nbreak", "null"),
    *("'; --\"`\\", "x" * 500),
)
LOOKALIKES = ("a", "A", "a ", " a", "\u00e1", "a\u0301", "\u0430")
"""Ids that a database may take for one: other case, spaces, a composed and a decomposed letter, a Cyrillic one."""
NO_IDS = ("", "a\0b", "half \ud83d of a pair")
OPERATIONS: dict[str, Callable[[SessionStore, str], Awaitable[object]]] = {
    "acquire": lambda store, session_id: store.acquire(session_id, create=False),
    "post": lambda store, session_id: store.post(session_id, "prompt", b"{}"),
    "mail": lambda store, session_id: store.mail(session_id),
    "load": lambda store, session_id: store.load(session_id),
    "entries": lambda store, session_id: store.entries(session_id),
    "info": lambda store, session_id: store.info(session_id),
    "delete": lambda store, session_id: store.delete(session_id),
}
UNDER_LEASE: dict[str, Callable[[SessionStore, Lease], Awaitable[object]]] = {
    "renew": lambda store, lease: store.renew(lease),
    "commit": lambda store, lease: store.commit(lease, Commit([NewEntry("messages", b"{}")])),
    "commit_now": lambda store, lease: _commit(store, lease, Commit([NewEntry("messages", b"{}")])),
}
THREADS = 6
FREE_SECONDS = 30.0
"""Seconds in which a session must become free: more than a busy machine needs."""
STEPS = (*range(6), *range(10, 200, 10))
"""After how many turns of the event loop a task is cancelled."""


class SessionStoreConformance(ConversationsConformance, DecisionsConformance):
    """Subclass it in a test module and define the fixture `store`, with an empty store:

        class TestMyStore(SessionStoreConformance):
            @pytest.fixture
            def store(self, tmp_path):
                return MyStore(tmp_path / "sessions")

    A store that keeps sessions longer than the process defines the fixture `open_again` too: a function that opens
    another instance with the same sessions. The suite closes what it opens, and `store`. `decision_rounds` says how
    often 2 to 8 tasks, threads and processes decide one call at the same time.
    """

    @pytest.fixture
    def store(self) -> SessionStore:
        """The store under test, empty."""
        raise NotImplementedError("define the fixture `store`")

    @pytest.fixture
    def open_again(self) -> Callable[[], SessionStore] | None:
        """A function that opens the same sessions a second time; None if they end with the instance."""
        return None

    @pytest.fixture(autouse=True)
    def close(self, store: SessionStore) -> Iterator[None]:
        """Close the store after the test."""
        yield
        _run(store.aclose())

    # -- sessions ------------------------------------------------------------------------------------------------------

    def test_a_new_session_is_empty(self, store: SessionStore) -> None:
        """Acquiring creates a session; it is idle and has nothing."""
        _run(store.acquire("s"))
        stored = _run(store.load("s"))
        assert (list(stored.entries), dict(stored.ledger), list(stored.mail)) == ([], {}, [])
        info = stored.info
        assert (info.id, info.owner, info.status, info.seq) == ("s", None, "idle", 0)
        assert info == _run(store.info("s")), "load() and info() show one session in two ways"

    @pytest.mark.parametrize("operation", OPERATIONS)
    @pytest.mark.parametrize("session_id", ["unknown", *NO_IDS], ids=ascii)
    def test_an_unknown_session_is_not_found(self, store: SessionStore, operation: str, session_id: str) -> None:
        """Every call about one session raises SessionNotFound, also for a text that can be no id."""
        _run(store.acquire("s"))
        with pytest.raises(SessionNotFound):
            _run(OPERATIONS[operation](store, session_id))
        assert [info.id for info in _run(store.list())] == ["s"], f"{operation}() created a session"

    @pytest.mark.parametrize("session_id", [*NO_IDS, "x" * 501], ids=ascii)
    def test_an_id_that_cannot_be_stored_is_refused(self, store: SessionStore, session_id: str) -> None:
        """A session to create has an id of 1 to 500 characters of text."""
        with pytest.raises(ValueError, match="id of a session"):
            _run(store.acquire(session_id))

    def test_an_id_may_be_any_text(self, store: SessionStore) -> None:
        """Ids come back as they were given, and no two are taken for one."""
        for number, session_id in enumerate((*IDS, *LOOKALIKES)):
            lease = _run(store.acquire(session_id))
            _run(store.commit(lease, Commit([NewEntry(f"kind {number}", b"{}")])))
        for number, session_id in enumerate((*IDS, *LOOKALIKES)):
            assert _run(store.info(session_id)).id == session_id
            assert [entry.kind for entry in _run(store.entries(session_id))] == [f"kind {number}"], repr(session_id)
        assert sorted(info.id for info in _run(store.list())) == sorted((*IDS, *LOOKALIKES))

    def test_lists_show_the_latest_first(self, store: SessionStore) -> None:
        """Lists are ordered by the last entry, filtered, and read page by page."""
        leases = {name: _run(store.acquire(name)) for name in ("a", "b", "c", "d")}
        for name in ("c", "a", "d", "b"):
            _run(store.commit(leases[name], Commit([NewEntry("messages", b"{}")])))
        _run(store.commit(leases["c"], Commit(status="awaiting")))
        assert [info.id for info in _run(store.list())] == ["b", "d", "a", "c"], (
            "order by the time of the last entry; a commit without entries does not change it"
        )
        assert [info.id for info in _run(store.list(limit=2, offset=1))] == ["d", "a"]
        assert [info.id for info in _run(store.list(status="awaiting"))] == ["c"]
        before = _run(store.info("d")).updated_at
        assert [info.id for info in _run(store.list(updated_before=before))] == ["a", "c"]
        assert _run(store.list(offset=4)) == _run(store.list(status="failed")) == []

    # -- commits -------------------------------------------------------------------------------------------------------

    def test_entries_are_numbered_and_come_back_as_they_were(self, store: SessionStore) -> None:
        """Numbers are 1, 2, 3 …; a kind that the store does not know is kept."""
        new = [
            NewEntry("messages", '{"text": "日本語 🦉 \\u0000"}'.encode(), "run-1", 3),
            NewEntry("a_later_kind", b"[]", None, 99),
            NewEntry("base", b'{"whole": true}', "run-2", 1, True),
        ]
        lease = _run(store.acquire("s"))
        assert _run(store.commit(lease, Commit(new[:1]))) == 1
        assert _run(store.commit(lease, Commit(new[1:]))) == 3
        assert _run(store.commit(lease, Commit())) == 3, "a commit without entries returns the last number"
        entries = _run(store.entries("s"))
        assert [entry.seq for entry in entries] == [1, 2, 3]
        assert [_new(entry) for entry in entries] == new
        info = _run(store.info("s"))
        assert info.created_at <= entries[0].at <= entries[1].at == info.updated_at
        assert info.seq == 3

    def test_commits_with_and_without_waiting_are_one_journal(self, store: SessionStore) -> None:
        """`commit_now` writes as `commit` does, or writes nothing and returns None."""
        lease = _run(store.acquire("s"))
        for number in range(1, 21):
            commit = Commit([NewEntry("messages", b"%d" % number)], {"row": b"%d" % number}, status="running")
            written = _commit(store, lease, commit) if number % 2 else store.commit(lease, commit)
            assert _run(written) == number
        stored = _run(store.load("s"))
        assert [(entry.seq, entry.data) for entry in stored.entries] == [(n, b"%d" % n) for n in range(1, 21)]
        assert stored.ledger == {"row": b"20"}
        assert stored.info.status == "running"

    def test_entries_are_read_page_by_page(self, store: SessionStore) -> None:
        """`after` and `limit` give every entry once."""
        lease = _run(store.acquire("s"))
        _run(store.commit(lease, Commit([NewEntry("messages", b"%d" % number) for number in range(1, 26)])))
        pages = [_run(store.entries("s", after=after, limit=10)) for after in (0, 10, 20, 25, 99)]
        assert [[entry.seq for entry in page] for page in pages] == [
            [*range(1, 11)],
            [*range(11, 21)],
            [*range(21, 26)],
            [],
            [],
        ]

    def test_loading_begins_at_the_last_base(self, store: SessionStore) -> None:
        """Without a base, all entries; else the last one and what follows it."""
        lease, loads = _run(store.acquire("s")), list[list[int]]()
        for bases in ([False, False], [True], [False, True, False, True, False]):
            _run(store.commit(lease, Commit([NewEntry("messages", b"{}", base=base) for base in bases])))
            loads.append([entry.seq for entry in _run(store.load("s")).entries])
        assert loads == [[1, 2], [3], [7, 8]]
        assert len(_run(store.entries("s"))) == 8, "a base hides earlier entries from load() only"

    def test_the_ledger_keeps_the_last_value_of_each_key(self, store: SessionStore) -> None:
        """A commit puts rows, then drops some; unknown keys are ignored."""
        lease = _run(store.acquire("s"))
        _run(store.commit(lease, Commit(put={"a": b"1", "ключ/🦉": b"2", "tail:": b"3"})))
        _run(store.commit(lease, Commit(put={"a": b"4", "b": b"5"}, drop=["tail:", "unknown", "b"])))
        assert dict(_run(store.load("s")).ledger) == {"a": b"4", "ключ/🦉": b"2"}

    def test_a_status_stays_until_it_is_changed(self, store: SessionStore) -> None:
        """A commit without a status leaves it."""
        lease = _run(store.acquire("s"))
        _run(store.commit(lease, Commit(status="running")))
        _run(store.commit(lease, Commit([NewEntry("messages", b"{}")])))
        assert _run(store.info("s")).status == "running"

    def test_large_values_are_kept(self, store: SessionStore) -> None:
        """Megabytes in one entry, and hundreds of entries in one commit."""
        large = b'"' + b"0123456789abcdef" * 250_000 + b'"'
        lease = _run(store.acquire("s"))
        _run(store.commit(lease, Commit([NewEntry("messages", large)], put={"tail:": large})))
        assert _run(store.commit(lease, Commit([NewEntry("messages", b"{}")] * 500))) == 501
        stored = _run(store.load("s"))
        assert (stored.entries[0].data, stored.ledger["tail:"]) == (large, large)
        assert len(stored.entries) == 501

    def test_a_commit_that_fails_leaves_nothing(self, store: SessionStore) -> None:
        """All of a commit is written, or nothing."""
        lease = _run(store.acquire("s"))
        _run(store.commit(lease, Commit([NewEntry("messages", b"{}")], put={"kept": b"{}"})))
        number = _run(store.post("s", "prompt", b"{}"))
        before = _run(store.load("s"))

        class Broken(Sequence[Any]):
            """Fails after its first items."""

            def __init__(self, *items: object) -> None:
                self.items = items

            def __len__(self) -> int:
                return len(self.items) + 1

            @overload
            def __getitem__(self, index: int) -> Any: ...
            @overload
            def __getitem__(self, index: slice) -> Sequence[Any]: ...
            def __getitem__(self, index: int | slice) -> Any:
                if index == len(self.items):
                    raise ZeroDivisionError
                return self.items[index]

        entry = NewEntry("messages", b"{}", base=True)
        for commit in (
            Commit(Broken(entry), put={"a": b"{}"}, drop=["kept"], read=[number], status="failed"),
            Commit([entry], put={"a": b"{}"}, drop=Broken("kept"), read=[number], status="failed"),
            Commit([entry], put={"a": b"{}"}, drop=["kept"], read=Broken(number), status="failed"),
        ):
            with pytest.raises(ZeroDivisionError):
                _run(store.commit(lease, commit))
            assert _run(store.load("s")) == before
        assert _run(store.commit(lease, Commit([entry]))) == 2, "a commit that failed used up a number"

    # -- the lease -----------------------------------------------------------------------------------------------------

    def test_a_second_runner_is_refused_at_once(self, store: SessionStore) -> None:
        """SessionBusy names the holder and when its lease ends; the name of the second runner does not matter."""
        lease = _run(store.acquire("s", holder="first", ttl=HOUR))
        for holder in ("second", "first", None):
            with pytest.raises(SessionBusy) as caught:
                _run(store.acquire("s", holder=holder))
            assert caught.value.holder == "first" == _run(store.info("s")).holder
            assert 0 < caught.value.seconds <= HOUR
        _run(store.commit(lease, Commit([NewEntry("messages", b"{}")])))

    def test_without_a_name_the_holder_is_this_process(self, store: SessionStore) -> None:
        """The default name says which process of which host runs the session."""
        ours = _run(MemoryStore().acquire("s")).holder
        assert _run(store.acquire("s")).holder == ours == _run(store.info("s")).holder

    def test_renewing_moves_the_end_of_a_lease(self, store: SessionStore) -> None:
        """A renewed lease lasts its seconds from now."""
        lease = _run(store.acquire("s", holder="first", ttl=60))
        _run(store.renew(replace(lease, ttl=HOUR)))
        with pytest.raises(SessionBusy) as caught:
            _run(store.acquire("s"))
        assert caught.value.seconds > 120

    def test_a_released_session_is_free(self, store: SessionStore) -> None:
        """After release another runner may have it at once, and the first one can no longer write."""
        first = _run(store.acquire("s", ttl=HOUR))
        _run(store.release(first))
        assert _run(store.info("s")).holder is None
        self._refuses(store, first)
        second = _run(store.acquire("s", ttl=HOUR))
        assert second.fence > first.fence, "the fence grows with each acquisition"
        self._refuses(store, first)

    def test_a_lease_that_ended_is_taken_over(self, store: SessionStore) -> None:
        """The earlier holder cannot write, renew or release then."""
        first = _run(store.acquire("s", holder="stopped", ttl=0.02))
        second = _run(_free(lambda: store.acquire("s", holder="next", ttl=HOUR)))
        assert second.fence > first.fence
        self._refuses(store, first)
        _run(store.release(first))
        with pytest.raises(SessionBusy):
            _run(store.acquire("s"))
        assert _run(store.commit(second, Commit([NewEntry("messages", b"{}")]))) == 1

    def test_a_late_holder_continues_if_no_other_came(self, store: SessionStore) -> None:
        """A lease that ended is lost only when another runner takes it."""
        lease = _run(store.acquire("s", holder="slow", ttl=0.0))
        assert _run(store.info("s")).holder is None
        assert _run(store.commit(lease, Commit([NewEntry("messages", b"{}")]))) == 1
        _run(store.renew(replace(lease, ttl=HOUR)))
        assert _run(store.info("s")).holder == "slow"

    def test_a_dead_holder_is_taken_over_at_once(self, store: SessionStore) -> None:
        """A process of this machine that has exited holds nothing, however long its lease is."""
        program = "import asyncio, deep_sessions as d; print(asyncio.run(d.MemoryStore().acquire('s')).holder)"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        first = _run(store.acquire("s", holder=done.stdout.strip(), ttl=HOUR))
        assert _run(store.info("s")).holder is None
        _run(store.acquire("s", ttl=HOUR))
        self._refuses(store, first)

    def test_a_holder_elsewhere_is_not_taken_for_dead(self, store: SessionStore) -> None:
        """Of a process of another machine, or of another container with this host's name, nothing is known."""
        host, process, token = (_run(store.acquire("s")).holder).rsplit(":", 2)
        for number, holder in enumerate(
            (f"other-host:1:{token}", f"{host}:{process}:other.1", "any name", f"{host}:x:")
        ):
            _run(store.acquire(str(number), holder=holder, ttl=HOUR))
            with pytest.raises(SessionBusy):
                _run(store.acquire(str(number)))

    def _refuses(self, store: SessionStore, lease: Lease) -> None:
        """Check that nothing can be written under this lease."""
        before = _run(store.load(lease.session_id))
        for name, operation in UNDER_LEASE.items():
            with pytest.raises(LeaseLost):
                _run(operation(store, lease))
            assert _run(store.load(lease.session_id)) == before, f"{name}() under a lost lease wrote something"

    # -- mail ----------------------------------------------------------------------------------------------------------

    def test_mail_waits_in_order_until_it_is_read(self, store: SessionStore) -> None:
        """Posting needs no lease; a commit reads mail of its own session only."""
        leases = {name: _run(store.acquire(name, ttl=HOUR)) for name in ("s", "other")}
        posted = [_run(store.post(name, "prompt", name.encode())) for name in ("s", "other", "s", "s")]
        assert posted == sorted(set(posted)), "later mail has a larger number"
        mail = _run(store.mail("s"))
        assert [item.id for item in mail] == [posted[0], posted[2], posted[3]]
        assert {(item.kind, item.data) for item in mail} == {("prompt", b"s")}
        assert list(mail) == list(_run(store.load("s")).mail)
        _run(store.commit(leases["s"], Commit(read=[posted[2], posted[1], 10**9])))
        assert [item.id for item in _run(store.mail("s"))] == [posted[0], posted[3]]
        assert [item.id for item in _run(store.mail("other"))] == [posted[1]], "read another session's mail"
        _run(store.commit(leases["s"], Commit(read=posted)))
        assert _run(store.post("s", "steer", b"{}")) not in posted, "a number is never used again"

    # -- deleting ------------------------------------------------------------------------------------------------------

    def test_a_running_session_is_not_deleted(self, store: SessionStore) -> None:
        """Delete raises SessionBusy and leaves all of it."""
        lease = _run(store.acquire("s", ttl=HOUR))
        _run(store.commit(lease, Commit([NewEntry("messages", b"{}")])))
        before = _run(store.load("s"))
        with pytest.raises(SessionBusy):
            _run(store.delete("s"))
        assert _run(store.load("s")) == before

    def test_a_deleted_session_is_gone_and_its_lease_with_it(self, store: SessionStore) -> None:
        """A new session of the same id has nothing of the old one, and the old lease cannot write to it."""
        old = _run(store.acquire("s"))
        _run(store.acquire("other"))
        _run(store.commit(old, Commit([NewEntry("messages", b"{}", base=True)], put={"a": b"{}"}, status="failed")))
        number = _run(store.post("s", "prompt", b"{}"))
        _run(store.release(old))
        _run(store.delete("s"))
        for operation in OPERATIONS.values():
            with pytest.raises(SessionNotFound):
                _run(operation(store, "s"))
        _run(store.acquire("s"))
        stored = _run(store.load("s"))
        assert (list(stored.entries), dict(stored.ledger), list(stored.mail)) == ([], {}, [])
        assert (stored.info.status, stored.info.seq) == ("idle", 0)
        self._refuses(store, old)
        assert _run(store.post("s", "prompt", b"{}")) != number
        assert {info.id for info in _run(store.list())} == {"s", "other"}

    # -- owners --------------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("operation", OPERATIONS)
    def test_an_owner_sees_nothing_of_another(self, store: SessionStore, operation: str) -> None:
        """For a view, the sessions of others do not exist."""
        ann, bob = store.for_owner("ann"), store.for_owner("bob")
        _run(ann.acquire("s", ttl=0.0))
        with pytest.raises(SessionNotFound):
            _run(OPERATIONS[operation](bob, "s"))
        with pytest.raises(SessionNotFound):
            _run(bob.acquire("s"))
        _run(OPERATIONS[operation](ann, "s"))

    def test_lists_show_an_owner_only_its_own(self, store: SessionStore) -> None:
        """A store without an owner sees all sessions."""
        for owner, name in (("ann", "a"), ("bob", "b"), ("Ann", "c"), ("", "d")):
            _run(store.for_owner(owner).acquire(name))
        _run(store.acquire("e"))
        listed = {
            owner: [i.id for i in _run(store.for_owner(owner).list())] for owner in ("ann", "bob", "Ann", "", "x")
        }
        assert listed == {"ann": ["a"], "bob": ["b"], "Ann": ["c"], "": ["d"], "x": []}
        assert {info.id: info.owner for info in _run(store.list())} == {
            "a": "ann",
            "b": "bob",
            "c": "Ann",
            "d": "",
            "e": None,
        }

    def test_another_owners_lease_gives_no_right(self, store: SessionStore) -> None:
        """A view writes to no session of another owner, whatever lease it shows."""
        bob, lease = store.for_owner("bob"), _run(store.for_owner("ann").acquire("s", ttl=HOUR))
        for operation in UNDER_LEASE.values():
            with pytest.raises(SessionNotFound):
                _run(operation(bob, lease))
        _run(bob.release(lease))
        with pytest.raises(SessionBusy):
            _run(store.acquire("s"))

    def test_a_view_gives_no_view_of_another_owner(self, store: SessionStore) -> None:
        """A view can be narrowed no further, and never widened."""
        ann = store.for_owner("ann")
        assert ann.for_owner("ann").owner == "ann"
        assert store.owner is None, "for_owner() changed the store itself"
        with pytest.raises(ValueError, match="only the sessions of 'ann'"):
            ann.for_owner("bob")

    # -- many at once --------------------------------------------------------------------------------------------------

    def test_of_many_runners_one_gets_the_session(self, store: SessionStore) -> None:
        """Tasks of one loop, and threads with a loop each."""

        async def race(name: str) -> list[Lease]:
            found = await asyncio.gather(*(store.acquire(name, ttl=HOUR) for _ in range(5)), return_exceptions=True)
            assert {type(item) for item in found} <= {Lease, SessionBusy}, found
            return [item for item in found if isinstance(item, Lease)]

        for round_ in range(5):
            won = _in_threads([lambda name=f"s{round_}": race(name)] * THREADS)
            assert len([lease for leases in won for lease in leases]) == 1

    def test_numbers_have_no_gaps_under_concurrency(self, store: SessionStore) -> None:
        """Many commits under one lease, from tasks and threads."""
        lease, counter = _run(store.acquire("s", ttl=HOUR)), itertools.count()

        async def write() -> list[int]:
            commits = [
                store.commit(lease, Commit([NewEntry("messages", b"%d" % number)] * 2, put={str(number): b"{}"}))
                for number in itertools.islice(counter, 10)
            ]
            return await asyncio.gather(*commits)

        lasts = [last for lasts in _in_threads([write] * THREADS) for last in lasts]
        stored = _run(store.load("s"))
        assert [entry.seq for entry in stored.entries] == [*range(1, 20 * THREADS + 1)]
        assert sorted(lasts) == [*range(2, 20 * THREADS + 1, 2)], "each commit returns the number of its own last entry"
        pairs = [entry.data for entry in stored.entries]
        assert pairs[::2] == pairs[1::2], "entries of one commit stand together"
        assert len(stored.ledger) == 10 * THREADS

    def test_sessions_do_not_mix_under_concurrency(self, store: SessionStore) -> None:
        """Each thread runs its own session and writes to all others' mail."""
        names = [f"s{number}" for number in range(THREADS)]
        leases = {name: _run(store.acquire(name, ttl=HOUR)) for name in names}

        async def work(name: str) -> None:
            for _ in range(8):
                await store.commit(
                    leases[name], Commit([NewEntry("messages", name.encode())], put={name: name.encode()})
                )
                await asyncio.gather(*(store.post(other, "prompt", name.encode()) for other in names))

        _in_threads([lambda name=name: work(name) for name in names])
        for name in names:
            stored = _run(store.load(name))
            assert [(entry.seq, entry.data) for entry in stored.entries] == [(n, name.encode()) for n in range(1, 9)]
            assert dict(stored.ledger) == {name: name.encode()}
            numbers = [mail.id for mail in stored.mail]
            assert numbers == sorted(set(numbers))
            assert sorted(mail.data for mail in stored.mail) == sorted(other.encode() for other in names * 8)

    def test_no_mail_is_overtaken(self, store: SessionStore) -> None:
        """Mail that appears later has a larger number: a reader that remembers the last number misses nothing."""
        _run(store.acquire("s", ttl=HOUR))
        posted, done = THREADS * 10, threading.Event()

        async def post() -> None:
            for _ in range(10):
                await store.post("s", "prompt", b"{}")

        async def watch() -> list[int]:
            seen = list[int]()
            while True:
                is_last = done.is_set()
                seen += [mail.id for mail in await store.mail("s") if not seen or mail.id > seen[-1]]
                if is_last:
                    return seen

        with ThreadPoolExecutor(1) as pool:
            watcher = pool.submit(_run, watch())
            try:
                _in_threads([post] * THREADS)
            finally:
                done.set()
            assert len(watcher.result()) == posted

    def test_a_cancelled_commit_is_whole_or_nothing(self, store: SessionStore) -> None:
        """Whenever the task is cancelled, entries and ledger agree afterwards."""

        async def cancel(lease: Lease, steps: int) -> None:
            commit = Commit([NewEntry("messages", b"{}")] * 3, put={str(steps): b"{}"})
            task = asyncio.ensure_future(store.commit(lease, commit))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        lease = _run(store.acquire("s", ttl=HOUR))
        for steps in STEPS:
            _run(cancel(lease, steps))
        _run(store.commit(lease, Commit()))  # after what was under way
        stored = _run(store.load("s"))
        assert len(stored.entries) == 3 * len(stored.ledger)
        assert [entry.seq for entry in stored.entries] == [*range(1, len(stored.entries) + 1)]

    def test_a_cancelled_acquisition_holds_nothing(self, store: SessionStore) -> None:
        """A task that is cancelled while it acquires leaves no lease behind that nobody would release."""

        async def cancel(name: str, steps: int) -> None:
            task = asyncio.ensure_future(store.acquire(name, ttl=HOUR))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            for lease in await asyncio.gather(task, return_exceptions=True):
                if isinstance(lease, Lease):  # it was done before the cancellation
                    await store.release(lease)

        for steps in STEPS:
            _run(cancel(f"s{steps}", steps))
            _run(_free(lambda name=f"s{steps}": store.acquire(name, ttl=HOUR)))

    # -- longer than the process ---------------------------------------------------------------------------------------

    def test_sessions_outlive_the_store(
        self, store: SessionStore, open_again: Callable[[], SessionStore] | None
    ) -> None:
        """Another instance finds all of it, and respects the lease."""
        if open_again is None:
            pytest.skip("the sessions of this store end with it: no fixture `open_again`")
        lease = _run(store.for_owner("ann").acquire("s", holder="elsewhere", ttl=HOUR))
        commit = Commit([NewEntry("base", b'"\xf0\x9f\xa6\x89"', "run", 2, True)], put={"a": b"{}"}, status="awaiting")
        _run(store.commit(lease, commit))
        _run(store.post("s", "decision", b"{}"))
        before = _run(store.load("s"))
        _run(store.aclose())
        again = open_again()
        try:
            assert _run(again.load("s")) == before
            with pytest.raises(SessionBusy):
                _run(again.acquire("s"))
            assert _run(again.commit(lease, Commit([NewEntry("messages", b"{}")]))) == 2
            assert _run(again.for_owner("bob").list()) == []
        finally:
            _run(again.aclose())

    def test_two_instances_are_one_store(
        self, store: SessionStore, open_again: Callable[[], SessionStore] | None
    ) -> None:
        """What one instance writes, the other one reads; one lease holds for both."""
        if open_again is None:
            pytest.skip("the sessions of this store end with it: no fixture `open_again`")
        other = open_again()
        try:
            lease = _run(store.acquire("s", ttl=HOUR))
            with pytest.raises(SessionBusy):
                _run(other.acquire("s"))
            for number in range(1, 11):
                assert _run(store.commit(lease, Commit([NewEntry("messages", b"{}")]))) == number
                assert _run(other.info("s")).seq == number
                posted = _run(other.post("s", "steer", b"{}"))
                assert [mail.id for mail in _run(store.mail("s"))][-1] == posted
            _run(store.release(lease))
            self._refuses(other, lease)
            _run(other.delete("s"))
            with pytest.raises(SessionNotFound):
                _run(store.info("s"))
        finally:
            _run(other.aclose())

    def test_closing_twice_is_closing_once(self, store: SessionStore) -> None:
        """An application may close a store, and a view of it, in any order."""
        _run(store.acquire("s"))
        _run(store.for_owner("ann").aclose())
        _run(store.aclose())


async def _commit(store: SessionStore, lease: Lease, commit: Commit) -> int:
    """Commit as a journal does."""
    now = store.commit_now(lease, commit)
    return await store.commit(lease, commit) if now is None else now


def _new(entry: Entry) -> NewEntry:
    return NewEntry(entry.kind, entry.data, entry.run_id, entry.version, entry.base)


async def _free(acquire: Callable[[], Awaitable[Lease]]) -> Lease:
    """Acquire as soon as the session is free."""
    async with asyncio.timeout(FREE_SECONDS):
        while True:
            try:
                return await acquire()
            except SessionBusy:
                await asyncio.sleep(0.01)


def _in_threads(works: Sequence[Callable[[], Coroutine[Any, Any, T]]]) -> list[T]:
    """Run each in a thread with an event loop of its own, all at the same time."""
    start = threading.Barrier(len(works))

    def run(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        start.wait(30)
        return _run(work())

    with ThreadPoolExecutor(len(works)) as pool:
        return [future.result() for future in [pool.submit(run, work) for work in works]]


def _run(call: Awaitable[T]) -> T:
    """Run in an event loop of its own: a store must not depend on one."""

    async def run() -> T:
        return await call

    return asyncio.run(run())
