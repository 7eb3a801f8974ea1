"""Width and height of a picture, from its first bytes."""

from __future__ import annotations

from io import BytesIO

_NETPBM = b"P"  # no browser shows it, and imagesize takes quadratic time for its digits
_NO_SIZE = (0, 0)


def dimensions(data: bytes) -> tuple[int, int]:
    """In pixels, as stored; (0, 0) if truncated, broken or not a picture. Never raises; time is linear.

    PNG, GIF, JPEG, WebP, BMP, AVIF, HEIF, TIFF and JPEG 2000.
    """
    if data.startswith(_NETPBM):
        return _NO_SIZE
    import imagesize

    width, height = imagesize.get(BytesIO(data), exif_rotation=False)
    return (int(width), int(height)) if width > 0 and height > 0 else _NO_SIZE
