"""The partition log: what was found in a partition and what became of it. See docs/formats/crawl-log.md.

A message is a zstd frame of lines; the fields of a line are separated by tabs. The first line says who sent it:

    holdfast-log 1    sender    applied or sent    visit

`applied`: the sender's own frontier has it already. The other lines:

    f  url  hop  depth  hops  kind  via  [key]     a URL was found; the key only if it does not follow from the URL
    d  key  time                                   it was fetched at that time, and the capture is in the archive
    e  key  state  outcome  status  time           it was finished without a capture: failed or refused
    h  host  until  delay                          a host asked for a pause, or for a longer delay
    r  url                                         a root: the scope is wider
    c  record  sequence  count                     the messages up to that one are in a checkpoint, and may be deleted
"""

from __future__ import annotations

from base64 import b85decode, b85encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import zstandard

from holdfast.crawl.frontier import KEY_BYTES, FoundUrl, UrlRow
from holdfast.errors import FormatTooNew, MalformedInput

MAGIC = "holdfast-log"
FORMAT = 1
_LEVEL = 3
_BYTES_MAX = 64 << 20
_BREAKS = str.maketrans("\t\n\r", "   ")


class LogMessage(NamedTuple):
    """What one node tells about one partition."""

    sender: str  # id of its frontier
    is_applied: bool
    visit: int
    lines: list[str]


def message_text(message: LogMessage) -> str:
    state = "applied" if message.is_applied else "sent"
    head = f"{MAGIC} {FORMAT}\t{message.sender}\t{state}\t{message.visit}"
    return "\n".join((head, *message.lines))


def message_of(text: str) -> LogMessage:
    """Raises ValueError, FormatTooNew."""
    head, *lines = text.split("\n")
    magic, sender, state, visit = head.split("\t")
    name, _, version = magic.partition(" ")
    if name != MAGIC:
        raise ValueError(magic)
    if int(version) > FORMAT:
        raise FormatTooNew(f"the log of a crawl has format {version}, this release reads {FORMAT}: update the node")
    return LogMessage(sender, state == "applied", int(visit), lines)


def pack_message(message: LogMessage) -> bytes:
    text = message_text(message).encode("utf-8", "surrogatepass")
    return zstandard.ZstdCompressor(level=_LEVEL).compress(text)


def unpack_message(data: bytes) -> LogMessage:
    """Raises MalformedInput, FormatTooNew."""
    try:
        text = zstandard.ZstdDecompressor().decompress(data, max_output_size=_BYTES_MAX)
        return message_of(text.decode("utf-8", "surrogatepass"))
    except (zstandard.ZstdError, ValueError) as error:
        raise MalformedInput(f"a message of a crawl's log cannot be read: {error}") from error


# -- lines -------------------------------------------------------------------------------------------------------------


def _line(*fields: object) -> str:
    return "\t".join(str(each).translate(_BREAKS) for each in fields)


def found_line(link: FoundUrl, via: str, derived: bytes) -> str:
    """`derived` is the key that follows from the URL."""
    more = () if link.key == derived else (packed_key(link.key),)
    return _line("f", link.url, link.hop, link.depth, link.hops, link.kind, via, *more)


def read_found(fields: Sequence[str], derive: bytes) -> tuple[FoundUrl, str]:
    """The link and the page that it was found on, of the fields after the first."""
    url, hop, depth, hops, kind, via, *more = fields
    key = unpacked_key(more[0]) if more else derive
    return FoundUrl(key, url, hop, int(depth), int(hops), kind), via


def done_line(key: bytes, row: UrlRow) -> str:
    return _line("d", packed_key(key), row.visited)


def finished_line(key: bytes, row: UrlRow) -> str:
    return _line("e", packed_key(key), row.state, row.outcome, row.status, row.visited)


def host_line(host: str, until: float, delay_s: float) -> str:
    return _line("h", host, f"{until:.0f}", f"{delay_s:g}")


def root_line(url: str) -> str:
    return _line("r", url)


@dataclass(frozen=True, slots=True)
class LogCut:
    """Where a log is cut off: what lies before is in checkpoints."""

    sequence: int = 0  # of the last message that a checkpoint has; 0: there is none
    count: int = 0  # of messages up to that one, since the log began
    record: str = ""  # id of the last checkpoint


NO_CUT = LogCut()


def cut_line(cut: LogCut) -> str:
    return _line("c", cut.record, cut.sequence, cut.count)


def last_cut(message: LogMessage) -> LogCut | None:
    """The last cut that a message tells of. Raises ValueError."""
    for line in reversed(message.lines):
        if line.startswith("c\t"):
            _, record, sequence, count = line.split("\t")
            return LogCut(int(sequence), int(count), record)
    return None


def packed_key(key: bytes) -> str:
    return b85encode(key).decode()


def unpacked_key(text: str) -> bytes:
    key = b85decode(text)
    if len(key) != KEY_BYTES:
        raise ValueError(f"a key has {len(key)} bytes")
    return key
