"""Small sizes for the journal, so that little data makes many pieces, frames and files."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.batches import batch
from holdfast.records import draft


def shrink(patch: Callable[[object, str, int], None]) -> None:
    """`patch` is `setattr`, in a process of its own, or that of a `MonkeyPatch`."""
    patch(draft, "PIECE_BYTES_MAX", 4096)
    patch(draft, "INLINE_BYTES_MAX", 64)
    patch(draft, "REPEATED_BYTES_MAX", 64)
    patch(batch, "FRAME_BYTES", 1024)
    patch(batch, "FILE_BYTES_MAX", 8192)
