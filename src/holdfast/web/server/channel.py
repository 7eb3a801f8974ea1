"""What parent and worker say to each other, over a pair of sockets whose end tells of the other's death.

parent → worker   the start, pickled, after its length; then single letters: S stop, H open the log anew
worker → parent   R ready; or E, length, and the error that kept it from working
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from holdfast.config import ServeSettings
from holdfast.web.context import Origins

STOP, REOPEN, READY, FAILED = b"S", b"H", b"R", b"E"


@dataclass(frozen=True, slots=True)
class WorkerStart:
    """All that a worker needs to know. Numbers are descriptors that it was given."""

    root: Path  # of the archive
    settings: ServeSettings
    origins: Origins
    write_tokens: tuple[str, ...]  # besides those of the file
    row: int  # of the counters
    counters: int
    attempts: int
    controls: tuple[int, ...]
    replay: tuple[int, ...]
    log_level: int
