"""Sites: registered domains, and kinds of site by their public suffixes."""

from __future__ import annotations

from functools import lru_cache

from holdfast.urls import public_suffix, registered_domain

NO_SITE = "none"
_HOSTS_KEPT = 65_536
_KINDS = {
    **dict.fromkeys(("com", "co", "biz"), "commercial"),
    **dict.fromkeys(("edu", "ac"), "education"),
    **dict.fromkeys(("gov", "gob", "gouv", "go", "gv"), "government"),
    **dict.fromkeys(("org", "or"), "organization"),
    **dict.fromkeys(("net", "ne"), "network"),
}


@lru_cache(_HOSTS_KEPT)
def site_of(host: str) -> str:
    """The registered domain of a host; `none` of a URL without a host."""
    return registered_domain(host).encode("utf-8", "replace").decode() if host else NO_SITE


@lru_cache(_HOSTS_KEPT)
def kind_of_site(host: str) -> str:
    """`commercial` for `com` and `co.uk`, `government` for `gov.cn`, ...; `other` if the suffix says nothing."""
    return _KINDS.get(public_suffix(host).partition(".")[0], "other")
