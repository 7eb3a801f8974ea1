"""What the browser is told to refuse, by origin: the last wall if rewriting missed something.

Archived documents may load from the replay origin alone. One that came through our service worker may name any address
for pictures, styles, scripts, fonts and media, because the worker answers for all of them; what the worker does not see
(sockets, plug-ins, frames, forms) stays closed. Frames of another origin than their maker's (`data:`, sandboxed) take
over this policy but not the worker: `Connection-Allowlist` closes the way out that they would have, and that of WebRTC.
"""

from __future__ import annotations

_OWN = "'self' 'unsafe-inline' 'unsafe-eval' 'wasm-unsafe-eval' data: blob:"
_CLOSED = (
    "connect-src 'self' data: blob:; object-src 'self'; frame-src 'self' data: blob:; form-action 'self'; "
    "worker-src 'self' blob: data:; manifest-src 'self'; base-uri 'self'"
)
_PASSIVE = ("img-src", "media-src", "font-src", "style-src", "script-src")

STRICT = f"default-src {_OWN}; {_CLOSED}".encode()
THROUGH_WORKER = (
    f"default-src {_OWN}; {'; '.join(f'{name} {_OWN} http: https:' for name in _PASSIVE)}; {_CLOSED}".encode()
)
INERT = b"sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"  # archived bytes beside the controls

_FIXED = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-dns-prefetch-control", b"off"),
    (b"permissions-policy", b"browsing-topics=(), interest-cohort=()"),
    (b"connection-allowlist", b"(response-origin)"),
]


def archived_policy(*, via_worker: bool) -> list[tuple[bytes, bytes]]:
    """Headers for an archived document on the replay origin."""
    return [(b"content-security-policy", THROUGH_WORKER if via_worker else STRICT), *_FIXED[1:]]


def inert_policy() -> list[tuple[bytes, bytes]]:
    """Headers for archived bytes on the origin of the controls: nothing in them runs."""
    return [(b"content-security-policy", INERT), *_FIXED[:2]]
