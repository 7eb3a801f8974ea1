"""How long a host is left alone before it is tried again: after 429 or 503, and after a failure.

    429, 503 with Retry-After      as long as it says (RFC 9110 §10.2.3), a day at most
    429, 503 without               1 s, doubled by each refusal in a row, up to `delay_max`
    failure of a page or robots    0.25 s, doubled by each attempt at that page, up to `delay_max`
    outage of the whole host       as a failure, doubled by every second failure of the host in a row

A pause starts from the job's delay where that is longer. After a refusal it is never shorter than the delay, which a
Crawl-delay may set beyond `delay_max`. Nothing here reads a clock.
"""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import Final

RATE_LIMITED: Final = frozenset((429, 503))
RETRY_AFTER_MAX_S: Final = 86400.0
_REFUSAL_PAUSE_LEAST_S: Final = 1.0
_FAILURE_PAUSE_LEAST_S: Final = 0.25
_DOUBLINGS_MAX: Final = 30  # 2**30 seconds exceed every limit


def retry_after_s(value: str, now: float) -> float | None:
    """Seconds to wait from `now` (since the epoch) by a `Retry-After` field; None if it cannot be understood."""
    value = value.strip()
    if value.isascii() and value.isdigit():
        return min(float(value[:12]), RETRY_AFTER_MAX_S)
    try:
        until = parsedate_to_datetime(value).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    return min(max(until - now, 0.0), RETRY_AFTER_MAX_S)


def refusal_pause_s(delay: float, refusals: int, delay_max: float) -> float:
    """Seconds to wait after the `refusals`-th 429 or 503 in a row that named no time."""
    return max(_doubled(max(delay, _REFUSAL_PAUSE_LEAST_S), refusals - 1, delay_max), delay)


def failure_pause_s(delay: float, attempts: int, delay_max: float) -> float:
    """Seconds to wait after a failure that `attempts` others went before."""
    return _doubled(max(delay, _FAILURE_PAUSE_LEAST_S), attempts, delay_max)


def _doubled(seconds: float, times: int, most: float) -> float:
    return min(seconds * 2.0 ** min(times, _DOUBLINGS_MAX), most)
