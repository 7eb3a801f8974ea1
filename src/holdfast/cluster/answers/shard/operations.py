"""The operations of a shard, by name: what a node may ask of another (`docs/protocol/node.md`).

One more, `study`, is answered in frames (`studies`).
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.cluster.answers import captures, export, outline, records, search, sql, streams, studies
from holdfast.cluster.answers.shard.shard import Operation

OPERATIONS: Mapping[str, Operation] = {
    "captures": captures.answer_captures,
    "collections": captures.answer_collections,
    "statistics": search.answer_statistics,
    "candidates": search.answer_candidates,
    "hits": search.answer_hits,
    "linked": search.answer_linked,
    "batches": streams.answer_batches,
    "pages": streams.answer_pages,
    "content": records.answer_content,
    "table": sql.answer_table,
    "hosts": outline.answer_hosts,
    "children": outline.answer_children,
    "types": outline.answer_types,
    "of_type": outline.answer_of_type,
    "names": export.answer_names,
    "record": records.answer_record,
    "records": export.answer_records,
    "totals": studies.answer_totals,
    "runs": studies.answer_runs,
    "url": captures.answer_url,
    "splits": captures.answer_splits,
}
