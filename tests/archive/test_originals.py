"""Revisits lead to the payload they repeat: by what they refer to, by digest, and also if the original comes later."""

from __future__ import annotations

from pathlib import Path

import pytest
from archive_warcs import HTTP, Look, record, response, revisit, sha1, write
from truths import SAMPLES, assert_exact, captures, import_all

import holdfast
from holdfast import Archive
from holdfast.catalog import CaptureQuery
from holdfast.errors import CaptureNotFound

URL, OTHER = "http://example.com/", "http://other.example/"
BODY, DIGEST = b"<p>the same</p>", sha1(b"<p>the same</p>")
FIRST, LATER = "2026-11-02T03:04:05Z", "2026-12-02T03:04:05Z"
ORIGINAL = response(URL, BODY, FIRST)
REFERRING = revisit(OTHER, DIGEST, LATER, [("WARC-Refers-To-Target-URI", URL), ("WARC-Refers-To-Date", FIRST)], b"")


@pytest.mark.parametrize("original_first", [True, False])
def test_by_what_it_refers_to(archive: Archive, quick: Path, original_first: bool) -> None:
    files = [write(quick / "original.warc", [ORIGINAL]), write(quick / "revisit.warc", [REFERRING])]
    for path in files if original_first else reversed(files):
        import_all(archive, path, batch=path.stem)
    stored = archive.get(OTHER)
    assert stored.entry.type == "revisit"
    assert stored.payload() == BODY
    assert stored.http_bytes() == HTTP
    assert stored.http_head is not None
    assert stored.http_head.status == 200
    assert b"".join(stored.raw()) == REFERRING
    assert_exact(archive)


@pytest.mark.parametrize("original_first", [True, False])
def test_by_digest(archive: Archive, quick: Path, original_first: bool) -> None:
    """Of the captures with its digest, the nearest of its own URL is it."""
    own = b"HTTP/1.1 200 Fine\r\nDate: later\r\n\r\n"
    originals = [ORIGINAL, response(OTHER, BODY, FIRST), response(OTHER, BODY, "2020-01-01T00:00:00Z")]
    records = [*originals, revisit(OTHER, DIGEST, LATER, block=own)]
    import_all(archive, write(quick / "a.warc", records if original_first else reversed(records)))
    stored = archive.get(OTHER, at="202612")
    assert stored.payload() == BODY
    assert stored.http_bytes() == own, "the head is its own"
    original = archive.catalog.resolve(stored.capture)
    assert original is not None
    assert (original.url, original.timestamp) == (OTHER, "20261102030405")


def test_without_its_original(archive: Archive, quick: Path) -> None:
    import_all(archive, write(quick / "a.warc", [REFERRING]))
    with pytest.raises(CaptureNotFound, match="repeats one that is not here"):
        archive.get(OTHER).payload()
    import_all(archive, write(quick / "b.warc", [ORIGINAL]), collection="elsewhere")
    assert archive.get(OTHER).payload() == BODY


def test_without_a_digest_it_repeats_nothing_that_is_empty(archive: Archive, quick: Path) -> None:
    """A revisit that names neither digest nor original must not be given one."""
    import_all(archive, write(quick / "a.warc", [response(OTHER, b"", FIRST), revisit(URL, "", LATER, block=HTTP)]))
    stored = archive.get(URL)
    assert stored.capture.digest == "-"
    with pytest.raises(CaptureNotFound):
        stored.payload()


def test_digests_of_records_that_bring_none(archive: Archive, quick: Path) -> None:
    """Computed over the payload, wherever that is kept."""
    blocks = {"metadata": b"{}", "resource": b"text", "conversion": b"other text"}
    records = [
        record(kind, f"http://{kind}.example/", block, [("Content-Type", "a/b")]) for kind, block in blocks.items()
    ]
    import_all(archive, write(quick / "a.warc", [*records, record("response", URL, HTTP + BODY)]))
    found = {capture.type: capture.digest for capture in captures(archive)}
    assert found == {kind: sha1(block) for kind, block in blocks.items()} | {"response": DIGEST}
    assert archive.get("http://metadata.example/").payload() == b"{}"


def test_answers_with_originals(archive: Archive, quick: Path) -> None:
    import_all(archive, write(quick / "a.warc", [REFERRING, ORIGINAL]))
    (row,) = archive.search(CaptureQuery(url=OTHER, resolve_revisits=True))
    assert row.original is not None
    assert row.original.url == URL


def test_a_revisit_after_its_original_was_removed(archive: Archive, quick: Path) -> None:
    from holdfast.archive.removal import RemovalOptions
    from holdfast.records.selection import Selection

    import_all(archive, write(quick / "a.warc", [REFERRING, ORIGINAL]))
    archive.remove(Selection(CaptureQuery(url=URL)), RemovalOptions("asked"))
    with pytest.raises(CaptureNotFound):
        archive.get(OTHER).payload()
    assert_exact(archive)


# -- as real crawlers wrote them --------------------------------------------------------------------------------------

needs_samples = pytest.mark.skipif(not SAMPLES.is_dir(), reason="the samples are not beside the project")
PAIRS = {
    "20130729-heritrix-revisit-with-http-headers.warc.gz": "20130729-heritrix-original.warc.gz",
    "20141129-heritrix-revisit-with-http-headers-and-new-warc-headers.warc.gz": "20141129-heritrix-original.warc.gz",
}


@needs_samples
@pytest.mark.parametrize("revisits", PAIRS)
def test_each_revisit_of_heritrix_finds_its_original(quick: Path, revisits: str) -> None:
    """In the file of originals and with the same URL, although the revisits were imported first."""
    originals = PAIRS[revisits]
    holdfast.init(quick / "archive")
    with holdfast.open(quick / "archive") as archive:
        import_all(archive, SAMPLES / "iipc-dedup" / revisits)
        import_all(archive, SAMPLES / "iipc-dedup" / originals)
        found = [each for each in captures(archive) if each.type == "revisit" and each.filename == revisits]
        assert found
        for capture in found:
            original = archive.catalog.resolve(capture)
            assert original is not None, capture
            assert (original.filename, original.type) == (originals, "response")
            assert (original.urlkey, original.digest) == (capture.urlkey, capture.digest)
            payload = archive.records.of(capture).payload()
            assert payload == archive.records.of(original).payload()
            assert sha1(payload) == capture.digest


def test_a_head_that_says_not_modified(archive: Archive, quick: Path) -> None:
    """The head is the revisit's own, the payload that of what it refers to."""
    refers = [("WARC-Refers-To-Target-URI", URL), ("WARC-Refers-To-Date", FIRST)]
    profile = ("WARC-Profile", "http://netpreserve.org/warc/1.1/revisit/server-not-modified")
    block = b"HTTP/1.1 304 Not Modified\r\nETag: a\r\n\r\n"
    made = record("revisit", URL, block, [profile, *refers], Look(date=LATER))
    import_all(archive, write(quick / "a.warc", [made, ORIGINAL, response(URL, b"changed", "2026-11-30T00:00:00Z")]))
    stored = archive.get(URL)
    assert stored.http_head is not None
    assert (stored.http_head.status, stored.capture.status) == (304, "304")
    assert stored.payload() == BODY


@needs_samples
def test_a_server_that_said_not_modified(quick: Path) -> None:
    holdfast.init(quick / "archive")
    with holdfast.open(quick / "archive") as archive:
        import_all(archive, *sorted((SAMPLES / "iipc-dedup").glob("*")))
        revisits = [each for each in captures(archive) if "not-modified" in each.filename and each.type == "revisit"]
        assert revisits
        for capture in revisits:
            original = archive.catalog.resolve(capture)
            assert original is None or original.urlkey == capture.urlkey
            if original is None:
                with pytest.raises(CaptureNotFound):
                    archive.records.of(capture).payload()
        assert_exact(archive)
