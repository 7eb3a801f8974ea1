"""Sizes and durations: parsed, written exactly, and rounded for people.

`parse_size` and `parse_duration` read '1.5 GiB', '500k', '30s', '1h 30m', '7d'. `size_text` and `duration_text` write
them so that they parse to the same number. The other functions round.
"""

from __future__ import annotations

import re
from decimal import Decimal

from holdfast.errors import UsageError

_NUMBER = r"\d+(?:\.\d+)?"
_SIZE = re.compile(rf"({_NUMBER})\s*([KMGT]?)(?:i?B)?", re.IGNORECASE | re.ASCII)
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
_PART = rf"({_NUMBER})\s*(ms|min|s|m|h|d|w)"
_DURATION = re.compile(rf"(?:{_PART}\s*)+", re.IGNORECASE | re.ASCII)
_PLAIN = re.compile(_NUMBER, re.ASCII)
_NAMED = {"year": 86400 * 365, "month": 86400 * 30, "day": 86400, "hour": 3600, "minute": 60, "second": 1}


def parse_size(text: str) -> int:
    """Bytes; units are powers of 1024. Raises UsageError."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is not a size: write a number of bytes, '500k' or '1.5 GiB'")
    return int(Decimal(match[1]) * 1024 ** _POWERS[match[2].upper()])


def parse_duration(text: str) -> float:
    """Seconds; a number without a unit is in seconds. Raises UsageError."""
    text = text.strip()
    if _PLAIN.fullmatch(text):
        return float(text)
    if _DURATION.fullmatch(text) is None:
        raise UsageError(f"{text!r} is not a duration: write '30s', '15m', '2h', '7d' or '1h 30m'")
    parts = re.findall(_PART, text, re.IGNORECASE | re.ASCII)
    return sum(float(number) * _SECONDS[unit.lower()] for number, unit in parts)


def size_text(count: int) -> str:
    """The shortest exact text of a size: '4095', '32 MiB'."""
    number, unit = _largest_power(count)
    return f"{number} {unit}iB" if unit else str(number)


def brief_size_text(count: int) -> str:
    """As `size_text`, without spaces, for a query: '32M'."""
    number, unit = _largest_power(count)
    return f"{number}{unit}"


def _largest_power(count: int) -> tuple[int, str]:
    for unit in ("T", "G", "M", "K"):
        if count and count % 1024 ** _POWERS[unit] == 0:
            return count // 1024 ** _POWERS[unit], unit
    return count, ""


def duration_text(seconds: float) -> str:
    """The shortest exact text of a duration: '7d', '90m', '0.25s'."""
    for unit in ("d", "h", "m"):
        if seconds and seconds % _SECONDS[unit] == 0:
            return f"{int(seconds // _SECONDS[unit])}{unit}"
    return f"{int(seconds)}s" if seconds == int(seconds) else f"{Decimal(repr(seconds)):f}s"


def rounded_size(count: float) -> str:
    """'812 B', '1.5 KiB', '20.3 GiB'."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(count) < 1024 or unit == "TiB":
            break
        count /= 1024
    return f"{count:,.1f} {unit}" if unit != "B" else f"{count:.0f} B"


def rounded_duration(seconds: float) -> str:
    """At most two units: '50ms', '0.4s', '12s', '2m 3s', '1h 20m', '3d 4h'."""
    if 0 < seconds < 0.1:
        return f"{seconds * 1000:.3g}ms"
    if seconds < 10 and seconds != int(seconds):
        return f"{seconds:.1f}s"
    whole = round(seconds)
    for size, unit, smaller, rest in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            part = whole % size // smaller
            return f"{whole // size:,}{unit} {part}{rest}" if part else f"{whole // size:,}{unit}"
    return f"{whole}s"


def duration_words(seconds: float) -> str:
    """The largest unit that fits, rounded down: '3 days', '1 hour'."""
    for name, size in _NAMED.items():
        if seconds >= size:
            number = int(seconds // size)
            return f"{number} {name}" if number == 1 else f"{number} {name}s"
    return "less than a second"


def interval_words(seconds: float) -> str:
    """An estimated interval in days or less, with one decimal: '3 days', '1.5 hours'."""
    for name in ("day", "hour", "minute", "second"):
        if seconds >= _NAMED[name]:
            number = f"{seconds / _NAMED[name]:.1f}".removesuffix(".0")
            return f"{number} {name}{'' if number == '1' else 's'}"
    return "no time"
