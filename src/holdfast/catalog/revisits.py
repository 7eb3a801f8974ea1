"""Revisits: from a capture without payload to the capture that has it.

The original is searched on request, so one that arrives after its revisit is found too: first the capture that the
revisit refers to, then the nearest in time of the same URL with the same digest, then any with that digest, preferably
of the same collection. A revisit without a payload digest ("not modified") refers to the last capture of its URL before
it.

A revisit may have its own response, such as a redirect, of which only the payload was seen before (`has_own_answer`).
Then it keeps its own status.
"""

from __future__ import annotations

from itertools import islice

from holdfast.catalog.keys import after, digest_area, digest_page_area, encoded, record_of_digest
from holdfast.catalog.pick import nearest
from holdfast.catalog.query.query import exact_range
from holdfast.catalog.rows import CaptureRows
from holdfast.env.table import Table
from holdfast.model import Capture
from holdfast.urls import url_key

REVISIT = "revisit"
_EMPTY = (  # digests of no bytes at all
    "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
)
_NOT_MODIFIED = "304"
_LOOK_AT = 64  # captures with the digest, for one of the same collection


def has_own_answer(revisit: Capture) -> bool:
    """Whether the revisit has its own response: its row has a status."""
    return revisit.status not in ("-", _NOT_MODIFIED)


def is_empty(revisit: Capture) -> bool:
    """Whether its payload is known to be empty, so that it needs no original."""
    return revisit.digest in _EMPTY and has_own_answer(revisit)


def can_stand_alone(revisit: Capture) -> bool:
    """Whether it can be shown without its original: its payload is empty, or that of a redirect."""
    return is_empty(revisit) or (has_own_answer(revisit) and '"redirect"' in revisit.extra)


def resolved(revisit: Capture, original: Capture) -> Capture:
    """The row of a revisit with the type of its original, and with its status unless it has its own."""
    status = revisit.status if has_own_answer(revisit) else original.status
    return revisit._replace(mime=original.mime, status=status)


class RevisitResolver:
    """Thread-safe."""

    def __init__(self, table: Table, rows: CaptureRows) -> None:
        self._table = table
        self._rows = rows

    def resolve(self, capture: Capture) -> Capture | None:
        """The capture with the payload: itself unless it is a revisit; None if there is none."""
        if capture.type != REVISIT:
            return capture
        if capture.digest in _EMPTY and not is_empty(capture):  # how crawlers record "not modified"
            return self._referred(capture._replace(digest="-")) or self._before(capture)
        return self._referred(capture) or self._same_url(capture) or self._same_digest(capture)

    def _referred(self, revisit: Capture) -> Capture | None:
        timestamp, _, url = revisit.refers_to.partition(" ")
        if timestamp in ("", "-"):
            return None
        key = url_key(url) if url not in ("", "-") else revisit.urlkey
        found = self._rows.all_of(None, exact_range(key, timestamp, timestamp))
        fitting = [each for each in found if each.type != REVISIT and _may_agree(each.digest, revisit.digest)]
        return _preferred(fitting, revisit.collection)

    def _before(self, revisit: Capture) -> Capture | None:
        """The last capture of the URL before the revisit that has a payload of its own."""
        other: Capture | None = None
        found = self._rows.scan(None, exact_range(revisit.urlkey, "", revisit.timestamp), reverse=True)
        for each in islice((each for each in found if each.type != REVISIT and each.size), _LOOK_AT):
            if each.collection == revisit.collection:
                return each
            other = other or each
        return other

    def _same_url(self, revisit: Capture) -> Capture | None:
        if revisit.digest == "-":
            return None
        start = digest_page_area(revisit.digest, revisit.urlkey)
        middle = start + encoded(revisit.timestamp)
        later = next(self._table.scan(middle, after(start)), None)
        near = [pair for pair in (self._table.last(start, middle), later) if pair]
        captures = self._captures([key for key, _ in near], revisit.digest)
        return nearest((each for each in captures if each.urlkey == revisit.urlkey), revisit.timestamp)

    def _same_digest(self, revisit: Capture) -> Capture | None:
        if revisit.digest == "-":
            return None
        prefix = digest_area(revisit.digest)
        keys = [key for key, _ in self._table.range(prefix, after(prefix), _LOOK_AT)]
        return _preferred(self._captures(keys, revisit.digest), revisit.collection)

    def _captures(self, keys: list[bytes], digest: str) -> list[Capture]:
        """The captures of the keys, without those of another digest."""
        found = self._rows.of_records([record_of_digest(key) for key in keys])
        return [each for each in found if each is not None and each.digest == digest]


def _preferred(captures: list[Capture], collection: str) -> Capture | None:
    own = (each for each in captures if each.collection == collection)
    return next(own, captures[0] if captures else None)


def _may_agree(one: str, other: str) -> bool:
    """Digests of different algorithms cannot be compared."""
    return one == other or "-" in (one, other) or one.partition(":")[0] != other.partition(":")[0]
