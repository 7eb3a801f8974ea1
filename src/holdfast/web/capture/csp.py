"""What the browser is told to refuse: the last wall if rewriting missed something.

Archived documents may load from the replay origin alone, and from what they carry themselves. The service worker could
answer for addresses elsewhere, too, but to let pages name them would open a way out: frames of another origin than
their maker's (`data:`, sandboxed) take over the policy of their maker and not its worker. `Connection-Allowlist` closes
what no policy covers, such as WebRTC.

    PAGE     rewritten pages: their scripts run, with the runtime before them
    PART     everything else that is no document by itself
    DRAWING  markup that would run without the runtime (SVG, XML, no type at all): shown, its scripts do not run
    RAW      archived bytes as they were, on either origin: nothing in them runs or loads

Only pages of this archive may show any of them in a frame: a page elsewhere could otherwise have one of its own
captures read others for it.
"""

from __future__ import annotations

from enum import StrEnum

Header = tuple[bytes, bytes]

_OWN = "'self' 'unsafe-inline' 'unsafe-eval' 'wasm-unsafe-eval' data: blob:"
_ARCHIVED = (
    f"default-src {_OWN}; connect-src 'self' data: blob:; object-src 'self'; frame-src 'self' data: blob:; "
    "form-action 'self'; worker-src 'self' blob: data:; manifest-src 'self'; base-uri 'self'"
)
_BEHAVIOUR = "allow-scripts allow-same-origin allow-forms allow-downloads allow-modals allow-pointer-lock"
_MARKUP = ("image/svg+xml", "text/xml", "application/xml", "-", "")


class Policy(StrEnum):
    PAGE = f"{_ARCHIVED}; sandbox {_BEHAVIOUR}"
    PART = _ARCHIVED
    DRAWING = f"{_ARCHIVED}; sandbox allow-same-origin"
    RAW = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"


class Policies:
    """The headers of each policy, for a server whose pages with controls are on the given origin."""

    def __init__(self, controls_origin: str) -> None:
        self._headers = {policy: _headers(policy, controls_origin) for policy in Policy}

    def __getitem__(self, policy: Policy) -> list[Header]:
        return self._headers[policy]


def policy_of(mime: str, *, is_page: bool, is_raw: bool) -> Policy:
    """By what is sent. A page is one that was rewritten as such."""
    if is_raw:
        return Policy.RAW
    if is_page:
        return Policy.PAGE
    return Policy.DRAWING if mime in _MARKUP or mime.endswith("+xml") else Policy.PART


def _headers(policy: Policy, controls_origin: str) -> list[Header]:
    return [
        (b"content-security-policy", f"{policy}; frame-ancestors 'self' {controls_origin}".encode()),
        (b"connection-allowlist", b"(response-origin)"),
        (b"cross-origin-opener-policy", b"same-origin"),
        (b"cross-origin-resource-policy", b"same-origin"),
        (b"permissions-policy", b"browsing-topics=(), interest-cohort=()"),
        (b"x-content-type-options", b"nosniff"),
        (b"x-dns-prefetch-control", b"off"),
    ]
