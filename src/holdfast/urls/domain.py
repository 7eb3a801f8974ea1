"""The registered domain of a host, by the Public Suffix List that `tldextract` ships.

Nothing is fetched and nothing is written: the list is the one of the installed package, so the same version gives the
same result everywhere. Private suffixes (`github.io`) do not count: they are domains of their owners. The list is read
without importing the package, which loads an HTTP client and takes a tenth of a second.
"""

from __future__ import annotations

from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path

_HOSTS_CACHED = 65_536
_SNAPSHOT = ".tld_set_snapshot"
_PRIVATE = "===BEGIN PRIVATE DOMAINS==="


@cache
def _rules() -> frozenset[str]:
    """`com`, `co.uk`, `*.ck`, `!www.ck`."""
    spec = find_spec("tldextract")
    assert spec is not None and spec.origin is not None, "a dependency"
    text = Path(spec.origin).with_name(_SNAPSHOT).read_text(encoding="utf-8").partition(_PRIVATE)[0]
    return frozenset(line.strip() for line in text.splitlines() if line and not line.startswith("//"))


@lru_cache(_HOSTS_CACHED)
def _split(host: str) -> tuple[list[str], int]:
    """The labels of a host, and how many of them form its public suffix; no labels for an address."""
    name = host.strip().rstrip(".").lower()
    labels = name.split(".")
    if ":" in name or labels[-1].isdigit():
        return [], 0
    rules, plain = _rules(), [_decoded(label) for label in labels]
    for start in range(len(plain)):
        parent = ".".join(plain[start + 1 :])
        whole = f"{plain[start]}.{parent}" if parent else plain[start]
        if f"!{whole}" in rules:
            return labels, len(labels) - start - 1
        if whole in rules or f"*.{parent}" in rules:
            return labels, len(labels) - start
    return labels, 0


def _decoded(label: str) -> str:
    """The list has internationalized labels as people write them."""
    if not label.startswith("xn--"):
        return label
    try:
        return label[4:].encode("ascii").decode("punycode")
    except ValueError:
        return label


def registered_domain(host: str) -> str:
    """`example.co.uk` for `www.example.co.uk`; the host itself if it has none: an address, `localhost`, a suffix."""
    labels, suffix = _split(host)
    if not labels or len(labels) == suffix:
        return host.strip().rstrip(".").lower()
    return ".".join(labels[-max(suffix, 1) - 1 :])  # the list's rule for what it does not know: a suffix of one label


def public_suffix(host: str) -> str:
    """`co.uk` for `www.example.co.uk`; empty if the list knows none: an address, `localhost`."""
    labels, suffix = _split(host)
    return ".".join(labels[len(labels) - suffix :])
