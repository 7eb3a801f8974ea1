"""A worker: the process that reads records and extracts.

What it is to do comes by standard input, what came of it goes to standard output, in frames (`task`). The serial of the
document that is being looked at stands in a page of memory that it shares with who started it, so that it is known at
which one it died. It lives as long as its parent wants to write or read: a closed pipe ends it.
"""

from __future__ import annotations

import mmap
import os
import resource
import signal
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import ModuleType

from holdfast.errors import HoldfastError
from holdfast.index.extract import ExtractionLimits
from holdfast.index.workers.record_reader import TaskReader
from holdfast.index.workers.task import IndexTask, WorkerOptions, pack, unpack
from holdfast.records.open import opened_records

SLOT_BYTES = 8
_WALL_FACTOR = 20  # a document may wait for its content, but not for ever


class _WithoutPandas(MetaPathFinder):
    """Arrow loads pandas where it is installed, to know its arrays; that takes as long as all else at the start."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(name=fullname)


def main() -> None:
    """Runs until standard input ends. The argument is the descriptor of the shared page."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one who started us
    sys.meta_path.insert(0, _WithoutPandas())
    slot = mmap.mmap(int(sys.argv[1]), SLOT_BYTES)
    source = sys.stdin.buffer
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints does not disturb the frames
    root, document_bytes, text_characters, seconds_max, memory_bytes_max = unpack(source)
    options = WorkerOptions(root, ExtractionLimits(document_bytes, text_characters), seconds_max, memory_bytes_max)
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes_max, memory_bytes_max))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def begin(serial: int) -> None:
        """The kernel ends us if this document takes too long, whatever library hangs."""
        slot[:] = serial.to_bytes(SLOT_BYTES, "little")
        seconds = options.seconds_max if serial else 0
        signal.setitimer(signal.ITIMER_PROF, seconds)
        signal.setitimer(signal.ITIMER_REAL, seconds * _WALL_FACTOR)

    try:
        with opened_records(Path(options.root)) as records:
            reader = TaskReader(records, options.limits, begin)
            while True:
                task, known = unpack(source)
                sink.write(pack((True, tuple(reader.read(IndexTask(*task), known)))))
                sink.flush()
    except (EOFError, BrokenPipeError):
        os._exit(0)
    except HoldfastError as error:
        begin(0)
        sink.write(pack((False, (type(error).__name__, str(error)))))
        sink.flush()
