"""A small WACZ for tests, and what to do to it."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random

from holdfast.env import Environment, LocalFiles
from holdfast.formats.record import Finding
from holdfast.formats.wacz.reader import DATAPACKAGE, DATAPACKAGE_DIGEST, PAGES, Wacz
from holdfast.formats.wacz.writer import WaczWriter
from holdfast.formats.warc.compose import WarcHead, digest_of, record_id, record_parts
from holdfast.formats.warc.writer import WarcWriter

CLOCK = 1_794_794_400.0  # 2026-11-16T02:00:00Z
NAMES = [
    "archive/a.warc.gz",
    "archive/B.warc.gz",
    "indexes/index.cdx.gz",
    "indexes/index.idx",
    PAGES,
    DATAPACKAGE,
    DATAPACKAGE_DIGEST,
]


def response(number: int) -> list[bytes]:
    http, payload = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n", f"<p>page {number}".encode()
    head = WarcHead(
        "response",
        "20261116020000",
        record_id(Random(number).randbytes(16)),
        url=f"http://example.com/{number}",
        block_digest=digest_of([http, payload]),
    )
    return record_parts(head, [http, payload])


def write(path: Path, count: int = 10) -> list[bytes]:
    """A WACZ with two WARCs; returns its index lines in order."""
    env = Environment(files=LocalFiles(), clock=lambda: CLOCK)
    lines = []
    with WaczWriter(path, env=env) as writer:
        for name, numbers in (("a.warc.gz", range(count)), ("B.warc.gz", range(count, 2 * count))):
            with writer.warc(name) as sink:
                warc = WarcWriter(sink)
                for number in numbers:
                    offset, length = warc.write(response(number))
                    facts = {
                        "url": f"http://example.com/{number}",
                        "offset": offset,
                        "length": length,
                        "filename": name,
                    }
                    lines.append(f"com,example)/{number} 20261116020000 {json.dumps(facts)}".encode())
        for line in reversed(lines):
            writer.add_index_line(line)
        writer.add_page("http://example.com/0", "20261116020000")
        writer.add_page("http://example.com/ü", "2026-11-16T02:00:01Z")
    return sorted(lines)


def findings(path: Path) -> list[Finding]:
    found: list[Finding] = []
    with Wacz(path) as wacz:
        assert wacz.verify(found.append) == (not found)
    return found


def rewrite(path: Path, change: Callable[[str, bytes], bytes | None], extra: dict[str, bytes] | None = None) -> None:
    """The zip again, with members changed, dropped (None) or added."""
    with zipfile.ZipFile(path) as old:
        members = [(info.filename, change(info.filename, old.read(info))) for info in old.infolist()]
    with zipfile.ZipFile(path, "w") as new:
        for name, data in [*members, *(extra or {}).items()]:
            if data is not None:
                new.writestr(name, data)
