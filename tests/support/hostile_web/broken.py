"""Traps that are bad HTTP, or good HTTP at its worst: bytes without end, too few, too slow, none at all."""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import AsyncIterator, Callable
from functools import cache
from random import Random

from isal import isal_zlib

from holdfast.crawl.job.job import CrawlJob
from hostile_web.exchange import Answer, Request
from hostile_web.lure import Lure, Place, html, link, once

SLOW_S = 0.25  # between two bytes
BOMB_BYTES = 4 << 30  # of zeros, when unpacked
HEAD_BYTES = 16 << 20  # of the huge head
_STEP_BYTES = 16 << 20
_HTML = (("Content-Type", "text/html; charset=utf-8"),)
_Stream = Callable[[], AsyncIterator[bytes]]


async def _endless() -> AsyncIterator[bytes]:
    part = b"<p>and then the tide came in, and then it went out</p>\n" * 1000
    while True:
        yield part
        await asyncio.sleep(0)


async def _slow_body() -> AsyncIterator[bytes]:
    while True:
        yield b"."
        await asyncio.sleep(SLOW_S)


async def _slow_head() -> AsyncIterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nX-Slow: "
    while True:
        yield b"s"
        await asyncio.sleep(SLOW_S)


async def _silence() -> AsyncIterator[bytes]:
    await asyncio.Event().wait()
    yield b""


async def _huge_head() -> AsyncIterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
    line = b"X-Padding: " + b"x" * 1000 + b"\r\n"
    for _ in range(HEAD_BYTES // len(line) // 64):
        yield line * 64
        await asyncio.sleep(0)
    yield b"Content-Length: 0\r\n\r\n"


@cache
def _bomb_parts() -> tuple[bytes, bytes]:
    """One step of the bomb, and what ends the whole: a last empty block, checksum and length."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    zeros = bytes(_STEP_BYTES)
    step = packer.compress(zeros) + packer.flush(zlib.Z_FULL_FLUSH)  # such pieces can be put one after the other
    checksum = 0
    for _ in range(BOMB_BYTES // _STEP_BYTES):
        checksum = isal_zlib.crc32(zeros, checksum)
    return step, b"\x03\x00" + struct.pack("<II", checksum, BOMB_BYTES & 0xFFFFFFFF)


async def _bomb() -> AsyncIterator[bytes]:
    step, end = _bomb_parts()
    yield b"\x1f\x8b\x08\0\0\0\0\0\x02\xff"
    for _ in range(BOMB_BYTES // _STEP_BYTES):
        yield step
        await asyncio.sleep(0)
    yield end


def _streaming(stream: _Stream, *fields: tuple[str, str], raw: bool = False) -> Callable[[Request, Place], Answer]:
    return lambda request, place: Answer(200, (*_HTML, *fields), stream=stream, raw=raw)


def _sending(body: bytes) -> Callable[[Request, Place], Answer]:
    """These bytes, whatever they are, and the end."""
    return lambda request, place: Answer(body=body, raw=True, close=True)


def _head(*fields: bytes) -> bytes:
    return b"\r\n".join((b"HTTP/1.1 200 OK", b"Content-Type: text/html", *fields, b"", b""))


def _reset(request: Request, place: Place) -> Answer:
    return Answer(raw=True, reset=True)


def _unreachable(request: Request, place: Place) -> Answer:
    """Over TLS nothing gets here; the server has answered the handshake with plain text."""
    return html(link("/more"))


def _twice(job: CrawlJob) -> int:
    """A client may ask at once again over a fresh connection, when one that it had used before turns out to be dead."""
    return 2 * once(job)


_ALL = b"<!doctype html><p>" + b"tide " * 200
_CHUNKED = _head(b"Transfer-Encoding: chunked")
BROKEN = (
    Lure("endless-body", "a body without end", _streaming(_endless), once),
    Lure("slow-body", "a byte now and then", _streaming(_slow_body), once),
    Lure("slow-head", "a byte of the head now and then", _streaming(_slow_head, raw=True), once),
    Lure("silent", "takes the request and says nothing", _streaming(_silence, raw=True), once),
    Lure("bomb", "gigabytes of zeros, packed", _streaming(_bomb, ("Content-Encoding", "gzip")), once),
    Lure("bad-chunks", "a chunk whose size is no number", _sending(_CHUNKED + b"5\r\n<p>ok\r\nzebra\r\n"), once),
    Lure("cut-chunks", "chunks that end too early", _sending(_CHUNKED + b"ffff\r\n" + _ALL), once),
    Lure("huge-chunk", "a chunk of 2^80 bytes", _sending(_CHUNKED + b"1" + b"0" * 20 + b"\r\n" + _ALL), once),
    Lure("short-body", "fewer bytes than announced", _sending(_head(b"Content-Length: 100000") + _ALL), once),
    Lure("long-body", "more bytes than announced", _sending(_head(b"Content-Length: 100") + _ALL), once),
    Lure("two-lengths", "two lengths", _sending(_head(b"Content-Length: 9", b"Content-Length: 90") + _ALL), once),
    Lure("negative-length", "a length below zero", _sending(_head(b"Content-Length: -1") + _ALL), once),
    Lure("huge-head", "16 MB of header fields", _streaming(_huge_head, raw=True), once),
    Lure("bad-head", "header fields that are none", _sending(_head(b"no colon", b"\xff\xfe: \0", b": x") + _ALL), once),
    Lure("garbage", "no HTTP at all", _sending(Random(4).randbytes(3000)), once),
    Lure("false-gzip", "no gzip, though it says so", _sending(_head(b"Content-Encoding: gzip") + _ALL), once),
    Lure("nothing", "a connection that is closed at once", _sending(b""), _twice),
    Lure("reset", "a connection that is reset", _reset, _twice),
    Lure("bad-tls", "TLS that is none", _unreachable, lambda job: 0, scheme="https"),
)
