"""A snapshot: for each batch, the first serial number beyond it.

Records are only appended, so these numbers fix a set of captures, whatever comes later. What is removed
afterwards is not delivered: removal wins (N2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.batches.batch import BatchState
from holdfast.errors import DamagedCatalog
from holdfast.model import RecordId

if TYPE_CHECKING:
    from holdfast.catalog import Catalog


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Batches in the order of their names."""

    ends: dict[str, int]

    def __contains__(self, record: RecordId) -> bool:
        return record.serial < self.ends.get(record.batch, 0)

    def __bool__(self) -> bool:
        return bool(self.ends)

    def within(self, ends: Mapping[str, int] | None) -> Snapshot:
        """The intersection with other ends; batches not named there are left out."""
        if ends is None:
            return self
        lower = {name: min(end, ends.get(name, 0)) for name, end in self.ends.items()}
        return Snapshot({name: end for name, end in lower.items() if end > 1})

    def from_batch(self, batch: str) -> Snapshot:
        """Without earlier batches."""
        return Snapshot({name: end for name, end in self.ends.items() if name >= batch})


def take_snapshot(catalog: Catalog, batch: str | None = None) -> Snapshot:
    """The captures the catalog lists now, of one batch or of all."""
    catalog.refresh()
    ends = {name: BatchState.unpack(state).next_serial for name, state in catalog.rows.batch_states().items()}
    return Snapshot({name: end for name, end in sorted(ends.items()) if end > 1 and batch in (None, name)})


def require_listed(snapshot: Snapshot, catalog: Catalog) -> None:
    """Raises DamagedCatalog if the catalog lacks records of the snapshot, as it may after a power cut."""
    catalog.refresh()
    states = catalog.rows.batch_states()
    for batch, end in snapshot.ends.items():
        listed = BatchState.unpack(states.get(batch)).next_serial
        if listed < end:
            raise DamagedCatalog(
                f"the catalog lists batch {batch!r} up to {listed - 1}, the token's stream up to {end - 1}; "
                "run 'holdfast reindex'"
            )
