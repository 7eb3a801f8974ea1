"""WARC files with one defect each, as crawls that died, disks that filled and tools that erred leave them (N7)."""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from random import Random

NOISE = Random(15).randbytes(300_000)
_LENGTH = re.compile(rb"Content-Length: (\d+)(?=\r\n(?:.+\r\n)*\r\n)")


def page(host: str, number: int, body: bytes = b"", *, status: str = "200 OK", extra: str = "") -> bytes:
    """A sound record: a response, with digests."""
    body = body or b"<p>line of text</p>\r\n" * 30 + b"%d" % number
    block = f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\n{extra}\r\n".encode() + body
    return warc(host, number, block, payload=body)


def warc(host: str, number: int, block: bytes, *, media: str = "", payload: bytes | None = None) -> bytes:
    lines = [
        "WARC/1.1",
        "WARC-Type: response",
        f"WARC-Target-URI: http://{host}.example/{number}",
        f"WARC-Date: 2020-01-02T03:04:0{number}Z",
        f"WARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-{number:012d}>",
        f"WARC-Block-Digest: {_digest(block)}",
        *([f"WARC-Payload-Digest: {_digest(payload)}"] if payload is not None else []),
        f"Content-Type: {media or 'application/http; msgtype=response'}",
        f"Content-Length: {len(block)}",
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + block + b"\r\n\r\n"


def _digest(data: bytes) -> str:
    return f"sha1:{base64.b32encode(hashlib.sha1(data, usedforsecurity=False).digest()).decode()}"


def undigested(record: bytes) -> bytes:
    return re.sub(rb"WARC-(?:Block|Payload)-Digest: .*\r\n", b"", record)


def line_ends(record: bytes, end: bytes) -> bytes:
    head, blank, rest = record.partition(b"\r\n\r\n")
    return (head + blank).replace(b"\r\n", end) + rest


def length(record: bytes, change: int | bytes) -> bytes:
    """With a Content-Length that is wrong by so much, or that is this text."""
    found = _LENGTH.search(record)
    assert found is not None
    value = change if isinstance(change, bytes) else b"%d" % (int(found[1]) + change)
    return record[: found.start(1)] + value + record[found.end(1) :]


def dated(record: bytes, date: str) -> bytes:
    return re.sub(rb"WARC-Date: .*\r\n", f"WARC-Date: {date}\r\n".encode() if date else b"", record)


def gz(record: bytes) -> bytes:
    return gzip.compress(record, 6, mtime=0)


def defects() -> dict[str, bytes]:
    """Files by the name of their defect, which is the host of their URLs: `http://NAME.example/1` and so on."""
    made: dict[str, bytes] = {}

    def file(name: str, *parts: bytes) -> None:
        made[name] = b"".join(parts)

    def sound(name: str, *numbers: int) -> list[bytes]:
        return [page(name, number) for number in numbers]

    for name, end in (("crcrlf", b"\r\r\n"), ("lf", b"\n")):
        one, two, three = sound(name, 1, 2, 3)
        file(name, one, line_ends(two, end), three)
        all_ends = f"{name}-everywhere"
        file(all_ends, *(line_ends(each, end) for each in sound(all_ends, 1, 2, 3)))
    name = "short-redirect"
    moved = page(name, 2, b"<p>moved</p>" * 9, status="302 Found", extra="Location: http://there.example/\r\n")
    file(name, page(name, 1), moved[:-60])
    name = "short-page"
    file(name, page(name, 1), page(name, 2)[:-200])
    name = "head-only"
    whole = page(name, 2)
    file(name, page(name, 1), whole[: whole.index(b"\r\n\r\n") + 4])
    name = "head-cut"
    whole = page(name, 2)
    file(name, page(name, 1), whole[: whole.index(b"\r\n\r\n") + 2])
    name = "member-cut"
    file(name, gz(page(name, 1)), gz(page(name, 2, NOISE))[:75_000])
    name = "member-cut-amid"
    file(name, gz(page(name, 1)), gz(page(name, 2, NOISE))[:75_000], gz(page(name, 3)))
    name = "member-damaged"
    member = bytearray(gz(page(name, 2, NOISE)))
    member[200_000] ^= 255
    file(name, gz(page(name, 1)), bytes(member), gz(page(name, 3)))
    for name, change in (("length-7", -7), ("length+5", 5), ("length+50", 50), ("length+9999999", 9_999_999)):
        slug = name.replace("+", "-over-")
        one, two, three, four = sound(slug, 1, 2, 3, 4)
        file(slug, one, length(two, change), three, four)
        packed = f"{slug}-gz"
        one, two, three, four = sound(packed, 1, 2, 3, 4)
        file(packed, gz(one), gz(length(two, change)), gz(three), gz(four))
    name = "lengths-wrong"
    one, two, three, four = sound(name, 1, 2, 3, 4)
    file(name, one, length(two, -7), length(three, 7), four)
    for name, value in (
        ("length-text", b"abc"),
        ("length-negative", b"-1"),
        ("length-plus", b"+675"),
        ("length-none", b""),
    ):
        one, two, three = sound(name, 1, 2, 3)
        two = length(two, value) if value else two.replace(b"Content-Length", b"X-Length")
        file(name, one, two, three)
    name = "line-without-colon"
    one, two, three = sound(name, 1, 2, 3)
    file(name, one, two.replace(b"WARC-Date", b"what is this\r\nWARC-Date"), three)
    name = "space-before-colon"
    one, two, three = sound(name, 1, 2, 3)
    file(name, one, two.replace(b"WARC-Type:", b"WARC-Type :"), three)
    name = "type-none"
    one, two, three = sound(name, 1, 2, 3)
    file(name, one, two.replace(b"WARC-Type", b"X-Type"), three)
    name = "version-lower"
    one, two, three = sound(name, 1, 2, 3)
    file(name, one, two.replace(b"WARC/1.1", b"warc/1.1"), three)
    name = "tail-none"
    one, two, three = sound(name, 1, 2, 3)
    file(name, one[:-4], two[:-2], three)
    name = "status-lines"
    lines = (b"HTTPX/1.1 200 OK", b"ICY 200 OK", b"HTTP 200 OK", b"http/1.1 404 Not Found")
    blocks = [line + b"\r\nContent-Type: text/html\r\n\r\nhello" for line in lines]
    file(name, *(warc(name, number, block) for number, block in enumerate(blocks, 1)))
    name = "message-as-png"
    file(
        name, page(name, 1), warc(name, 2, b"HTTP/1.1 203 OK\r\nContent-Type: image/png\r\n\r\nPNG", media="image/png")
    )
    for name, old, new in (
        ("folded-lines", b"Content-Length: ", b"Content-Length:\r\n "),
        ("type-twice", b"WARC-Type: response", b"WARC-Type: response\r\nWARC-Type: request"),
        ("zeros-in-id", b"<urn:uuid:00000000", b"<urn:uuid:" + bytes(8)),
        ("carriage-return-in-id", b"<urn:uuid:0", b"<urn:uuid:\r"),
        ("nbsp-before-length", b"Content-Length: ", b"Content-Length: \xc2\xa0"),
    ):
        one, two, three = sound(name, 1, 2, 3)
        head, blank, block = two.partition(b"\r\n\r\n")
        file(name, one, head.replace(old, new) + blank + block, three)
    return made
