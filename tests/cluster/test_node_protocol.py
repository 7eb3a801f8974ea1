"""The node protocol (H3, H6): who may speak, what a node hands out, and what hostile or slow peers can do to it."""

from __future__ import annotations

import json
import socket
import ssl
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from copy_world import RULE, entries_of, make_node, seeded, some_pages
from node_keys import NodeAuthority
from waiting import wait_until

import holdfast
from holdfast import Archive
from holdfast.cluster.copies.acknowledgements import Acknowledgements
from holdfast.cluster.copies.blocks import BlockDecoder, LocalBlocks
from holdfast.cluster.copies.digests import unpack_digests
from holdfast.cluster.copies.origins import OriginTable
from holdfast.cluster.copies.partitions import pack_partitions
from holdfast.cluster.copies.protocol import peers as peers_module
from holdfast.cluster.copies.protocol.handlers import NodeRequests
from holdfast.cluster.copies.protocol.messages import (
    REQUEST_BYTES_MAX,
    NodeMessage,
    pack_body,
    pack_held,
    unpack_blocks,
    unpack_entries,
    unpack_rows,
)
from holdfast.cluster.copies.protocol.peers import NodeIdentity, NodeServer, Peer
from holdfast.cluster.membership.members import MemberList
from holdfast.errors import (
    Busy,
    ClusterDown,
    FormatTooNew,
    HoldfastError,
    MalformedInput,
    NotAMember,
    NotFound,
    UsageError,
)
from holdfast.model import RecordId
from holdfast.records.draft import fingerprint, signatures_of
from holdfast.storage.server.wire import pack_frame

ALL = pack_partitions(range(RULE.partitions), RULE.partitions).hex()


class World:
    """Node n1 with records and a server; n2 is a member, too."""

    def __init__(self, root: Path) -> None:
        self.authority = NodeAuthority(root / "keys")
        self.archive: Archive = holdfast.open(make_node(root, "n1"))
        self.archive.add(some_pages(seeded(), 60))
        self.origins = OriginTable(self.archive, RULE)
        self.blocks = LocalBlocks(self.archive)
        self.acknowledgements = Acknowledgements("n1", 2, self.origins, lambda _: ("n1", "n2"), lambda: 1)
        self.applied = 7
        requests = NodeRequests(
            self.archive,
            self.origins,
            self.blocks,
            self.acknowledgements,
            lambda wanted: max(wanted, self.applied),
            dict,
        )
        self.identity = NodeIdentity("n1", "c1", b"settings")
        one, two = self.authority.issue("n1"), self.authority.issue("n2")
        self.members = MemberList(1, (one, two))
        self.server = NodeServer(
            requests, self.identity, self.authority.server_tls("n1"), lambda: self.members, "127.0.0.1:0"
        )
        self.server.start()
        one = replace(one, address=f"127.0.0.1:{self.server.port}")
        self.members = MemberList(2, (one, two))
        self.one = one

    def peer(self, name: str = "n2", authority: NodeAuthority | None = None, **about: Any) -> Peer:
        """The connection of another node to n1."""
        identity = replace(NodeIdentity("n2", "c1", b"settings"), **about)
        return Peer(self.one, identity, (authority or self.authority).client_tls(name))

    def socket(self) -> ssl.SSLSocket:
        """A connection of n2, below the protocol."""
        plain = socket.create_connection(("127.0.0.1", self.server.port))
        return self.authority.client_tls("n2").wrap_socket(plain)

    def close(self) -> None:
        self.server.stop()
        self.origins.close()
        self.archive.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def ask(peer: Peer, kind: NodeMessage, raw: bytes = b"", **head: Any) -> tuple[dict[str, Any], bytes]:
    return peer.call(kind, {"removals": 0, **head}, raw)


def test_a_node_hands_out_its_records_and_their_blocks(world: World) -> None:
    peer = world.peer()
    (batch,) = world.archive.journal.names()
    status, _ = ask(peer, NodeMessage.STATUS)
    here = dict(entries_of(world.archive, batch))
    assert status["batches"] == {batch: len(here)} and status["removals"] == 7
    head, raw = ask(peer, NodeMessage.RECORDS, batch=batch, after=0, partitions=ALL)
    entries = unpack_entries(raw)
    assert {RecordId(batch, entry.serial): entry for entry in entries} == here
    assert head["until"] == len(here) == head["count"]
    head, raw = ask(peer, NodeMessage.RECORDS, batch=batch, after=head["until"], partitions=ALL)
    assert (head["count"], head["until"], raw) == (0, len(here), b"")
    assert world.acknowledgements.safe_up_to(batch) == len(here)
    decoder = BlockDecoder(
        world.archive.contents.sign, lambda number: ask(peer, NodeMessage.DICTIONARY, number=number)[1]
    )
    wanted = [each for entry in entries if not entry.is_inline for each in signatures_of(entry)]
    assert wanted
    head, raw = ask(peer, NodeMessage.BLOCKS, b"".join(wanted))
    for signature, encoded in zip(wanted, unpack_blocks(raw, head["count"]), strict=True):
        assert encoded is not None
        content = decoder.decode(signature, encoded)
        assert content == world.blocks.content(signature) and content is not None
        assert decoder.decode(bytes(32), encoded) is None
    assert world.blocks.missing([*wanted, bytes(32)]) == [bytes(32)]
    head, raw = ask(peer, NodeMessage.BLOCKS, bytes(32))
    assert unpack_blocks(raw, 1) == [None]
    peer.close()


def test_lists_digests_and_what_is_lacking(world: World) -> None:
    peer = world.peer()
    (batch,) = world.archive.journal.names()
    _, raw = ask(peer, NodeMessage.DIGESTS, level="partitions", partitions=ALL)
    digests = unpack_digests(raw, RULE.partitions)
    assert digests == world.origins.partition_digests(range(RULE.partitions))
    some = [number for number, digest in enumerate(digests) if digest.records][:5]
    chosen = pack_partitions(some, RULE.partitions).hex()
    for level in ("batches", "buckets"):
        head, _ = ask(peer, NodeMessage.DIGESTS, level=level, partitions=chosen, batch=batch)
        assert [list(each.values()) for each in head["digests"]] == [[digests[number].pack().hex()] for number in some]
    _, raw = ask(peer, NodeMessage.LIST, batch=batch, buckets=[0, 1], partitions=chosen)
    rows = unpack_rows(raw)
    assert {row.partition for row in rows} == set(some)
    entries = dict(entries_of(world.archive, batch))
    for row in rows:
        entry = entries[RecordId(batch, row.serial)]
        assert row.fingerprint == fingerprint(entry, signatures_of(entry))
    serials = [row.serial for row in rows]
    head, raw = ask(peer, NodeMessage.ENTRIES, batch=batch, serials=[*serials, 10**6])
    assert [entry.serial for entry in unpack_entries(raw)] == serials and head["done"] == len(serials) + 1
    held = [(row.serial, row.fingerprint) for row in rows]
    wrong = [(held[0][0], bytes(16)), (10**6, held[0][1])]
    head, _ = ask(peer, NodeMessage.HAVE, pack_held([*held, *wrong]), batch=batch)
    assert head["lacking"] == [held[0][0], 10**6]
    peer.close()


def test_a_request_says_up_to_which_removal_the_other_node_has_come(world: World) -> None:
    peer = world.peer()
    head, _ = peer.call(NodeMessage.STATUS, {"removals": 12})
    assert head["removals"] == 12
    with pytest.raises(MalformedInput):
        peer.call(NodeMessage.STATUS, {})
    peer.close()


def test_who_is_no_member_is_refused(world: World, tmp_path: Path) -> None:
    """Another cluster's name, CA or settings, an unknown or forgotten key, another's name, another's address."""
    for wrong, error in (
        (world.peer(cluster="c2"), NotAMember),
        (world.peer(settings=b"other"), UsageError),
        (world.peer(name="n1"), NotAMember),  # n1's certificate, but calls itself n2
    ):
        with pytest.raises(error):
            ask(wrong, NodeMessage.STATUS)
    stranger = NodeAuthority(tmp_path / "other", "other")
    stranger.issue("n2")
    tls = stranger.client_tls("n2")
    tls.load_verify_locations(world.authority.path)
    with pytest.raises((NotAMember, ClusterDown)):
        ask(Peer(world.one, NodeIdentity("n2", "c1", b"settings"), tls), NodeMessage.STATUS)
    with pytest.raises(NotAMember, match="not of this cluster"):
        ask(world.peer(authority=stranger), NodeMessage.STATUS)
    world.authority.issue("n3")
    with pytest.raises(NotAMember, match="of no member"):
        ask(world.peer("n3"), NodeMessage.STATUS)
    impostor = replace(world.one, public_key=bytes(32))
    with pytest.raises(NotAMember, match="is not node 'n1'"):
        ask(Peer(impostor, NodeIdentity("n2", "c1", b"settings"), world.authority.client_tls("n2")), NodeMessage.STATUS)
    good = world.peer()
    ask(good, NodeMessage.STATUS)
    world.members = MemberList(3, (world.one,))  # n2 is forgotten
    with pytest.raises(NotAMember):
        ask(good, NodeMessage.STATUS)
    good.close()


def test_the_highest_version_that_both_speak(world: World) -> None:
    for versions in ((0, 1), (1, 1), (1, 9)):
        peer = world.peer(protocols=versions)
        ask(peer, NodeMessage.STATUS)
        peer.close()
    with pytest.raises(FormatTooNew, match="speaks versions 2 to 9"):
        ask(world.peer(protocols=(2, 9)), NodeMessage.STATUS)


def test_a_node_that_is_away_is_down(world: World) -> None:
    peer = world.peer()
    ask(peer, NodeMessage.STATUS)
    world.server.stop()
    with pytest.raises(ClusterDown, match=r"'n1' at 127\.0\.0\.1"):
        ask(peer, NodeMessage.STATUS)


@pytest.mark.parametrize(
    ("kind", "head", "raw"),
    [
        (NodeMessage.RECORDS, {"batch": "../x", "after": 0, "partitions": ALL}, b""),
        (NodeMessage.RECORDS, {"batch": "a", "after": -1, "partitions": ALL}, b""),
        (NodeMessage.RECORDS, {"batch": "a", "after": 0, "partitions": "zz"}, b""),
        (NodeMessage.RECORDS, {"batch": "a", "after": 0, "partitions": ALL + "00"}, b""),
        (NodeMessage.LIST, {"batch": "a", "buckets": [2**40], "partitions": ALL}, b""),
        (NodeMessage.LIST, {"batch": "a", "buckets": list(range(65)), "partitions": ALL}, b""),
        (NodeMessage.LIST, {"batch": "a", "buckets": [2**32 - 1], "partitions": ALL}, b""),
        (NodeMessage.ENTRIES, {"batch": "a", "serials": ["1"]}, b""),
        (NodeMessage.BLOCKS, {}, b"short"),
        (NodeMessage.BLOCKS, {}, bytes(32 * 513)),
        (NodeMessage.DICTIONARY, {"number": True}, b""),
        (NodeMessage.DICTIONARY, {"number": 4711}, b""),
        (NodeMessage.DIGESTS, {"level": "leaves", "partitions": ALL}, b""),
        (NodeMessage.HAVE, {"batch": "a"}, b"12345"),
        (NodeMessage.HELLO, {}, b""),
        (NodeMessage.DONE, {}, b""),
    ],
)
def test_a_bad_request_gets_an_error_and_the_next_one_its_answer(
    world: World, kind: NodeMessage, head: dict[str, Any], raw: bytes
) -> None:
    peer = world.peer()
    with pytest.raises(HoldfastError) as caught:
        ask(peer, kind, raw, **head)
    assert isinstance(caught.value, MalformedInput | UsageError | NotFound)
    ask(peer, NodeMessage.STATUS)
    peer.close()


def test_bytes_that_are_no_message_end_the_connection(world: World) -> None:
    random = seeded()
    hello = pack_frame(NodeMessage.HELLO, 1, pack_body(NodeIdentity("n2", "c1", b"settings").hello()))
    for before, bad in (
        (b"", random.randbytes(200)),
        (b"", pack_frame(NodeMessage.STATUS, 1, pack_body({"removals": 0}))),
        (b"", pack_frame(NodeMessage.HELLO, 1, json.dumps({"node": "n2"}).encode())),
        (hello, struct.pack(">IBI", REQUEST_BYTES_MAX + 100, 2, 1)),
        (hello, struct.pack(">IBI", 0, 2, 1)),
    ):
        with world.socket() as connection:
            connection.settimeout(60)
            connection.sendall(before + bad)
            while connection.recv(65536):
                pass
    peer = world.peer()
    ask(peer, NodeMessage.STATUS)
    peer.close()
    wait_until(lambda: world.server.connections == 0, "all connections are closed")


def test_places_are_limited(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """One member cannot take all connections, and those who say nothing keep nobody out."""
    monkeypatch.setattr(peers_module, "UNAUTHENTICATED_MAX", 5)
    silent = [socket.create_connection(("127.0.0.1", world.server.port)) for _ in range(20)]
    mine = [world.peer() for _ in range(peers_module.MEMBER_CONNECTIONS_MAX)]
    for peer in mine:
        ask(peer, NodeMessage.STATUS)
    with pytest.raises(Busy):
        ask(world.peer(), NodeMessage.STATUS)
    mine.pop().close()
    wait_until(lambda: world.server.connections == len(mine), "the server notices that one is closed")
    peer = world.peer()
    ask(peer, NodeMessage.STATUS)
    for each in (peer, *mine, *silent):
        each.close()


def test_a_message_that_stops_midway_is_given_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers_module, "STALL_S", 0.2)
    hello = pack_frame(NodeMessage.HELLO, 1, pack_body(NodeIdentity("n2", "c1", b"settings").hello()))
    with world.socket() as connection:
        connection.settimeout(60)
        connection.sendall(hello)
        assert connection.recv(65536)
        connection.sendall(struct.pack(">IBI", 100, 2, 1) + Random(1).randbytes(10))
        assert connection.recv(65536) == b""
