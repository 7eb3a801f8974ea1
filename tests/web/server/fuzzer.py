"""Random requests: valid ones, and the same with a few bytes or lines changed, by a seed."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

from hostile import MALFORMED, TRICKS

TARGETS = (
    *(
        "/",
        "/search?q=example",
        "/explore",
        "/explore?host=example.com",
        "/compare?url=http://example.com/",
        "/crawls",
        "/volumes",
    ),
    *(
        "/main",
        "/main/",
        "/web/",
        "/all/",
        "/api",
        "/api/collections",
        "/openapi.json",
        "/health",
        "/status",
        "/metrics",
    ),
    *("/main/*/http://example.com/", "/main/2026*/http://example.com/", "/main/2026/http://example.com/"),
    *(
        "/web/20260101000000mp_/http://example.com/",
        "/web/2026id_/http://example.com/",
        "/web/2026im_/example.com/a.png",
    ),
    *("/main/http://example.com/", "/main/timegate/http://example.com/", "/main/timemap/link/http://example.com/"),
    *("/main/timemap/json/1/http://example.com/", "/main/timemap/cdxj/http://example.com/", "/main/record/1"),
    *(
        "/main/cdx?url=example.com/*&output=json&limit=5",
        "/main/cdx?url=*.example.com&collapse=timestamp:4&fl=url,mime",
    ),
    *("/main/cdx?url=example.com&filter=!status:200&sort=closest&closest=2026", "/main/warc?url=http://example.com/"),
    *("/cdx/search/cdx?url=example.com&matchType=domain&output=json&showNumPages=true", "/static/style.css"),
    *(
        "/_hf/runtime.js",
        "/_hf/worker.js",
        "/_hf/enter?to=/main/2026mp_/http://example.com/",
        "/favicon.ico",
        "/robots.txt",
    ),
)
METHODS = ("GET", "GET", "GET", "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "PROPFIND")
FIELDS = (
    *("Accept: text/html", "Accept: */*", "Accept-Encoding: gzip, br", "Range: bytes=0-10", "Range: bytes=-5,9-,x"),
    *(
        "Accept-Datetime: Thu, 01 Jan 2026 00:00:00 GMT",
        "Accept-Datetime: yesterday",
        "If-None-Match: *",
        "Cookie: a=b; c",
    ),
    *(
        "If-Modified-Since: Thu, 01 Jan 2026 00:00:00 GMT",
        "Referer: http://127.0.0.1/main/2026mp_/http://example.com/x",
    ),
    *("Authorization: Bearer x", "Authorization: Basic ====", "Origin: http://evil.example", "X-Holdfast-Worker: 1"),
    *("Sec-Fetch-Dest: document", "Sec-Fetch-Mode: navigate", "Content-Type: application/json", "Connection: close"),
    *("Accept-Language: \xff", "Transfer-Encoding: chunked", "Expect: 100-continue", "Content-Length: 3"),
)
_BYTES = b"\0\r\n\t %/?#&=:;.*[]{}<>\"'\\~0aZ\x7f\x80\xff"


def requests(seed: int, count: int) -> Iterator[bytes]:
    """The same for the same seed."""
    chance = random.Random(seed)
    malformed = [raw for raw, _ in MALFORMED.values() if len(raw) < 50_000]
    for _ in range(count):
        if chance.random() < 0.05:
            raw = chance.choice(malformed)
        else:
            raw = _request(chance)
        yield _mutated(raw, chance) if chance.random() < 0.6 else raw


def _request(chance: random.Random) -> bytes:
    target = chance.choice(TARGETS).encode() if chance.random() < 0.8 else chance.choice(TRICKS)
    fields = chance.sample(FIELDS, chance.randrange(5))
    body = chance.choice((b"", b"", b"abc", b"3\r\nabc\r\n0\r\n\r\n", b'{"url": "http://example.com/"}'))
    lines = [f"{chance.choice(METHODS)} ".encode() + target + b" HTTP/1.1", b"Host: 127.0.0.1"]
    return b"\r\n".join([*lines, *(field.encode("latin-1") for field in fields), b"", body])


def _mutated(raw: bytes, chance: random.Random) -> bytes:
    data = bytearray(raw)
    for _ in range(chance.randrange(1, 5)):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(5):
            case 0:
                data[at : at + 1] = bytes([chance.choice(_BYTES)])
            case 1:
                data[at:at] = bytes([chance.choice(_BYTES)]) * chance.choice((1, 2, 300))
            case 2:
                del data[at : at + chance.randrange(1, 20)]
            case 3:
                data[at:at] = data[: chance.randrange(len(data) + 1)]
            case _:
                data[at:at] = b"%%%02x" % chance.randrange(256)
    return bytes(data)


async def bombard(ports: tuple[int, ...], seed: int, count: int) -> Counter[int]:
    """Statuses of the answers. Raises AssertionError if one is not 2xx, 3xx or 4xx, or does not come."""
    statuses: Counter[int] = Counter()
    odd: list[tuple[int, int, bytes]] = []
    room = asyncio.Semaphore(100)

    async def one(port: int, raw: bytes) -> None:
        async with room:
            status = await asyncio.wait_for(_status(port, raw), 60)
        statuses[status] += 1
        if not 200 <= status < 500:
            odd.append((status, port, raw))

    async with asyncio.TaskGroup() as group:
        for number, raw in enumerate(requests(seed, count)):
            group.create_task(one(ports[number % len(ports)], raw))
    # A connection on which we were too slow to say anything is closed: these get another chance, one at a time.
    silent = [(port, raw) for status, port, raw in odd if not status and _is_request(raw)]
    again = [(await _status(port, raw), raw) for port, raw in silent]
    assert [each for each in odd if each[0]] == []
    assert [(status, raw) for status, raw in again if not 200 <= status < 500] == []
    return statuses


def _is_request(raw: bytes) -> bool:
    """Not only empty lines, which may stand before a request and are no more than that."""
    return raw.strip(b"\r\n") != b""


async def _status(port: int, raw: bytes) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    status = 100
    try:
        with suppress(ConnectionError):
            writer.write(raw)
            await writer.drain()
        while status == 100:
            status = await _status_line(reader)
    except ConnectionError:
        return 0
    finally:
        writer.transport.abort()
    return status


async def _status_line(reader: asyncio.StreamReader) -> int:
    first = await reader.readline()
    while (await reader.readline()).strip():
        pass
    return int(first.split(b" ")[1]) if first.startswith(b"HTTP/1.1 ") else 0
