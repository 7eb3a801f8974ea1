"""The outline of a catalog: hosts and paths, found by leaping from key to key (P, N9)."""

from __future__ import annotations

from captures import capture

from holdfast.catalog import Catalog, CatalogChange
from holdfast.catalog import outline as outline_module
from holdfast.catalog.outline import ChildKind
from holdfast.model import Capture

URLS = (
    "http://example.com/",
    "http://www.example.com/?q=1",
    "http://example.com/a",
    "http://example.com/a-z",
    "http://example.com/a/b",
    "http://example.com/a/c/d",
    "http://example.com/a?x=1",
    "http://example.com/a?x=/2",
    "http://sub.example.com/",
    "http://example.com:8080/",
    "http://example.org/only",
    "http://[::1]:8080/six",
    "dns:example.com",
    "mailto:someone@example.com",
)


def filled(catalog: Catalog, urls: tuple[str, ...] = URLS, **parts: object) -> Catalog:
    rows = [
        capture(url, f"2020010203{serial // 60:02}{serial % 60:02}", serial, **parts) for serial, url in enumerate(urls)
    ]
    catalog.add(CatalogChange(captures=rows))
    return catalog


def test_hosts_stand_by_domain_and_schemes_without_hosts_are_left_out(catalog: Catalog) -> None:
    found = filled(catalog).outline().hosts("main")
    assert [entry.host for entry in found.entries] == [
        "[::1]:8080",
        "example.com",
        "sub.example.com",
        "example.com:8080",
        "example.org",
    ]
    assert found.next == ""
    extent = found.entries[1].extent
    assert (extent.captures, extent.is_whole) == (8, True)
    assert (extent.first, extent.last) == ("20200102030000", "20200102030007")


def test_hosts_come_in_parts_that_join_without_gap(catalog: Catalog) -> None:
    outline = filled(catalog).outline()
    hosts, after = [], ""
    while True:
        part = outline.hosts(None, after=after, limit=2)
        hosts += [entry.host for entry in part.entries]
        if not (after := part.next):
            break
    assert hosts == [entry.host for entry in outline.hosts(None).entries]


def test_hosts_that_contain_a_text(catalog: Catalog) -> None:
    found = filled(catalog).outline().hosts("main", containing="Sub.")
    assert [entry.host for entry in found.entries] == ["sub.example.com"]


def test_a_search_for_hosts_stops_after_a_bounded_number_and_says_where(catalog: Catalog, monkeypatch: object) -> None:
    urls = tuple(f"http://h{number:03}.example/" for number in range(30))
    outline = filled(catalog, urls).outline()
    monkeypatch.setattr(outline_module, "SKIPPED_MAX", 10)  # type: ignore[attr-defined]
    found = outline.hosts("main", containing="h025")
    assert found.entries == []
    again = outline.hosts(
        "main", containing="h025", after=outline.hosts("main", containing="h025", after=found.next).next
    )
    assert [entry.host for entry in again.entries] == ["h025.example"]


def test_children_of_a_path_by_kind(catalog: Catalog) -> None:
    outline = filled(catalog).outline()
    found = [(child.name, child.kind, child.path) for child in outline.children("main", "example.com").entries]
    assert found == [
        ("", ChildKind.PAGE, "/"),
        ("", ChildKind.QUERIES, "/?"),
        ("a", ChildKind.PAGE, "/a"),
        ("a-z", ChildKind.PAGE, "/a-z"),
        ("a", ChildKind.FOLDER, "/a/"),
        ("a", ChildKind.QUERIES, "/a?"),
    ]
    below = outline.children("main", "www.example.com", "/a/").entries
    assert [(child.name, child.kind) for child in below] == [("b", ChildKind.PAGE), ("c", ChildKind.FOLDER)]
    queries = outline.children("main", "example.com", "/a?").entries
    assert [child.name for child in queries] == ["x=/2", "x=1"]
    assert outline.children("main", "nowhere.example").entries == []


def test_children_come_in_parts(catalog: Catalog) -> None:
    outline = filled(catalog).outline()
    first = outline.children("main", "example.com", limit=4)
    second = outline.children("main", "example.com", limit=4, after=first.next)
    assert [child.path for child in first.entries + second.entries][-2:] == ["/a/", "/a?"]
    assert second.next == ""


def test_counting_is_bounded_and_says_so(catalog: Catalog) -> None:
    urls = tuple(f"http://example.com/{number}" for number in range(outline_module.COUNTED_MAX + 1))
    extent = filled(catalog, urls).outline().hosts("main").entries[0].extent
    assert (extent.captures, extent.is_whole) == (outline_module.COUNTED_MAX, False)


def test_what_is_excluded_is_not_there(catalog: Catalog) -> None:
    def permits(found: Capture) -> bool:
        return "sub" not in found.url and found.url != "http://example.com/" and "/a?" not in found.url

    outline = filled(catalog).outline(permits)
    assert "sub.example.com" not in [entry.host for entry in outline.hosts("main").entries]
    example = outline.hosts("main", containing="example.com").entries[0]
    assert (example.capture.url, example.extent.captures) == ("http://www.example.com/?q=1", 5)
    paths = [child.path for child in outline.children("main", "example.com").entries]
    assert paths == ["/?", "/a", "/a-z", "/a/"]


def test_types_are_counted_over_a_stated_number_of_captures(catalog: Catalog) -> None:
    filled(catalog, ("http://example.com/1", "http://example.com/2"))
    catalog.add(CatalogChange(captures=[capture("http://example.com/p.png", "20210101000000", 9, mime="image/png")]))
    outline = catalog.outline()
    types = outline.types("main", "example.com")
    assert (types.counts, types.looked, types.is_whole) == ([("text/html", 2), ("image/png", 1)], 3, True)
    assert [each.url for each in outline.of_type("main", "example.com", "/", "image/png").entries] == [
        "http://example.com/p.png"
    ]


def test_collections_are_outlined_as_one(catalog: Catalog) -> None:
    filled(catalog, ("http://a.example/", "http://c.example/"))
    catalog.add(CatalogChange(captures=[capture("http://b.example/", "20210101000000", 9, collection="other")]))
    assert [entry.host for entry in catalog.outline().hosts(None).entries] == ["a.example", "b.example", "c.example"]
    assert [entry.host for entry in catalog.outline().hosts("other").entries] == ["b.example"]
