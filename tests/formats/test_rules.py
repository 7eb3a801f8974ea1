"""Rules of WARC: what JHOVE and JWAT call valid is, what they call invalid is not, and the place is right."""

from __future__ import annotations

import base64
import hashlib

import pytest
from reading_builders import SAMPLES, digest, needs_samples, page, read_all, warc_record

from holdfast.errors import MalformedInput
from holdfast.formats.record import FindingKind
from holdfast.formats.warc.digests import decode_digest

GOOD = "WARC-Type: response\r\nWARC-Record-ID: <urn:uuid:1>\r\nWARC-Date: 2020-01-02T03:04:05Z\r\nWARC-Target-URI: http://e.com/"


def reasons(fields: str, block: bytes = b"", version: str = "1.1") -> list[str]:
    head = f"WARC/{version}\r\n{fields}\r\nContent-Length: {len(block)}\r\n\r\n"
    return [finding.reason for finding in read_all(head.encode() + block + b"\r\n\r\n")[2]]


def test_nothing_to_tell() -> None:
    assert reasons(GOOD) == []
    assert reasons(GOOD, version="1.0") == []


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("response", "monkey", "unknown WARC-Type 'monkey'"),
        ("WARC-Target-URI: http://e.com/", "X: y", "a record of type 'response' needs warc-target-uri"),
        ("<urn:uuid:1>", "urn:uuid:1", "bad WARC-Record-ID 'urn:uuid:1'"),
        ("<urn:uuid:1>", "", "empty WARC-Record-ID"),
        ("2020-01-02T03:04:05Z", "2020-13-02T03:04:05Z", "bad WARC-Date '2020-13-02T03:04:05Z'"),
        ("2020-01-02T03:04:05Z", "yesterday", "bad WARC-Date 'yesterday'"),
        ("http://e.com/", "no uri", "bad WARC-Target-URI 'no uri'"),
        ("http://e.com/", "http://e.com/\r\nWARC-IP-Address: 1.2.3", "bad WARC-IP-Address '1.2.3'"),
        ("http://e.com/", "http://e.com/\r\nWARC-Date: 2020-01-02T03:04:05Z", "more than one WARC-Date"),
        ("http://e.com/", "http://e.com/\r\nWARC-Block-Digest: sha1:abc", "bad WARC-Block-Digest 'sha1:abc'"),
        ("http://e.com/", "http://e.com/\r\nContent-Type: text", "bad Content-Type 'text'"),
        (
            "http://e.com/",
            "http://e.com/\r\nWARC-Filename: a",
            "a record of type 'response' must not have warc-filename",
        ),
        ("http://e.com/", "http://e.com/\r\nWARC-Segment-Number: 0", "bad WARC-Segment-Number '0'"),
        (
            "http://e.com/",
            "http://e.com/\r\nWARC-Segment-Number: 2",
            "bad WARC-Segment-Number '2' for a record of type 'response'",
        ),
        (
            "http://e.com/",
            "http://e.com/\r\nContent-Type: application/http; msgtype=request",
            "a record of type 'response' has a block of msgtype 'request'",
        ),
    ],
)
def test_each_rule(old: str, new: str, reason: str) -> None:
    assert reason in reasons(GOOD.replace(old, new))


def test_rules_of_versions() -> None:
    short = GOOD.replace("T03:04:05Z", "")
    assert reasons(short) == []
    assert reasons(short, version="1.0") == ["bad WARC-Date '2020-01-02' in warc/1.0"]
    assert reasons(GOOD.replace("05Z", "05.123Z")) == []
    assert reasons(GOOD, version="3.0") == ["unknown version 'warc/3.0'"]


def test_rules_of_types() -> None:
    assert reasons(GOOD.replace("response", "revisit")) == ["a record of type 'revisit' needs warc-profile"]
    assert "a record of type 'warcinfo' must not have warc-target-uri" in reasons(GOOD.replace("response", "warcinfo"))
    assert reasons(GOOD.replace("response", "continuation")) == [
        "a record of type 'continuation' needs warc-segment-number, warc-segment-origin-id"
    ]
    assert reasons(GOOD, b"x") == ["a block without Content-Type"]


def test_digests() -> None:
    block = page(b"hello")
    right = (f"WARC-Block-Digest: {digest(block)}", f"WARC-Payload-Digest: {digest(b'hello')}")
    wrong = (f"WARC-Block-Digest: {digest(b'')}", f"WARC-Payload-Digest: {digest(b'')}")
    assert read_all(warc_record(block, *right))[2] == []
    of_block, of_payload = (
        "the block does not match its WARC-Block-Digest (sha1)",
        "the payload does not match its WARC-Payload-Digest (sha1)",
    )
    assert [finding.reason for finding in read_all(warc_record(block, *wrong))[2]] == [of_payload]
    assert [finding.reason for finding in read_all(warc_record(block, wrong[0]))[2]] == [of_block]
    assert read_all(warc_record(block, wrong[0], right[1]))[2] == []  # the payload's is enough
    with pytest.raises(MalformedInput, match="the block does not match"):
        read_all(warc_record(block, wrong[0], right[1]), strict=True)
    assert read_all(warc_record(block, *wrong), verify_digests=False)[2] == []
    assert read_all(warc_record(block, wrong[1], kind="revisit", number=2), validate=False)[2] == []


@pytest.mark.parametrize("size", [10, 3_000_000])
def test_payload_digest_with_or_without_chunks(size: int) -> None:
    body = b"x" * size
    framed = b"%x\r\n%b\r\n0\r\n\r\n" % (size, body)
    block = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + framed
    for value, count in ((digest(body), 0), (digest(framed), 0), (digest(b"other"), 1)):
        assert len(read_all(warc_record(block, f"WARC-Payload-Digest: {value}"))[2]) == count


@pytest.mark.parametrize("name", ["md5", "sha1", "sha256", "sha512"])
def test_digests_in_every_writing(name: str) -> None:
    for text in (b"", b"a", b"hello"):
        raw = hashlib.new(name, text).digest()
        base32 = base64.b32encode(raw).decode()
        for form in (raw.hex(), raw.hex().upper(), base32, base32.lower().rstrip("="), base64.b64encode(raw).decode()):
            assert decode_digest(f"{name}:{form}") == (name, raw)
    assert decode_digest("sha1:" + "0" * 32) is None
    assert decode_digest("sha3:abc") is None
    assert decode_digest("nothing") is None


def sample_names(prefix: str) -> list[str]:
    return [str(path.relative_to(SAMPLES)) for path in sorted(SAMPLES.rglob(f"{prefix}-*.warc*"))]


@needs_samples
def test_there_are_samples() -> None:
    assert len(sample_names("valid")) >= 18
    assert len(sample_names("invalid")) >= 80


@needs_samples
@pytest.mark.parametrize("name", sample_names("valid"))
def test_valid_samples(name: str) -> None:
    texts, _, findings = read_all((SAMPLES / name).read_bytes())
    assert findings == []
    assert texts


# Of the others the first record is at fault.
FIRST_FAULT = {
    "invalid-warcfile-encoding-headers.warc.gz": 795,
    "invalid-warcfile-segment-number-response.warc": 1059,
    "invalid-warcrecord-3.warc": 1073,
    "invalid-warcrecorddigests-1.warc": 1073,
}


@needs_samples
@pytest.mark.parametrize("name", sample_names("invalid"))
def test_invalid_samples(name: str) -> None:
    findings = read_all((SAMPLES / name).read_bytes())[2]
    assert findings
    assert findings[0].offset == FIRST_FAULT.get(name.rpartition("/")[2], 0)


# Established by looking at the files: (records, lost ranges, reasons of invalid records)
OTHERS: dict[str, tuple[int, list[tuple[int, int]], set[str]]] = {
    "warcio/example.warc": (6, [], set()),
    "warcio/example.warc.gz": (6, [], set()),
    "warcio/example-trunc.warc": (
        4,
        [],
        {
            "the block is followed by b'\\x00\\x00\\r\\n\\r\\nWA' instead of CRLF CRLF: the Content-Length is wrong; "
            "the block has 975 bytes instead of 973"
        },
    ),
    "warcio/example-digest.warc": (4, [], {"bad WARC-Payload-Digest 'sha1:1112H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ'"}),
    "warcio/example-bad.warc.gz.bad": (6, [], {"several records in one gzip member"}),
    "warcio/example-space-in-target-uri.warc.gz": (2, [], {"bad WARC-Target-URI 'file:///example with spaces.png'"}),
    "warcio/example-wrong-chunks.warc.gz": (
        2,
        [],
        {
            "the record ends in b'\\n\\r\\n\\r\\n' instead of CRLF CRLF",
            "the block does not match its WARC-Block-Digest (sha1)",
            "several records in one gzip member",
        },
    ),
    "commoncrawl/whirlwind.warc.gz": (4, [], set()),
    "wikipedia-sopa/wikipedia-blackout/sopa-wikipedia-homepage.warc.gz": (164, [], set()),
    "blackbook/IAH-20080430204825-00000-blackbook-truncated.warc.gz": (23, [], set()),
    "iipc-dedup/20141124-heritrix-server-not-modified.warc.gz": (
        1,
        [],
        {"the record ends in b'\\r\\n' instead of CRLF CRLF"},
    ),
}


@needs_samples
@pytest.mark.parametrize("name", OTHERS)
def test_other_samples(name: str) -> None:
    texts, _, findings = read_all((SAMPLES / name).read_bytes())
    lost = [(finding.offset, finding.length) for finding in findings if finding.kind is FindingKind.LOST]
    invalid = {finding.reason for finding in findings if finding.kind is FindingKind.INVALID}
    assert (len(texts), lost, invalid) == OTHERS[name]
