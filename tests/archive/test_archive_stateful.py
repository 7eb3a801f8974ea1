"""The archive against a dictionary: whatever is done in whatever order, it holds just what the dictionary says."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from archive_warcs import exchange, response, sha1
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from power_world import drafts_of
from truths import PLAN, assert_exact, captures, entries

import holdfast
from holdfast import Archive
from holdfast.archive.ingest.writer import AddOutcome
from holdfast.archive.removal import RemovalOptions
from holdfast.catalog import CaptureQuery
from holdfast.errors import BatchSealed, CaptureNotFound
from holdfast.records.selection import Selection

HOSTS, PAGES = ("a.example", "b.example"), range(4)
COLLECTIONS, BATCHES = ("one", "two"), ("p", "q", "r")


def body(number: int) -> bytes:
    return Random(number).randbytes(60).hex().encode()


def url_of(host: str, page: int) -> str:
    return f"http://{host}/{page}"


def records_of(host: str, page: int) -> list[bytes]:
    """All that belongs to a page; some have the content of others, one is kept in pieces."""
    if page == 3:
        return [response(url_of(host, page), body(1) * 60)]
    return exchange(url_of(host, page), body(page % 2))


class ArchiveMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        place = "/dev/shm" if Path("/dev/shm").is_dir() else None
        self.directory = TemporaryDirectory(prefix="holdfast-test-", dir=place)
        self.path = Path(self.directory.name) / "archive"
        self.present: dict[tuple[str, str, int], str] = {}  # batch by collection, host and page
        self.refused: set[tuple[str, int]] = set()  # host and page, whatever the collection
        self.sealed: set[str] = set()
        self.archive: Archive

    @initialize()
    def begin(self) -> None:
        holdfast.init(self.path, PLAN)
        self.archive = holdfast.open(self.path)

    @rule(
        pages=st.lists(st.tuples(st.sampled_from(HOSTS), st.sampled_from(PAGES)), min_size=1, max_size=4),
        collection=st.sampled_from(COLLECTIONS),
        batch=st.sampled_from(BATCHES),
    )
    def add(self, pages: list[tuple[str, int]], collection: str, batch: str) -> None:
        for host, page in pages:
            name = collection, host, page
            expected = (
                AddOutcome.KNOWN
                if name in self.present
                else AddOutcome.REFUSED
                if name[1:] in self.refused
                else AddOutcome.ADDED
            )
            try:
                outcomes = self._add(records_of(host, page), collection, batch)
            except BatchSealed:
                assert batch in self.sealed
                assert expected is AddOutcome.ADDED
                continue
            assert outcomes == {expected}
            if expected is AddOutcome.ADDED:
                assert batch not in self.sealed
                self.present[name] = batch

    def _add(self, records: list[bytes], collection: str, batch: str) -> set[AddOutcome]:
        drafts = list(drafts_of(self.archive, records, self.path / "spool"))
        for draft in drafts:
            draft.entry = draft.entry._replace(collection=collection)
        if drafts[0].spooled is not None:
            return {self.archive.add_large(drafts[0], batch=batch).outcome}
        return {added.outcome for added in self.archive.add_drafts(drafts, batch=batch)}

    @rule(host=st.sampled_from(HOSTS), page=st.sampled_from(PAGES), refuse=st.booleans(), compact=st.booleans())
    def remove_page(self, host: str, page: int, refuse: bool, compact: bool) -> None:
        gone = [name for name in self.present if name[1:] == (host, page)]
        self._remove(Selection(CaptureQuery(url=url_of(host, page))), gone, refuse=refuse, compact=compact)

    @rule(host=st.sampled_from(HOSTS), collection=st.sampled_from(COLLECTIONS), refuse=st.booleans())
    def remove_host(self, host: str, collection: str, refuse: bool) -> None:
        gone = [name for name in self.present if name[:2] == (collection, host)]
        selection = Selection(CaptureQuery(url=host, match="host"), collection=collection)
        self._remove(selection, gone, refuse=refuse, compact=False)

    @rule(batch=st.sampled_from(BATCHES))
    def remove_batch(self, batch: str) -> None:
        if batch in self.archive.journal.names():
            gone = [name for name, place in self.present.items() if place == batch]
            self._remove(Selection(batch=batch), gone, refuse=False, compact=True)

    def _remove(self, selection: Selection, gone: list[tuple[str, str, int]], *, refuse: bool, compact: bool) -> None:
        removal = self.archive.remove(selection, RemovalOptions("asked", refuse=refuse, compact=compact))
        assert removal.captures == len(gone)
        for name in gone:
            del self.present[name]
            if refuse:
                self.refused.add(name[1:])

    @rule(batch=st.sampled_from(BATCHES))
    def seal(self, batch: str) -> None:
        if batch in self.archive.journal.names():
            self.archive.seal(batch)
            self.sealed.add(batch)

    @rule(lose_catalog=st.booleans())
    def reopen(self, lose_catalog: bool) -> None:
        self.archive.close()
        if lose_catalog:
            shutil.rmtree(self.path / "catalog")
        self.archive = holdfast.open(self.path)

    @rule()
    def reindex(self) -> None:
        assert self.archive.reindex() == len(self.present)

    @rule()
    def compact(self) -> None:
        self.archive.compact("v0")

    @invariant()
    def holds_what_the_dictionary_says(self) -> None:
        if not hasattr(self, "archive"):
            return
        archive = self.archive
        assert_exact(archive)
        found = {(each.collection, each.url): each.record.batch for each in captures(archive)}
        assert found == {(c, url_of(h, p)): batch for (c, h, p), batch in self.present.items()}
        held = sorted(b"".join(archive.records.read(record).raw()) for record, _ in entries(archive))
        assert held == sorted(raw for _, host, page in self.present for raw in records_of(host, page))
        for host in HOSTS:
            for page in PAGES:
                self._look_up(host, page)

    def _look_up(self, host: str, page: int) -> None:
        try:
            stored = self.archive.get(url_of(host, page))
        except CaptureNotFound:
            assert not [name for name in self.present if name[1:] == (host, page)]
            return
        expected = body(1) * 60 if page == 3 else body(page % 2)
        assert stored.payload() == expected
        assert stored.capture.digest == sha1(expected)

    def teardown(self) -> None:
        if hasattr(self, "archive"):
            self.archive.close()
            assert holdfast.check(self.path).faults == []
        self.directory.cleanup()


TestArchive = ArchiveMachine.TestCase
TestArchive.settings = settings(max_examples=30, stateful_step_count=20)
