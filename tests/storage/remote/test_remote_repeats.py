"""What is sent twice happens once, and what is repeated by somebody else does not happen at all."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from remote_peer import Peer, commit_body, frame
from remote_proxy import Chaos, Proxy
from remote_servers import Server

from holdfast.errors import VolumeDown, VolumeFull
from holdfast.storage.server import wire
from holdfast.storage.server.wire import Type
from holdfast.storage.volume import (
    BlockKey,
    Claim,
    Effect,
    IdempotencyKey,
    Operation,
    OperationResult,
    Refer,
    Release,
    Store,
)
from holdfast.storage.volumes.remote.client import RemoteVolume
from holdfast.testing.volumes import fetched, perform, plain, scanned, sign, totals

Connect = Callable[..., RemoteVolume]
Serve = Callable[..., Server]
KEY = BlockKey(sign(1))
BATCH: list[Operation] = [Store(sign(1), plain(b"one")), Refer(KEY), Refer(KEY), Release(KEY)]
IMPATIENT = {"retry_s": 0.0, "down_s": 0.0}


def new_ticket(sequence: int = 1, settled: int = 0) -> IdempotencyKey:
    return IdempotencyKey(os.urandom(8), sequence, settled)


def outcomes(answer: tuple[int, int, bytes], operations: list[Operation]) -> list[OperationResult]:
    assert answer[0] == Type.DONE, answer[2]
    return wire.unpack_results(answer[2], operations)


def refusal(answer: tuple[int, int, bytes]) -> str:
    assert answer[0] == Type.FAILED
    return answer[2].decode()


@pytest.mark.parametrize("organization", ["log", "tree", "hash", "hashed-log"])
def test_a_commit_that_is_sent_again_happens_once(serve: Serve, connect: Connect, organization: str) -> None:
    server = serve(organization=organization)
    body = commit_body(new_ticket(), BATCH)
    with Peer(server.port) as peer:
        first = outcomes(peer.ask(Type.COMMIT, body), BATCH)
        assert [outcome.effect.value for outcome in first] == ["new", "counted", "counted", "counted"]
        assert "before" in refusal(peer.ask(Type.COMMIT, body))
        peer.send(frame(Type.COMMIT, 77, body) * 50)
        assert {peer.read()[:2] for _ in range(50)} == {(Type.FAILED, 77)}
    for _ in range(3):
        with Peer(server.port) as peer:
            peer.send(frame(Type.COMMIT, 77, body) * 50)
            assert peer.read() == (Type.DONE, 77, wire.pack_results(first))
            assert {peer.read()[:2] for _ in range(49)} == {(Type.FAILED, 77)}
    server.kill()
    server = serve()
    with Peer(server.port) as peer:
        assert outcomes(peer.ask(Type.COMMIT, body), BATCH) == first
        (facts,) = wire.unpack_facts(peer.ask(Type.PROBE, wire.pack_signatures([sign(1)]))[2], [sign(1)])
        assert [each.references for each in facts] == [2]
    assert totals(connect(server.address)) == (1, 0, 2, 3, 3, 6)


@pytest.mark.parametrize("organization", ["log", "tree", "hash", "hashed-log"])
def test_a_void_commit_never_happens(serve: Serve, organization: str) -> None:
    server = serve(organization=organization)
    idempotency_key = new_ticket()
    with Peer(server.port) as peer:
        assert peer.ask(Type.VOID, wire.pack_idempotency_key(idempotency_key))[::2] == (Type.DONE, b"")
        assert peer.ask(Type.VOID, wire.pack_idempotency_key(idempotency_key))[::2] == (Type.DONE, b"")
        assert "void" in refusal(peer.ask(Type.COMMIT, commit_body(idempotency_key, BATCH)))
    server.kill()
    server = serve()
    with Peer(server.port) as peer:
        assert "void" in refusal(peer.ask(Type.COMMIT, commit_body(idempotency_key, BATCH)))
        happened = IdempotencyKey(idempotency_key.client, 2)
        first = outcomes(peer.ask(Type.COMMIT, commit_body(happened, BATCH)), BATCH)
        assert outcomes(peer.ask(Type.VOID, wire.pack_idempotency_key(happened)), BATCH) == first


def test_a_refused_commit_does_not_happen_when_the_network_repeats_it(serve: Serve, connect: Connect) -> None:
    server = serve(capacity_bytes=50_000)
    volume = connect(server.address)
    first = perform(volume, Store(sign(1), plain(bytes(40_000))))
    body = commit_body(new_ticket(), [Store(sign(2), plain(bytes(40_000)))])
    with Peer(server.port) as peer:
        assert "VolumeFull" in refusal(peer.ask(Type.COMMIT, body))
        perform(volume, Release(first.key))
        volume.compact(0.0, None)
        assert "before" in refusal(peer.ask(Type.COMMIT, body))
    assert totals(volume) == (0,) * 6
    assert perform(volume, Store(sign(2), plain(bytes(40_000)))).effect is Effect.NEW


def test_what_a_client_has_settled_is_not_done_again(serve: Serve) -> None:
    server, client = serve(), os.urandom(8)
    with Peer(server.port) as peer:
        for sequence in range(1, 4):
            peer.ask(Type.COMMIT, commit_body(IdempotencyKey(client, sequence), BATCH))
        peer.ask(Type.COMMIT, commit_body(IdempotencyKey(client, 4, 3), BATCH))
    with Peer(server.port) as peer:
        assert "settled" in refusal(peer.ask(Type.COMMIT, commit_body(IdempotencyKey(client, 2), BATCH)))
        (facts,) = wire.unpack_facts(peer.ask(Type.PROBE, wire.pack_signatures([sign(1)]))[2], [sign(1)])
        assert [each.references for each in facts] == [8]


def test_recorded_bytes_are_of_no_use_on_another_connection(
    serve: Serve, connect: Connect, through: Callable[..., Proxy]
) -> None:
    server = serve()
    proxy = through(server.port)
    volume = connect(proxy.address)
    volume.commit(BATCH)
    perform(volume, Refer(KEY))
    before = (totals(volume), volume.position())
    (recording,) = proxy.recordings
    for raw in (recording, recording[recording.index(b"\x04") :], recording + recording):
        with Peer(server.port, None) as peer:
            assert peer.read()[0] == Type.HELLO
            peer.send(bytes(raw))
            said = peer.rest()
            assert said[4] == Type.FAILED
    assert (totals(volume), volume.position()) == before


# -- answers that are lost ---------------------------------------------------------------------------------------------


def test_a_commit_whose_answer_was_lost_is_told_its_outcome(
    serve: Serve, connect: Connect, through: Callable[..., Proxy]
) -> None:
    proxy = through(serve().port)
    proxy.lost_answers = {1, 2, 3, 5}
    volume = connect(proxy.address)
    assert perform(volume, Store(sign(1), plain(b"one"))) == OperationResult(Effect.NEW, KEY, 1, 3)
    assert perform(volume, Refer(KEY)) == OperationResult(Effect.COUNTED, KEY, 2, 3)
    assert (proxy.commits, totals(volume)) == (6, (1, 0, 2, 3, 3, 6))


def test_a_given_up_commit_is_taken_back_once(serve: Serve, connect: Connect, through: Callable[..., Proxy]) -> None:
    """Also if the answers to taking it back are lost."""
    server = serve()
    perform(connect(server.address), Store(sign(1), plain(b"one"), references=9))
    proxy = through(server.port)
    proxy.lost_answers = {1, 2, 4, 5}
    volume = connect(proxy.address, **IMPATIENT)
    for _ in range(4):  # the commit; making it void; that again, and taking it back; that again
        with pytest.raises(VolumeDown):
            volume.commit([Refer(KEY)] if proxy.commits == 0 else [])
            volume.probe([sign(1)])
    assert fetched(volume, KEY) == (b"one", 9)
    assert proxy.commits == 6
    volume.close()


def test_a_repeated_commit_without_effect_cannot_happen_later(
    serve: Serve, connect: Connect, through: Callable[..., Proxy]
) -> None:
    """The first one may still be on its way, on a connection that was given up."""
    server = serve()
    proxy = through(server.port)
    proxy.lost_answers = {1, 3}
    volume = connect(proxy.address)
    assert perform(volume, Claim(sign(1), 3)).effect is Effect.MISSING
    perform(connect(server.address), Store(sign(1), plain(b"one")))
    late = bytes(proxy.recordings[0][75:])
    assert late[4] == Type.COMMIT
    with Peer(server.port) as peer:
        peer.send(late)
        assert "void" in refusal(peer.read())
    assert fetched(volume, KEY) == (b"one", 1)


def test_a_commit_that_filled_the_volume_is_not_refused_when_it_is_repeated(
    serve: Serve, connect: Connect, through: Callable[..., Proxy]
) -> None:
    proxy = through(serve(capacity_bytes=50_000).port)
    proxy.lost_answers = {1}
    volume = connect(proxy.address)
    assert perform(volume, Store(sign(1), plain(bytes(40_000)))).effect is Effect.NEW
    with pytest.raises(VolumeFull, match="capacity"):
        perform(volume, Store(sign(2), plain(bytes(40_000))))
    assert totals(volume)[:3] == (1, 0, 1)


def test_a_large_commit_is_taken_back_if_a_part_of_it_fails(serve: Serve, connect: Connect) -> None:
    volume = connect(serve(capacity_bytes=8 << 20).address)
    perform(volume, Store(sign(1), plain(b"one")))
    with pytest.raises(VolumeFull):
        volume.commit([Refer(KEY), *(Store(sign(n), plain(bytes(3 << 20))) for n in range(2, 6))])
    assert scanned(volume) == [(KEY, b"one", 1)]


def test_a_scan_over_cut_connections_tells_every_block_once(
    serve: Serve, connect: Connect, through: Callable[..., Proxy]
) -> None:
    server = serve(response_bytes_max=5000)
    given = [Store(sign(n), plain(b"%d" % n * 100)) for n in range(300)]
    direct = connect(server.address)
    direct.commit(given)
    proxy = through(server.port, Chaos(3, cut=1.0, cut_bytes=12_000))
    assert scanned(connect(proxy.address)) == scanned(direct)
    assert proxy.cuts > 3
    direct.close()
