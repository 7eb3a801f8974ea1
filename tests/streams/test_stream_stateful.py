"""Streams against a list: whatever is written, removed, compacted, sealed, reindexed or restarted meanwhile, on either
side, each stream gives its snapshot without what was removed: nothing twice, no gap, in order (B9, N5)."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule, run_state_machine_as_test
from stream_machine import StreamMachine
from stream_world import body, captures, expected, ordered

from holdfast.catalog.keys import encoded, page_number
from holdfast.index.ranks.ranks import GENERATIONS_KEPT
from holdfast.model import Capture
from holdfast.storage.volumes.organizations import ORGANIZATIONS
from holdfast.streams import StreamOptions

QUERIES = {  # what each of them finds, told by host and number of the body
    "": lambda host, number: True,
    "word3": lambda host, number: number == 3,
    "word1 or word8": lambda host, number: number in (1, 8),
    "site:a.example": lambda host, number: host == "a.example",
    "-word5 site:b.example": lambda host, number: host == "b.example" and number != 5,
}


class IndexedMachine(StreamMachine):
    """With an index that is brought up to date, made anew and ranked meanwhile; streams of queries, and by rank."""

    @initialize()
    def begin(self) -> None:
        super().begin()
        self.ranked = 0
        self.update_index()

    @rule()
    def update_index(self) -> None:
        self.archive.index.update()
        self.rank()

    @rule()
    def build_index(self) -> None:
        self.archive.index.build()

    @rule()
    def rank(self) -> None:
        if self.ranked < GENERATIONS_KEPT:  # older ones are given up, and so are streams in their order
            self.ranked += self.archive.index.rank().computed

    @rule(
        query=st.sampled_from(list(QUERIES)),
        order=st.sampled_from(("log", "url", "date", "modified reversed", "rank", "rank reversed")),
        size=st.sampled_from((1, 3, 8)),
        by_reader=st.booleans(),
    )
    def stream_of_a_query(self, query: str, order: str, size: int, by_reader: bool) -> None:
        options = ordered(StreamOptions(query=query, batch_size=size), order)
        stream = (self.reader if by_reader else self.archive).stream(options)
        ends = dict(self.archive.index.state().batches)
        numbers = {body(number): number for number in range(50)}
        payloads = {page.record: page.payload for page in self.archive.stream(StreamOptions(fields=("payload",)))}
        places = self._places()

        def place(capture: Capture) -> tuple[object, ...]:
            ranked = places.get(page_number(encoded(capture.urlkey)), len(places))
            return -ranked if options.reverse else ranked, capture.urlkey, capture.timestamp, capture.record

        everything = {capture.record: capture for capture in captures(self.archive)}
        wanted = expected(self.archive, options if options.order != "rank" else StreamOptions())
        if options.order == "rank":
            wanted = [each.record for each in sorted(map(everything.__getitem__, wanted), key=place)]
        if query:
            hosts = {record: capture.url.split("/")[2] for record, capture in everything.items()}
            wanted = [
                record
                for record in wanted
                if record.serial < ends.get(record.batch, 0)
                and QUERIES[query](hosts[record], numbers[payloads[record]])
            ]
        self._begin(options, wanted, stream)

    def _places(self) -> dict[int, int]:
        ranks = self.archive.index.ranks()
        if ranks is None:
            return {}
        return {number: place for place, number in enumerate(ranks.by_rank(0, len(ranks)).tolist())}


@pytest.mark.parametrize("organization", ORGANIZATIONS)
def test_streams_give_their_snapshots(organization: str) -> None:
    machine = type("Machine", (StreamMachine,), {"organization": organization})
    run_state_machine_as_test(machine, settings=settings(max_examples=8, stateful_step_count=25))


@pytest.mark.soak
@pytest.mark.parametrize("organization", ORGANIZATIONS)
def test_streams_give_their_snapshots_at_length(organization: str) -> None:
    machine = type("Machine", (StreamMachine,), {"organization": organization})
    run_state_machine_as_test(machine, settings=settings(max_examples=400, stateful_step_count=60))


@pytest.mark.parametrize("examples", [4, pytest.param(100, marks=pytest.mark.soak)])
def test_streams_of_queries_and_by_rank_give_their_snapshots(examples: int) -> None:
    run_state_machine_as_test(IndexedMachine, settings=settings(max_examples=examples, stateful_step_count=20))


@pytest.mark.parametrize("writer_restarts", [False, True])
def test_what_goes_while_a_reader_reads_ahead_is_not_handed_out(writer_restarts: bool) -> None:
    """Once a failing example of the above: the reader's catalog was older than the removal that it knew of."""
    machine = StreamMachine()
    machine.begin()
    machine.add(9, "p", "main")
    machine.stream(StreamOptions(), "log", 1, True)
    if writer_restarts:
        machine.restart_writer(lose_catalog=True)
        machine.read_on(0, 2)
    machine.remove("a.example", 1 if writer_restarts else 4, True)
    machine.teardown()
