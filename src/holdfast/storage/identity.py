"""The VOLUME file: who a volume is, in five lines of text and a checksum.

    HOLDFAST-VOLUME/1 9f3a61c2
    organization log
    depth 3
    signature sha256
    crc32 1a2b3c4d

The uid is random; every segment and every block header repeats it, so that files of different volumes cannot be mixed
up unnoticed. The crc32 is of the lines before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from holdfast.env import Environment
from holdfast.env.files import read_file, replace_file
from holdfast.errors import DamagedBlock
from holdfast.storage import block, layout
from holdfast.storage.segment import check_version

_MAGIC = b"HOLDFAST-VOLUME/"


@dataclass(frozen=True, slots=True)
class Identity:
    """What a VOLUME file says."""

    uid: bytes
    organization: str
    depth: int
    signature: str

    def pack(self) -> bytes:
        text = (
            f"HOLDFAST-VOLUME/1 {self.uid.decode()}\n"
            f"organization {self.organization}\ndepth {self.depth}\nsignature {self.signature}\n"
        ).encode()
        return text + b"crc32 %08x\n" % block.checksum(text)


def new_identity(env: Environment, organization: str, depth: int, signature: str) -> Identity:
    return Identity(env.random_bytes(4).hex().encode(), organization, depth, signature)


def write_identity(env: Environment, directory: Path, identity: Identity) -> None:
    env.files.make_directory(directory)
    replace_file(env.files, directory / layout.VOLUME, identity.pack())


def read_identity(env: Environment, directory: Path) -> Identity:
    """Raises FileNotFoundError, FormatTooNew or DamagedBlock."""
    path = directory / layout.VOLUME
    raw = read_file(env.files, path)
    check_version(raw, _MAGIC, path)
    try:
        head, organization, depth, signature, _ = (line.split(" ", 1) for line in raw.decode().splitlines())
        identity = Identity(head[1].encode(), organization[1], int(depth[1]), signature[1])
    except (ValueError, IndexError):
        identity = None
    if identity is None or identity.pack() != raw:
        raise DamagedBlock(f"cannot read '{path}': its checksum does not match its text; run 'holdfast check --repair'")
    return identity
