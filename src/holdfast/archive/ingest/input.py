"""Files to be imported: plain ones, the members of a WACZ, and streams."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from holdfast.errors import Denied, MalformedInput, NotFound, UsageError
from holdfast.formats.record import Report
from holdfast.formats.wacz.reader import Wacz

_ZIP_MAGIC = b"PK\x03\x04"


@dataclass(frozen=True, slots=True)
class ImportInput:
    """A file to be imported. It can be handed to another process unless it is a stream."""

    name: str
    path: Path | None = None
    member: str = ""  # of a WACZ at `path`
    is_first: bool = False  # of the members: with it the WACZ itself is verified
    size: int | None = None
    stream: BinaryIO | None = None

    @contextmanager
    def opened(self, report: Report) -> Iterator[BinaryIO]:
        """Its bytes. What is wrong with what they came in goes to `report`."""
        if self.path is None:
            assert self.stream is not None
            yield self.stream
        elif not self.member:
            with self.path.open("rb", buffering=0) as file:
                yield file
        else:
            with Wacz(self.path) as wacz, wacz.open(self.member) as stream:
                if self.is_first:
                    wacz.verify(report)
                yield stream


def inputs_of(path: Path) -> list[ImportInput]:
    """The file itself, or the WARC files in a WACZ.

    Raises MalformedInput if it looks like one and is none, NotFound, Denied, or UsageError for a directory.
    """
    try:
        with path.open("rb") as file:
            is_zip = file.read(len(_ZIP_MAGIC)) == _ZIP_MAGIC
    except FileNotFoundError:
        raise NotFound(f"cannot import '{path}': no such file") from None
    except IsADirectoryError:
        raise UsageError(f"cannot import '{path}': it is a directory; give the files in it") from None
    except PermissionError:
        raise Denied(f"cannot import '{path}': no permission to read it") from None
    if not is_zip:
        return [ImportInput(path.name, path, size=path.stat().st_size)]
    with Wacz(path) as wacz:
        if not wacz.warcs:
            raise MalformedInput(f"'{path.name}' {_without_warcs(wacz)}")
        return [
            ImportInput(f"{path.name}:{Path(name).name}", path, name, is_first=index == 0, size=wacz.size(name))
            for index, name in enumerate(wacz.warcs)
        ]


def _without_warcs(wacz: Wacz) -> str:
    """Why a WACZ has nothing to import."""
    elsewhere = [name for name in wacz.names() if name.lower().endswith((".warc", ".warc.gz", ".wacz"))]
    if elsewhere:
        return f"has no WARC in its folder 'archive/': unpack it and import '{elsewhere[0]}' and the like by themselves"
    return "is a WACZ or zip file without WARCs: there is nothing to import in it"
