"""Who answers for a host: its registered domain, by the Public Suffix List that `tldextract` ships.

Nothing is fetched and nothing is written: the list is the one of the installed package, so the same version gives the
same answer everywhere. Private suffixes (`github.io`) do not count: they are domains of their owners.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tldextract.tldextract import ExtractResult, TLDExtract

_HOSTS_CACHED = 65_536


@cache
def _extract() -> TLDExtract:
    import tldextract  # takes a tenth of a second

    return tldextract.TLDExtract(cache_dir=None, suffix_list_urls=(), fallback_to_snapshot=True)


@lru_cache(_HOSTS_CACHED)
def _extracted(host: str) -> ExtractResult:
    return _extract().extract_str(host.strip().rstrip(".").lower())


def registered_domain(host: str) -> str:
    """`example.co.uk` for `www.example.co.uk`; the host itself if it has none: an address, `localhost`, a suffix."""
    found = _extracted(host)
    if found.domain and found.suffix:
        return f"{found.domain}.{found.suffix}"
    name = host.strip().rstrip(".").lower()
    if found.suffix or found.ipv4 or found.ipv6 or name.endswith("]"):
        return name
    return ".".join(name.split(".")[-2:])  # the rule of the list for what it does not know: the last label is a suffix


def public_suffix(host: str) -> str:
    """`co.uk` for `www.example.co.uk`; empty if the list knows none: an address, `localhost`."""
    return _extracted(host).suffix
