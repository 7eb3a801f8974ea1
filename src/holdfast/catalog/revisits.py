"""Revisits: from a capture that says "as before" to the capture that has the payload.

It is looked for when it is asked for, so an original that arrives after its revisit is found as well: first what the
revisit itself refers to, then the capture of the same URL with the same digest that is nearest in time, then any
capture with that digest, of the same collection if there is one. A revisit without a digest of its payload, because the
server said that nothing was modified, stands for the last capture of its URL before it.

A revisit may also have an answer of its own, such as a redirect, whose payload alone was seen before
(`has_own_answer`). Then its status is its own.
"""

from __future__ import annotations

from itertools import islice

from holdfast.catalog.keys import DIGEST, after, area, encoded
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
    """Whether the revisit says more than "as before": its own row has the status of an answer."""
    return revisit.status not in ("-", _NOT_MODIFIED)


def is_empty(revisit: Capture) -> bool:
    """Whether its payload is known to be empty: then it needs no original."""
    return revisit.digest in _EMPTY and has_own_answer(revisit)


def can_stand_alone(revisit: Capture) -> bool:
    """Whether it can be shown without its original: its payload is empty, or a redirect's, which nobody looks at."""
    return is_empty(revisit) or (has_own_answer(revisit) and '"redirect"' in revisit.extra)


def resolved(revisit: Capture, original: Capture) -> Capture:
    """The row of a revisit with the type of its original, and with its status unless it has its own."""
    status = revisit.status if has_own_answer(revisit) else original.status
    return revisit._replace(mime=original.mime, status=status)


class RevisitResolver:
    """Any thread may call it."""

    def __init__(self, table: Table, rows: CaptureRows) -> None:
        self._table = table
        self._rows = rows

    def resolve(self, capture: Capture) -> Capture | None:
        """The capture with the payload: itself if it is no revisit, None if there is none."""
        if capture.type != REVISIT:
            return capture
        if capture.digest in _EMPTY and not is_empty(capture):  # so crawlers write that the server said "not modified"
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
        prefix = area(DIGEST, revisit.digest)
        start = prefix + encoded(revisit.urlkey) + b" "
        middle = start + encoded(revisit.timestamp)
        later = next(self._table.scan(middle, after(start)), None)
        near = [pair for pair in (self._table.last(start, middle), later) if pair]
        captures = [self._rows.at(value.decode(), key[len(prefix) :]) for key, value in near]
        return nearest((each for each in captures if each is not None), revisit.timestamp)

    def _same_digest(self, revisit: Capture) -> Capture | None:
        if revisit.digest == "-":
            return None
        prefix = area(DIGEST, revisit.digest)
        pairs = islice(self._table.scan(prefix, after(prefix)), _LOOK_AT)
        captures = [self._rows.at(value.decode(), key[len(prefix) :]) for key, value in pairs]
        return _preferred([each for each in captures if each is not None], revisit.collection)


def _preferred(captures: list[Capture], collection: str) -> Capture | None:
    own = (each for each in captures if each.collection == collection)
    return next(own, captures[0] if captures else None)


def _may_agree(one: str, other: str) -> bool:
    """Digests of different algorithms cannot be compared."""
    return one == other or "-" in (one, other) or one.partition(":")[0] != other.partition(":")[0]
