"""WARC records composed from values instead of original bytes, for crawls and exports.

    WARC/1.1 CRLF
    Name: value CRLF        one line per field, repeated names allowed, in the order given
    CRLF
    block                   `Content-Length` bytes
    CRLF CRLF

Values come from the web and are not trusted: one with a line end would start another field, so it is rejected.
Everything here is a pure function of its arguments; time and randomness are passed in.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b32encode
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from holdfast.errors import UsageError
from holdfast.formats.dates import warc_timestamp

Fields = Sequence[tuple[str, str]]
Version = Literal["1.0", "1.1"]
DigestAlgorithm = Literal["sha1", "sha256"]

RECORD_END = b"\r\n\r\n"
ID_BYTES = 16
WARC_FIELDS = "application/warc-fields"
CONFORMS_TO = "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-{version}/"

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTENT_TYPES = {
    "response": "application/http; msgtype=response",
    "request": "application/http; msgtype=request",
    "revisit": "application/http; msgtype=response",
    "metadata": WARC_FIELDS,
    "warcinfo": WARC_FIELDS,
    "conversion": "text/plain",
}
_PROFILES = frozenset(("identical-payload-digest", "server-not-modified"))
_FULL_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z", re.ASCII)
_NEW_DATE = re.compile(rb"(?mi)^(WARC-(?:Refers-To-)?Date:[ \t]*)([^\r\n]*[^\r\n \t])")
_NEW_PROFILE = re.compile(rb"(?mi)^(WARC-Profile:[ \t]*<?http://netpreserve\.org/warc/)1\.1")


class WarcHead(NamedTuple):
    """The facts of one record's head; what is empty is left out. `encode` makes the bytes.

    Dates are 14 digits or ISO 8601, ids are `<urn:uuid:...>`, digests carry their algorithm.
    """

    type: str
    date: str
    record_id: str
    url: str = ""
    content_type: str = ""  # where empty, the usual one of the type
    ip: str = ""
    block_digest: str = ""
    payload_digest: str = ""
    concurrent_to: tuple[str, ...] = ()
    protocols: tuple[str, ...] = ()  # 'h2', 'tls/1.3'
    truncated: str = ""  # 'length', 'time', 'disconnect', 'unspecified'
    identified_payload_type: str = ""
    profile: str = ""  # of a revisit: a name of `_PROFILES`, or a URI
    refers_to: str = ""
    refers_to_url: str = ""
    refers_to_date: str = ""
    warcinfo_id: str = ""
    filename: str = ""  # of a warcinfo
    extra: tuple[tuple[str, str], ...] = ()  # further fields, last in their order

    def fields(self, content_length: int, version: Version = "1.1") -> list[tuple[str, str]]:
        """The fields in the order of writing; `Content-Length` is last, except for `extra`."""
        one = [
            ("WARC-Type", self.type),
            ("WARC-Record-ID", self.record_id),
            ("WARC-Warcinfo-ID", self.warcinfo_id),
            ("WARC-Filename", self.filename),
            ("WARC-Target-URI", self.url),
            ("WARC-Date", warc_date(self.date, version)),
            ("WARC-IP-Address", self.ip),
            ("WARC-Profile", self._profile(version)),
            ("WARC-Refers-To", self.refers_to),
            ("WARC-Refers-To-Target-URI", self.refers_to_url),
            ("WARC-Refers-To-Date", warc_date(self.refers_to_date, version) if self.refers_to_date else ""),
            ("WARC-Block-Digest", self.block_digest),
            ("WARC-Payload-Digest", self.payload_digest),
            ("WARC-Truncated", self.truncated),
            ("WARC-Identified-Payload-Type", self.identified_payload_type),
        ]
        many = [("WARC-Concurrent-To", each) for each in self.concurrent_to]
        many += [("WARC-Protocol", each) for each in self.protocols]
        length = [("Content-Type", self._content_type()), ("Content-Length", str(content_length))]
        return [field for field in (*one, *many, *length) if field[1]] + list(self.extra)

    def encode(self, content_length: int, version: Version = "1.1") -> bytes:
        """The bytes before the block; raises UsageError for a value that would break out of its line."""
        return warc_head(self.fields(content_length, version), version)

    def _profile(self, version: Version) -> str:
        if self.profile in _PROFILES:
            return f"http://netpreserve.org/warc/{version}/revisit/{self.profile}"
        return self.profile

    def _content_type(self) -> str:
        if self.content_type:
            return self.content_type
        if self.type in ("response", "resource") and not self.url.lower().startswith(("http:", "https:")):
            return "text/dns" if self.url.startswith("dns:") else ""
        return _CONTENT_TYPES.get(self.type, "")


def warc_head(fields: Fields, version: str = "1.1") -> bytes:
    """The bytes before the block: version line, fields in their order, blank line.

    Raises UsageError for a name that is no token, and for a value with a line end in it.
    """
    lines = [f"{name}: {value}" for name, value in fields]
    text = "\r\n".join((f"WARC/{version}", *lines, "", ""))
    ends = len(lines) + 2
    if text.count("\n") != ends or text.count("\r") != ends or "\0" in text:
        _refuse_line_ends(fields)
    for name, _ in fields:
        _check_name(name)
    return encoded(text)


def older_head(head: bytes) -> bytes:
    """A well-formed head as one of WARC 1.0: dates of whole seconds, and the older names of profiles."""
    head = _NEW_DATE.sub(lambda found: found[1] + warc_date(found[2].decode("latin-1"), "1.0").encode(), head)
    return _NEW_PROFILE.sub(rb"\g<1>1.0", head).replace(b"WARC/1.1\r\n", b"WARC/1.0\r\n", 1)


def record_parts(head: WarcHead, block: Sequence[bytes], version: Version = "1.1") -> list[bytes]:
    """A whole record in pieces, for a writer: head, the pieces of the block as they are, end."""
    return [head.encode(sum(map(len, block)), version), *block, RECORD_END]


def warcinfo_parts(head: WarcHead, info: Fields, version: Version = "1.1") -> list[bytes]:
    """A warcinfo record whose block is `info` and the format; `head` has date, id and file name."""
    stated = {name.lower() for name, _ in info}
    named = [("format", f"WARC File Format {version}"), ("conformsTo", CONFORMS_TO.format(version=version))]
    return record_parts(
        head, [fields_block([*info, *(pair for pair in named if pair[0].lower() not in stated)])], version
    )


def fields_block(fields: Fields) -> bytes:
    """The block of a warcinfo or metadata record (application/warc-fields)."""
    for name, value in fields:
        _check_name(name)
        if "\n" in value or "\r" in value:
            raise _line_end(name, value)
    return encoded("".join(f"{name}: {value}\r\n" for name, value in fields))


def record_id(random: bytes) -> str:
    """A WARC-Record-ID: a random UUID made of 16 bytes."""
    if len(random) != ID_BYTES:
        raise UsageError(f"cannot make a record id of {len(random)} bytes: expected {ID_BYTES} random ones")
    digits = random.hex()  # as uuid.UUID writes them, in a twentieth of the time
    variant = "89ab"[random[8] >> 4 & 3]
    return f"<urn:uuid:{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}>"


def warc_date(date: str, version: Version = "1.1") -> str:
    """A WARC-Date: of 14 digits, or of ISO 8601; with fractions of a second where the version knows them."""
    digits = len(date) == 14 and date.isascii() and date.isdigit()
    iso = f"{date[:4]}-{date[4:6]}-{date[6:8]}T{date[8:10]}:{date[10:12]}:{date[12:]}Z" if digits else date
    checked = warc_timestamp(iso)
    if not checked:
        raise UsageError(f"malformed date {date!r}: expected 14 digits such as '20261116020000', or ISO 8601")
    if digits or (version == "1.1" and _FULL_DATE.fullmatch(iso)):
        return iso
    return warc_date(checked, version)


def digest_text(algorithm: DigestAlgorithm, raw: bytes) -> str:
    """A digest as WARC fields carry it: `sha1:` in base32, `sha256:` in hexadecimal digits."""
    return f"sha1:{b32encode(raw).decode()}" if algorithm == "sha1" else f"sha256:{raw.hex()}"


def digest_of(parts: Iterable[bytes], algorithm: DigestAlgorithm = "sha1") -> str:
    """The digest of the parts together."""
    digest = hashlib.new(algorithm, usedforsecurity=False)
    for part in parts:
        digest.update(part)
    return digest_text(algorithm, digest.digest())


def encoded(text: str) -> bytes:
    """UTF-8; bytes that were not UTF-8 when they were read (surrogate escapes) become themselves again."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        around = text[max(0, error.start - 20) : error.end + 20]
        raise UsageError(f"text that has no UTF-8 form: {around!r}") from error


@lru_cache(1000)  # there are few names
def _check_name(name: str) -> None:
    if _TOKEN.fullmatch(name) is None:
        raise UsageError(
            f"malformed field name {name!r}: only letters, digits and a few signs such as '-' may be in it"
        )


def _refuse_line_ends(fields: Fields) -> None:
    for name, value in fields:
        _check_name(name)
        if "\n" in value or "\r" in value or "\0" in value:
            raise _line_end(name, value)
    raise UsageError("malformed WARC version: it holds a line end")


def _line_end(name: str, value: str) -> UsageError:
    return UsageError(
        f"field {name!r} has a line end or NUL in its value {value[:80]!r}: "
        "it would be read as a field of its own; encode it (%0A, %0D) or leave it out"
    )
