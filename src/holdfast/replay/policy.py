"""What the browser is told to refuse, by origin: the last wall if rewriting missed something.

Archived documents may load from the replay origin alone, and from what they carry themselves. The service worker could
answer for addresses elsewhere, too, but to let pages name them would open a way out: frames of another origin than
their maker's (`data:`, sandboxed) take over the policy of their maker and not its worker. `Connection-Allowlist` closes
what no policy covers, such as WebRTC.
"""

from __future__ import annotations

_OWN = "'self' 'unsafe-inline' 'unsafe-eval' 'wasm-unsafe-eval' data: blob:"
_ARCHIVED = (
    f"default-src {_OWN}; connect-src 'self' data: blob:; object-src 'self'; frame-src 'self' data: blob:; "
    "form-action 'self'; worker-src 'self' blob: data:; manifest-src 'self'; base-uri 'self'"
)
_INERT = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_NO_LOOKING_AHEAD = (b"x-dns-prefetch-control", b"off")

ARCHIVED = [  # for archived answers on the replay origin
    (b"content-security-policy", _ARCHIVED.encode()),
    (b"connection-allowlist", b"(response-origin)"),
    (b"permissions-policy", b"browsing-topics=(), interest-cohort=()"),
    _NO_LOOKING_AHEAD,
]
INERT = [  # for archived bytes as they were, on both origins: nothing in them runs
    (b"content-security-policy", _INERT.encode()),
    (b"x-content-type-options", b"nosniff"),
    _NO_LOOKING_AHEAD,
]
