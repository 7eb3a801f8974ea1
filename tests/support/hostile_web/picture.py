"""Pictures made by code: PNG files, the same each time."""

from __future__ import annotations

from holdfast.demo.site import png


def stripes(number: int) -> bytes:
    """A small picture for each number."""
    return png(8, 8, lambda x, y: ((number * 37 + x * 9) % 256, (number * 11 + y * 17) % 256, number * 101 % 256))
