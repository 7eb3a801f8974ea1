"""The physical limit beside the figure: what one core could do if only the unavoidable steps cost anything.

The costs are those of `DESIGN.md` section 8, for a 19 KB page; steps that touch every byte scale with the size.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.store.workload import Workload

_PAGE_BYTES = 19_000


@dataclass(frozen=True, slots=True)
class Step:
    """One unavoidable step of an operation."""

    name: str
    us: float
    per_byte: bool = False

    def cost_us(self, document_bytes: float) -> float:
        return self.us * document_bytes / _PAGE_BYTES if self.per_byte else self.us


_SIGN = Step("SHA-256", 13, per_byte=True)
_COMPRESS = Step("zstd-3", 65, per_byte=True)
_DECOMPRESS = Step("zstd", 20, per_byte=True)
_MISS = Step("keydir miss", 5)
_HIT = Step("keydir hit", 10)
_APPEND = Step("append", 5)
_SYNC = Step("shared fdatasync", 2)
_READ = Step("pread", 5)

STEPS: dict[Workload, tuple[Step, ...]] = {
    Workload.STORE_NEW: (_SIGN, _COMPRESS, _MISS, _APPEND, _SYNC),
    Workload.STORE_DUPLICATE: (_SIGN, _HIT, _APPEND, _SYNC),
    Workload.FETCH_RANDOM: (_HIT, _READ, _DECOMPRESS),
    Workload.DELETE: (_HIT, _APPEND, _SYNC),
    Workload.SCAN: (_DECOMPRESS,),
}


def per_s(workload: Workload, document_bytes: float) -> float | None:
    """Operations per second and core that physics would allow; None where there is no sketch."""
    steps = STEPS.get(workload)
    return 1e6 / sum(step.cost_us(document_bytes) for step in steps) if steps else None


def words(workload: Workload, document_bytes: float) -> str:
    """The sketch as a sum, for a person."""
    return " + ".join(f"{step.name} {step.cost_us(document_bytes):.0f} µs" for step in STEPS.get(workload, ()))
