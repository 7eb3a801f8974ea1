"""Which files the workers of a shared stream write to, and how much of each is acknowledged.

    {"/data/0.jsonl": {"worker": "5b1c90ae77d2f013", "bytes": 1048576}, ...}

The list is part of the stream's file, and changes in one step with the units that were acknowledged. What lies behind
`bytes` in a file was not: its captures are given to another worker, so it is cut off before they are.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast.env.files import translated_errors
from holdfast.errors import UsageError

Outputs = dict[str, dict[str, Any]]
NOBODY = ""


def claim(outputs: Outputs, path: str, worker: str, is_alive: Callable[[str], bool]) -> int:
    """Lists a file as a worker's, cut to the length that is returned.

    Raises UsageError if it is another worker's that lives, is no output of this stream, or is shorter than it was.
    """
    size = os.stat(path).st_size if os.path.exists(path) else 0
    known = outputs.get(path)
    if known is None:
        if size:
            raise UsageError(
                f"'{path}' exists, and is no output of this shared stream: name another file, or delete it"
            )
        outputs[path] = {"worker": worker, "bytes": 0}
        return 0
    length = int(known["bytes"])
    if known["worker"] not in (NOBODY, worker) and is_alive(known["worker"]):
        raise UsageError(f"another worker of this shared stream writes to '{path}': name a file for each")
    if size < length:
        raise UsageError(
            f"'{path}' has {size} bytes, {length} of it were delivered: give it back, or name another file for the rest"
        )
    cut(path, length)
    known["worker"] = worker
    return length


def cut_of(outputs: Outputs, worker: str) -> None:
    """Cuts the files of a worker that died to what is acknowledged of them; durable when it returns."""
    for path, known in outputs.items():
        if known["worker"] == worker:
            cut(path, int(known["bytes"]))
            known["worker"] = NOBODY


def cut(path: str, length: int) -> None:
    """Nothing is done to a file that is gone, or not longer."""
    with suppress(FileNotFoundError), translated_errors(Path(path)), open(path, "r+b") as file:
        if file.seek(0, os.SEEK_END) > length:
            file.truncate(length)
            os.fsync(file.fileno())
