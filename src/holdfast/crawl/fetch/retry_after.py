"""How long a server wants to be left alone: Retry-After (RFC 9110 §10.2.3), or a back-off where it does not say."""

from __future__ import annotations

from email.utils import parsedate_to_datetime

ASKING_STATUSES = frozenset((429, 503))
RETRY_AFTER_MAX_S = 86400.0
_STRIKES_MAX = 30  # 2**30 seconds are beyond every limit


def retry_after(value: str, now: float) -> float | None:
    """Seconds to wait from `now` (since the epoch); None if the field's value cannot be understood."""
    value = value.strip()
    if value.isascii() and value.isdigit():
        return min(float(value[:12]), RETRY_AFTER_MAX_S)
    try:
        until = parsedate_to_datetime(value).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    return min(max(until - now, 0.0), RETRY_AFTER_MAX_S)


def back_off(delay: float, strikes: int, delay_max: float) -> float:
    """Seconds to wait after the `strikes`-th refusal in a row that named no time; the first is 1."""
    wait: float = max(delay, 1.0) * 2.0 ** min(strikes - 1, _STRIKES_MAX)
    return max(min(wait, delay_max), delay)
