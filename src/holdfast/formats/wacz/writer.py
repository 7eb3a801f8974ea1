"""Writing WACZ 1.1.1 (byte boxes: `holdfast.formats.wacz.reader`), front to back and with bounded memory.

WARCs flow in first, one at a time, and are stored as they come. Index lines and pages may be given at any moment and in
any order: index lines are sorted in runs on disk and merged at the end, pages wait in a temporary file. `close` writes
both, then the list of all members with their SHA-256, and gives the file its name; until then it ends in `.open`.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import os
import re
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, BinaryIO, Self, cast

from holdfast.env import REAL, Environment
from holdfast.env.files import Buffer, from_os_error, translated_errors
from holdfast.errors import UsageError
from holdfast.formats.cdx.zipnum import ZipNumWriter
from holdfast.formats.wacz.reader import DATAPACKAGE, DATAPACKAGE_DIGEST, PAGES, WACZ_VERSION
from holdfast.formats.warc.compose import warc_date

CDX_NAME = "index.cdx.gz"
LINES_PER_BLOCK = 1024  # as py-wacz and archiveweb.page do: a browser fetches a whole block
_RUN_BYTES_MAX = 64 << 20
_MEMORY_BYTES_MAX = 8 << 20  # of pages and of the .idx, before they go to disk
_CHUNK = 1 << 18
_WARC_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*\.warc(\.gz)?", re.ASCII)
_UNFIT = re.compile(r"[^a-z0-9._-]+")  # in a resource's name, by the rules of data packages


class WaczWriter:
    """A WACZ being written. One thread at a time. An exception in the `with` block removes the file."""

    def __init__(self, path: Path, *, env: Environment = REAL) -> None:
        self.path = path
        self._env = env
        self._draft = path.with_name(path.name + ".open")
        self._resources: list[dict[str, object]] = []
        env.files.make_directory(path.parent)
        with translated_errors(self._draft):
            self._file: IO[bytes] = self._draft.open("wb", buffering=_CHUNK)
            self._zip = zipfile.ZipFile(self._file, "w", allowZip64=True)
            self._lines = _SortedLines(path.parent)
            self._pages = self._temporary()
        self._created = datetime.fromtimestamp(env.clock(), UTC)

    @contextmanager
    def warc(self, name: str) -> Iterator[MemberSink]:
        """A WARC under `archive/`: what is written to the sink within the `with` is stored as it is."""
        if _WARC_NAME.fullmatch(name) is None:
            raise UsageError(
                f"bad name {name!r} of a WARC in a WACZ: use letters, digits, '._-' and '.warc.gz' or '.warc'"
            )
        if any(facts["path"] == f"archive/{name}" for facts in self._resources):
            raise UsageError(f"the WACZ '{self.path}' has a WARC {name!r} already")
        with self._member(f"archive/{name}", zipfile.ZIP_STORED) as sink:
            yield sink

    def add_index_line(self, line: bytes) -> None:
        """A line of CDXJ, with or without its end; its `filename` is the WARC's name without `archive/`."""
        self._lines.add(line)

    def add_page(self, url: str, date: str) -> None:
        """A page for people to start from; `date` is 14 digits or ISO 8601."""
        moment = warc_date(date)
        known = hashlib.sha256(f"{moment} {url}".encode("utf-8", "surrogatepass")).hexdigest()[:20]
        self._pages.write(_json_line({"id": known, "url": url, "ts": moment}))

    def close(self) -> None:
        """Writes index, pages and list of members; on return the file is whole, durable and has its name."""
        if not any(str(facts["path"]).startswith("archive/") for facts in self._resources):
            raise UsageError(f"cannot finish '{self.path}': a WACZ needs at least one WARC, and none was added")
        with translated_errors(self.path):
            self._write_index()
            self._write_pages()
            self._write_datapackage()
            self._zip.close()
            self._file.flush()
            os.fsync(self._file.fileno())
            self._release()
        self._env.files.rename(self._draft, self.path)
        self._env.files.sync_directory(self.path.parent)

    def abandon(self) -> None:
        """Removes the unfinished file."""
        self._release()
        self._env.files.remove(self._draft)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.abandon()
            return
        try:
            self.close()
        except BaseException:
            self.abandon()
            raise

    def _temporary(self) -> IO[bytes]:
        return tempfile.SpooledTemporaryFile(_MEMORY_BYTES_MAX, dir=str(self.path.parent))

    def _release(self) -> None:
        self._pages.close()
        self._lines.close()
        self._zip.fp = None  # or its destructor would write a directory into the abandoned file
        self._file.close()

    @contextmanager
    def _member(self, name: str, method: int, *, listed: bool = True) -> Iterator[MemberSink]:
        info = zipfile.ZipInfo(name, self._created.timetuple()[:6])
        info.compress_type = method
        info.external_attr = 0o644 << 16
        with self._zip.open(info, "w", force_zip64=True) as stream:
            sink = MemberSink(stream, self._draft)
            yield sink
        if listed:
            self._resources.append(
                {"name": self._resource_name(name), "path": name, "hash": sink.hash(), "bytes": sink.offset}
            )

    def _resource_name(self, path: str) -> str:
        """Unique, lower case, of few characters: as the standard for data packages has it."""
        name = wanted = _UNFIT.sub("-", path.rpartition("/")[2].lower())
        taken = {facts["name"] for facts in self._resources}
        number = 1
        while name in taken:
            number += 1
            name = f"{number}-{wanted}"
        return name

    def _write_index(self) -> None:
        with self._temporary() as idx:
            with self._member(f"indexes/{CDX_NAME}", zipfile.ZIP_STORED) as sink:
                zipnum = ZipNumWriter(cast(BinaryIO, sink), cast(BinaryIO, idx), CDX_NAME, LINES_PER_BLOCK, wacz=True)
                for line in self._lines:
                    zipnum.add(line)
                zipnum.close()
            self._copy(idx, "indexes/index.idx")

    def _write_pages(self) -> None:
        self._copy(self._pages, PAGES, _json_line({"format": "json-pages-1.0", "id": "pages", "title": "All Pages"}))

    def _copy(self, source: IO[bytes], name: str, first: bytes = b"") -> None:
        source.seek(0)
        with self._member(name, zipfile.ZIP_DEFLATED) as sink:
            sink.write(first)
            while chunk := source.read(_CHUNK):
                sink.write(chunk)

    def _write_datapackage(self) -> None:
        created = self._created.strftime("%Y-%m-%dT%H:%M:%SZ")
        facts = {
            "profile": "data-package",
            "wacz_version": WACZ_VERSION,
            "software": "holdfast",
            "created": created,
            "modified": created,
            "resources": self._resources,
        }
        with self._member(DATAPACKAGE, zipfile.ZIP_DEFLATED, listed=False) as sink:
            sink.write(json.dumps(facts, indent=2).encode())
        digest = json.dumps({"path": DATAPACKAGE, "hash": sink.hash()}, indent=2).encode()
        with self._member(DATAPACKAGE_DIGEST, zipfile.ZIP_DEFLATED, listed=False) as sink:
            sink.write(digest)


class MemberSink:
    """Takes the bytes of one member; `offset` is how many there were."""

    def __init__(self, stream: IO[bytes], path: Path) -> None:
        self.offset = 0
        self._stream = stream
        self._path = path  # of the WACZ, for messages
        self._digest = hashlib.sha256()

    def write(self, data: Buffer, /) -> int:
        self._digest.update(data)
        try:
            self._stream.write(data)
        except OSError as error:
            raise from_os_error(error, self._path) from error
        self.offset += len(data)
        return len(data)

    def flush(self) -> None:
        """The zip gathers by itself."""

    def hash(self) -> str:
        return f"sha256:{self._digest.hexdigest()}"


class _SortedLines:
    """Lines of any number, given back in the order of their bytes; what memory does not hold lies in sorted runs."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lines: list[bytes] = []
        self._bytes = 0
        self._runs: list[IO[bytes]] = []

    def add(self, line: bytes) -> None:
        self._lines.append(line if line.endswith(b"\n") else line + b"\n")
        self._bytes += len(line)
        if self._bytes >= _RUN_BYTES_MAX:
            self._spill()

    def _spill(self) -> None:
        run = tempfile.TemporaryFile(dir=self._directory, buffering=_CHUNK)  # noqa: SIM115 - closed by `close`
        self._runs.append(run)
        self._lines.sort()
        run.writelines(self._lines)
        run.seek(0)
        self._lines, self._bytes = [], 0

    def __iter__(self) -> Iterator[bytes]:
        self._lines.sort()
        return heapq.merge(self._lines, *self._runs) if self._runs else iter(self._lines)

    def close(self) -> None:
        for run in self._runs:
            run.close()


def _json_line(value: dict[str, object]) -> bytes:
    return json.dumps(value).encode() + b"\n"
