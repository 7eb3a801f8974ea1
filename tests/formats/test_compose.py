"""Records from facts: the fields of the standard in a fixed order, and no way to smuggle in another."""

from __future__ import annotations

import io
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator

from holdfast.errors import UsageError
from holdfast.formats.warc.compose import (
    WarcHead,
    digest_of,
    digest_text,
    fields_block,
    record_id,
    record_parts,
    warc_date,
    warc_head,
    warcinfo_parts,
)

ID = record_id(bytes(range(16)))
PAGE = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>hello"


def test_head_of_a_response_in_golden_bytes() -> None:
    head = WarcHead("response", "20261116020000", ID, url="http://example.com/", ip="192.0.2.1")
    assert head.encode(12) == (
        b"WARC/1.1\r\n"
        b"WARC-Type: response\r\n"
        b"WARC-Record-ID: <urn:uuid:00010203-0405-4607-8809-0a0b0c0d0e0f>\r\n"
        b"WARC-Target-URI: http://example.com/\r\n"
        b"WARC-Date: 2026-11-16T02:00:00Z\r\n"
        b"WARC-IP-Address: 192.0.2.1\r\n"
        b"Content-Type: application/http; msgtype=response\r\n"
        b"Content-Length: 12\r\n"
        b"\r\n"
    )


def test_every_fact_has_its_field() -> None:
    head = WarcHead(
        "revisit",
        "2026-11-16T02:00:00.123456Z",
        ID,
        url="https://example.com/",
        block_digest="sha1:B",
        payload_digest="sha256:00",
        concurrent_to=("<urn:a>", "<urn:b>"),
        protocols=("h2", "tls/1.3"),
        truncated="length",
        identified_payload_type="text/html",
        profile="identical-payload-digest",
        refers_to="<urn:c>",
        refers_to_url="http://example.com/",
        refers_to_date="20251116020000",
        warcinfo_id="<urn:d>",
        extra=(("X-Odd", "1"), ("X-Odd", "2")),
    )
    assert head.fields(0) == [
        ("WARC-Type", "revisit"),
        ("WARC-Record-ID", ID),
        ("WARC-Warcinfo-ID", "<urn:d>"),
        ("WARC-Target-URI", "https://example.com/"),
        ("WARC-Date", "2026-11-16T02:00:00.123456Z"),
        ("WARC-Profile", "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"),
        ("WARC-Refers-To", "<urn:c>"),
        ("WARC-Refers-To-Target-URI", "http://example.com/"),
        ("WARC-Refers-To-Date", "2025-11-16T02:00:00Z"),
        ("WARC-Block-Digest", "sha1:B"),
        ("WARC-Payload-Digest", "sha256:00"),
        ("WARC-Truncated", "length"),
        ("WARC-Identified-Payload-Type", "text/html"),
        ("WARC-Concurrent-To", "<urn:a>"),
        ("WARC-Concurrent-To", "<urn:b>"),
        ("WARC-Protocol", "h2"),
        ("WARC-Protocol", "tls/1.3"),
        ("Content-Type", "application/http; msgtype=response"),
        ("Content-Length", "0"),
        ("X-Odd", "1"),
        ("X-Odd", "2"),
    ]
    assert head.encode(0, "1.0").startswith(b"WARC/1.0\r\n")
    assert b"warc/1.0/revisit/identical-payload-digest" in head.encode(0, "1.0")
    assert b"WARC-Date: 2026-11-16T02:00:00Z" in head.encode(0, "1.0"), "1.0 knows no fractions"


@pytest.mark.parametrize(
    ("profile", "uri"),
    [
        ("server-not-modified", "http://netpreserve.org/warc/1.1/revisit/server-not-modified"),
        ("http://example.com/{odd}%s", "http://example.com/{odd}%s"),
    ],
)
def test_profiles_by_name_or_as_they_are(profile: str, uri: str) -> None:
    assert ("WARC-Profile", uri) in WarcHead("revisit", "20261116020000", ID, profile=profile).fields(0)


@pytest.mark.parametrize(
    ("type_", "url", "content_type"),
    [
        ("request", "http://example.com/", "application/http; msgtype=request"),
        ("metadata", "http://example.com/", "application/warc-fields"),
        ("conversion", "http://example.com/", "text/plain"),
        ("warcinfo", "", "application/warc-fields"),
        ("response", "dns:example.com", "text/dns"),
        ("resource", "file:///a", None),
    ],
)
def test_each_type_has_its_usual_content_type(type_: str, url: str, content_type: str | None) -> None:
    assert dict(WarcHead(type_, "20261116020000", ID, url=url).fields(1)).get("Content-Type") == content_type
    given_one = WarcHead(type_, "20261116020000", ID, url=url, content_type="image/png")
    assert dict(given_one.fields(1))["Content-Type"] == "image/png"


@pytest.mark.parametrize("value", ["a\r\nWARC-Type: request", "a\nb", "a\rb", "\n", "a\0b"])
def test_values_that_would_break_out_of_their_line_are_refused(value: str) -> None:
    with pytest.raises(UsageError, match="WARC-Target-URI"):
        WarcHead("response", "20261116020000", ID, url=value).encode(1)
    with pytest.raises(UsageError, match="X-Odd"):
        warc_head([("X-Odd", value)])


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a\r\nb", "ä", "a\n"])
def test_names_that_are_no_tokens_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="field name"):
        warc_head([(name, "value")])
    with pytest.raises(UsageError, match="field name"):
        fields_block([(name, "value")])


def test_blocks_of_fields_refuse_line_ends() -> None:
    with pytest.raises(UsageError, match="software"):
        fields_block([("software", "a\r\nb")])


@given(
    st.lists(st.tuples(st.from_regex(r"[A-Za-z][A-Za-z0-9-]{0,12}", fullmatch=True), st.text(max_size=30)), max_size=6)
)
def test_a_head_has_one_line_per_field_or_is_refused(fields: list[tuple[str, str]]) -> None:
    try:
        head = warc_head(fields)
    except UsageError:
        assert any(set("\r\n\0") & set(value) for _, value in fields)
        return
    lines = head.split(b"\r\n")
    assert lines[0] == b"WARC/1.1"
    assert lines[-2:] == [b"", b""]
    assert lines[1:-2] == [f"{name}: {value}".encode() for name, value in fields]


def test_text_that_was_not_utf8_becomes_its_bytes_again() -> None:
    url = b"http://example.com/\xff\xe9".decode("utf-8", "surrogateescape")
    assert b"WARC-Target-URI: http://example.com/\xff\xe9\r\n" in WarcHead("resource", "2026", ID, url=url).encode(0)
    with pytest.raises(UsageError, match="UTF-8"):
        warc_head([("X-Odd", "\ud800")])


@pytest.mark.parametrize(
    ("date", "version", "expected"),
    [
        ("20261116020304", "1.1", "2026-11-16T02:03:04Z"),
        ("2026-11-16T02:03:04Z", "1.0", "2026-11-16T02:03:04Z"),
        ("2026-11-16T02:03:04.5Z", "1.1", "2026-11-16T02:03:04.5Z"),
        ("2026-11-16T02:03:04.5Z", "1.0", "2026-11-16T02:03:04Z"),
        ("2026-11-16T02:03:04+02:00", "1.1", "2026-11-16T00:03:04Z"),
        ("2026-11-16 02:03:04Z", "1.1", "2026-11-16T02:03:04Z"),
        ("2026-11", "1.1", "2026-11-01T00:00:00Z"),
    ],
)
def test_dates(date: str, version: str, expected: str) -> None:
    assert warc_date(date, version) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("date", ["", "20261316020304", "yesterday", "2026-02-30T00:00:00Z", "٢٠٢٦١١١٦٠٢٠٣٠٤"])
def test_what_is_no_date_is_refused(date: str) -> None:
    with pytest.raises(UsageError, match="date"):
        warc_date(date)


def test_ids_are_random_uuids() -> None:
    assert UUID(ID.removeprefix("<urn:uuid:").removesuffix(">")).version == 4
    with pytest.raises(UsageError, match="16"):
        record_id(b"short")


def test_digests_as_others_write_them() -> None:
    assert digest_of([b"hello ", b"world"]) == "sha1:FKXGYNOJJ7H3IFO35FPUBC445EPOQRXN"
    assert digest_of([b""], "sha256") == "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert digest_text("sha256", b"\0" * 32) == "sha256:" + "00" * 32


@pytest.mark.parametrize("algorithm", ["sha1", "sha256"])
def test_warcio_reads_and_checks_what_was_composed(algorithm: str) -> None:
    payload = PAGE.partition(b"\r\n\r\n")[2]
    head = WarcHead(
        "response",
        "20261116020000",
        ID,
        url="http://example.com/ü",
        block_digest=digest_of([PAGE], algorithm),  # type: ignore[arg-type]
        payload_digest=digest_of([payload], algorithm),  # type: ignore[arg-type]
    )
    stream = io.BytesIO(b"".join(record_parts(head, [PAGE[:10], PAGE[10:]])))
    iterator = ArchiveIterator(stream, check_digests="raise")
    record = next(iterator)
    assert record.content_stream().read() == payload
    assert record.rec_headers.get_header("WARC-Target-URI") == "http://example.com/ü"
    assert record.digest_checker.passed
    assert next(iterator, None) is None


def test_warcinfo_names_the_format_once() -> None:
    head = WarcHead("warcinfo", "20261116020000", ID, filename="a.warc.gz")
    whole = b"".join(warcinfo_parts(head, [("software", "holdfast"), ("format", "mine")]))
    assert whole.count(b"format: ") == 1
    assert b"software: holdfast\r\nformat: mine\r\nconformsTo: http" in whole
    assert b"WARC-Filename: a.warc.gz\r\n" in whole
    assert whole.endswith(b"\r\n\r\n\r\n")
