"""The active state: what streams and queries see under the batch scheme (B8).

    {"format": 1, "generation": 3, "time": "2026-11-17T06:00:00+00:00",
     "batches": {"202610": 120401, "202611": 4712}, "check": "5d3c9a1e"}

For each batch the first serial number that is not in the state; a batch that is not named is not in it at all. The file
`active` is replaced in one step, so that everybody sees the old state or the new one. `check` is a CRC-32 of the rest.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from holdfast.config import Settings
from holdfast.env import Environment, paths
from holdfast.env.files import read_file, replace_file
from holdfast.errors import Damaged, FormatTooNew
from holdfast.model import RecordId
from holdfast.storage import placement

FORMAT = 1


@dataclass(frozen=True, slots=True)
class ActiveState:
    """A state of the archive: for each batch the first serial number that is not in it."""

    generation: int  # how often there was a switch, the founding included
    time: str  # of the switch
    batches: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    def __contains__(self, record: RecordId) -> bool:
        return record.serial < self.batches.get(record.batch, 0)


def active_state(root: Path, settings: Settings, env: Environment) -> ActiveState | None:
    """What readers of the archive are to see; None: everything, as under the incremental scheme. Raises Damaged."""
    return read_active(root, env) if settings.store.update == placement.BATCH else None


def read_active(root: Path, env: Environment) -> ActiveState | None:
    """The state in the file; None if there is no file. Raises Damaged or FormatTooNew."""
    path = root / paths.ACTIVE
    try:
        facts = json.loads(read_file(env.files, path))
        if not isinstance(facts, dict):
            raise ValueError("not an active state")
        if isinstance(facts.get("format"), int) and facts["format"] > FORMAT:
            raise FormatTooNew(f"'{path}' has format {facts['format']}; this release reads {FORMAT}: use a later one")
        if facts.pop("check") != _check(facts):
            raise ValueError("wrong checksum")
        return ActiveState(facts["generation"], facts["time"], MappingProxyType(facts["batches"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError) as error:
        raise Damaged(
            f"cannot read '{path}': {error}; it says what streams and queries see: delete it, and the next process "
            "that writes creates it again, of everything there is"
        ) from None


def write_active(root: Path, state: ActiveState, env: Environment) -> None:
    """The switch: from here on this is what readers see. Durable on return."""
    facts: dict[str, Any] = {
        "format": FORMAT,
        "generation": state.generation,
        "time": state.time,
        "batches": dict(state.batches),
    }
    replace_file(env.files, root / paths.ACTIVE, json.dumps(facts | {"check": _check(facts)}).encode() + b"\n")


def _check(facts: dict[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(facts).encode()):08x}"
