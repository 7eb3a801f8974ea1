"""Target figures, and whether a run reached them."""

from __future__ import annotations

from benchmarks.harness.comparison import Comparison
from benchmarks.harness.figure import OURS
from benchmarks.harness.report import Verdict
from benchmarks.stream.run import StreamOutcome
from benchmarks.stream.workload import CONSUMERS, SEPARATE, StreamWorkload

_FASTWARC = 3.0
_ZSTD = 0.6
_SHARED = 6.0
_RESUME_S = 1.0
_RESUME_CAPTURES = 1_000_000


def stream_verdicts(outcome: StreamOutcome) -> list[Verdict]:
    """Every target, in the order of docs/benchmarks.md."""
    return [_fastwarc(outcome.comparison), _zstd(outcome.comparison), _shared(outcome.comparison), _resume(outcome)]


def _fastwarc(found: Comparison) -> Verdict:
    target, needed = "stream of raw contents ÷ FastWARC over gzip WARC, bytes per second", f"at least {_FASTWARC:g}x"
    ours, theirs = (found.find(name, StreamWorkload.RAW) for name in (OURS, "fastwarc"))
    if ours is None or theirs is None:
        return Verdict.none(target, needed)
    ratio = ours.mb_per_s / theirs.mb_per_s
    measured = f"{ratio:.2f}x ({ours.mb_per_s:,.0f} MB/s ÷ {theirs.mb_per_s:,.0f} MB/s)"
    many = found.find("fastwarc-all", StreamWorkload.RAW)
    if many is not None:
        measured += f"; {ours.mb_per_s / many.mb_per_s:.2f}x of a FastWARC on each core"
    return Verdict(target, needed, measured, ratio >= _FASTWARC)


def _zstd(found: Comparison) -> Verdict:
    target, needed = "stream of raw contents ÷ bare zstd on all cores, the same bytes", f"at least {_ZSTD:.0%}"
    ours, limit = (found.find(name, StreamWorkload.RAW) for name in (OURS, "zstd"))
    if ours is None or limit is None:
        return Verdict.none(target, needed)
    share = ours.mb_per_s / limit.mb_per_s
    measured = f"{share:.0%} ({ours.mb_per_s:,.0f} MB/s ÷ {limit.mb_per_s:,.0f} MB/s)"
    one = found.find("zstd-one", StreamWorkload.RAW)
    if one is not None:
        measured += f"; {ours.mb_per_s / one.mb_per_s:.0%} of one core's"
    return Verdict(target, needed, measured, share >= _ZSTD)


def _shared(found: Comparison) -> Verdict:
    target = f"rate of each of {CONSUMERS} consumers of one scan ÷ of {CONSUMERS} separate scans"
    needed = f"at least {_SHARED:g}x"
    shared, separate = (found.find(name, StreamWorkload.SHARED) for name in (OURS, SEPARATE))
    if shared is None or separate is None:
        return Verdict.none(target, needed)
    ratio = shared.per_s / separate.per_s
    each, alone = shared.per_s / CONSUMERS, separate.per_s / CONSUMERS
    return Verdict(target, needed, f"{ratio:.2f}x ({each:,.0f}/s ÷ {alone:,.0f}/s)", ratio >= _SHARED)


def _resume(outcome: StreamOutcome) -> Verdict:
    target = f"resuming a stream, with {_RESUME_CAPTURES:,} captures"
    needed = f"within {_RESUME_S:g} s"
    large = [each for each in outcome.resumed if each.captures >= _RESUME_CAPTURES]
    if not large:
        return Verdict.none(target, needed)
    measured = ", ".join(f"{each.order} {each.seconds:.3f} s" for each in large)
    return Verdict(target, needed, measured, max(each.seconds for each in large) <= _RESUME_S)
