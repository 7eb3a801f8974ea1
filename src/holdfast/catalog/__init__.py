"""The catalog: captures by URL and time, and the places of their records.

Captures are added in the step that stores their records (`Catalog.add`), and found by URL, time, record and payload
(`search`, `lookup`, `closest`, `newest`, `resolve`). The catalog is derived: `holdfast reindex` rebuilds it from the
batches. A step, with its totals, is atomic; readers in other processes follow.

Everything is in one table, sorted by key. The first byte of a key is its kind; `∅` is a zero byte, `␠` a space:

    ┌───┬────────────┬───┬────────┬───┬───────────┬───┬────────┐
    │ c │ collection │ ∅ │ urlkey │ ␠ │ timestamp │ ␠ │ record │ → the other fields of the capture, parted by tabs
    └───┴────────────┴───┴────────┴───┴───────────┴───┴────────┘    └─────── the capture's place ────────┘
    ┌───┬────────────┬───┬───────┐
    │ s │ collection │ ∅ │ place │ → nothing: a capture that begins a block of pages (one of 1024 by its checksum)
    ├───┼────────────┼───┼───────┤
    │ d │ digest     │ ∅ │ place │ → collection of a capture that has this payload itself, which revisits refer to
    ├───┼────────────┼───┴───────┘
    │ r │ record     │ → collection ∅ urlkey ␠ timestamp of its capture
    ├───┼────────────┴┬───┬────────┐
    │ w │ timestamp   │ ␠ │ record │ → nothing: the captures by time
    ├───┼─────────────┼───┴────┬───┘
    │ p │ page number │ record │ → nothing: the captures by page, a hash of the urlkey in 8 bytes, the highest first
    ├───┼─────────────┼────────┤
    │ i │ page id     │ record │ → nothing: the captures by WebBase's page id of their URL, 8 bytes, the highest first
    ├───┼─────────────┼───┬────┴───┐
    │ l │ modified    │ ␠ │ record │ → nothing: the captures by modified date; not known, `~` and the timestamp
    ├───┼─────────────┴┬──┴────────┘
    │ k │ fingerprint  │ → record that has this fingerprint of 16 bytes
    ├───┼───────┬───┬──┴───────────┐
    │ f │ batch │ ∅ │ first serial │ → place of the frame; serials are 4 bytes, the highest first
    ├───┼───────┼───┴──────────────┘
    │ b │ batch │ → state of the batch as the archive wrote it
    ├───┼───────┴───┬───┬────────┐
    │ m │ file name │ ∅ │ record │ → nothing: the record that lists the records of an imported file
    ├───┼───┬───────┴────┬───────┘
    │ t │ c │ collection │ → number of captures, bytes of their payloads; 8 bytes each, the lowest first
    │ t │ b │ batch      │
    ├───┼───┴────────────┘
    │ n │ → number of changes so far, 8 bytes      │ v │ → version of this layout, `3`

Texts are UTF-8. A result is paged at the keys `s`, which change only where captures come and go. So the pages together
are the whole result, and each page starts without a scan.
"""

from __future__ import annotations

from holdfast.catalog.catalog import Catalog, CatalogChange
from holdfast.catalog.keys import Total
from holdfast.catalog.query.fields import Row
from holdfast.catalog.query.query import CaptureQuery, parse_query
from holdfast.catalog.query.render import OUTPUTS, render
from holdfast.catalog.query.search import SearchResult

__all__ = [
    "OUTPUTS",
    "CaptureQuery",
    "Catalog",
    "CatalogChange",
    "Row",
    "SearchResult",
    "Total",
    "parse_query",
    "render",
]
