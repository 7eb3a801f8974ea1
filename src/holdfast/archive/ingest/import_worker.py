"""A reader in a process of its own, started by an import.

What it is to read comes by standard input, pickled. Events go to standard output, each in a frame of
`env.child_process` that begins with a letter: `D` groups of drafts, marshalled, which is an order of magnitude faster,
`E` any other event, pickled. It lives as long as its parent wants to read: a closed pipe ends it.
"""

from __future__ import annotations

import marshal
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from queue import Queue
from typing import IO

from holdfast.archive.ingest.file_reader import DraftGroup, EndOfFile, Event, FileReader, ReadOptions
from holdfast.archive.ingest.input import ImportInput
from holdfast.batches.entry import JournalEntry
from holdfast.env.child_process import frame_head, read_frame, start_child
from holdfast.errors import HoldfastError
from holdfast.records.draft import Drafting, RecordDraft
from holdfast.storage.signature import find_signature

_PIPE_BYTES = 1 << 20
_WAITING_MAX = 2


@dataclass(frozen=True, slots=True)
class ImportTask:
    """A file to be read, and how."""

    source: ImportInput
    drafting: Drafting
    signature: str
    options: ReadOptions


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent process
    task: ImportTask = pickle.load(sys.stdin.buffer)
    sink = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # whatever prints does not disturb the events
    ready: Queue[Event] = Queue(_WAITING_MAX)
    writer = threading.Thread(target=_write, args=(ready, sink), daemon=True)
    writer.start()
    drafting = replace(task.drafting, sign=find_signature(task.signature).digest)
    FileReader(task.source, drafting, task.options, ready.put).run()
    writer.join()


def _write(ready: Queue[Event], sink: IO[bytes]) -> None:
    """Packs and writes while the next group is being read."""
    try:
        while True:
            event = ready.get()
            packed = _pack(event)
            _write_all(sink, frame_head(len(packed)))
            _write_all(sink, packed)
            if isinstance(event, EndOfFile):
                return
    except BrokenPipeError:
        os._exit(0)


def _pack(event: Event) -> bytes:
    if not isinstance(event, DraftGroup):
        return b"E" + pickle.dumps(event, protocol=pickle.HIGHEST_PROTOCOL)
    plain = [(tuple(each.entry), each.payload, each.signature, each.mark, each.urlkey) for each in event.drafts]
    return b"D" + marshal.dumps(plain)


def _unpack(packed: bytes) -> Event:
    body = memoryview(packed)[1:]
    if packed.startswith(b"E"):
        event: Event = pickle.loads(body)
        return event
    return DraftGroup([RecordDraft(JournalEntry._make(entry), *rest) for entry, *rest in marshal.loads(body)])


def _write_all(sink: IO[bytes], data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[sink.write(view) :]


class Worker:
    """The parent's side: start it, and iterate over its events."""

    def __init__(self, task: ImportTask) -> None:
        self._name = task.source.name
        self._process = start_child(
            "holdfast.archive.ingest.import_worker", stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._events = self._process.stdout
        _widen(self._events)
        with self._process.stdin as stdin:
            pickle.dump(task, stdin, protocol=pickle.HIGHEST_PROTOCOL)

    def events(self) -> Iterator[Event]:
        """All events, the last of them an EndOfFile."""
        while True:
            try:
                packed = read_frame(self._events)
            except EOFError:
                yield EndOfFile(HoldfastError(f"the reader of '{self._name}' died (exit {self._process.wait()})"))
                return
            event = _unpack(packed)
            yield event
            if isinstance(event, EndOfFile):
                return

    def close(self) -> None:
        self._events.close()
        self._process.kill()
        self._process.wait()


def _widen(pipe: IO[bytes]) -> None:
    """Larger pipes need fewer context switches. Not an error where it is not allowed."""
    from contextlib import suppress
    from fcntl import F_SETPIPE_SZ, fcntl

    with suppress(OSError):
        fcntl(pipe.fileno(), F_SETPIPE_SZ, _PIPE_BYTES)
