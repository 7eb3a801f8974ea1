"""Content security policies: the last line of defence if rewriting missed something.

Archived documents may load only from the replay origin and from data they carry. The service worker could also answer
for other addresses, but allowing pages to name them would open a way out: frames with another origin than their
creator's (`data:`, sandboxed) inherit its policy but not its worker. `Connection-Allowlist` covers what no policy does,
such as WebRTC.

    PAGE     rewritten pages: their scripts run, with the runtime before them
    PART     everything else that is not a document
    DRAWING  markup that would run without the runtime (SVG, XML, no type at all): shown, its scripts do not run
    RAW      archived bytes as they were, on either origin: nothing in them runs or loads

Only pages of this archive may frame any of them: a foreign page could otherwise use its own captures to read others.
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


def policy_of(mime: str, *, is_page: bool, is_raw: bool) -> Policy:
    """The policy by the kind of response. A page is a response rewritten as one."""
    if is_raw:
        return Policy.RAW
    if is_page:
        return Policy.PAGE
    return Policy.DRAWING if mime in _MARKUP or mime.endswith("+xml") else Policy.PART


def policy_headers(policy: Policy, controls_origin: str) -> list[Header]:
    """The headers of a policy, for a server whose pages with controls are on the given origin."""
    return [
        (b"content-security-policy", f"{policy}; frame-ancestors 'self' {controls_origin}".encode()),
        (b"connection-allowlist", b"(response-origin)"),
        (b"cross-origin-opener-policy", b"same-origin"),
        (b"cross-origin-resource-policy", b"same-origin"),
        (b"permissions-policy", b"browsing-topics=(), interest-cohort=()"),
        (b"x-content-type-options", b"nosniff"),
        (b"x-dns-prefetch-control", b"off"),
    ]
