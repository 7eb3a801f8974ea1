"""The figures that the project promised itself, and whether a run reached them."""

from __future__ import annotations

from benchmarks.archive.captures import CatalogScale
from benchmarks.archive.run import ArchiveOutcome
from benchmarks.archive.workload import ArchiveWorkload
from benchmarks.harness.figure import OURS
from benchmarks.harness.report import Verdict, ratio_verdict

_MB = 1e6
_IMPORT = 1.7
_SPACE = 0.6
_LOOKUPS_PER_S = 20_000
_LOOKUP_CAPTURES = 1_000_000
_SCALE_CAPTURES = 10_000_000
_SCALE_SHARE = 0.5
_EXPORT = 5.0
_LARGE_RSS_BYTES = 512 << 20
_SMALL = 1.0


def archive_verdicts(outcome: ArchiveOutcome) -> list[Verdict]:
    """Every target, in the order of the issue that set them."""
    return [
        _ratio(outcome, "import ÷ cdxj-indexer, records per second", ArchiveWorkload.IMPORT, "cdxj-indexer", _IMPORT),
        _space(outcome),
        _lookups(outcome),
        _scale(outcome),
        _ratio(outcome, "export to warc.gz ÷ warcio's writer", ArchiveWorkload.EXPORT, "warcio", _EXPORT),
        _large(outcome),
        _small(outcome),
    ]


def _ratio(outcome: ArchiveOutcome, target: str, workload: ArchiveWorkload, peer: str, factor: float) -> Verdict:
    ours, theirs = outcome.find(OURS, workload), outcome.find(peer, workload)
    return ratio_verdict(target, factor, ours, theirs)


def _space(outcome: ArchiveOutcome) -> Verdict:
    target, needed = "space ÷ the gzip WARCs, stored twice with 20 % inner duplicates", f"at most {_SPACE:.0%}"
    ours, theirs = (outcome.find(name, ArchiveWorkload.SPACE) for name in (OURS, "gzip-warc"))
    if ours is None or theirs is None:
        return Verdict.none(target, needed)
    ratio = ours.disk_bytes / theirs.disk_bytes
    measured = f"{ratio:.1%} ({ours.disk_bytes / _MB:.1f} MB ÷ {theirs.disk_bytes / _MB:.1f} MB)"
    return Verdict(target, needed, measured, ratio <= _SPACE)


def _lookups(outcome: ArchiveOutcome) -> Verdict:
    target, needed = f"lookup with {_LOOKUP_CAPTURES:,} captures", f"at least {_LOOKUPS_PER_S:,}/s"
    scale = _smallest(outcome, _LOOKUP_CAPTURES)
    if scale is None:
        return Verdict.none(target, needed)
    first = scale.lookups / max(scale.first_s, 1e-9)
    measured = f"{scale.lookups_per_s:,.0f}/s with {scale.captures:,}; {first:,.0f}/s at once after opening"
    return Verdict(target, needed, measured, scale.lookups_per_s >= _LOOKUPS_PER_S)


def _scale(outcome: ArchiveOutcome) -> Verdict:
    target = f"lookup with {_SCALE_CAPTURES:,} captures ÷ with {_LOOKUP_CAPTURES:,}"
    needed = f"at least {_SCALE_SHARE:.0%}"
    small, large = _smallest(outcome, _LOOKUP_CAPTURES), _smallest(outcome, _SCALE_CAPTURES)
    if small is None or large is None or small is large:
        return Verdict.none(target, needed)
    share = large.lookups_per_s / small.lookups_per_s
    measured = f"{share:.0%} ({large.lookups_per_s:,.0f}/s ÷ {small.lookups_per_s:,.0f}/s)"
    return Verdict(target, needed, measured, share >= _SCALE_SHARE)


def _smallest(outcome: ArchiveOutcome, captures_min: int) -> CatalogScale | None:
    """The smallest catalog that is large enough."""
    large = [scale for scale in outcome.scales if scale.captures >= captures_min]
    return min(large, key=lambda scale: scale.captures, default=None)


def _large(outcome: ArchiveOutcome) -> Verdict:
    target, needed = "resident memory with one large record", f"under {_LARGE_RSS_BYTES >> 20} MiB"
    large = outcome.large
    if large is None:
        return Verdict.none(target, needed)
    coming, going = large.import_rss_peak_bytes, large.export_rss_peak_bytes
    measured = f"import {coming >> 20} MiB, export {going >> 20} MiB, payload {large.payload_bytes >> 20} MiB"
    return Verdict(target, needed, measured, max(coming, going) < _LARGE_RSS_BYTES)


def _small(outcome: ArchiveOutcome) -> Verdict:
    target, needed = "space of small records ÷ their gzip WARC", f"at most {_SMALL:.0%}"
    small = outcome.small
    if small is None:
        return Verdict.none(target, needed)
    measured = f"{small.ratio:.1%} ({small.disk_bytes / _MB:.1f} MB ÷ {small.warc_bytes / _MB:.1f} MB)"
    return Verdict(target, needed, measured, small.ratio <= _SMALL)
