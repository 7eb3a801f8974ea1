"""What a stream gives of every kind of record, what it says of damage, and that a removal wins."""

from __future__ import annotations

import gzip
import json
import os
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from stream_world import PLAN, body, captures, delivered, expected, fill, visit

import holdfast
from holdfast import Archive, CaptureQuery, Plan, RemovalOptions, Selection, StoreOptions
from holdfast.archive.ingest.exchange import Exchange
from holdfast.errors import Damaged
from holdfast.records.references import reference_drafts
from holdfast.storage.volumes.log import bulk_read
from holdfast.streams import StreamOptions
from holdfast.streams.page import LARGE

ORDERS = ("log", "url", "date")
WHY = RemovalOptions("asked")


def warc(kind: str, url: str, block: bytes, *fields: str, date: str = "2026-01-01T00:00:00Z") -> bytes:
    head = [f"WARC-Type: {kind}", f"WARC-Target-URI: {url}", f"WARC-Date: {date}", *fields]
    head.append(f"WARC-Record-ID: <urn:uuid:{abs(hash((kind, url, date, block))):032x}>")
    text = "\r\n".join(["WARC/1.1", *head, f"Content-Length: {len(block)}", "", ""])
    return text.encode() + block + b"\r\n\r\n"


HTTP = "Content-Type: application/http;msgtype=response"


def response(url: str, payload: bytes, *fields: str, date: str = "2026-01-01T00:00:00Z") -> bytes:
    return warc(
        "response", url, b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + payload, HTTP, *fields, date=date
    )


def imported(archive: Archive, tmp_path: Path, *records: bytes) -> None:
    (tmp_path / "x.warc").write_bytes(b"".join(records))
    for report in archive.import_files([tmp_path / "x.warc"]):
        assert report.added


def by_url(archive: Archive, options: StreamOptions) -> dict[str, holdfast.streams.Page]:  # type: ignore[name-defined]
    return {page.url: page for page in archive.stream(options)}


@pytest.mark.parametrize("order", ORDERS)
def test_every_kind_of_record(archive: Archive, tmp_path: Path, order: str) -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n"
    packed = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Type: text/html\r\n\r\n" + gzip.compress(
        b"<p>packed"
    )
    digest = "WARC-Payload-Digest: sha1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    profile = "WARC-Profile: http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
    imported(
        archive,
        tmp_path,
        response("http://a.example/plain", b"plain"),
        warc("response", "http://a.example/chunked", chunked, HTTP),
        warc("response", "http://a.example/packed", packed, HTTP),
        response("http://a.example/empty", b""),
        response("http://a.example/pieces", b"0123456789" * 2000),
        warc("resource", "http://a.example/resource", b"as it is", "Content-Type: text/plain"),
        warc("metadata", "http://a.example/inline", b"small", "Content-Type: text/plain"),
        response("http://a.example/original", b"again and again", digest),
        warc("revisit", "http://a.example/original", b"", profile, digest, date="2026-02-01T00:00:00Z"),
        warc(
            "revisit",
            "http://a.example/lost",
            b"",
            profile,
            "WARC-Payload-Digest: sha1:BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB",
        ),
        warc(
            "request",
            "http://a.example/plain",
            b"GET / HTTP/1.1\r\n\r\n",
            "Content-Type: application/http;msgtype=request",
        ),
    )
    pages = list(archive.stream(StreamOptions(order=order)))
    found = {(page.url.rpartition("/")[2], page.type): page for page in pages}
    assert len(found) == len(pages) == 10
    payloads = {name: page.payload for name, page in found.items()}
    assert payloads["plain", "response"] == b"plain"
    assert payloads["chunked", "response"] == b"hello!"
    assert found["packed", "response"].content == b"<p>packed"
    assert found["packed", "response"].text == "packed"
    assert payloads["empty", "response"] == b""
    assert payloads["pieces", "response"] == b"0123456789" * 2000
    assert payloads["resource", "resource"] == b"as it is"
    assert payloads["inline", "metadata"] == b"small"
    assert payloads["original", "revisit"] == b"again and again"
    lost = found["lost", "revisit"]
    assert (lost.unresolved, lost.payload) == (True, b"")
    for page in pages:
        stored = archive.records.read(page.record)
        assert page.capture == stored.capture
        assert page.unresolved or page.payload == stored.payload()


@pytest.mark.parametrize("order", ORDERS)
def test_a_large_payload_is_not_read_ahead(tmp_path: Path, closing: ExitStack, order: str) -> None:
    holdfast.init(tmp_path / "large")
    archive = closing.enter_context(holdfast.open(tmp_path / "large"))
    payload = os.urandom(1 << 20) * ((LARGE >> 20) + 1)
    archive.add([visit("http://a.example/1", 1, "20200101000000"), holdfast.page("http://a.example/2", payload)])
    pages = by_url(archive, StreamOptions(order=order))
    large = pages["http://a.example/2"]
    assert large.is_large
    assert not pages["http://a.example/1"].is_large
    assert b"".join(large.pieces()) == payload
    large.secure()
    archive.remove(Selection(CaptureQuery(url="http://a.example/2")), WHY)
    assert b"".join(large.pieces()) == payload
    large.release()


def test_records_by_reference(archive: Archive, tmp_path: Path, closing: ExitStack) -> None:
    record = response("http://r.example/", b"in a file elsewhere")
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "r.warc").write_bytes(record)
    line = {"url": "http://r.example/", "mime": "text/html", "status": "200", "offset": "0", "filename": "r.warc"}
    text = f"example,r)/ 20260101000000 {json.dumps(line | {'length': str(len(record))})}"
    archive.add_drafts(reference_drafts([text.encode()], "main"))
    archive.close()
    settings = archive.path / "holdfast.toml"
    for order in ORDERS:
        with holdfast.open(archive.path, read_only=True) as reader, reader.stream(StreamOptions(order=order)) as stream:
            assert list(stream) == []
            assert stream.fault_count == 1
    settings.write_text(settings.read_text().replace("[records]", f'[records]\nwarc_paths = ["{tmp_path / "files"}"]'))
    for order in ORDERS:
        with holdfast.open(archive.path, read_only=True) as reader:
            (page,) = reader.stream(StreamOptions(order=order))
            assert (page.type, page.payload) == ("response", b"in a file elsewhere")


def damage(path: Path, at: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[at] ^= 0xFF
    path.write_bytes(raw)


@pytest.mark.parametrize("order", ORDERS)
def test_a_damaged_content_is_named_and_left_out(archive: Archive, order: str) -> None:
    fill(archive, 30)
    place = archive.contents.stat(next(iter(archive.contents.scan()))[5][0]).place
    key = str(next(iter(archive.contents.scan()))[5][0])
    path, _, offset = place.rpartition("@")
    gone = {capture.record for capture in captures(archive) if capture.contents == key}
    archive.close()
    damage(Path(path), int(offset) + 321)
    with holdfast.open(archive.path, read_only=True) as reader:
        stream = reader.stream(StreamOptions(order=order, batch_size=4))
        found = [page.record for page in stream]
        assert found == [record for record in expected(reader, StreamOptions(order=order)) if record not in gone]
        assert stream.fault_count == len(stream.faults) == len(gone) > 0
        assert {fault.record for fault in stream.faults} == gone
        assert all(isinstance(fault.error, Damaged) for fault in stream.faults)
        assert len(delivered(reader, StreamOptions(order=order, fields=("url",)))) == 30, "it is not looked at"
        with pytest.raises(Damaged):
            list(reader.stream(StreamOptions(order=order, strict=True)))


@pytest.mark.parametrize("order", ORDERS)
def test_a_damaged_frame_costs_its_records(archive: Archive, order: str) -> None:
    fill(archive, 40, batches=("one",))
    (path,) = [each for each in (archive.path / "batches" / "one").iterdir() if "000001" in each.name]
    archive.close()
    damage(path, 3 * path.stat().st_size // 4)
    with holdfast.open(archive.path, read_only=True) as reader:
        stream = reader.stream(StreamOptions(order=order, batch_size=4))
        found = [page.record for page in stream]
        lost = {fault.record for fault in stream.faults}
        assert lost
        assert found == [record for record in expected(reader, StreamOptions(order=order)) if record not in lost]


@pytest.mark.parametrize("order", ORDERS)
def test_a_removal_wins_over_what_was_read_ahead(archive: Archive, order: str) -> None:
    fill(archive, 60)
    options = StreamOptions(order=order, batch_size=5)
    whole = expected(archive, options)
    stream = archive.stream(options)
    pages = iter(stream)
    begun = [next(pages).record for _ in range(7)]
    removed = archive.remove(Selection(CaptureQuery(url="b.example", match="host")), WHY)
    assert removed.captures
    there = {capture.record for capture in captures(archive)}
    rest = [page.record for page in pages]
    at_hand = 5 - 7 % 5  # of the batch that was handed out before
    assert rest[at_hand:] == [record for record in whole[7 + at_hand :] if record in there]
    assert begun + rest[:at_hand] == whole[: 7 + at_hand]


@pytest.mark.parametrize("codec", ["none", "zlib", "zstd", "brotli", "auto"])
def test_contents_of_every_codec_read_in_bulk(tmp_path: Path, closing: ExitStack, codec: str) -> None:
    random = Random(3)
    holdfast.init(tmp_path / "coded", Plan(store=replace(PLAN.store, codec=codec), records=PLAN.records))
    archive = closing.enter_context(holdfast.open(tmp_path / "coded"))
    texts = [b"<p>" + random.randbytes(300).hex().encode() + b" and the same in all of them" * 20 for _ in range(120)]
    pages_of = [
        holdfast.page(f"http://a.example/{n}", text, timestamp="20200101000000") for n, text in enumerate(texts)
    ]
    archive.add(pages_of[:60])
    if codec == "auto":
        archive.train("v0")
    archive.add(pages_of[60:])
    pages = list(archive.stream(StreamOptions(batch_size=64)))
    assert len(pages) == 120
    for page in pages:
        assert page.payload == archive.records.read(page.record).payload()


def test_what_lies_apart_is_read_apart(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(archive, 50)
    whole = [page.payload for page in archive.stream(StreamOptions(order="url"))]
    monkeypatch.setattr(bulk_read, "GAP_BYTES", 0)
    monkeypatch.setattr(bulk_read, "RUN_BYTES", 700)
    assert [page.payload for page in archive.stream(StreamOptions(order="url"))] == whole


def test_a_bulk_read_leaves_out_the_damaged_block_only(archive: Archive) -> None:
    """(N7)"""
    contents = [b"%03d" % number * 50 for number in range(40)]
    keys = [stored.key for stored in archive.contents.store_batch(contents, StoreOptions(codec="none"))]
    (path,) = [path for path in archive.path.glob("volumes/v0/*.seg") if contents[13] in path.read_bytes()]
    raw = path.read_bytes()
    at = raw.index(contents[13])
    path.write_bytes(raw[:at] + b"?" + raw[at + 1 :])
    found = archive.contents.get_buffers([str(key) for key in keys])
    assert isinstance(found[13], Damaged)
    assert [bytes(each) for index, each in enumerate(found) if index != 13] == contents[:13] + contents[14:]  # type: ignore[arg-type]


def test_contents_in_bulk_say_what_is_wrong_with_each(archive: Archive) -> None:
    key = str(archive.contents.put(body(30)))
    collided = f"{key}~1"
    unknown = "v0:" + "00" * 32
    found = archive.contents.get_buffers([unknown, key, collided, "nowhere:00", "?", key])
    kinds = [type(each).__name__ for each in found]
    assert kinds[:1] + kinds[2:5] == ["ContentNotFound", "ContentNotFound", "UnknownName", "MalformedKey"]
    assert bytes(found[1]) == bytes(found[5]) == body(30)  # type: ignore[arg-type]
    assert archive.contents.get_buffers([]) == []


def test_a_reader_in_another_process_follows(archive: Archive) -> None:
    fill(archive, 20)
    with holdfast.open(archive.path, read_only=True) as reader:
        fill(archive, 20, first=20)
        assert len(delivered(reader, StreamOptions())) == 40
        archive.add([Exchange("http://z.example/", b"HTTP/1.1 200 OK\r\n\r\n", b"")])
        assert len(delivered(reader, StreamOptions())) == 41
