"""Queries of all nodes: words, metadata and links, ranked as in one index, with facets and pages (B12, H8).

    asked node   candidates of all nodes, scored with the sums of their statistics, merged ──▶ hits of those shown
    each node    `holdfast.query.shard`, for the documents of its partitions

The field `partition` of the index restricts a node to what it answers for, so copies never count. Page ranks are of one
node: queries and orders that need them are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.cluster.answers.scatter import NodeFailure, NodeGroup, Round, Scatter
from holdfast.cluster.answers.shard.shard import NodeShard, ShardResponse
from holdfast.cluster.copies.partitions import PartitionRule
from holdfast.env.files import Buffer
from holdfast.errors import UsageError
from holdfast.index.index import IndexView
from holdfast.index.schema import PARTITIONS, page_number, schema
from holdfast.index.words import records_query
from holdfast.model import RecordId
from holdfast.query.compile import Leaf
from holdfast.query.engine import is_ranked, sort_of
from holdfast.query.groups import TextGroup
from holdfast.query.language.parser import parse
from holdfast.query.language.syntax import Expression, Match, canonical, terms
from holdfast.query.results import Hit, QueryOptions, QueryResult, Snippet
from holdfast.query.shard import (
    Candidate,
    Candidates,
    Occurrences,
    PageTexts,
    ShardQuery,
    TermStatistics,
    chosen,
    chosen_texts,
    joined_facets,
    rescored,
)
from holdfast.query.snapshot import Numbers
from holdfast.urls import url_key

if TYPE_CHECKING:
    import tantivy

_TRIES = 3
_LINKED = "linked-from"


# -- at each node -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Elsewhere:
    """What this node has to be told about links, and how it knows batches."""

    shard: NodeShard
    linked: Mapping[int, Sequence[int]]

    def linked_from(self, page: int) -> Numbers:
        return np.array(self.linked.get(page, ()), np.uint64)

    def of_batch(self, name: str) -> Numbers:
        view = self.shard.archive.index.view()
        found = (view.number_of(row.record) for row in self.shard.origins.rows(name))
        return np.unique(np.array([number for number in found if number is not None], np.uint64))


def require_searchable(rule: PartitionRule) -> None:
    """Raises UsageError if the index cannot tell the partitions of a cluster apart."""
    if PARTITIONS % rule.partitions:
        raise UsageError(
            f"a cluster of {rule.partitions} partitions cannot be searched: their number must divide {PARTITIONS}"
        )


def served_documents(shard: NodeShard, partitions: frozenset[int], view: IndexView) -> tantivy.Query:
    """The documents of some partitions. Those of split domains, and of URLs without a host, go by their record."""
    from tantivy import Occur, Query

    require_searchable(shard.rule)
    numbers = [number for number in range(PARTITIONS) if number % shard.rule.partitions in partitions]
    inside = Query.term_set_query(schema(), "partition", numbers)
    hostless = Query.term_query(schema(), "host", "", "basic")
    split = [Query.term_query(schema(), "suffix", domain, "basic") for domain in shard.rule.splits]
    apart = Query.boolean_query([(Occur.Should, each) for each in (hostless, *split)])
    hits = view.searcher.search(apart, max(1, view.searcher.num_docs), count=False).hits
    if not hits:
        return inside
    found = np.array(view.searcher.fast_field_values("record", [address for _, address in hits]), np.uint64).tolist()
    origins = shard.origins
    placed = [number for number in found if origins.partition_of(view.record_of(number)) in partitions]
    hosted = Query.boolean_query([(Occur.Must, inside), (Occur.MustNot, apart)])
    return Query.boolean_query([(Occur.Should, hosted), (Occur.Should, records_query(placed))]) if placed else hosted


def shard_query(shard: NodeShard, head: dict[str, Any], partitions: frozenset[int]) -> ShardQuery:
    given = head.get("query_options") or head["options"]
    options = QueryOptions(**{**given, "facets": tuple(given["facets"])})
    linked = {int(page): [int(each) for each in pages] for page, pages in head.get("linked", ())}
    return ShardQuery(
        shard.archive.queries,
        str(head["text"]),
        options,
        lambda view: served_documents(shard, partitions, view),
        shard.access.index_filter() if head["is_public"] else None,
        _Elsewhere(shard, linked),
    )


def answer_statistics(shard: NodeShard, head: dict[str, Any], partitions: frozenset[int]) -> ShardResponse:
    """What scores depend on."""
    return shard_query(shard, head, partitions).statistics().to_json(), []


def answer_candidates(shard: NodeShard, head: dict[str, Any], partitions: frozenset[int]) -> ShardResponse:
    """The first matches, under the ids of their origins, and counts of all."""
    statistics = TermStatistics.from_json(head["statistics"]) if "statistics" in head else None
    found = shard_query(shard, head, partitions).candidates(statistics)
    origins = shard.origins.first_origins([each.record for each in found.first])
    first = [[each.key, str(origin), each.page, each.seen] for each, origin in zip(found.first, origins, strict=True)]
    texts: list[Buffer] = []
    if found.texts is not None:
        texts = [found.texts.sketches.astype("<u8").tobytes(), found.texts.captures.astype("<i8").tobytes()]
    return {
        "total": found.total,
        "captures": found.captures,
        "is_exact": found.is_exact,
        "first": first,
        "facets": found.facets,
        "months": found.months,
        "pending": found.pending,
        "leaves": found.leaves,
        "statistics": found.statistics.to_json(),
    }, texts


def answer_hits(shard: NodeShard, head: dict[str, Any], partitions: frozenset[int]) -> ShardResponse:
    """What is shown of some matches."""
    places = {record: RecordId.parse(record) for record in head["records"]}
    local = {shard.local(origin): origin for origin in places.values()}
    found = shard_query(shard, head, partitions).hits([record for record in local if record is not None])
    return {"hits": [_packed(hit, local[hit.record]) for hit in found]}, []


def answer_linked(shard: NodeShard, head: dict[str, Any], partitions: frozenset[int]) -> ShardResponse:
    """The pages that a page links to."""
    return {"pages": shard_query(shard, head, partitions).linked_from(int(head["page"]))}, []


def _packed(hit: Hit, origin: RecordId) -> dict[str, Any]:
    return asdict(replace(hit, rank=0.0, inlinks=0)) | {"record": str(origin)}


def _unpacked(values: dict[str, Any]) -> Hit:
    snippet = values["snippet"]
    if snippet is not None:
        text, marks = snippet
        snippet = Snippet(text, tuple((first, last) for first, last in marks))
    return Hit(**values | {"record": RecordId.parse(values["record"]), "snippet": snippet})


# -- at the node that was asked ---------------------------------------------------------------------------------------


def ask_all(scatter: Scatter, text: str, options: QueryOptions, *, is_public: bool) -> QueryResult:
    """The result of a query over all nodes.

    Raises MalformedQuery, UsageError for what needs ranks, TooLarge, IndexNotFound if a node has no index.
    """
    expression = parse(text)
    sort = sort_of(expression, options)
    if sort == "rank" or is_ranked(expression):
        raise UsageError(
            "page ranks are computed by each node for itself: a cluster cannot be queried or ordered by them"
        )
    for attempt in range(_TRIES):
        try:
            return _asked(scatter, expression, sort, options, is_public=is_public)
        except NodeFailure:  # between two rounds: other nodes answer
            if attempt == _TRIES - 1:
                raise
    raise AssertionError("the last attempt returns or raises")


def _asked(
    scatter: Scatter, expression: Expression, sort: str, options: QueryOptions, *, is_public: bool
) -> QueryResult:
    round_ = scatter.begin(by_index=True)
    head: dict[str, Any] = {
        "text": canonical(expression),
        "options": {each.name: getattr(options, each.name) for each in fields(options)},
        "is_public": is_public,
    }
    head["linked"] = linked_pages(scatter, expression, head)
    asked = head | _statistics(round_, head) if options.group == "text" and sort == "relevance" else head
    parts = round_.gather(lambda group: (group, _candidates(round_, group, asked)))
    found = [candidates for _, candidates in parts]
    if sort == "relevance" and options.group != "text":
        found = rescored(found)
    total = sum(part.total for part in found)
    texts: dict[RecordId, TextGroup] = {}
    if options.group == "text":
        total, texts = chosen_texts(found, options, sort)
        records = list(texts)
    else:
        records = chosen(found, options, sort)
    scores = {each.record: each.key for part in found for each in part.first} if sort == "relevance" else {}
    hits = _hits(round_, head, [group for group, _ in parts], found, records)
    facets, timeline = joined_facets(found, options)
    return QueryResult(
        query=canonical(expression),
        sort=sort,
        group=options.group,
        total=total,
        captures=sum(part.captures for part in found),
        is_exact=all(part.is_exact for part in found),
        offset=options.offset,
        hits=tuple(
            replace(hits[record], score=scores.get(record, 0.0), **_counts(texts.get(record)))
            for record in records
            if record in hits
        ),
        facets=facets,
        timeline=timeline,
        pending=sum(part.pending for part in found),
        coverage=round_.coverage,
    )


def _statistics(round_: Round, head: dict[str, Any]) -> dict[str, Any]:
    """What is added to a question whose matches are ordered by each node."""
    statistics = TermStatistics()
    for response, _ in round_.gather(lambda group: round_.ask(group, "statistics", head)):
        statistics.add(TermStatistics.from_json(response))
    return {"statistics": statistics.to_json()}


def _counts(group: TextGroup | None) -> dict[str, Any]:
    """What only the node that was asked knows of a group of pages."""
    return {} if group is None else {"captures": group.captures, "pages": group.pages}


def linked_pages(scatter: Scatter, expression: Expression, head: dict[str, Any]) -> list[tuple[int, list[int]]]:
    """For each page that a query names as the source of links: what it links to, by the node that has it."""
    found: list[tuple[int, list[int]]] = []
    for term, _ in terms(expression):
        if not isinstance(term, Match) or term.field != _LINKED:
            continue
        page = page_number(url_key(term.value))
        partition = scatter.router.table().rule.of_url(term.value)
        round_ = scatter.begin(frozenset((partition,)) if partition is not None else None, by_index=True)
        asked = head | {"page": page}
        pages = round_.gather(lambda group: round_.ask(group, "linked", asked)[0]["pages"])  # noqa: B023
        found.append((page, sorted({each for some in pages for each in some})))
    return found


def _candidates(round_: Round, group: NodeGroup, head: dict[str, Any]) -> Candidates:
    response, raw = round_.ask(group, "candidates", head)
    texts = None
    if raw:
        sketches, captures = np.split(np.frombuffer(raw, "<u8"), 2)
        texts = PageTexts(sketches, captures.astype(np.int64))
    first = [
        Candidate(float(key), RecordId.parse(record), int(page), [Occurrences(*each) for each in seen])
        for key, record, page, seen in response["first"]
    ]
    return Candidates(
        response["total"],
        response["captures"],
        response["is_exact"],
        first,
        response["facets"],
        response["months"],
        response["pending"],
        texts,
        [Leaf(field, tuple(words), weight, is_prefix) for field, words, weight, is_prefix in response["leaves"]],
        TermStatistics.from_json(response["statistics"]),
    )


def _hits(
    round_: Round,
    head: dict[str, Any],
    groups: Sequence[NodeGroup],
    found: Sequence[Candidates],
    records: Sequence[RecordId],
) -> dict[RecordId, Hit]:
    """What is shown of the chosen records, by the nodes that found them. Raises NodeFailure if one is gone by now."""
    wanted = set(records)
    of_group = {
        group: [str(each.record) for each in part.first if each.record in wanted]
        for group, part in zip(groups, found, strict=True)
    }
    asked = [
        round_.submit(round_.ask, group, "hits", head | {"records": names})
        for group, names in of_group.items()
        if names
    ]
    hits = [_unpacked(values) for each in asked for values in each.result()[0]["hits"]]
    return {hit.record: hit for hit in hits}
