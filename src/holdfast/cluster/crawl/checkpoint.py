"""Checkpoints: the messages of a partition's log since the last one, as a record that the holders copy like any other.

    holdfast-checkpoint 1    crawl    partition    incarnation    last    count    previous    writer
    the messages, each with its first line

`last` is the sequence number of the last message, `count` how many there were up to it since the log began, `previous`
the checkpoint before, `-` for the first. The catalog does not list the record. See docs/formats/crawl-log.md.

A log is cut off in four steps, by the owner of its partition:

    record       the checkpoint is durable here
    copies       every holder has it
    line         the log tells of it, in its next message, if nobody else has appended one since
    purge        the messages are deleted; only if the line was there while this node had its right

Of each 16 checkpoints one is made, without what is repeated in them, and with those before them that are not much
larger; it takes their place by the same steps, and they are removed from all nodes.

Killed before the line, the log is as it was, and a record is left that nobody needs. Killed after it, the next owner
reads the line, since it was there before that owner could claim, and deletes the messages itself. Who lacks messages
that are gone finds the line in what is left, and reads the checkpoints from the last one back.

If the service is lost, its log is; what checkpoints have of it is the beginning of the next service's log.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from secrets import token_hex

from holdfast.archive import Archive
from holdfast.archive.removal import RemovalOptions
from holdfast.batches.entry import CHECKPOINT, JournalEntry
from holdfast.cluster.copies.partitions import checkpoint_url, crawl_of_checkpoint
from holdfast.cluster.crawl.log import MAGIC as MESSAGE
from holdfast.cluster.crawl.log import LogCut, LogMessage, message_of, message_text
from holdfast.errors import FormatTooNew, MalformedInput
from holdfast.model import RecordId
from holdfast.records.draft import RecordDraft
from holdfast.records.selection import ChosenRecords

MAGIC = "holdfast-checkpoint"
FORMAT = 1
MERGED = 16  # checkpoints, at least
_MERGED_CHARACTERS_MAX = 32 << 20
_LARGER = 2  # times all that come after it: what is larger than that is not merged again


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A part of a log."""

    crawl: str
    partition: int
    incarnation: int
    last: int  # sequence number of its last message
    count: int  # of messages up to that one, since the log began
    previous: str  # id of the checkpoint before; `-`: this is the first
    messages: list[LogMessage]


def pack_checkpoint(checkpoint: Checkpoint, writer: str) -> tuple[bytes, bytes]:
    """Head and messages. `writer` makes the record another one than that of any other process."""
    part = checkpoint
    numbers = (part.partition, part.incarnation, part.last, part.count)
    head = "\t".join((f"{MAGIC} {FORMAT}", part.crawl, *map(str, numbers), part.previous, writer)) + "\n"
    return head.encode(), "\n".join(map(message_text, part.messages)).encode("utf-8", "surrogatepass")


def unpack_checkpoint(data: bytes) -> Checkpoint:
    """Raises MalformedInput, FormatTooNew."""
    try:
        head, *lines = data.decode("utf-8", "surrogatepass").split("\n")
        magic, crawl, partition, incarnation, last, count, previous, _ = head.split("\t")
        name, _, version = magic.partition(" ")
        if name != MAGIC:
            raise ValueError(magic)
        if int(version) > FORMAT:
            raise FormatTooNew(f"a checkpoint has format {version}, this release reads {FORMAT}: update the node")
        texts: list[list[str]] = []
        for line in lines if lines != [""] else []:
            if line.startswith(f"{MESSAGE} "):
                texts.append([])
            texts[-1].append(line)
        messages = [message_of("\n".join(each)) for each in texts]
        return Checkpoint(crawl, int(partition), int(incarnation), int(last), int(count), previous, messages)
    except (ValueError, IndexError) as error:
        raise MalformedInput(f"a checkpoint of a crawl cannot be read: {error}") from error


def merged_messages(messages: Sequence[LogMessage]) -> list[LogMessage]:
    """Messages that say the same as those, in fewer lines: each URL once, with its least depth and its last end."""
    found: dict[str, tuple[int, str]] = {}
    facts: dict[str, str] = {}  # about roots and hosts
    ends: dict[str, tuple[int, str]] = {}
    for message in messages:
        for line in message.lines:
            kind, name, *fields = line.split("\t")
            if kind == "f":
                depth = int(fields[1])
                if depth < found.get(name, (depth + 1, ""))[0]:
                    found[name] = depth, line
            elif kind in "de":
                ends[name] = message.visit, line
            elif kind in "hr":
                facts[kind + name] = line
    by_visit = {0: [*facts.values(), *(line for _, line in found.values())]}
    for visit, line in ends.values():
        by_visit.setdefault(visit, []).append(line)
    return [LogMessage("-", False, visit, lines) for visit, lines in sorted(by_visit.items()) if lines]


@dataclass(frozen=True, slots=True)
class CheckpointStore:
    """Checkpoints as records of this node's archive. Any thread may call."""

    archive: Archive
    is_ours: Callable[[int], bool]  # whether this node has the right to a partition now
    is_held: Callable[[RecordId, int], bool]  # whether all holders of a partition have a record of this node
    writer: str = field(default_factory=lambda: token_hex(8))

    def write(self, checkpoint: Checkpoint) -> RecordId:
        """Durable on return."""
        literals, payload = pack_checkpoint(checkpoint, self.writer)
        entry = JournalEntry(
            CHECKPOINT,
            checkpoint_url(checkpoint.partition, checkpoint.crawl),
            time.strftime("%Y%m%d%H%M%S", time.gmtime()),
            literals,
            collection=self.archive.settings.records.collection,
            mime="text/plain",
            size=len(payload),
            layout=f"{len(literals)}+{len(payload)}",
        )
        added = self.archive.add_drafts([RecordDraft(entry, payload)])[0]
        assert added.record is not None, "no checkpoint is removed"
        return added.record

    def load(self, record: str) -> Checkpoint:
        """Raises CaptureNotFound if this node has not got it yet, MalformedInput."""
        return unpack_checkpoint(b"".join(self.archive.records.read(record).raw()))

    def merged(self, cut: LogCut) -> tuple[RecordId, list[RecordId]]:
        """Writes one checkpoint for the last ones up to a cut; returns it, and those that it replaces. Durable."""
        parts: list[Checkpoint] = []
        replaced: list[RecordId] = []
        record, size = cut.record, 0
        while record != "-":
            part = self.load(record)
            weight = sum(len(line) for message in part.messages for line in message.lines)
            if len(parts) >= MERGED and (weight > _LARGER * size or size + weight > _MERGED_CHARACTERS_MAX):
                break
            parts.append(part)
            replaced.append(self.archive.records.read(record).id)
            record, size = part.previous, size + weight
        messages = merged_messages([message for part in parts[::-1] for message in part.messages])
        return self.write(replace(parts[0], previous=record, messages=messages)), replaced

    def remove(self, records: Sequence[RecordId]) -> None:
        """From all nodes. Raises ClusterDown."""
        reason = "a later checkpoint of the crawl has what they had"
        self.archive.remove(ChosenRecords(records=tuple(records)), RemovalOptions(reason, compact=False))

    def before(self, crawl: str, incarnation: int) -> dict[int, list[RecordId]]:
        """The checkpoints of the logs of earlier services, by partition, in the order of the logs.

        Reads all batches: seldom needed, and derived from records alone.
        """
        found: dict[int, list[tuple[int, int, RecordId]]] = {}
        for name in self.archive.journal.names():
            for entry in self.archive.records.entries_from(RecordId(name, 1)):
                if entry.type != CHECKPOINT or crawl_of_checkpoint(entry.url) != crawl:
                    continue
                head = unpack_checkpoint(entry.literals)
                if head.incarnation < incarnation:
                    place = (head.incarnation, head.last, RecordId(name, entry.serial))
                    found.setdefault(head.partition, []).append(place)
        return {partition: [record for *_, record in sorted(each)] for partition, each in found.items()}

    def chain(self, cut: LogCut, after: int) -> Sequence[LogCut]:
        """The checkpoints with messages after a sequence number, up to a cut, the first of them first."""
        found: list[LogCut] = []
        record = cut.record
        while record != "-":
            checkpoint = self.load(record)
            if checkpoint.last <= after:
                break
            found.append(LogCut(checkpoint.last, checkpoint.count, record))
            record = checkpoint.previous
        return found[::-1]
