"""The figures that the project promised itself, and whether a run reached them.

Where a promise leaves the form open (number of callers, single or bulk calls), the best form counts and the verdict
names it. A target that a run did not measure is neither met nor missed.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.harness.figure import Figure
from benchmarks.harness.report import Verdict
from benchmarks.store.run import StoreOutcome
from benchmarks.store.workload import Workload, callers_words

_MB = 1e6
_SCALE_OPEN_BLOCKS = 1_000_000
_SCALE_RSS_BLOCKS = 5_000_000


def store_verdicts(outcome: StoreOutcome) -> list[Verdict]:
    """Every target, in the order of the issue that set them."""
    return [
        _store_new(outcome),
        _store_new_bytes(outcome),
        _store_duplicate(outcome),
        _fetch_random(outcome),
        _scan(outcome),
        _open(outcome),
        _memory(outcome),
    ]


def _store_new(outcome: StoreOutcome) -> Verdict:
    ours = outcome.find("holdfast", Workload.STORE_NEW, 16)
    theirs = outcome.find("warcio", Workload.STORE_NEW, 1)
    target = "store-new, 16 callers, durable ÷ warcio's writer without sync"
    return _ratio(target, 3, [ours] if ours else [], theirs)


def _store_new_bytes(outcome: StoreOutcome) -> Verdict:
    ours = outcome.find("holdfast", Workload.STORE_NEW, 16)
    theirs = outcome.find("warcio", Workload.STORE_NEW, 1)
    target, needed = "store-new, bytes on disk ÷ warcio's", "at most 1.00"
    if ours is None or theirs is None:
        return Verdict.none(target, needed)
    ratio = ours.disk_bytes / theirs.disk_bytes
    measured = f"{ratio:.3f} ({ours.disk_bytes / _MB:.1f} MB ÷ {theirs.disk_bytes / _MB:.1f} MB)"
    return Verdict(target, needed, measured, ratio <= 1)


def _store_duplicate(outcome: StoreOutcome) -> Verdict:
    theirs = outcome.find("warcio", Workload.STORE_DUPLICATE, 1)
    return _ratio("store-duplicate ÷ warcio's writer", 10, _forms(outcome, Workload.STORE_DUPLICATE), theirs)


def _fetch_random(outcome: StoreOutcome) -> Verdict:
    theirs = outcome.find("warcio", Workload.FETCH_RANDOM, 1)
    return _ratio("fetch-random ÷ warcio by offset", 5, _forms(outcome, Workload.FETCH_RANDOM), theirs)


def _scan(outcome: StoreOutcome) -> Verdict:
    ours = outcome.find("holdfast", Workload.SCAN, 1)
    theirs = outcome.find("fastwarc", Workload.SCAN, 1)
    target = "scan ÷ FastWARC over gzip, per processor second"
    return _ratio(target, 2, [ours] if ours else [], theirs, lambda each: each.per_cpu_s)


def _open(outcome: StoreOutcome) -> Verdict:
    target, needed = f"open of {_SCALE_OPEN_BLOCKS:,} blocks after a clean close", "under 1 s"
    large = [scale for scale in outcome.scales if scale.blocks >= _SCALE_OPEN_BLOCKS]
    if not large:
        return Verdict.none(target, needed)
    scale = min(large, key=lambda scale: scale.blocks)
    return Verdict(target, needed, f"{scale.open_s:.3f} s with {scale.blocks:,}", scale.open_s < 1)


def _memory(outcome: StoreOutcome) -> Verdict:
    target, needed = f"resident memory with {_SCALE_RSS_BLOCKS:,} blocks", "under 600 MB"
    large = [scale for scale in outcome.scales if scale.blocks >= _SCALE_RSS_BLOCKS]
    if not large:
        return Verdict.none(target, needed)
    scale = min(large, key=lambda scale: scale.blocks)
    most = max(scale.fill_rss_peak_bytes, scale.rss_peak_bytes)
    filling, reading = scale.fill_rss_peak_bytes / _MB, scale.rss_peak_bytes / _MB
    measured = f"filling {filling:.0f} MB, open and fetching {reading:.0f} MB"
    return Verdict(target, needed, measured, most < 600 * _MB)


def _forms(outcome: StoreOutcome, workload: Workload) -> list[Figure]:
    return [each for each in outcome.figures if each.subject.startswith("holdfast") and each.workload == workload]


def _ratio(
    target: str,
    factor: float,
    ours: list[Figure],
    theirs: Figure | None,
    speed: Callable[[Figure], float] = lambda each: each.per_s,
) -> Verdict:
    """The best of our forms against the peer."""
    needed = f"at least {factor:g}x"
    if not ours or theirs is None:
        return Verdict.none(target, needed)
    forms = sorted(ours, key=speed, reverse=True)
    parts = [f"{speed(each) / speed(theirs):.2f}x {_form(each)}" for each in forms]
    reached = [_form(each) for each in forms if speed(each) / speed(theirs) >= factor]
    return Verdict(target, needed, ", ".join(parts), bool(reached), by=", ".join(reached))


def _form(measurement: Figure) -> str:
    if measurement.label != measurement.workload:
        return measurement.label.removeprefix(measurement.workload).strip(" ()")
    return callers_words(measurement.callers)
