"""Many small records: redirects, API answers, error pages and tracking pixels, and the space that they take.

Payloads have 43 to 600 bytes. One in four repeats an earlier one: pixels, and the error pages of a site. Heads are
those of real servers: dates, entity tags, and sometimes a cookie or a request id, which no compressor can guess.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from benchmarks.archive.crawl import CRAWLS, gzip_member
from benchmarks.archive.large import export_large, import_large
from benchmarks.archive.ours import compare
from benchmarks.harness.measure import SEED, bytes_on_disk
from benchmarks.harness.process import run_apart
from holdfast.formats.warc.compose import ID_BYTES, WarcHead, digest_of, record_id, record_parts
from holdfast.formats.warc.writer import WarcWriter

_SITES = 400
_PARTS = ("volumes", "batches", "catalog")
_WORDS = (
    *("archive", "river", "station", "market", "window", "letter", "garden", "science", "harbour", "morning"),
    *("history", "mountain", "paper", "music", "winter", "bridge", "forest", "engine", "silver", "doctor"),
    *("kitchen", "theatre", "island", "journey", "picture", "village", "captain", "summer", "teacher", "weather"),
)
_PIXEL = bytes.fromhex(
    "47494638396101000100800000000000ffffff21f90401000000002c00000000010001000002024401003b"  # a GIF of 1 x 1, clear
)
_SERVERS = ("nginx", "nginx/1.24.0 (Ubuntu)", "Apache/2.4.58 (Debian)", "cloudflare", "Microsoft-IIS/10.0")


@dataclass(frozen=True, slots=True)
class SmallRecords:
    """What the records take, and what they cost on their way in and out."""

    records: int
    payload_bytes: int
    warc_bytes: int  # gzip WARC, zlib level 6
    disk_bytes: int  # the archive, as `du` counts it
    part_bytes: dict[str, int]  # of `volumes`, `batches` and `catalog`
    cpu_s: dict[str, float]  # of `import` and `export`

    @property
    def ratio(self) -> float:
        return self.disk_bytes / self.warc_bytes


def measure_small(directory: Path, records: int) -> SmallRecords:
    """Works below the directory. Raises ChildFailed if the file does not come back as it was."""
    directory.mkdir(parents=True)
    source, archive = directory / "small.warc.gz", directory / "archive"
    payload_bytes = run_apart(write_small, source, records)
    imported = run_apart(import_large, archive, source)
    allocated = bytes_on_disk(archive)[0]
    parts = {name: bytes_on_disk(archive / name)[0] for name in _PARTS}
    exported = run_apart(export_large, archive, directory / "exported")
    compare(source, directory / "exported" / source.name)
    warc_bytes, cpu_s = source.stat().st_size, {"import": imported.cpu_s, "export": exported.cpu_s}
    return SmallRecords(records, payload_bytes, warc_bytes, allocated, parts, cpu_s)


def write_small(path: Path, records: int) -> int:
    """A gzip WARC of responses; returns the bytes of their payloads."""
    chance = random.Random(SEED)
    payload_bytes = 0
    with path.open("wb") as file:
        writer = WarcWriter(file)
        for number in range(records):
            url, head, payload = chance.choices(_KINDS, _SHARES)[0](chance, number)
            date = CRAWLS[0] + timedelta(seconds=number / 7)
            block = [_http_head(chance, f"{date:%a, %d %b %Y %H:%M:%S} GMT", head, len(payload)), payload]
            response = WarcHead(
                "response",
                f"{date:%Y-%m-%dT%H:%M:%SZ}",
                record_id(chance.randbytes(ID_BYTES)),
                url=url,
                ip=f"192.0.2.{int(url[15:18]) % 250}",
                block_digest=digest_of(block),
                payload_digest=digest_of([payload]),
            )
            writer.append(gzip_member(record_parts(response, block)))
            payload_bytes += len(payload)
    return payload_bytes


_Answer = tuple[str, list[str], bytes]  # URL, status line and own fields, payload


def _redirect(chance: random.Random, number: int) -> _Answer:
    site, path = _site(chance), _path(chance)
    target = f"https://{site}/{path}"
    body = (
        '<!DOCTYPE HTML PUBLIC "-//IETF//DTD HTML 2.0//EN">\n<html><head>\n<title>301 Moved Permanently</title>\n'
        f'</head><body>\n<h1>Moved Permanently</h1>\n<p>The document has moved <a href="{target}">here</a>.</p>\n'
        "</body></html>\n"
    )
    fields = ["HTTP/1.1 301 Moved Permanently", f"Location: {target}", "Content-Type: text/html; charset=iso-8859-1"]
    return f"http://{site}/{path}", fields, body.encode()


def _answer(chance: random.Random, number: int) -> _Answer:
    items = [
        {
            "id": chance.randrange(10**7),
            "title": " ".join(chance.choices(_WORDS, k=4)),
            "price": round(chance.random() * 900, 2),
            "tags": chance.sample(_WORDS, 2),
        }
        for _ in range(chance.randrange(1, 5))
    ]
    body = json.dumps({"status": "ok", "page": chance.randrange(400), "data": items})
    fields = ["HTTP/1.1 200 OK", "Content-Type: application/json", "Vary: Accept-Encoding", f'ETag: W/"{number:x}"']
    return f"http://{_site(chance)}/api/v2/{chance.choice(_WORDS)}?offset={number}", fields, body.encode()


def _missing(chance: random.Random, number: int) -> _Answer:
    site = _site(chance)
    path = f"{_path(chance)}-{number}"
    named = f"The requested URL /{path} was" if chance.random() < 0.5 else "The page you are looking for was"
    body = (
        "<!DOCTYPE html>\n<html lang=en>\n<head><meta charset=utf-8><title>404 Not Found</title>"
        '<link rel=stylesheet href="/static/error.css"></head>\n<body>\n<h1>Not Found</h1>\n'
        f"<p>{named} not found on this server.</p>\n<hr>\n<address>{site}</address>\n</body></html>\n"
    )
    return f"http://{site}/{path}", ["HTTP/1.1 404 Not Found", "Content-Type: text/html; charset=utf-8"], body.encode()


def _pixel(chance: random.Random, number: int) -> _Answer:
    fields = ["HTTP/1.1 200 OK", "Content-Type: image/gif", "Cache-Control: no-store", "Expires: 0"]
    return f"http://{_site(chance)}/pixel.gif?u={chance.randbytes(6).hex()}&n={number}", fields, _PIXEL


_KINDS: tuple[Callable[[random.Random, int], _Answer], ...] = (_redirect, _answer, _missing, _pixel)
_SHARES = (30, 30, 25, 15)


def _site(chance: random.Random) -> str:
    return f"www.{chance.choice(('news', 'shop'))}{chance.randrange(_SITES):03d}.example"


def _path(chance: random.Random) -> str:
    return "/".join(chance.choices(_WORDS, k=chance.randrange(1, 4))) + f"/{chance.randrange(10**5)}"


def _http_head(chance: random.Random, date: str, fields: list[str], size: int) -> bytes:
    lines = [fields[0], f"Date: {date}", f"Server: {chance.choice(_SERVERS)}", *fields[1:], f"Content-Length: {size}"]
    if chance.random() < 0.15:
        lines.append(f"Set-Cookie: sid={chance.randbytes(12).hex()}; Path=/; HttpOnly; SameSite=Lax")
    if chance.random() < 0.15:
        lines.append(f"X-Request-Id: {chance.randbytes(8).hex()}")
    lines.append("Connection: close")
    return "\r\n".join([*lines, "", ""]).encode()
