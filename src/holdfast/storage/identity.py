"""The VOLUME file: the identity of a volume, in five lines of text.

    HOLDFAST-VOLUME/1 9f3a61c2
    organization log
    depth 3
    signature sha256
    crc32 1a2b3c4d

The third line is the shape of the organization: `depth` of a tree (unused in a log), `logs` of a hashed log,
`bucket-bytes` of a hash.

The uid is random. Every segment and every block header repeats it, so that files of different volumes cannot be mixed
up unnoticed. The crc32 covers the lines before it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

from holdfast.config import VolumeSettings
from holdfast.env import Environment, paths
from holdfast.env.files import read_file, replace_file
from holdfast.errors import DamagedBlock, VolumeDown
from holdfast.storage import block
from holdfast.storage.volumes.log.segment import SegmentRanges, check_version

_MAGIC = b"HOLDFAST-VOLUME/"
HASHED_LOG, HASH = "hashed-log", "hash"
_SHAPES = {HASHED_LOG: "logs", HASH: "bucket-bytes"}  # the name of the third line; `depth` for others


@dataclass(frozen=True, slots=True)
class Identity:
    """The contents of a VOLUME file."""

    uid: bytes
    organization: str
    shape: int  # depth, logs or bytes of a bucket
    signature: str

    @property
    def lanes(self) -> SegmentRanges:
        """The segment ranges of a log, plain or hashed."""
        return SegmentRanges(self.shape if self.organization == HASHED_LOG else 0)

    def pack(self) -> bytes:
        text = (
            f"HOLDFAST-VOLUME/1 {self.uid.decode()}\n"
            f"organization {self.organization}\n"
            f"{_SHAPES.get(self.organization, 'depth')} {self.shape}\nsignature {self.signature}\n"
        ).encode()
        return text + b"crc32 %08x\n" % block.checksum(text)


def new_identity(env: Environment, volume: VolumeSettings, signature: str) -> Identity:
    """The identity of a new volume."""
    shapes = {HASHED_LOG: volume.logs, HASH: volume.bucket_bytes}
    shape = shapes.get(volume.organization, volume.depth)
    return Identity(env.random_bytes(4).hex().encode(), volume.organization, shape, signature)


def write_identity(env: Environment, directory: Path, identity: Identity) -> None:
    env.files.make_directory(directory)
    replace_file(env.files, directory / paths.VOLUME, identity.pack())


def read_identity(env: Environment, directory: Path) -> Identity:
    """Raises FileNotFoundError, FormatTooNew or DamagedBlock."""
    path = directory / paths.VOLUME
    raw = read_file(env.files, path)
    check_version(raw, _MAGIC, path)
    try:
        head, organization, shape, signature, _ = (line.split(" ", 1) for line in raw.decode().splitlines())
        identity = Identity(head[1].encode(), organization[1], int(shape[1]), signature[1])
    except (ValueError, IndexError):
        identity = None
    if identity is None or identity.pack() != raw:
        raise DamagedBlock(f"cannot read '{path}': its checksum does not match its text; run 'holdfast check --repair'")
    return identity


class VolumeNames:
    """The name of each volume of a store. Thread-safe.

    A volume that a connector lists twice, at two addresses of one machine, would be counted twice: a block would pass
    for its own replica, and merging the two would remove the only copy. So a volume has one name, the first that it was
    opened under; under any other it is down.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._uids: dict[str, str] = {}  # by name

    def claim(self, name: str, uid: str) -> None:
        """Assigns the name to the volume. Raises VolumeDown if the volume has another one."""
        with self._lock:
            for other, known in self._uids.items():
                if known == uid and other != name:
                    raise VolumeDown(
                        f"it is the same volume as {other!r}, uid {uid}; take one of them out of the connector"
                    )
            self._uids[name] = uid

    def release(self, name: str) -> None:
        """Frees the name."""
        with self._lock:
            self._uids.pop(name, None)
