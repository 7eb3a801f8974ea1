"""Archives of the batch scheme, and what a user of one may expect: a model of pages, states and classes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from archive_warcs import HTTP, response, write
from truths import PLAN, captures, import_all

import holdfast
from holdfast import Archive
from holdfast.archive.update import UpdateOptions
from holdfast.config import VolumeSettings
from holdfast.model import Capture, RecordId
from holdfast.records.active_state import PageClass

NOW = UpdateOptions(wait_s=0)
ERROR = HTTP.replace(b"200 OK", b"503 Busy")


def url_of(number: int) -> str:
    return f"http://page{number}.example/"


def date_of(visit: int) -> str:
    return f"2026-01-{visit + 1:02d}T00:00:00Z"


def text_of(number: int, visit: int) -> bytes:
    return b"page %d as of visit %d; " % (number, visit) * 40


def make(path: Path, *, keep: str = "all", organizations: Sequence[str] = ("log", "log", "log")) -> Path:
    """An archive of the batch scheme: two read volumes v0 and v1, of which the first takes part without being told to.

    The organizations are those of v0, v1 and the update volume u0.
    """
    store, records = replace(PLAN.store, update="batch"), replace(PLAN.records, keep=keep)
    holdfast.init(path, replace(PLAN, store=store, records=records, organization=organizations[0]))
    with holdfast.open(path) as archive:
        archive.add_volume(VolumeSettings("v1", organization=organizations[1], role="read"))
        archive.add_volume(VolumeSettings("u0", organization=organizations[2], role="update"))
    return path


def crawl(archive: Archive, visit: int, numbers: Iterable[int], batch: str = "b") -> None:
    """One visit to some pages."""
    records = [response(url_of(number), text_of(number, visit), date_of(visit)) for number in numbers]
    file = write(archive.path.parent / f"{archive.path.name}-{batch}-{visit}.warc", records)
    import_all(archive, file, batch=batch)


def blocks(archive: Archive) -> dict[str, int]:
    return {report.settings.name: report.stat.blocks for report in archive.volumes() if report.stat is not None}


def seen(archive: Archive) -> list[tuple[str, bytes]]:
    """What readers of the active state are shown: URLs with payloads, by URL and time."""
    active = archive.updates.active
    shown = [each for each in captures(archive) if active is None or each.record in active]
    return [(each.url, archive.records.of(each).payload()) for each in shown]


def classes_by_hand(all_: Sequence[Capture], active: Iterable[RecordId]) -> dict[RecordId, PageClass]:
    """The definition, without any cleverness."""
    shown = set(active)
    found = {}
    for each in all_:
        if each.record not in shown:
            found[each.record] = PageClass.C
            continue
        later = [
            other
            for other in all_
            if other.record not in shown
            and (other.url, other.collection) == (each.url, each.collection)
            and (other.timestamp, str(other.record)) > (each.timestamp, str(each.record))
        ]
        found[each.record] = PageClass.A if later else PageClass.B
    return found
