"""What a crawl has done, in numbers: the summary at its end, and `holdfast crawl status`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.cli.crawl_words import in_time
from holdfast.cli.output import in_bytes

_REASONS_SHOWN = 5
_ALWAYS = ("fetched", "pages", "new", "duplicates", "errors")


def tally_fields(tally: Mapping[str, Any], reasons: Mapping[str, int]) -> dict[str, str]:
    """A line for each count; most of those that are 0 are left out."""
    get = {name: tally.get(name, 0) for name in _NAMES}.__getitem__
    lines = {
        "fetched": f"{get('fetched'):,} in {in_time(get('seconds'))} ({rate_of(tally):,.1f} a second), "
        f"{in_bytes(get('transferred_bytes'))} received",
        "pages": f"{get('pages'):,}",
        "new": f"{get('new'):,} ({in_bytes(get('new_bytes'))})",
        "duplicates": f"{get('duplicates'):,} ({in_bytes(saved_bytes(tally))} saved)",
        "unchanged": f"{get('unchanged'):,}",
        "changed": f"{get('changed'):,}",
        "redirects": f"{get('redirects'):,}",
        "gone": f"{get('gone'):,}",
        "errors": f"{get('errors'):,}{_reasons(reasons)}",
        "refused": f"{get('refused'):,} by robots.txt",
        "trapped": f"{get('trapped'):,} of a site without end, or beyond a budget",
        "truncated": f"{get('truncated'):,}",
        "retries": f"{get('retries'):,}",
        "besides": f"{get('besides'):,} robots.txt and sitemaps",
        "waiting": f"{get('queued'):,}",
    }
    counts = {name: get("queued" if name == "waiting" else name) for name in lines}
    return {name: line for name, line in lines.items() if counts[name] or name in _ALWAYS}


_NAMES = (
    *("fetched", "pages", "new", "duplicates", "unchanged", "changed", "redirects", "gone", "errors", "refused"),
    *(
        "trapped",
        "besides",
        "truncated",
        "retries",
        "transferred_bytes",
        "content_bytes",
        "new_bytes",
        "seconds",
        "queued",
    ),
)


def _reasons(reasons: Mapping[str, int]) -> str:
    """The most frequent ones."""
    ranked = sorted(reasons.items(), key=lambda each: (-each[1], each[0]))
    shown = [f"{count:,} {reason}" for reason, count in ranked[:_REASONS_SHOWN]]
    rest = sum(count for _, count in ranked[_REASONS_SHOWN:])
    shown += [f"{rest:,} others"] if rest else []
    return f": {', '.join(shown)}" if shown else ""


def saved_bytes(tally: Mapping[str, Any]) -> int:
    """What was received and not stored again."""
    return int(tally.get("content_bytes", 0)) - int(tally.get("new_bytes", 0))


def rate_of(tally: Mapping[str, Any]) -> float:
    """URLs a second."""
    seconds = float(tally.get("seconds", 0.0))
    return float(tally.get("fetched", 0)) / seconds if seconds > 0 else 0.0
