"""Ownership of an object store: one directory at a time may write to it.

In the directory, the file `objects` has the store's URL and the term of our ownership:

    HOLDFAST-OBJECTS/1
    url s3://bucket/prefix
    term 1
    token 8c5f1d0a7b6e4f32
    crc32 1a2b3c4d

In the store, an object `owners/000001` names the owner of each term: token, host and directory. Terms have no gaps and
their objects are never removed, so one request for the next term tells an owner whether it was replaced. An owner
object is created by a conditional put: of two that want a term, one gets it.

Each term has its own segments (`segments/000001/...`): late uploads of a replaced owner overwrite nothing.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path

from holdfast.env import Environment, paths
from holdfast.env.files import Files, read_file, replace_file
from holdfast.errors import Busy, DamagedBlock, VolumeDown
from holdfast.storage import block
from holdfast.storage.volumes.log.segment import check_version
from holdfast.storage.volumes.object.bucket import Bucket

OWNERS = "owners/"
_MAGIC = b"HOLDFAST-OBJECTS/"


class Replaced(VolumeDown):
    """Another directory has taken the store over: this one must not write to it again."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """The file `objects`."""

    url: str
    term: int
    token: str

    def pack(self) -> bytes:
        text = f"HOLDFAST-OBJECTS/1\nurl {self.url}\nterm {self.term}\ntoken {self.token}\n".encode()
        return text + b"crc32 %08x\n" % block.checksum(text)


def new_attachment(env: Environment, url: str, term: int) -> Attachment:
    return Attachment(url, term, env.random_bytes(8).hex())


def write_attachment(files: Files, directory: Path, attachment: Attachment) -> None:
    files.make_directory(directory)
    replace_file(files, directory / paths.OBJECTS, attachment.pack())


def read_attachment(files: Files, directory: Path) -> Attachment:
    """Raises FileNotFoundError, FormatTooNew or DamagedBlock."""
    path = directory / paths.OBJECTS
    raw = read_file(files, path)
    check_version(raw, _MAGIC, path)
    try:
        _, url, term, token, _ = raw.decode().splitlines()
        attachment = Attachment(url.split(" ", 1)[1], int(term.split(" ", 1)[1]), token.split(" ", 1)[1])
    except (ValueError, IndexError):
        attachment = None
    if attachment is None or attachment.pack() != raw:
        raise DamagedBlock(
            f"cannot read '{path}': its checksum does not match its text; 'holdfast volume take-over' rewrites it "
            "after the volume's directory has been moved away"
        )
    return attachment


class Ownership:
    """Our claim to a store. Any thread may call."""

    def __init__(self, bucket: Bucket, attachment: Attachment, directory: Path) -> None:
        self.bucket = bucket
        self.attachment = attachment
        self._directory = directory

    @property
    def term(self) -> int:
        return self.attachment.term

    def claim(self) -> None:
        """Ensures that the term is ours, also after a crash between writing it here and there. Raises Busy."""
        attachment = self.attachment
        owner = self._owner(attachment.term)
        if not owner:
            text = f"token {attachment.token}\nhost {socket.gethostname()}\ndirectory {self._directory.absolute()}\n"
            self.bucket.put_new(_key(attachment.term), text.encode())
            owner = self._owner(attachment.term)
        if owner.get("token") != attachment.token:
            raise self._busy(owner)
        newest = newest_term(self.bucket)
        if newest > attachment.term:
            raise self._busy(self._owner(newest))

    def check(self) -> None:
        """Raises Replaced if there is a later term than ours. One small request."""
        if self.bucket.size(_key(self.term + 1)) is not None:
            raise Replaced(
                f"'{self.bucket.url}' was taken over from '{self._directory}' by another directory; contents that "
                "had not been uploaded are still here, but nothing more can be written"
            )

    def outdated(self, key: str) -> Busy:
        """The error of a directory that does not list one of its own objects: it is an old copy."""
        return Busy(
            f"'{self._directory}' is an old copy: '{self.bucket.url}/{key}' was uploaded later; use the directory that "
            "the copy was made from, or, if that is gone for good, take the volume over ('holdfast volume take-over')"
        )

    def _owner(self, term: int) -> dict[str, str]:
        try:
            text = self.bucket.get(_key(term)).decode(errors="replace")
        except FileNotFoundError:
            return {}
        return {name: value for name, _, value in (line.partition(" ") for line in text.splitlines())}

    def _busy(self, owner: dict[str, str]) -> Busy:
        return Busy(
            f"'{self.bucket.url}' belongs to directory '{owner.get('directory', '?')}' on host "
            f"'{owner.get('host', '?')}', not to '{self._directory}'; if that is gone for good, take it over "
            "('holdfast volume take-over')"
        )


def newest_term(bucket: Bucket) -> int:
    """0 if the store never had an owner."""
    numbers = [key.removeprefix(OWNERS) for key in bucket.sizes(OWNERS)]
    return max((int(number) for number in numbers if number.isdigit()), default=0)


def _key(term: int) -> str:
    return f"{OWNERS}{term:06d}"
