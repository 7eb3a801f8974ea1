"""Revisits find the capture that has their payload, whichever came first."""

from __future__ import annotations

from captures import capture

from holdfast.catalog import CaptureQuery, Catalog, CatalogChange
from holdfast.model import Capture

HOME, OTHER = "http://example.com/", "http://example.org/"


def add(catalog: Catalog, *captures: Capture) -> None:
    catalog.add(CatalogChange(captures=captures))


def revisit(timestamp: str, digest: str = "sha1:A", refers_to: str = "-", **parts: object) -> Capture:
    told = {"type": "revisit", "mime": "warc/revisit", "digest": digest, "refers_to": refers_to}
    return capture(HOME, timestamp, 99, **(told | parts))


def test_an_original_is_its_own(catalog: Catalog) -> None:
    original = capture(HOME, "20200101000000", 1)
    assert catalog.resolve(original) == original


def test_by_what_it_refers_to(catalog: Catalog) -> None:
    near = capture(HOME, "20200601000000", 1, digest="sha1:A")
    meant = capture(OTHER, "20190101000000", 2, digest="sha256:ff")
    add(catalog, near, meant)
    assert catalog.resolve(revisit("20200601000001", refers_to=f"20190101000000 {OTHER}")) == meant
    assert catalog.resolve(revisit("20210101000000", refers_to="20200601000000 -")) == near
    assert catalog.resolve(revisit("20210101000000", refers_to=f"- {OTHER}")) == near
    wrong = revisit("20210101000000", digest="sha1:A", refers_to=f"20190101000000 {HOME}")
    assert catalog.resolve(wrong) == near, "refers to nothing: by digest"


def test_by_url_and_digest_nearest_in_time(catalog: Catalog) -> None:
    early, late = (capture(HOME, f"{year}0101000000", year, digest="sha1:A") for year in (2018, 2022))
    add(catalog, early, late, capture(HOME, "20200101000000", 3, digest="sha1:B"), revisit("20200101000001"))
    assert catalog.resolve(revisit("20190101000000")) == early
    assert catalog.resolve(revisit("20210101000000")) == late
    assert catalog.resolve(revisit("20230101000000")) == late


def test_by_digest_alone_first_of_its_own_collection(catalog: Catalog) -> None:
    foreign = capture("http://a.com/", "20200101000000", 1, digest="sha1:A", collection="x")
    add(catalog, foreign)
    assert catalog.resolve(revisit("20190101000000")) == foreign
    own = capture(OTHER, "20200101000000", 2, digest="sha1:A")
    add(catalog, own)
    assert catalog.resolve(revisit("20190101000000")) == own
    assert catalog.resolve(revisit("20190101000000", collection="x")) == foreign


def test_an_original_that_comes_later_or_goes(catalog: Catalog) -> None:
    late = revisit("20210101000000")
    add(catalog, late)
    assert catalog.resolve(late) is None
    assert catalog.resolve(late._replace(digest="-")) is None
    original = capture(OTHER, "20200101000000", 1, digest="sha1:A")
    add(catalog, original)
    assert catalog.resolve(late) == original
    catalog.add(CatalogChange(removed=[original.record]))
    assert catalog.resolve(late) is None


def test_an_answer_with_originals_told(catalog: Catalog) -> None:
    original = capture(OTHER, "20200101000000", 1, digest="sha1:A", mime="image/png", status="203")
    add(catalog, original, revisit("20210101000000", status="-"))
    (row,) = catalog.search(CaptureQuery(url=HOME, resolve_revisits=True, filters=("mime:image",)))
    assert (row.original, row.capture.mime, row.capture.status) == (original, "image/png", "203")
    (row,) = catalog.search(CaptureQuery(url=HOME))
    assert (row.original, row.capture.mime) == (None, "warc/revisit")
