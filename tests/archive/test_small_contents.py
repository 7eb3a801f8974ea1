"""Small payloads stay with their records: one record wherever its payload is kept, removable, verified (N1, N2, N6)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard
from archive_warcs import chunked, exchange, record, response, revisit, sha1, write
from truths import PLAN, RECORDS, assert_exact, captures, held, import_all, records_of

import holdfast
from holdfast import Archive, Plan, StoreSettings
from holdfast.archive.backup import back_up, restore
from holdfast.archive.removal import RemovalOptions
from holdfast.batches.entry import encode, parse_entries
from holdfast.batches.frame import frame_compressor
from holdfast.catalog import CaptureQuery
from holdfast.errors import FormatTooOld
from holdfast.records import draft
from holdfast.records.draft import REPEATED_BYTES_MAX, first_refusal_mark
from holdfast.records.selection import Selection
from holdfast.streams import StreamOptions

LIMITS = (0, 100, 1024, 8192)
URL = "http://small.example/"
SECRET = b'{"token": "5f2d8c1b7a90e634"}' * 3
POST = b"POST /form HTTP/1.1\r\nHost: small.example\r\nContent-Type: text/plain\r\n\r\n"
REFUSE = RemovalOptions("asked by the owner", refuse=True)


def some() -> list[bytes]:
    """Payloads of every kind and size around the limits."""
    sizes = (1, 99, 100, 101, 1023, 1024, 1025, 3000, 8192, 8193)
    return [
        record("warcinfo", "", b"software: a test\r\n"),
        *(response(f"{URL}{size}", b"%d " % size + b"x" * (size - len(b"%d " % size))) for size in sizes),
        record("response", URL + "chunked", chunked(b"in small pieces" * 9, 20)),
        record("response", URL + "long-chunked", chunked(b"in larger pieces" * 99, 200)),
        record("response", URL + "empty-chunked", chunked(b"", 1)),
        *(record("request", URL + "form", POST + b"name=%d&" % size + b"y" * size) for size in (50, 500, 5000, 9000)),
        record("request", URL + "get", b"GET / HTTP/1.1\r\nHost: small.example\r\n\r\n" + b"a body all the same" * 9),
        *(record("metadata", f"{URL}{size}", b"via: " + b"z" * size + b"\r\n") for size in (60, 600, 9000)),
        record("resource", URL + "resource", b"plain text" * 20),
        revisit(URL + "99", sha1(b"99 " + b"x" * 96), "2026-12-01T00:00:00Z"),
    ]


Limit = Callable[[int], None]


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Limit:
    """Sets how large a payload may be that stays with its record."""

    def set_limit(limit: int) -> None:
        monkeypatch.setattr(draft, "INLINE_BYTES_MAX", limit)
        monkeypatch.setattr(draft, "REPEATED_BYTES_MAX", min(limit, REPEATED_BYTES_MAX))

    return set_limit


@pytest.mark.parametrize("after", LIMITS)
@pytest.mark.parametrize("before", LIMITS)
def test_a_record_is_one_under_every_limit(quick: Path, limit: Limit, before: int, after: int) -> None:
    limit(before)
    holdfast.init(quick / "archive", PLAN)
    file = write(quick / "some.warc", some())
    with holdfast.open(quick / "archive") as archive:
        assert import_all(archive, file)[0].added == len(some())
        inline = {len(entry.payload) for _, entry in entries(archive) if entry.is_inline}
        assert max(inline, default=0) <= before
        assert bool(inline) == bool(before)
    limit(after)
    with holdfast.open(quick / "archive") as archive:
        (report,) = import_all(archive, file)
        assert (report.added, report.known) == (0, len(some()))
        assert records_of(archive, "some.warc") == some()
        assert_exact(archive)
        archive.catalog.verify()
        archive.reindex()
        assert import_all(archive, file)[0].added == 0, "the new catalog has the same fingerprints"


@pytest.mark.parametrize(("before", "after"), [(0, 8192), (8192, 0), (100, 8192), (8192, 100)])
def test_a_removed_record_stays_refused_under_every_limit(quick: Path, limit: Limit, before: int, after: int) -> None:
    limit(before)
    holdfast.init(quick / "archive", PLAN)
    file = write(quick / "some.warc", some())
    with holdfast.open(quick / "archive") as archive:
        import_all(archive, file)
        archive.remove(Selection(collection="main"), REFUSE)
    limit(after)
    with holdfast.open(quick / "archive") as archive:
        (report,) = import_all(archive, file, collection="other")
        assert report.added == 0
        assert report.refused == len(some())


def test_what_format_1_refused_stays_refused(archive: Archive, quick: Path) -> None:
    """Then the payload of a request was one of its literals."""
    request = record("request", URL, POST + b"name=secret")
    import_all(archive, write(quick / "one.warc", [request]), batch="one")
    ((_, entry),) = [each for each in entries(archive) if each[1].type == "request"]
    whole = hashlib.blake2b(f"request {len(request)} -\n".encode() + request, digest_size=16).digest()
    assert first_refusal_mark(entry, b"") == whole
    archive.remove(Selection(batch="one"), RemovalOptions("asked"))
    archive.writer.refusals.add([whole])
    assert import_all(archive, write(quick / "two.warc", [request]))[0].refused == 1


def entries(archive: Archive) -> list:  # type: ignore[type-arg]
    from truths import entries as all_entries

    return list(all_entries(archive))


@pytest.fixture
def inline(quick: Path, closing: ExitStack, limit: Limit) -> Archive:
    """An archive whose records keep what they may."""
    limit(8192)
    holdfast.init(quick / "inline", PLAN)
    return closing.enter_context(holdfast.open(quick / "inline"))


def test_small_payloads_take_no_block(inline: Archive, quick: Path) -> None:
    import_all(inline, write(quick / "some.warc", some()))
    kept = [entry.size for _, entry in entries(inline) if entry.type == "response" and entry.is_inline]
    assert max(kept) == REPEATED_BYTES_MAX
    assert all(
        entry.size > REPEATED_BYTES_MAX
        for _, entry in entries(inline)
        if entry.type == "response" and entry.contents != "-"
    )
    total = inline.catalog.totals()[0]["main"]
    listed = [capture for capture in captures(inline) if capture.is_inline]
    assert (total.inline, total.inline_bytes) == (len(listed), sum(each.size for each in listed))
    assert total.payload_bytes == sum(each.size for each in captures(inline))


def test_removal_takes_the_bytes_and_leaves_those_of_others(inline: Archive, quick: Path) -> None:
    """N1, N2: each record has its own copy."""
    mine, yours = exchange(URL + "mine", SECRET), exchange("http://other.example/", SECRET)
    import_all(inline, write(quick / "some.warc", [*mine, *yours]))
    assert not held(inline)
    removed = inline.remove(Selection(CaptureQuery(url=URL + "mine")), REFUSE)
    assert (removed.captures, removed.contents, removed.bytes) == (1, 1, len(SECRET))
    assert inline.records.get("http://other.example/").payload() == SECRET
    inline.remove(Selection(CaptureQuery(url="http://other.example/")), REFUSE)
    (quick / "some.warc").unlink()
    for path in quick.rglob("*"):
        if path.is_file():
            raw = path.read_bytes()
            text = (
                zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True).read()
                if is_journal(path)
                else b""
            )
            assert SECRET[:29] not in raw + text, path
    assert_exact(inline)


def is_journal(path: Path) -> bool:
    return path.name.endswith(".tw.zst")


def test_a_journal_shows_whole_records(inline: Archive, quick: Path) -> None:
    """N6: `zstdcat` shows them, byte for byte, and `sha256sum` verifies their payloads."""
    raw = response(URL, SECRET)
    import_all(inline, write(quick / "one.warc", [raw]))
    (path,) = (quick / "inline").rglob("*.tw.zst")
    text = zstandard.ZstdDecompressor().stream_reader(path.read_bytes(), read_across_frames=True).read()
    assert raw in text
    assert f"\nsignature: {hashlib.sha256(SECRET).hexdigest()}\n".encode() in text


def test_check_compares_with_the_signature(quick: Path, limit: Limit) -> None:
    limit(8192)
    holdfast.init(quick / "archive", PLAN)
    with holdfast.open(quick / "archive") as archive:
        import_all(archive, write(quick / "one.warc", [response(URL, SECRET)]))
    rewrite(quick / "archive", lambda text: text.replace(SECRET, SECRET.replace(b"5f2d", b"0000")))
    (fault,) = [each for each in holdfast.check(quick / "archive").faults if each.kind == "signature"]
    assert fault.expected == f"{hashlib.sha256(SECRET).hexdigest()} of record b-0000000001"
    with holdfast.open(quick / "archive", read_only=True) as archive:
        assert [each.kind for each in back_up(archive, "b", quick / "backup").faults] == ["signature"]


def rewrite(path: Path, change) -> None:  # type: ignore[no-untyped-def]
    """Changes the text of every frame, and compresses it again."""
    for file in path.rglob("*.tw.zst"):
        with holdfast.open(path, read_only=True) as archive:
            frames = [b"".join(map(encode, walked.entries)) for walked in archive.journal.walk(file.parent.name)]
        file.write_bytes(b"".join(frame_compressor().compress(change(frame)) for frame in frames))


def test_an_archive_of_format_1_names_the_way_over(quick: Path, limit: Limit) -> None:
    path = quick / "archive"
    limit(0)
    holdfast.init(path, PLAN)
    with holdfast.open(path) as archive:
        import_all(archive, write(quick / "one.warc", [response(URL, SECRET)]))
        archive.catalog._table.write([(b"v", b"3")])
    rewrite_raw(path)
    before = {file: file.read_bytes() for file in path.rglob("*.tw.zst")}
    for read_only in (True, False):
        with pytest.raises(FormatTooOld, match=r"'holdfast export -o .*collection.*'refused' and 'audit.log'.*import"):
            holdfast.open(path, read_only=read_only).catalog.close()
    assert {file: file.read_bytes() for file in path.rglob("*.tw.zst")} == before


def rewrite_raw(path: Path) -> None:
    for file in path.rglob("*.tw.zst"):
        text = zstandard.ZstdDecompressor().stream_reader(file.read_bytes(), read_across_frames=True).read()
        old = [encode(entry).replace(b"version: 2.1", b"version: 2.0", 1) for entry in parse_entries(text)]
        file.write_bytes(b"".join(map(frame_compressor().compress, old)))


def test_streams_and_revisits_read_small_payloads(inline: Archive, quick: Path) -> None:
    digest = sha1(SECRET)
    file = [response(URL, SECRET), revisit(URL, digest, "2026-12-01T00:00:00Z"), response(URL + "b", b"another")]
    import_all(inline, write(quick / "one.warc", file))
    expected = sorted([(URL, SECRET), (URL, SECRET), (URL + "b", b"another")])
    for order in ("log", "url", "date"):
        pages = inline.stream(StreamOptions(order=order, fields=("payload",)))
        assert sorted((page.url, page.payload) for page in pages) == expected, order
    assert inline.records.get(URL, "20261201").payload() == SECRET
    assert inline.catalog.known_digests([digest, "sha1:NONE"]) == {digest}


def test_a_backup_keeps_small_payloads(quick: Path, limit: Limit) -> None:
    """Into an archive with another signature, too: it signs them again."""
    limit(8192)
    holdfast.init(quick / "archive", PLAN)
    file = write(quick / "some.warc", some())
    with holdfast.open(quick / "archive") as archive:
        import_all(archive, file)
        assert back_up(archive, "b", quick / "backup").faults == ()
    assert holdfast.check(quick / "backup").faults == []
    for signature in ("sha256", "rabin64"):
        target = quick / signature
        holdfast.init(target, Plan(store=StoreSettings(signature=signature, train_after=0), records=RECORDS))
        with holdfast.open(target) as archive:
            assert restore(archive, quick / "backup").faults == ()
            assert records_of(archive, "some.warc") == some()
            assert_exact(archive)
            assert restore(archive, quick / "backup").records == 0
            assert import_all(archive, file)[0].added == 0
        assert holdfast.check(target).faults == []


def test_only_the_first_payload_is_new(inline: Archive, quick: Path) -> None:
    page = holdfast.Exchange(URL, b"HTTP/1.1 200 OK\r\n\r\n", SECRET)
    again = replace(page, url=URL + "again")
    assert [each.new_content for each in inline.add([page, again]) if each.record] == [True, False]
    assert [each.new_content for each in inline.add([replace(page, url=URL + "later")])] == [False]
