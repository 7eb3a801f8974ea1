"""The iterator that scripts know."""

from __future__ import annotations

import gzip
import io
import zlib

import brotli
import pytest
import zstandard
from reading_builders import SAMPLES, arc, gz, needs_samples, page, warc, warc_record

from holdfast.errors import MalformedInput, TooLarge
from holdfast.formats.iterator import ArchiveIterator, ArchiveRecord


def only(record: bytes) -> ArchiveRecord:
    return next(ArchiveIterator(io.BytesIO(record)))


def test_a_response() -> None:
    record = only(gz(warc(7, b"hello")))
    assert (record.record_type, record.url, record.record_date) == (
        "response",
        "http://example.com/7",
        "20200102030405",
    )
    assert record.record_id == "urn:uuid:00000000-0000-4000-8000-000000000007"
    assert record.http_status == 200
    assert record.http_headers is not None
    assert record.http_headers["content-type"] == "text/html"
    assert record.headers["WARC-Type"] == "response"
    assert (record.content_length, record.offset) == (len(page(b"hello")), 0)
    assert record.reader.read(2) == b"he"
    assert record.reader.read() == b"llo"
    assert record.reader.read() == b""


def test_without_http() -> None:
    record = next(ArchiveIterator(io.BytesIO(warc(7, b"hello")), parse_http=False))
    assert record.http_headers is None
    assert record.http_status is None
    assert record.reader.read() == page(b"hello")


def test_types_are_chosen() -> None:
    file = warc(1, b"a") + warc_record(b"", kind="metadata") + warc(2, b"b")
    assert [record.payload() for record in ArchiveIterator(io.BytesIO(file), record_types=["response"])] == [b"a", b"b"]
    assert [record.record_type for record in ArchiveIterator(io.BytesIO(file), ("Metadata",))] == ["metadata"]


def test_arc_looks_the_same() -> None:
    record = only(arc(3, b"text"))
    assert (record.record_type, record.http_status, record.payload()) == ("response", 200, b"text")


def encoded(name: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {name}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    return warc_record(head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))


TEXT = b"the text of a page " * 100
RAW = zlib.compressobj(wbits=-15)
ENCODINGS = {
    "gzip": gzip.compress(TEXT),
    "deflate": zlib.compress(TEXT),
    "Deflate": RAW.compress(TEXT) + RAW.flush(),
    "br": brotli.compress(TEXT),
    "zstd": zstandard.ZstdCompressor().compress(TEXT),
    "gzip, br": brotli.compress(gzip.compress(TEXT)),
    "identity": TEXT,
}


@pytest.mark.parametrize("name", ENCODINGS)
def test_payloads(name: str) -> None:
    assert only(encoded(name, ENCODINGS[name])).payload() == ENCODINGS[name]
    assert only(encoded(name, ENCODINGS[name])).payload(decoded=True) == TEXT


@pytest.mark.parametrize("name", ["gzip", "br", "zstd", "deflate", "unknown"])
def test_wrong_encodings_stay(name: str) -> None:
    assert only(encoded(name, b"no such thing")).payload(decoded=True) == b"no such thing"


@pytest.mark.parametrize("name", ["gzip", "br", "zstd", "deflate"])
def test_payloads_have_a_limit(name: str) -> None:
    with pytest.raises(TooLarge, match="bytes_max"):
        only(encoded(name, ENCODINGS[name])).payload(decoded=True, bytes_max=1000)


def test_the_payload_has_a_limit() -> None:
    with pytest.raises(TooLarge, match="bytes_max"):
        only(warc(1, b"x" * 3_000_000)).payload(bytes_max=1_000_000)


def test_strict_mode() -> None:
    file = warc(1, b"a") + b"garbage"
    assert len(list(ArchiveIterator(io.BytesIO(file)))) == 1
    with pytest.raises(MalformedInput):
        list(ArchiveIterator(io.BytesIO(file), strict_mode=True))


@needs_samples
def test_offsets_are_those_of_warcio() -> None:
    peer = pytest.importorskip("warcio.archiveiterator")
    for name in (
        "warcio/example.warc.gz",
        "warcio/example.warc",
        "commoncrawl/whirlwind.warc.gz",
        "warcio/post-test.warc.gz",
    ):
        theirs, ours = [], []
        with open(SAMPLES / name, "rb") as stream:
            iterator = peer.ArchiveIterator(stream)
            for record in iterator:
                uri = record.rec_headers.get_header("WARC-Target-URI")
                record.raw_stream.read()
                theirs.append((iterator.get_record_offset(), uri))
        with open(SAMPLES / name, "rb") as stream:
            ours = [(record.offset, record.url or None) for record in ArchiveIterator(stream)]
        assert ours == theirs
