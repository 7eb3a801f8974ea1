"""The figures that the project promised itself, and whether a run reached them."""

from __future__ import annotations

from benchmarks.harness.figure import OURS
from benchmarks.harness.report import Verdict, ratio_verdict
from benchmarks.replay.figure import Soak
from benchmarks.replay.run import ReplayOutcome
from benchmarks.replay.workload import ReplayWorkload

_FACTORS = {
    ReplayWorkload.REPLAY: 20.0,
    ReplayWorkload.RAW: 20.0,
    ReplayWorkload.CDX: 10.0,
}
_P99_MS = 50.0
_REQUESTS = 200_000
_FLAT = 1.1  # at most so many times the memory that it had after a fifth of the requests


def replay_verdicts(outcome: ReplayOutcome) -> list[Verdict]:
    """Every target, in the order of the issue that set them."""
    ratios = [_ratio(outcome, workload, factor) for workload, factor in _FACTORS.items()]
    return [*ratios, _latency(outcome), _flat(outcome.soak)]


def _ratio(outcome: ReplayOutcome, workload: ReplayWorkload, factor: float) -> Verdict:
    ours, theirs = outcome.find(OURS, workload), outcome.best_peer(workload)
    target = f"{workload}, Holdfast ÷ pywb at its best, requests per second"
    return ratio_verdict(target, factor, ours, theirs)


def _latency(outcome: ReplayOutcome) -> Verdict:
    """The worst of Holdfast's workloads."""
    target, needed = "99th percentile at half of the top rate, every workload", f"under {_P99_MS:g} ms"
    halves = [(each.half, each.workload) for each in outcome.figures if each.server == OURS and each.half]
    if not halves:
        return Verdict.none(target, needed)
    worst, workload = max(halves, key=lambda pair: pair[0].p99_ms)
    return Verdict(target, needed, f"{worst.p99_ms:.1f} ms at most, {workload}", worst.p99_ms < _P99_MS)


def _flat(soak: Soak | None) -> Verdict:
    target = f"memory after {_REQUESTS:,} requests ÷ after a fifth of them"
    needed = f"at most {_FLAT:g}x"
    if soak is None or soak.requests < _REQUESTS:
        return Verdict.none(target, needed)
    early, late = soak.memory_bytes[len(soak.memory_bytes) // 5 - 1], soak.memory_bytes[-1]
    ratio = late / max(early, 1)
    return Verdict(target, needed, f"{ratio:.2f}x ({late / 1e6:,.0f} MB ÷ {early / 1e6:,.0f} MB)", ratio <= _FLAT)
