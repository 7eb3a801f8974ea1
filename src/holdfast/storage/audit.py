"""The archive's audit log: one JSON object per line, for people to read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from holdfast.env import Environment, paths


def audit(root: Path, env: Environment, events: Sequence[Mapping[str, object]]) -> None:
    """Appends a line for each event, with the time. Durable on return. The caller is the only writer."""
    now = datetime.fromtimestamp(env.clock(), UTC).isoformat(timespec="seconds")
    text = "".join(json.dumps({"time": now, **event}) + "\n" for event in events)
    append_audit(root, env, text.encode())


def append_audit(root: Path, env: Environment, text: bytes) -> None:
    """Appends lines to the audit log unless it already ends with them. Durable on return."""
    files = env.files
    path = root / paths.AUDIT
    fresh = not files.exists(path)
    file = files.open(path, writable=True, create=fresh)
    try:
        end = file.size()
        if file.read(max(end - len(text), 0), len(text)) != text:
            torn = end and file.read(end - 1, 1) != b"\n"  # by a crash: the rest stays on its own line
            file.append([b"\n", text] if torn else [text])
        file.sync()  # also if a killed process wrote it without a sync
    finally:
        file.close()
    if fresh:
        files.sync_directory(root)
