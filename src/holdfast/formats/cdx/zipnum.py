"""ZipNum: sorted CDX or CDXJ lines in gzip members of N lines each, and a small index over the members.

    name.cdx.gz   member 1 │ member 2 │ ...        each decompresses by itself to its lines
    name.idx      com,example)/ 20200102030405 \t name.cdx.gz \t offset \t length \t number, from 1
                  └ key and time of the member's first line; sorted as the lines are
    name.loc      name.cdx.gz \t path              relative to the directory of the .loc

WACZ packages have the index in another form, which needs no .loc; both are written and read:

    index.idx     !meta 0 {"format": "cdxj-gzip-1.0", "filename": "index.cdx.gz"}
                  com,example)/ 20200102030405 {"offset": 0, "length": 657}

A look-up finds its place in the .idx by bisection and decompresses the few members that can hold the key.
"""

from __future__ import annotations

import json
import mmap
import zlib
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, NamedTuple, Self

from isal import igzip

from holdfast.errors import MalformedInput

LINES_PER_BLOCK = 3000
_LEVEL = 2
_KEY_END = b" "


class ZipNumWriter:
    """Takes sorted lines; `close` writes the last member. The sinks stay open, they are the caller's."""

    def __init__(
        self,
        cdx_sink: BinaryIO,
        idx_sink: BinaryIO,
        cdx_name: str,
        lines_per_block: int = LINES_PER_BLOCK,
        *,
        wacz: bool = False,
    ) -> None:
        """With `wacz` the index has the form that is used in WACZ packages."""
        self._cdx, self._idx = cdx_sink, idx_sink
        self._name = cdx_name.encode()
        self._lines_per_block = lines_per_block
        self._lines: list[bytes] = []
        self._offset = 0
        self._number = 0
        self._wacz = wacz
        if wacz:
            meta = json.dumps({"format": "cdxj-gzip-1.0", "filename": cdx_name})
            idx_sink.write(f"!meta 0 {meta}\n".encode())

    def add(self, line: bytes) -> None:
        """One line, with or without its end."""
        self._lines.append(line if line.endswith(b"\n") else line + b"\n")
        if len(self._lines) >= self._lines_per_block:
            self._write_block()

    def close(self) -> None:
        if self._lines:
            self._write_block()
        self._cdx.flush()
        self._idx.flush()

    def _write_block(self) -> None:
        member = igzip.compress(b"".join(self._lines), _LEVEL, mtime=0)
        first = b" ".join(self._lines[0].split(b" ", 2)[:2]).rstrip(b"\n")
        self._number += 1
        if self._wacz:
            place = {"offset": self._offset, "length": len(member), "digest": f"sha256:{sha256(member).hexdigest()}"}
            self._idx.write(first + f" {json.dumps(place | {'filename': self._name.decode()})}\n".encode())
        else:
            self._idx.write(b"%s\t%s\t%d\t%d\t%d\n" % (first, self._name, self._offset, len(member), self._number))
        self._cdx.write(member)
        self._offset += len(member)
        self._lines = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()


def loc_line(cdx_name: str, path: str | None = None) -> str:
    """The line of the .loc that says where the lines of `cdx_name` are."""
    return f"{cdx_name}\t{path or cdx_name}\n"


class _Block(NamedTuple):
    """One line of the .idx."""

    key: bytes
    part: str
    offset: int
    length: int


class ZipNumReader:
    """Looks up lines by key. Any thread may call it."""

    def __init__(self, idx_path: Path) -> None:
        self._path = idx_path
        self._places = _places(idx_path)
        with idx_path.open("rb") as file:
            empty = idx_path.stat().st_size == 0
            self._idx = b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._meta_part = self._fields_in_meta()

    def lookup(self, key: bytes, *, prefix: bool = False) -> Iterator[bytes]:
        """The lines under exactly this url key, or with `prefix` those whose keys begin so. Lines have no end."""
        start = key if prefix else key + _KEY_END
        for line in self.lines(start):
            if line.startswith(start):
                yield line
            elif line > start:
                return

    def lines(self, start: bytes = b"") -> Iterator[bytes]:
        """All lines from `start` on."""
        position = self._first_block(start)
        while position < len(self._idx):
            end = self._line_end(position)
            block = self._parsed(position, end)
            if not block.key.startswith(b"!"):
                yield from (line for line in self._read(block) if line >= start)
            position = end + 1

    def _first_block(self, start: bytes) -> int:
        """Position of the last index line that is sure to come before `start`, or of the first."""
        low, high = 0, len(self._idx)  # lines that begin before `low` are less, those from `high` on are not
        found = 0
        while low < high:
            begin = self._idx.rfind(b"\n", 0, (low + high) // 2) + 1
            end = self._line_end(begin)
            key = self._idx[begin:end].partition(b"\t")[0].partition(b" {")[0]
            if key < start and not start.startswith(key):  # else the member before may end with the same key and time
                found, low = begin, end + 1
            else:
                high = begin
        return found

    def _line_end(self, begin: int) -> int:
        end = self._idx.find(b"\n", begin)
        return end if end >= 0 else len(self._idx)

    def _parsed(self, begin: int, end: int) -> _Block:
        line = self._idx[begin:end].rstrip(b"\r")
        try:
            if line.startswith(b"!"):
                return _Block(line, "", 0, 0)
            if b"\t" in line:
                key, part, offset, length, *_ = line.split(b"\t")
                return _Block(key, part.decode(), int(offset), int(length))
            key, _, _ = line.partition(b"{")
            fields = json.loads(line[len(key) :])
            return _Block(
                key, str(fields.get("filename") or self._meta_part), int(fields["offset"]), int(fields["length"])
            )
        except (KeyError, ValueError, TypeError) as error:
            text = "expected key, part, offset and length, parted by tabs or as JSON"
            raise MalformedInput(f"malformed line in '{self._path}' at {begin}: {text}") from error

    def _fields_in_meta(self) -> str:
        """The file that the first line says the members are in."""
        line = self._idx[: self._line_end(0)]
        if not line.startswith(b"!meta"):
            return ""
        try:
            fields = json.loads(line.partition(b"{")[1] + line.partition(b"{")[2])
        except ValueError as error:
            raise MalformedInput(f"malformed line in '{self._path}' at 0: no JSON object in it") from error
        return str(fields.get("filename", ""))

    def _read(self, block: _Block) -> list[bytes]:
        path = self._places.get(block.part) or self._path.parent / block.part
        try:
            with path.open("rb") as file:
                file.seek(block.offset)
                packed = file.read(block.length)
            unpacked = zlib.decompress(packed, wbits=zlib.MAX_WBITS | 16)
        except (OSError, zlib.error) as error:
            raise MalformedInput(f"cannot read {block.length} bytes at {block.offset} of '{path}': {error}") from error
        return [line for line in unpacked.splitlines() if not line.startswith((b" CDX ", b"!"))]

    def close(self) -> None:
        if isinstance(self._idx, mmap.mmap):
            self._idx.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _places(idx_path: Path) -> dict[str, Path]:
    """What the .loc beside the .idx says; without one, parts lie beside the .idx under their names."""
    loc = idx_path.with_suffix(".loc")
    if not loc.exists():
        return {}
    pairs = (line.split("\t") for line in loc.read_text().splitlines() if "\t" in line)
    return {name: loc.parent / path for name, path, *_ in pairs}
