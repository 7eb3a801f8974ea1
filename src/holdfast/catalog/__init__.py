"""The catalog: captures by URL and time, and where everything else about a record is found.

A capture comes in with the step of the archive that stored its record (`Catalog.add`), and is found by URL, by time,
by record and by payload (`search`, `lookup`, `closest`, `newest`, `resolve`). The catalog is derived: whatever happens
to it, `holdfast reindex` makes it again from the batches. A step arrives whole or not at all, with its totals; readers
in other processes follow.

Everything is in one table, in the order of its keys. The first byte tells the kind; `∅` is a zero byte, `␠` a space:

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

Texts are UTF-8. Pages of an answer are cut at the keys `s`, which change only where captures come and go, so all pages
together are the answer, and any of them starts at once.
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
