"""Reader processes: read files to import.

    parent                                       reader
      ── frame: a task, pickled ──────────────────►    reads the file
      ◄── frame 'D': a group of drafts, marshalled ─   their bytes are in a slot of shared memory
      ── frame, empty: the slot is free again ────►
      ── frame 'N': the same, and a dictionary ───►    encodes payloads with it
      ── frame 'P': the same ─────────────────────►    stops encoding payloads
      ◄── frame 'E': any other event, pickled ─────    the last one of a file is EndOfFile

One Python process starts, imports what reading takes, and forks itself, before it has any thread: start-up is paid
once. A reader reads one file after the other, and lives until its socket is closed. It signs and encodes payloads. A
draft is copied into the slot by the reader and out of it by the parent; it passes through no pipe.
"""

from __future__ import annotations

import marshal
import mmap
import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress

from holdfast.archive.ingest.file_reader import DraftGroup, EndOfFile, Event, FileReader, ImportTask, ReaderStopped
from holdfast.batches.entry import JournalEntry
from holdfast.env.child_process import packed_frame, receive_frame, start_child
from holdfast.env.files import Buffer
from holdfast.errors import HoldfastError
from holdfast.records.draft import Drafting, RecordDraft
from holdfast.storage.signature import find_signature
from holdfast.storage.store.encoder import ContentEncoder, ContentEncoding, EncodedContent, SeenSignatures
from holdfast.storage.volume import Encoded

_SLOTS = 2  # one is filled while the other is read
_SLOT_BYTES = 16 << 20  # a larger message goes through the socket
_FREE = b""
_NEW_DICTIONARY, _PLAIN = b"N", b"P"  # no pickle begins so
_DATA = JournalEntry._fields.index("data")


class ReaderPool:
    """Some readers, started together."""

    def __init__(self, count: int) -> None:
        pairs = [socket.socketpair() for _ in range(count)]
        memories = [os.memfd_create("holdfast-import", os.MFD_CLOEXEC) for _ in range(count)]
        theirs = [(their.fileno(), memory) for (_, their), memory in zip(pairs, memories, strict=True)]
        try:
            for memory in memories:
                os.truncate(memory, _SLOTS * _SLOT_BYTES)
            self._process = start_child(
                __name__,
                arguments=[f"{sock}:{memory}" for sock, memory in theirs],
                pass_fds=[each for pair in theirs for each in pair],
                stdin=subprocess.DEVNULL,
                process_group=0,
            )
            self.readers = [
                ReaderProcess(ours, mmap.mmap(memory, _SLOTS * _SLOT_BYTES))
                for (ours, _), memory in zip(pairs, memories, strict=True)
            ]
        finally:
            for _, their in pairs:
                their.close()
            for memory in memories:
                os.close(memory)

    def kill(self) -> None:
        """Ends the processes at once. Any thread may still read what they have sent."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Waits until the processes are gone. One that is reading a file must be killed first."""
        for reader in self.readers:
            reader.close()
        self._process.wait()


class ReaderProcess:
    """The parent's side of one reader. One thread."""

    def __init__(self, sock: socket.socket, memory: mmap.mmap) -> None:
        self._socket = sock
        self._memory = memory
        self._encoding: Callable[[], ContentEncoding | None] = lambda: None
        self._used: ContentEncoding | None = None  # the last one that the reader was sent
        self.failed = False  # it died: it reads no more files

    def read(self, task: ImportTask, encoding: Callable[[], ContentEncoding | None]) -> Iterator[Event]:
        """All events of a file, the last of them an EndOfFile. `encoding` returns how contents are encoded now."""
        self._encoding, self._used = encoding, task.encoding
        try:
            self._socket.sendall(packed_frame(pickle.dumps(task, protocol=pickle.HIGHEST_PROTOCOL)))
            while True:
                event = self._unpack(receive_frame(self._socket))
                yield event
                if isinstance(event, EndOfFile):
                    return
        except (EOFError, OSError):
            self.failed = True
            yield EndOfFile(HoldfastError(f"the process that read '{task.source.name}' died"))

    def _unpack(self, packed: bytes) -> Event:
        body = memoryview(packed)[1:]
        if packed.startswith(b"E"):
            event: Event = pickle.loads(body)
            return event
        slot, rows = marshal.loads(body)
        memory, at = self._memory, slot * _SLOT_BYTES
        made = tuple.__new__  # half the time of `_make`
        drafts = []
        for entry, data_bytes, payload_bytes, encoded, *rest in rows:
            entry[_DATA] = memory[at : at + data_bytes]
            at += data_bytes
            data = memory[at : at + payload_bytes]
            at += payload_bytes
            payload: bytes | EncodedContent = data
            if encoded is not None:
                codec, dictionary, size, checksum = encoded
                payload = EncodedContent(Encoded(codec, dictionary, size, data, checksum))
            drafts.append(RecordDraft(made(JournalEntry, entry), payload, *rest))
        self._socket.sendall(packed_frame(self._freed()))
        return DraftGroup(drafts)

    def _freed(self) -> bytes:
        encoding = self._encoding()
        if encoding == self._used:
            return _FREE
        self._used = encoding
        return _PLAIN if encoding is None else _NEW_DICTIONARY + encoding.dictionary

    def close(self) -> None:
        """Waits until the process is gone."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
            while self._socket.recv(1 << 20):
                pass
        self._socket.close()
        self._memory.close()


def main() -> None:
    """The first of the readers, which forks the others."""
    fds = [tuple(map(int, argument.split(":"))) for argument in sys.argv[1:]]
    own = fds[0]
    seen = SeenSignatures()  # by any of the readers
    for other in fds[1:]:
        if not os.fork():
            own = other
            break
    for each in fds:
        if each is not own:
            os.close(each[0])
            os.close(each[1])
    reader = _Reader(socket.socket(fileno=own[0]), mmap.mmap(own[1], _SLOTS * _SLOT_BYTES), seen)
    with suppress(EOFError, BrokenPipeError, ConnectionResetError, ReaderStopped):
        reader.run()
    reader.close()
    with suppress(ChildProcessError):
        while True:
            os.wait()  # so that their CPU time counts as ours
    os._exit(0)  # there is nothing to clean up, which would take long


class _Reader:
    """The process's own side."""

    def __init__(self, sock: socket.socket, memory: mmap.mmap, seen: SeenSignatures) -> None:
        self._socket = sock
        self._memory = memory
        self._seen = seen
        self._tasks: list[ImportTask] = []
        self._drafting: Drafting | None = None  # of the current file
        self._encoder: ContentEncoder | None = None
        self._free = _SLOTS
        self._slot = 0

    def run(self) -> None:
        """Reads files until the parent closes the socket, which raises EOFError or an error of the socket."""
        while True:
            while not self._tasks:
                self._receive()
            task = self._tasks.pop()
            task.drafting.sign = find_signature(task.signature).digest
            self._drafting = task.drafting
            self._encode_as(task.encoding)
            FileReader(task, self._emit).run()

    def close(self) -> None:
        self._socket.close()

    def _receive(self) -> None:
        packed = receive_frame(self._socket)
        if packed == _FREE:
            self._free += 1
        elif packed.startswith(_NEW_DICTIONARY):
            self._free += 1
            self._encode_as(ContentEncoding(packed[len(_NEW_DICTIONARY) :]))
        elif packed == _PLAIN:
            self._free += 1
            self._encode_as(None)
        else:
            self._tasks.append(pickle.loads(packed))

    def _encode_as(self, encoding: ContentEncoding | None) -> None:
        if encoding is not None and self._encoder is None:
            self._encoder = ContentEncoder(encoding, self._seen)
        elif encoding is not None and self._encoder is not None:
            self._encoder.use(encoding)
        if self._drafting is not None:
            self._drafting.encoder = self._encoder if encoding is not None else None

    def _emit(self, event: Event) -> None:
        try:
            packed = self._pack(event) if isinstance(event, DraftGroup) else b""
            if not packed:
                packed = b"E" + pickle.dumps(event, protocol=pickle.HIGHEST_PROTOCOL)
            self._socket.sendall(packed_frame(packed))
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise ReaderStopped from None

    def _pack(self, group: DraftGroup) -> bytes:
        """Copies the group into the next slot; empty if it cannot go there."""
        if group.drafts[0].spooled:
            return b""
        pieces: list[Buffer] = []
        rows = []
        for each in group.drafts:
            entry = list(each.entry)
            payload: Buffer | EncodedContent = each.payload
            encoded = None
            if isinstance(payload, EncodedContent):
                codec, dictionary, size, payload, checksum = payload.encoded
                encoded = codec, dictionary, size, checksum
            pieces += (each.entry.data, payload)
            entry[_DATA] = b""
            sizes = len(each.entry.data), len(payload)
            rows.append((entry, *sizes, encoded, each.signature, each.mark, each.urlkey))
        if sum(map(len, pieces)) > _SLOT_BYTES:
            return b""
        while not self._free:
            self._receive()
        self._free -= 1
        slot, self._slot = self._slot, (self._slot + 1) % _SLOTS
        self._memory.seek(slot * _SLOT_BYTES)
        for piece in pieces:
            self._memory.write(piece)
        return b"D" + marshal.dumps((slot, rows))
