"""An archive on a disk that forgets, with its RocksDB tables, which are on the real disk, forgetting too."""

from __future__ import annotations

import io
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from random import Random

from truths import PLAN, assert_exact, entries

from holdfast.archive import Archive, init
from holdfast.archive.removal import RemovalOptions
from holdfast.batches.entry import SOURCE
from holdfast.catalog import CaptureQuery
from holdfast.env import Environment, paths
from holdfast.env.table import Table
from holdfast.formats.io.open import open_records
from holdfast.records.draft import Drafting, RecordDraft
from holdfast.records.selection import Selection
from holdfast.testing.forgetful_files import ForgetfulFiles, PowerCut

Present = Counter[bytes]  # records by their bytes
_COPIES_MAX = 10


class Fate(Enum):
    """What a power cut does to the tables, which are written but not synced."""

    KEPT = "kept as they were"
    SYNCED = "back to their last sync"
    LOST = "lost"
    CATALOG_SYNCED = "the catalog back to its last sync"
    CATALOG_LOST = "the catalog lost"
    CATALOG_OLDER = "the catalog as it was a step or two ago, but not before its last sync"


@dataclass(frozen=True, slots=True)
class Add:
    """One addition; a record that is too large for one content goes in by itself."""

    records: tuple[bytes, ...]
    batch: str = "b"


@dataclass(frozen=True, slots=True)
class Remove:
    """A removal by URL, which takes along all records of that URL."""

    url: str
    refuse: bool = False
    compact: bool = False


@dataclass(frozen=True, slots=True)
class Seal:
    batch: str


Step = Add | Remove | Seal


def after(present: Present, step: Step) -> Present:
    """The model's answer."""
    match step:
        case Add(records):
            return present | Counter(dict.fromkeys(records, 1))
        case Remove(url):
            gone = f"WARC-Target-URI: {url}\r\n".encode()
            return Counter({each: 1 for each in present if gone not in each})
        case Seal():
            return present


def found_in(archive: Archive) -> Present:
    records = (record for record, entry in entries(archive) if entry.type != SOURCE)
    return Counter(b"".join(archive.records.read(record).raw()) for record in records)


def drafts_of(archive: Archive, records: Sequence[bytes], spool: Path) -> Iterator[RecordDraft]:
    drafting = Drafting("main", "made.warc")
    for number, raw in enumerate(records):
        for record in open_records(io.BytesIO(raw)):
            if drafting.is_large(record):
                spool.with_name(f"spool-{number}").unlink(missing_ok=True)
                yield drafting.large_draft(record, spool.with_name(f"spool-{number}"))
            else:
                yield drafting.draft(record)


@dataclass(slots=True)
class Life:
    """Plays steps, and knows whenever it is interrupted what may be there."""

    acknowledged: Present = field(default_factory=Counter)
    under_way: Step | None = None
    done: int = 0

    def play(
        self, archive: Archive, steps: Sequence[Step], spool: Path, before: Callable[[int], None] = lambda _: None
    ) -> None:
        for step in steps[self.done :]:
            before(self.done)
            self.under_way = step
            carry_out(archive, step, spool)
            self.acknowledged = after(self.acknowledged, step)
            self.under_way = None
            self.done += 1

    def verify(self, found: Present) -> None:
        """All that was acknowledged is there; of an addition under way any part, of a removal all or nothing."""
        before = self.acknowledged
        if self.under_way is None:
            assert found == before
        elif isinstance(self.under_way, Add):
            assert before <= found <= after(before, self.under_way)
        else:
            assert found in (before, after(before, self.under_way)), "a removal is half done"


def carry_out(archive: Archive, step: Step, spool: Path) -> None:
    match step:
        case Add(records, batch):
            small: list[RecordDraft] = []
            for draft in drafts_of(archive, records, spool):
                if draft.spooled is None:
                    small.append(draft)
                else:
                    archive.add_large(draft, batch=batch)
            archive.add_drafts(small, batch=batch)
        case Remove(url, refuse, compact):
            options = RemovalOptions("asked", refuse=refuse, compact=compact)
            archive.remove(Selection(CaptureQuery(url=url)), options)
        case Seal(batch):
            archive.seal(batch)


class World:
    """One archive, made once; then any number of lives."""

    def __init__(self, root: Path) -> None:
        self.path = root / "archive"
        self._copies = root / "copies"
        self._tables = [self.path / paths.CATALOG, self.path / "volumes/v0" / paths.KEYDIR]
        self._files = ForgetfulFiles()
        self._files.make_directory(self.path)
        init(self.path, PLAN, env=self._env(self._files))
        self._files.dump(root / "dump")
        shutil.copy(root / "dump" / self.path.relative_to("/") / paths.SETTINGS, self.path / paths.SETTINGS)
        self._keep("start")

    def _env(self, files: ForgetfulFiles) -> Environment:
        return Environment(files=files, clock=lambda: 1_790_000_000.0, random_bytes=Random(1).randbytes)

    def open(self, files: ForgetfulFiles) -> Archive:
        return Archive(self.path, env=self._env(files))

    # -- lives --------------------------------------------------------------------------------------------------

    def live(self, steps: Sequence[Step], fuse: int | None) -> tuple[ForgetfulFiles, Life]:
        """From an empty archive on, until the power goes."""
        self._put("start")
        self._keep("synced")
        self._keep("older")
        return self.live_on(self._files.copy(), steps, Life(), fuse)

    def live_on(
        self, files: ForgetfulFiles, steps: Sequence[Step], life: Life, fuse: int | None
    ) -> tuple[ForgetfulFiles, Life]:
        files = files.copy(fuse)
        archive: Archive | None = None
        with self._noting_syncs(), suppress(PowerCut):
            archive = self.open(files)
            if life.under_way is not None:
                found = found_in(archive)
                life.verify(found)
                life = Life(found, done=life.done)
            life.play(archive, steps, self.path / "spool", self._before_step)
            archive.close()
        self._keep("cut")
        if archive is not None:
            _drop(archive)
        return files, life

    def _before_step(self, number: int) -> None:
        if number % 2 == 0:
            self._keep("older", self._tables[0])

    @contextmanager
    def opened(self, files: ForgetfulFiles) -> Iterator[Archive]:
        archive = self.open(files)
        try:
            yield archive
            archive.close()
        finally:
            _drop(archive)

    def verify(self, files: ForgetfulFiles, life: Life, steps: Sequence[Step]) -> None:
        """After a cut: what must be there is, counters are exact, and running the rest ends as if nothing had been."""
        with self.opened(files) as archive:
            found = found_in(archive)
            life.verify(found)
            assert_exact(archive)
            happened = [each for each in steps[: life.done] if isinstance(each, Remove)]
            under_way = isinstance(life.under_way, Remove) and found != life.acknowledged
            self._verify_audit(files, len(happened) + under_way)
            rest = Life(found, done=life.done)
            rest.play(archive, steps, self.path / "spool")
            assert_exact(archive)
            expected: Present = Counter()
            for step in steps:
                expected = after(expected, step)
            assert found_in(archive) == expected

    def _verify_audit(self, files: ForgetfulFiles, removals: int) -> None:
        """One line for each removal that happened; what a cut left of a line stands by itself."""
        found = 0
        if files.exists(self.path / paths.AUDIT):
            file = files.open(self.path / paths.AUDIT)
            for line in file.read(0, file.size()).split(b"\n"):
                with suppress(ValueError):
                    found += json.loads(line)["event"] == "removal"
        assert found == removals

    # -- tables -------------------------------------------------------------------------------------------------

    def restore(self, fate: Fate) -> None:
        """The tables as the cut left them."""
        for table in self._tables:
            source = {Fate.KEPT: "cut", Fate.SYNCED: "synced", Fate.LOST: ""}.get(fate, "cut")
            if table.name == paths.CATALOG:
                source = {Fate.CATALOG_SYNCED: "synced", Fate.CATALOG_LOST: "", Fate.CATALOG_OLDER: "older"}.get(
                    fate, source
                )
            self._copy(self._copies / source / table.name if source else Path("/nowhere"), table)

    def _keep(self, name: str, only: Path | None = None) -> None:
        for table in self._tables:
            if only in (None, table):
                self._copy(table, self._copies / name / table.name)

    def _put(self, name: str) -> None:
        for table in self._tables:
            self._copy(self._copies / name / table.name, table)

    def _copy(self, source: Path, target: Path) -> None:
        """What RocksDB deletes meanwhile, in threads of its own, was no part of the table any more: then once more."""
        for _ in range(_COPIES_MAX):
            shutil.rmtree(target, ignore_errors=True)
            with suppress(shutil.Error):
                if source.exists():
                    shutil.copytree(source, target)
                return
        raise AssertionError(f"'{source}' does not come to rest")

    @contextmanager
    def _noting_syncs(self) -> Iterator[None]:
        """Whatever of a table is synced survives."""
        world, sync, compact = self, Table.sync, Table.compact

        def noted_sync(table: Table) -> None:
            sync(table)
            world._keep("synced", table.path)
            world._keep("older", table.path)

        def noted_compact(table: Table, deleted: Sequence[bytes] | None = None) -> None:
            compact(table, deleted)
            world._keep("synced", table.path)
            world._keep("older", table.path)

        Table.sync, Table.compact = noted_sync, noted_compact  # type: ignore[method-assign]
        try:
            yield
        finally:
            Table.sync, Table.compact = sync, compact  # type: ignore[method-assign]


def _drop(archive: Archive) -> None:
    """As if the process had ended: locks go."""
    with suppress(BaseException):
        archive.close()
    for volume in archive.instance.volumes.values():
        with suppress(BaseException):
            volume.keydir.abandon()  # type: ignore[attr-defined]
    with suppress(BaseException):
        archive.catalog._table.abandon()
