"""Check of a whole archive: its store, batches, catalog and index, and that every record has its contents.

Damaged frames of a batch have no second copy: they are named, and the records in them are lost. Catalog and index are
derived: a repair rebuilds them.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from holdfast import config
from holdfast.archive.archive import Archive
from holdfast.archive.directory import lock_archive
from holdfast.archive.ingest.writer import missing_files
from holdfast.archive.removal import read_plan
from holdfast.arguments import public
from holdfast.batches.batch import BatchState
from holdfast.batches.frame import Walked
from holdfast.batches.verify import verify_batch
from holdfast.env import REAL, Environment, paths
from holdfast.env.extras import is_installed
from holdfast.errors import Damaged, DamagedCatalog, HoldfastError, UnknownName
from holdfast.index.paths import index_directory
from holdfast.model import ContentKey, Fault, RecordId
from holdfast.storage.maintenance.check import Checker, CheckOptions, CheckReport
from holdfast.storage.maintenance.repair import repair_store
from holdfast.storage.volumes.local import Progress

_CATALOG = "damaged catalog"
_INDEX = "damaged index"
_LOST_REMEDY = "restore the batch from a backup, or remove the record"
_INDEX_REMEDY = "run 'holdfast index build': it is derived"


@public
def check(
    path: str | Path,
    options: CheckOptions = CheckOptions(),  # noqa: B008
    progress: Progress | None = None,
    *,
    env: Environment = REAL,
) -> CheckReport:
    """Checks everything, even while another process writes. `repair` takes the writer's lock and repairs faults.

    With `volumes`, only those are checked.
    """
    root = Path(path)
    settings = config.merged(config.load(root / paths.SETTINGS), root / paths.SETTINGS)
    for name in options.volumes:
        if settings.volume_settings(name) is None:
            raise UnknownName(f"unknown volume {name!r}: known are {', '.join(v.name for v in settings.volume)}")
    checker = Checker(root, settings, env, options)
    report = _repaired(checker, progress) if options.repair else checker.check(progress)
    if not options.volumes:
        try:
            faults = [
                *_record_faults(root, env, progress),
                *_catalog_faults(root, env),
                *_index_faults(root, env, progress),
                *_leftover_faults(root, env),
            ]
        except HoldfastError as error:
            if report.clean:
                raise
            report.notes.append(f"records were not checked: {error}")
            return report
        if index_directory(root).exists() and not is_installed("search"):
            report.notes.append("the index was not checked: run: pip install 'holdfast[search]'")
        report.faults += _all_repaired(faults, root, env) if options.repair else faults
    return report


def _repaired(checker: Checker, progress: Progress | None) -> CheckReport:
    with lock_archive(checker.root):
        return repair_store(checker, progress)


def _record_faults(root: Path, env: Environment, progress: Progress | None) -> Iterator[Fault]:
    with Archive(root, read_only=True, env=env) as archive:
        for name in archive.journal.names():
            yield from verify_batch(name, archive.journal.directory(name), env, progress, _known(archive, name)).faults
            yield from _content_faults(archive, name)


def _known(archive: Archive, batch: str) -> BatchState | None:
    """The catalog's state of a batch; None if the catalog cannot be read, which is reported separately."""
    try:
        return BatchState.unpack(archive.catalog.batch_state(batch))
    except HoldfastError:
        return None


def _content_faults(archive: Archive, batch: str) -> Iterator[Fault]:
    """Records whose payload is missing, or kept with them and not what its signature names."""
    for walked in archive.journal.walk(batch):
        if not isinstance(walked, Walked):
            continue
        kept = [
            (RecordId(batch, entry.serial), ContentKey.parse(text))
            for entry in walked.entries
            for text in entry.contentkeys
        ]
        file = str(archive.journal.directory(batch) / paths.records_name(*walked.place[:2]))
        inline = [entry for entry in walked.entries if entry.is_inline]
        for entry, signature in zip(inline, archive.contents.sign([each.payload for each in inline]), strict=True):
            if signature.hex() != entry.signature:
                wanted, found = f"{entry.signature} of record {RecordId(batch, entry.serial)}", signature.hex()
                yield Fault(batch, file, walked.place.offset, "signature", wanted, found, remedy=_LOST_REMEDY)
        locations = archive.instance.find_batch([key for _, key in kept])
        for (record, key), held in zip(kept, locations, strict=True):
            if not held.blocks and not held.away and _is_still_there(archive, record):
                wanted = f"that of record {record}"
                yield Fault(
                    batch, file, walked.place.offset, "missing content", wanted, "none", key, remedy=_LOST_REMEDY
                )


def _is_still_there(archive: Archive, record: RecordId) -> bool:
    """True if a record was not removed while the check was running."""
    archive.catalog.refresh()
    entry = archive.records.entry(record)
    return entry is not None and entry.contents != "-"


def _catalog_faults(root: Path, env: Environment) -> Iterator[Fault]:
    if not env.files.names(root / paths.BATCHES) and not (root / paths.CATALOG).is_dir():
        return
    try:
        with Archive(root, read_only=True, env=env) as archive:
            archive.catalog.verify()
            for path in missing_files(archive.journal, archive.catalog):
                remedy = "put it back, or run 'holdfast reindex' to go on without its records"
                yield Fault(path.parent.name, str(path), 0, "missing file", "records", "nothing", remedy=remedy)
    except DamagedCatalog as error:
        yield Fault("catalog", str(root / paths.CATALOG), 0, _CATALOG, "a sound catalog", str(error))


def _index_faults(root: Path, env: Environment, progress: Progress | None) -> Iterator[Fault]:
    with Archive(root, read_only=True, env=env) as archive:
        if archive.index.exists and not is_installed("search"):
            return  # noted by `check`
        for found in archive.index.verify(progress):
            yield Fault("index", str(archive.index.directory), 0, _INDEX, "a sound index", found, remedy=_INDEX_REMEDY)


def _leftover_faults(root: Path, env: Environment) -> Iterator[Fault]:
    """A removal that was interrupted, and whose plan cannot be read."""
    try:
        read_plan(root, env)
    except Damaged as error:
        yield Fault("archive", str(root / paths.REMOVAL), 0, "damaged removal", "the plan of a removal", str(error))


def _all_repaired(faults: list[Fault], root: Path, env: Environment) -> list[Fault]:
    kinds = {fault.kind for fault in faults}
    if _CATALOG in kinds:
        shutil.rmtree(root / paths.CATALOG, ignore_errors=True)
        Archive(root, env=env).close()  # rebuilds it
    if _INDEX in kinds:
        with Archive(root, read_only=True, env=env) as archive:
            archive.index.build()
            archive.index.rank(force=True)
    return [replace(fault, repaired=True) if fault.kind in (_CATALOG, _INDEX) else fault for fault in faults]
