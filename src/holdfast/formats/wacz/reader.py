"""Reading WACZ 1.1.1: a zip file with WARCs, their indexes, a list of pages, and hashes of all files.

    archive/*.warc.gz            the records; stored, not deflated, so that each can be read at its offset
    indexes/index.cdx.gz, .idx   CDXJ in ZipNum form, or a plain .cdx / .cdxj
    pages/pages.jsonl            a header line, then one JSON object per page
    datapackage.json             title, date, and name, size and hash of every member
    datapackage-digest.json      hash of datapackage.json

Nothing is ever unpacked to disk. A file from elsewhere may be hostile: names that lead out of the zip, members that lie
on top of one another, and sizes that cannot be true are refused when it is opened; what is read into memory is limited.
Members that are damaged or not what datapackage.json says are named by `verify`, and can be read all the same.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import struct
import zipfile
import zlib
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, Protocol, Self

from holdfast.errors import MalformedInput
from holdfast.formats.record import Finding, FindingKind, Report

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

WACZ_VERSION = "1.1.1"
DATAPACKAGE = "datapackage.json"
DATAPACKAGE_DIGEST = "datapackage-digest.json"
PAGES = "pages/pages.jsonl"
_CHUNK = 1 << 18
_HASHES = frozenset(("md5", "sha1", "sha256", "sha384", "sha512"))
_LOCAL_HEADER = struct.Struct("<4s22sHH")
_LOCAL_MAGIC = b"PK\x03\x04"
_END = struct.Struct("<4sHHHHIIH")
_END_MAGIC = b"PK\x05\x06"
_END64_LOCATOR = struct.Struct("<4sIQI")
_END64_LOCATOR_MAGIC = b"PK\x06\x07"
_END64_SIZE_AT = 40  # of the directory's size in the zip64 end record
_COMMENT_MAX = 0xFFFF
_ENCRYPTED = 0x1
# What a WACZ may demand of the reader; beyond it, it is refused.
_DIRECTORY_BYTES_MAX = 256 << 20  # of the zip's directory, which is held in memory
_MEMBERS_MAX = 200_000
_JSON_BYTES_MAX = 64 << 20  # of datapackage.json
_EXPANSION_MAX = 200  # how many times its stored size a deflated member may have
_DAMAGED = (zipfile.BadZipFile, EOFError, RuntimeError, OSError, ValueError, struct.error)


class _Note(Protocol):
    """Takes a fault of a member."""

    def __call__(self, name: str, reason: str, kind: FindingKind = FindingKind.INVALID) -> None: ...


class Wacz:
    """An open WACZ. Any thread may call any method; each stream that `open` gives belongs to one thread."""

    def __init__(self, path: Path) -> None:
        """Raises MalformedInput if the file is not a zip, or must not be trusted."""
        self.name = str(path)
        self._file = path.open("rb")
        try:
            self._size = os.fstat(self._file.fileno()).st_size
            self._zip = self._opened_zip()
            self._members = self._checked_members()
        except BaseException:
            self.close()
            raise

    # -- what is in it ------------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """All members but directories, in the order of the zip."""
        return list(self._members)

    @property
    def warcs(self) -> list[str]:
        return self._below("archive/")

    @property
    def indexes(self) -> list[str]:
        return self._below("indexes/")

    def datapackage(self) -> dict[str, object]:
        """What datapackage.json says; raises MalformedInput if it is missing or no JSON object."""
        return self._json(DATAPACKAGE)

    # -- bytes --------------------------------------------------------------------------------------------------

    def open(self, name: str) -> BinaryIO:
        """A member as a stream. One that is stored can be sought in, and is given as it lies there, damaged or not."""
        member = self._member(name)
        if member.flag_bits & _ENCRYPTED:
            raise self.malformed(name, "it is encrypted")
        if member.compress_type == zipfile.ZIP_STORED:
            return io.BufferedReader(_Window(self, self.data_offset(name), member.file_size), _CHUNK)
        if member.compress_type == zipfile.ZIP_DEFLATED:
            return io.BufferedReader(_Inflated(self, member), _CHUNK)
        raise self.malformed(name, f"compressed by method {member.compress_type}, which WACZ does not know")

    def size(self, name: str) -> int:
        """How many bytes a member has when it is unpacked."""
        return self._member(name).file_size

    def data_offset(self, name: str) -> int:
        """Where the member's bytes begin in the file: a record's offset in a stored WARC is counted from here."""
        member = self._member(name)
        header = self.read_at(member.header_offset, _LOCAL_HEADER.size)
        if len(header) < _LOCAL_HEADER.size or not header.startswith(_LOCAL_MAGIC):
            raise self.malformed(name, "its local header is damaged")
        _, _, name_length, extra_length = _LOCAL_HEADER.unpack(header)
        return int(member.header_offset + _LOCAL_HEADER.size + name_length + extra_length)

    def read_at(self, offset: int, size: int) -> bytes:
        """Bytes of the WACZ itself; none beyond its end."""
        return os.pread(self._file.fileno(), size, offset)

    # -- trust --------------------------------------------------------------------------------------------------

    def verify(self, report: Report) -> bool:
        """Reads everything and compares it with the hashes; every fault is reported. True if there was none."""
        found: list[Finding] = []

        def note(name: str, reason: str, kind: FindingKind = FindingKind.INVALID) -> None:
            member = self._members.get(name)
            place = (member.header_offset, member.compress_size) if member else (0, 0)
            found.append(Finding(kind, *place, f"'{name}': {reason}"))
            report(found[-1])

        self._verify_structure(note)
        try:
            resources = self._resources()
        except MalformedInput as error:
            note(DATAPACKAGE, str(error))
            return False
        self._verify_digest(note)
        for name in self._members:
            if name not in resources and name not in (DATAPACKAGE, DATAPACKAGE_DIGEST):
                note(name, f"not listed in {DATAPACKAGE}")
        for name, facts in resources.items():
            self._verify_resource(name, facts, note)
        return not found

    def _verify_structure(self, note: _Note) -> None:
        for name in self.warcs:
            if self._members[name].compress_type != zipfile.ZIP_STORED:
                note(name, "deflated; WARCs are to be stored as they are")
        wanted = (("archive/", self.warcs), ("indexes/", self.indexes), (PAGES, PAGES in self._members))
        for name, present in wanted:
            if not present:
                note(name, "missing")

    def _verify_digest(self, note: _Note) -> None:
        if DATAPACKAGE_DIGEST not in self._members:
            return  # the standard only recommends it
        try:
            digest = self._json(DATAPACKAGE_DIGEST)
        except MalformedInput as error:
            note(DATAPACKAGE_DIGEST, str(error))
            return
        self._verify_resource(DATAPACKAGE, {"hash": digest.get("hash")}, note)

    def _verify_resource(self, name: str, facts: dict[str, object], note: _Note) -> None:
        if name not in self._members:
            note(name, f"listed in {DATAPACKAGE}, but missing", FindingKind.LOST)
            return
        algorithm, _, expected = str(facts.get("hash") or "").partition(":")
        if algorithm not in _HASHES:
            note(name, f"no hash of a known kind: {facts.get('hash')!r}")
            return
        digest, size = hashlib.new(algorithm, usedforsecurity=False), 0
        try:
            with self.open(name) as stream:
                while chunk := stream.read(_CHUNK):
                    digest.update(chunk)
                    size += len(chunk)
        except MalformedInput as error:
            note(name, str(error), FindingKind.LOST)
            return
        if "bytes" in facts and facts["bytes"] != size:
            note(name, f"{size} bytes, expected {facts['bytes']}")
        if digest.hexdigest() != expected.lower():
            note(name, f"{algorithm} {digest.hexdigest()}, expected {expected}")

    def _resources(self) -> dict[str, dict[str, object]]:
        resources = self.datapackage().get("resources")
        if not isinstance(resources, list):
            raise self.malformed(DATAPACKAGE, "it has no list of resources")
        return {str(facts["path"]): facts for facts in resources if isinstance(facts, dict) and "path" in facts}

    # -- the zip ------------------------------------------------------------------------------------------------

    def _opened_zip(self) -> zipfile.ZipFile:
        if self._directory_size() > _DIRECTORY_BYTES_MAX:
            raise self._refused(f"its directory is larger than {_DIRECTORY_BYTES_MAX} bytes")
        try:
            return zipfile.ZipFile(self._file)
        except _DAMAGED as error:
            raise self._refused(f"its directory is damaged ({error})") from error

    def inflated(self, member: zipfile.ZipInfo) -> IO[bytes]:
        """A deflated member, its checksum verified at the end; raises errors of `zipfile` and `zlib`."""
        return self._zip.open(member)

    def _checked_members(self) -> dict[str, zipfile.ZipInfo]:
        infos = self._zip.infolist()
        if len(infos) > _MEMBERS_MAX:
            raise self._refused(f"it has more than {_MEMBERS_MAX} members")
        members: dict[str, zipfile.ZipInfo] = {}
        end = 0
        for info in sorted(infos, key=lambda each: each.header_offset):
            self._check_member(info, end)
            end = info.header_offset + info.compress_size
            if info.filename in members:
                raise self._refused(f"it has two members {info.filename!r}")
            members[info.filename] = info
        return {info.filename: info for info in infos if not info.is_dir()}

    def _check_member(self, info: zipfile.ZipInfo, previous_end: int) -> None:
        name = info.filename
        if name.startswith("/") or "\\" in name or ":" in name.split("/")[0] or ".." in name.split("/"):
            raise self._refused(f"member {name!r} leads out of it")
        if info.header_offset < previous_end or info.header_offset + info.compress_size > self._size:
            raise self._refused(f"member {name!r} lies on another or beyond the end")
        most = info.compress_size * (1 if info.compress_type == zipfile.ZIP_STORED else _EXPANSION_MAX)
        if info.file_size > most:
            raise self._refused(f"member {name!r} claims {info.file_size} bytes in {info.compress_size}")

    def _directory_size(self) -> int:
        """What the end of the zip says of its directory, which is read at one go: look before."""
        start = max(0, self._size - _COMMENT_MAX - _END.size - _END64_LOCATOR.size)
        tail = self.read_at(start, self._size - start)
        at = tail.rfind(_END_MAGIC)
        if at < 0 or len(tail) - at < _END.size:
            raise self._refused("it is not a zip, or its end is cut off")
        size = _END.unpack_from(tail, at)[5]
        locator = at - _END64_LOCATOR.size
        if locator < 0 or not tail.startswith(_END64_LOCATOR_MAGIC, locator):
            return int(size)
        end64 = self.read_at(_END64_LOCATOR.unpack_from(tail, locator)[2] + _END64_SIZE_AT, 8)
        return int.from_bytes(end64, "little")

    def _below(self, directory: str) -> list[str]:
        return [name for name in self._members if name.startswith(directory)]

    def _member(self, name: str) -> zipfile.ZipInfo:
        member = self._members.get(name)
        if member is None:
            raise self.malformed(name, "missing")
        return member

    def _json(self, name: str) -> dict[str, object]:
        if self._member(name).file_size > _JSON_BYTES_MAX:
            raise self.malformed(name, f"larger than {_JSON_BYTES_MAX} bytes")
        with self.open(name) as stream:
            value = _json_object(stream.read())
        if value is None:
            raise self.malformed(name, "no JSON object")
        return value

    def malformed(self, member: str, reason: str) -> MalformedInput:
        """The error for a member that cannot be read."""
        found = self._members.get(member)
        return MalformedInput(
            f"cannot read '{member}' in '{self.name}' at {found.header_offset if found else 0}: {reason}"
        )

    def _refused(self, reason: str) -> MalformedInput:
        return MalformedInput(f"cannot open '{self.name}' as WACZ: {reason}")

    def close(self) -> None:
        """Idempotent."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Window(io.RawIOBase):
    """A stored member: a range of the file."""

    def __init__(self, wacz: Wacz, start: int, size: int) -> None:
        self._wacz, self._start, self._size = wacz, start, size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        size = min(len(view), max(0, self._size - self._position))
        data = self._wacz.read_at(self._start + self._position, size) if size else b""
        view[: len(data)] = data
        self._position += len(data)
        return len(data)


class _Inflated(io.RawIOBase):
    """A deflated member: never more bytes than its entry says."""

    def __init__(self, wacz: Wacz, member: zipfile.ZipInfo) -> None:
        self._wacz, self._member = wacz, member
        self._stream: IO[bytes] | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        try:
            if self._stream is None:
                self._stream = self._wacz.inflated(self._member)
            data = self._stream.read(len(view))
        except (*_DAMAGED, zlib.error) as error:
            reason = f"it does not inflate to what its checksum says ({error})"
            raise self._wacz.malformed(self._member.filename, reason) from error
        view[: len(data)] = data
        return len(data)


def _json_object(data: bytes) -> dict[str, object] | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
