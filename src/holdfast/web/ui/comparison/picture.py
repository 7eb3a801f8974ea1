"""Width and height of a picture, from its first bytes, by the library `imagesize`."""

from __future__ import annotations

from io import BytesIO

PICTURE_BYTES = 1 << 20  # the frame of a JPEG may follow its thumbnails
_NO_SIZE = (0, 0)
_NETPBM = b"P"  # no browser shows it, and imagesize takes quadratic time for its digits


def dimensions(data: bytes) -> tuple[int, int]:
    """In pixels, as stored; (0, 0) of what is cut off, broken, or no picture. Never raises; time grows with the bytes.

    PNG, GIF, JPEG, WebP, BMP, AVIF, HEIF, TIFF and JPEG 2000.
    """
    import imagesize

    if data.startswith(_NETPBM):
        return _NO_SIZE
    width, height = imagesize.get(BytesIO(data), exif_rotation=False)
    return (int(width), int(height)) if width > 0 and height > 0 else _NO_SIZE
