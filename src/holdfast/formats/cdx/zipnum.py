"""ZipNum: sorted CDX or CDXJ lines in gzip members of N lines each, and a small index over the members.

    name.cdx.gz   member 1 │ member 2 │ ...        each decompresses by itself to its lines
    name.idx      com,example)/ 20200102030405 \t name.cdx.gz \t offset \t length \t number, from 1
                  └ key and time of the member's first line; sorted as the lines are
    name.loc      name.cdx.gz \t path              relative to the directory of the .loc

WACZ packages have the index in another form, which needs no .loc:

    index.idx     !meta 0 {"format": "cdxj-gzip-1.0", "filename": "index.cdx.gz"}
                  com,example)/ 20200102030405 {"offset": 0, "length": 657}

A reader finds its place in the .idx by bisection and decompresses the few members that can hold a key.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import BinaryIO, Self

from isal import igzip

LINES_PER_BLOCK = 3000
_LEVEL = 2


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


def loc_line(cdx_name: str) -> str:
    """The line of the .loc that says where the lines of `cdx_name` are: beside it."""
    return f"{cdx_name}\t{cdx_name}\n"
