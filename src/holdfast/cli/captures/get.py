"""`holdfast get`: a capture by URL and time, as a page, as it was transferred, or as its exact record."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.options import archive_option, collection_option, json_option, pick_option, require_one
from holdfast.cli.terminal import STANDARD_STREAM, asking, counted, show_json, write_pieces
from holdfast.errors import CaptureNotFound
from holdfast.model import RecordId

if TYPE_CHECKING:
    from holdfast.archive import Archive
    from holdfast.cluster.answers.whole_archive import WholeArchive
    from holdfast.records.stored_record import StoredRecord

_RECORD_ID = re.compile(r"[a-z0-9][a-z0-9._-]*-\d{10}")
_PAGE_ID = "page-id:"
_NEIGHBOURS_MAX = 1000  # captures of a host searched for a similar URL


@click.command()
@archive_option
@click.argument("url", metavar="URL|RECORD|page-id:ID")
@click.option("--at", metavar="TIME", default="", help="The capture for this time: 2026, 202611, up to 14 digits.")
@pick_option
@collection_option
@click.option("--headers", is_flag=True, help="Write the head of the HTTP message instead.")
@click.option("--record", is_flag=True, help="Write the whole record, byte for byte.")
@click.option("--raw", is_flag=True, help="Write the payload as it was transferred, still encoded.")
@click.option("-o", "--output", metavar="FILE", help="Write to FILE, whole or not at all.")
@json_option
def get(
    *,
    archive: Path,
    url: str,
    at: str,
    pick: str | None,
    collection: str | None,
    output: str | None,
    as_json: bool,
    **parts: bool,
) -> None:
    """Write a capture of URL: the newest, or that nearest to a time, or the last up to it (--pick not-newer).

    Its payload goes to standard output or to a file. Instead of a URL, give the id of a record (202611-0000000042) or
    WebBase's id of a page (page-id:05d8a9b2c4e1f730). --json prints facts about the capture; the payload is then
    written only with -o.
    """
    from holdfast.urls import completed

    part = require_one(parts, "headers", "record", "raw")
    with asking(archive) as opened:
        wanted = url if url.startswith(_PAGE_ID) else completed(url)
        record = _find(opened, wanted, at.strip(), collection, pick)
        pieces = _pieces(record, part)
        if output is not None and output != STANDARD_STREAM:
            size = write_pieces(Path(output), pieces)
            if as_json:
                show_json(_values(record) | {"file": output, "written": size})
        elif as_json:
            show_json(_values(record))
        else:
            sys.stdout.buffer.writelines(pieces)


def _find(archive: Archive | WholeArchive, url: str, at: str, collection: str | None, pick: str | None) -> StoredRecord:
    from holdfast.archive import Archive

    if _RECORD_ID.fullmatch(url):
        record = RecordId.parse(url)
        return archive.records.read(record) if isinstance(archive, Archive) else archive.read(record)
    if url.startswith(_PAGE_ID):
        return archive.get_page(url.removeprefix(_PAGE_ID), at, collection, pick)
    try:
        return archive.get(url, at, collection, pick)
    except CaptureNotFound as error:
        if not isinstance(archive, Archive):
            raise
        if at and (later := archive.catalog.closest(url, at, collection)) is not None:
            raise CaptureNotFound(f"{error}; the first after it is of {later.timestamp}") from None
        raise CaptureNotFound(f"{error}; {_hint(archive, url, collection)}") from None


def _pieces(record: StoredRecord, part: str | None) -> Iterable[bytes]:
    if part == "record":
        return record.raw()
    if part == "headers":
        return [record.http_bytes()]
    head = record.http_head
    if part == "raw" or head is None or "content-encoding" not in head.headers:
        return record.stream()
    from holdfast.formats.http import decoded_content

    return [decoded_content(record.payload(), head.headers)]


def _values(record: StoredRecord) -> dict[str, Any]:
    from holdfast.urls import page_id, page_id_text

    capture = record.capture
    head = record.http_head
    names = ("url", "timestamp", "type", "status", "mime", "digest", "size", "collection", "filename")
    return {
        "record": str(record.id),
        **{name: getattr(capture, name) for name in names},
        "page_id": page_id_text(page_id(capture.url)),
        "modified": None if capture.modified == "-" else capture.modified,
        "contents": [] if capture.contents == "-" else capture.contents.split(" "),
        "headers": [] if head is None else head.headers.items(),
    }


# -- suggestions -----------------------------------------------------------------------------------------


def _hint(archive: Archive, url: str, collection: str | None) -> str:
    from holdfast.catalog import CaptureQuery

    if collection is not None and (elsewhere := archive.catalog.newest(url)) is not None:
        return f"collection {elsewhere.collection!r} has it"
    query = CaptureQuery(url=url, match="host", collection=collection, collapse=("urlkey",), limit=_NEIGHBOURS_MAX)
    neighbours = [row.capture.url for row in archive.search(query)]
    if neighbours:
        return f"{_near(url, neighbours)}; see: holdfast cdx --match host {shlex.quote(url)}"
    total = sum(each.captures for each in archive.catalog.totals()[0].values())
    return (
        "nor of anything else on its host"
        if total
        else "the archive has no captures: add some with 'holdfast crawl' or 'holdfast import'"
    )


def _near(url: str, neighbours: list[str]) -> str:
    from difflib import get_close_matches

    found = get_close_matches(url, neighbours, n=1, cutoff=0.5)
    count = f"{counted(len(neighbours), 'other URL')}{' or more' if len(neighbours) == _NEIGHBOURS_MAX else ''}"
    return f"its host has {count}" + (f", such as '{found[0]}'" if found else "")
