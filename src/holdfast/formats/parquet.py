"""The catalog as one Parquet file, with the columns of Common Crawl's index table, so that SQL written for it runs.

Names, order and types are those of the flat table `ccindex` as published in commoncrawl/cc-index-table, except that
places in files are 64-bit and a status may be null. `warc_segment` is the batch of the record, `crawl` the collection;
`subset` is as in Common Crawl: `robotstxt`, `warc` for what succeeded, `crawldiagnostics` for the rest.
Two columns of ours follow: `contentkey`, what the payload is stored under, and `record`, the record's global id.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from urllib.parse import urlsplit

from holdfast.env.extras import require
from holdfast.formats.cdx.cdx import bare_digest
from holdfast.model import Capture

if TYPE_CHECKING:
    import pyarrow
    from tldextract import TLDExtract

ROW_GROUP = 65_536
_UNKNOWN = "-"
_TEXT, _NUMBER = "string", "int32"
COLUMNS: tuple[tuple[str, str, bool], ...] = (  # name, type, whether it may be null
    ("url_surtkey", _TEXT, False),
    ("url", _TEXT, False),
    ("url_host_name", _TEXT, False),
    ("url_host_tld", _TEXT, True),
    ("url_host_2nd_last_part", _TEXT, True),
    ("url_host_3rd_last_part", _TEXT, True),
    ("url_host_4th_last_part", _TEXT, True),
    ("url_host_5th_last_part", _TEXT, True),
    ("url_host_registry_suffix", _TEXT, True),
    ("url_host_registered_domain", _TEXT, True),
    ("url_host_private_suffix", _TEXT, True),
    ("url_host_private_domain", _TEXT, True),
    ("url_host_name_reversed", _TEXT, True),
    ("url_protocol", _TEXT, False),
    ("url_port", _NUMBER, True),
    ("url_path", _TEXT, False),
    ("url_query", _TEXT, True),
    ("fetch_time", "timestamp", True),
    ("fetch_status", "int16", True),
    ("fetch_redirect", _TEXT, True),
    ("content_digest", _TEXT, True),
    ("content_mime_type", _TEXT, True),
    ("content_mime_detected", _TEXT, True),
    ("content_charset", _TEXT, True),
    ("content_languages", _TEXT, True),
    ("content_truncated", _TEXT, True),
    ("warc_filename", _TEXT, False),
    ("warc_record_offset", "int64", False),
    ("warc_record_length", "int64", False),
    ("warc_segment", _TEXT, False),
    ("crawl", _TEXT, False),
    ("subset", _TEXT, False),
    ("contentkey", _TEXT, True),
    ("record", _TEXT, False),
)


class _Host(NamedTuple):
    """The columns that depend on the host only."""

    name: str
    parts: tuple[str | None, ...]  # the last five, last first
    registry_suffix: str | None
    registered_domain: str | None
    private_suffix: str | None
    private_domain: str | None
    reversed: str | None


class ParquetCatalogWriter:
    """Writes captures in the order they come; `close` writes the end, without which the file is void."""

    def __init__(self, path: Path, row_group: int = ROW_GROUP) -> None:
        require("search")
        from pyarrow import parquet

        self._schema = _schema()
        self._writer = parquet.ParquetWriter(path, self._schema, compression="zstd")
        self._row_group = row_group
        self._rows: list[tuple[object, ...]] = []

    def add(self, captures: Sequence[Capture]) -> None:
        for capture in captures:
            self._rows.append(_row(capture))
            if len(self._rows) >= self._row_group:
                self._write()

    def close(self) -> None:
        if self._rows:
            self._write()
        self._writer.close()

    def _write(self) -> None:
        import pyarrow

        columns = zip(*self._rows, strict=True)
        arrays = [pyarrow.array(column, field.type) for column, field in zip(columns, self._schema, strict=True)]
        self._writer.write_table(pyarrow.Table.from_arrays(arrays, schema=self._schema), row_group_size=self._row_group)
        self._rows = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _schema() -> pyarrow.Schema:
    import pyarrow

    types = {
        _TEXT: pyarrow.string(),
        _NUMBER: pyarrow.int32(),
        "int16": pyarrow.int16(),
        "int64": pyarrow.int64(),
        "timestamp": pyarrow.timestamp("ms", tz="UTC"),
    }
    return pyarrow.schema([pyarrow.field(name, types[kind], nullable=null) for name, kind, null in COLUMNS])


def _row(capture: Capture) -> tuple[object, ...]:
    scheme, netloc, path, query = _split(capture.url)
    host, port = _host_and_port(netloc)
    about = _host(host)
    extra: dict[str, Any] = {} if capture.extra == _UNKNOWN else json.loads(capture.extra)
    return (
        capture.urlkey,
        capture.url,
        about.name,
        *about.parts,
        about.registry_suffix,
        about.registered_domain,
        about.private_suffix,
        about.private_domain,
        about.reversed,
        scheme,
        port,
        path,
        query or None,
        _time(capture.timestamp),
        int(capture.status) if capture.status.isdigit() and len(capture.status) <= 4 else None,
        extra.get("redirect"),
        _known(bare_digest(capture.digest)),
        _known(capture.mime),
        extra.get("mime-detected"),
        extra.get("charset"),
        extra.get("languages"),
        extra.get("truncated"),
        capture.filename,
        capture.offset,
        capture.length,
        capture.record.batch,
        capture.collection,
        _subset(path, capture.status),
        _known(capture.contents),
        str(capture.record),
    )


def _split(url: str) -> tuple[str, str, str, str]:
    try:
        parts = urlsplit(url)
    except ValueError:  # an unclosed bracket
        return url.partition(":")[0], "", "", ""
    return parts.scheme, parts.netloc, parts.path, parts.query


def _host_and_port(netloc: str) -> tuple[str, int | None]:
    place = netloc.rpartition("@")[2]
    host, colon, port = place.rpartition(":")
    if not colon or place.endswith("]"):
        return place.lower(), None
    return host.lower(), int(port) if port.isdigit() and len(port) <= 5 else None


@lru_cache(4096)
def _host(name: str) -> _Host:
    labels = name.rstrip(".").split(".")
    if not name or name.startswith("[") or (len(labels) == 4 and labels[-1].isdigit()):  # an address
        return _Host(name, (None,) * 5, None, None, None, None, None)
    last_first = labels[::-1]
    found = _suffixes()(name)
    return _Host(
        name,
        (*last_first, *(None,) * 5)[:5],
        found.registry_suffix or None,
        found.top_domain_under_registry_suffix or None,
        found.suffix or None,
        found.top_domain_under_public_suffix or None,
        ".".join(last_first),
    )


@lru_cache(1)
def _suffixes() -> TLDExtract:
    """The list that comes with the library, private registries included: nothing is fetched."""
    from tldextract import TLDExtract

    return TLDExtract(cache_dir=None, suffix_list_urls=(), include_psl_private_domains=True)


def _subset(path: str, status: str) -> str:
    if path == "/robots.txt":
        return "robotstxt"
    return "warc" if status in ("200", _UNKNOWN) else "crawldiagnostics"


def _known(text: str) -> str | None:
    return None if text == _UNKNOWN else text


def _time(timestamp: str) -> datetime | None:
    try:
        return datetime.fromisoformat(f"{timestamp[:8]}T{timestamp[8:]}").replace(tzinfo=UTC)
    except ValueError:
        return None
