"""Whoever does not know the secret, or does not keep to the protocol, changes nothing and cannot exhaust the server.

One server, the real program, endures all of it. After each test a good client is answered, the volume is as it was, and
the server has never had more than `PEAK_BYTES_MAX` in memory.
"""

from __future__ import annotations

import resource
import socket
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from random import Random

import pytest
from remote_messages import bad_keys, bad_numbers, good_questions, lies, packed_key, store, with_key
from remote_peer import HEAD, Peer, commit_body, frame, proof
from remote_servers import SECRET, Server
from waiting import wait_until

from holdfast.errors import VolumeDown
from holdfast.storage.server.wire import VERSION, Type
from holdfast.storage.volume import Adopt, BlockKey, Effect, IdempotencyKey, Refer, Store
from holdfast.storage.volumes.remote.client import RemoteVolume
from holdfast.testing.volumes import fetched, plain, scanned, sign, totals

Connect = Callable[..., RemoteVolume]
Serve = Callable[..., Server]
PEAK_BYTES_MAX = 300 << 20
GIB = 1 << 30


@pytest.fixture(autouse=True)
def sound(real_server: Server, connect: Connect) -> Iterator[None]:
    """The volume has some contents, and after the test the same ones and nothing else."""
    volume = connect(real_server.address)
    if not volume.stat().blocks:
        volume.commit([Store(sign(n), plain(b"%d" % n * 50)) for n in range(20)])
        volume.commit([Refer(BlockKey(sign(3))), Adopt(BlockKey(sign(1), 2, b"v7"), plain(b"copy"), 2, True)])
        volume.add_dictionary(7, b"words")
    before = (totals(volume), scanned(volume), volume.position(), volume.dictionary())
    yield
    assert fetched(volume, BlockKey(sign(3))) == (b"3" * 50, 2)
    assert (totals(volume), scanned(volume), volume.position(), volume.dictionary()) == before
    assert real_server.peak_bytes() < PEAK_BYTES_MAX


def refused(peer: Peer) -> str:
    """What the server says before it closes the connection."""
    kind, _, body = peer.read()
    assert kind == Type.FAILED
    assert peer.rest() == b""
    return body.decode()


# -- before authentication --------------------------------------------------------------------------------------------


def test_a_wrong_secret_is_refused(real_server: Server) -> None:
    for secret in (b"another secret than theirs", SECRET[:-1], SECRET + b"\n", b""):
        with Peer(real_server.port, None) as peer, pytest.raises(AssertionError, match="does not know"):
            peer.introduce(secret)


def test_proofs_of_the_wrong_side_or_without_a_secret_are_refused(real_server: Server) -> None:
    for word in (b"server", b"", b"client "):
        with Peer(real_server.port, None) as peer:
            hello = peer.read()[2]
            nonce = bytes(32)
            auth = struct.pack(">H32s32s", VERSION, nonce, proof(SECRET, word, hello[3:], nonce))
            peer.send(frame(Type.AUTH, 1, auth))
            assert "Unauthorized" in refused(peer)
    with Peer(real_server.port, None) as peer:
        peer.read()
        peer.send(frame(Type.AUTH, 1, struct.pack(">H", VERSION) + bytes(64)))
        assert "Unauthorized" in refused(peer)


def test_a_proof_is_good_for_one_connection(real_server: Server) -> None:
    with Peer(real_server.port, None) as peer:
        hello, nonce = peer.read()[2], bytes(32)
        auth = struct.pack(">H32s32s", VERSION, nonce, proof(SECRET, b"client", hello[3:], nonce))
        assert peer.ask(Type.AUTH, auth)[0] == Type.DONE
    with Peer(real_server.port, None) as peer:
        peer.read()
        peer.send(frame(Type.AUTH, 1, auth))
        assert "Unauthorized" in refused(peer)


def test_another_version_is_told_so(real_server: Server) -> None:
    with Peer(real_server.port, None) as peer:
        peer.read()
        peer.send(frame(Type.AUTH, 1, struct.pack(">H", VERSION + 1) + bytes(64)))
        assert "FormatTooNew" in refused(peer)


def test_questions_before_the_proof_are_refused(real_server: Server) -> None:
    for kind, body in good_questions():
        with Peer(real_server.port, None) as peer:
            peer.read()
            peer.send(frame(kind, 1, body))
            assert "MalformedInput" in refused(peer)
    for length in (0, 1, 65, 67, 1000):
        with Peer(real_server.port, None) as peer:
            peer.read()
            peer.send(frame(Type.AUTH, 1, bytes(length)))
            assert "wrong length" in refused(peer)


def test_garbage_is_refused(real_server: Server) -> None:
    random = Random(1)
    garbage = [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00" + bytes(512), b"\0" * 9, b"\xff" * 100_000]
    garbage += [random.randbytes(random.choice([1, 4, 8, 9, 10, 100, 5000])) for _ in range(100)]
    for raw in garbage:
        with Peer(real_server.port, None) as peer, suppress(ConnectionError):
            peer.send(raw)
            peer.end()
            peer.rest()


def test_a_large_message_before_the_proof_is_refused(real_server: Server) -> None:
    for length in (2000, 1 << 20, GIB, 4 * GIB - 1):
        with Peer(real_server.port, None) as peer:
            peer.read()
            peer.send(HEAD.pack(length, Type.AUTH, 1))
            assert "over the limit" in refused(peer)
    for length in range(5):
        with Peer(real_server.port, None) as peer:
            peer.read()
            peer.send(HEAD.pack(length, Type.AUTH, 1))
            assert "too short" in refused(peer)


def test_who_only_holds_connections_keeps_nobody_out(real_server: Server, connect: Connect, closing: ExitStack) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    closing.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
    for _ in range(min(3000, hard - 500)):
        closing.enter_context(socket.create_connection(("127.0.0.1", real_server.port), 60))
    for _ in range(5):
        volume = connect(real_server.address)
        assert fetched(volume, BlockKey(sign(3))) == (b"3" * 50, 2)
        for _ in range(100):
            closing.enter_context(socket.create_connection(("127.0.0.1", real_server.port), 60))
    assert real_server.descriptors() < 500


# -- behind the proof --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lies, bad_numbers])
def test_what_is_malformed_is_refused(real_server: Server, make: Callable[[], Iterator[tuple[int, bytes]]]) -> None:
    for kind, body in make():
        with Peer(real_server.port) as peer:
            peer.send(frame(kind, 1, body))
            said = refused(peer)
            assert "MalformedInput" in said, (kind, body, said)


def test_keys_that_are_none_are_refused(real_server: Server) -> None:
    for key in bad_keys():
        for kind, body in with_key(key):
            with Peer(real_server.port) as peer:
                peer.send(frame(kind, 1, body))
                assert "MalformedInput" in refused(peer), (kind, body)


def test_a_content_over_the_limit_is_refused_and_the_connection_goes_on(real_server: Server) -> None:
    head = struct.pack(">8sQQ", b"whatever", 1, 0) + b"\0\0\0\1" + store() + b"\4" + bytes(4)
    for size in (2**40, 2**63, 2**64 - 1):
        with Peer(real_server.port) as peer:
            kind, _, body = peer.ask(Type.COMMIT, head + struct.pack(">QI", size, 3) + b"noneabc")
            assert (kind, body.partition(b"\n")[0]) == (Type.FAILED, b"TooLarge")
            assert peer.ask(Type.STAT)[0] == Type.DONE


def test_unknown_questions_are_answered(real_server: Server) -> None:
    """So that clients of later releases can be served by earlier servers."""
    with Peer(real_server.port) as peer:
        for kind in (0, Type.AUTH, *range(15, 256)):
            assert peer.ask(kind, b"whatever")[0] == Type.FAILED
        assert peer.ask(Type.STAT)[0] == Type.DONE


def test_messages_that_end_early_are_forgotten(real_server: Server) -> None:
    for kind, body in good_questions():
        raw = frame(kind, 1, body)
        for end in {1, 4, 8, 9, len(raw) // 2, len(raw) - 1} - {len(raw)}:
            with Peer(real_server.port) as peer:
                peer.send(raw[:end])


def test_a_huge_message_is_refused(real_server: Server) -> None:
    for length in (129 << 20, GIB, 4 * GIB - 1):
        with Peer(real_server.port) as peer:
            peer.send(HEAD.pack(length, Type.COMMIT, 1))
            assert "over the limit" in refused(peer)


def test_announced_bytes_take_no_memory_before_they_arrive(
    real_server: Server, connect: Connect, closing: ExitStack
) -> None:
    for _ in range(50):
        peer = closing.enter_context(Peer(real_server.port))
        peer.send(HEAD.pack(100 << 20, Type.COMMIT, 1) + bytes(1000))
    volume = connect(real_server.address)
    assert fetched(volume, BlockKey(sign(3))) == (b"3" * 50, 2)
    assert volume.stat().blocks == 20


def test_a_dictionary_is_never_replaced(real_server: Server) -> None:
    with Peer(real_server.port) as peer:
        assert peer.ask(Type.ADD_DICTIONARY, b"\0\0\0\7words")[0] == Type.DONE
        for body in (b"\0\0\0\7other words", b"\0\0\0\0words", b"\0\0\0\x08", b"\0\0\0\x08" + bytes((16 << 20) + 1)):
            assert peer.ask(Type.ADD_DICTIONARY, body)[0] == Type.FAILED


# -- mutations ---------------------------------------------------------------------------------------------------------


def mutated(random: Random, raw: bytes) -> bytes:
    changed = bytearray(raw)
    for _ in range(random.choice([1, 1, 2, 5])):
        at = random.randrange(len(changed) + 1)
        match random.randrange(5):
            case 0 if at < len(changed):
                changed[at] = random.choice([0, 1, 127, 128, 255, random.randrange(256)])
            case 1 if at < len(changed):
                changed[at] ^= 1 << random.randrange(8)
            case 2:
                del changed[at : at + random.randrange(1, 9)]
            case 3:
                changed[at:at] = random.randbytes(random.randrange(1, 9))
            case _:
                changed[at : at + 4] = struct.pack(">I", random.choice([0, 1, 255, 65536, 2**31, 2**32 - 1]))
    return bytes(changed)


@pytest.mark.parametrize("count", [2500, pytest.param(200_000, marks=pytest.mark.soak)])
def test_mutated_messages_change_nothing(serve: Serve, connect: Connect, count: int) -> None:
    """The volume takes no new contents, and nobody's counter is named: so each message must leave it as it is."""
    first = serve()
    connect(first.address).commit([Store(sign(n), plain(b"%d" % n * 50)) for n in range(20)])
    first.stop()
    server = serve(read_only=True)
    volume = connect(server.address)
    before, random = (totals(volume), scanned(volume)), Random(count)
    peer = Peer(server.port)
    for number in range(count):
        kind, body = random.choice(good_questions())
        if random.random() < 0.1:
            raw = mutated(random, frame(kind, 1, body))
        else:
            raw = frame(random.choice([kind] * 9 + [random.randrange(256)]), 1, mutated(random, body))
        try:
            peer.send(raw + frame(Type.NEWS, 0xFFFFFFFF, bytes(8)))
            if len(raw) < 9 or struct.unpack_from(">I", raw)[0] + 4 != len(raw):
                peer.end()  # the server may wait for more
                raise ConnectionError
            while peer.read()[1] != 0xFFFFFFFF:
                pass
        except ConnectionError:
            peer.rest()
            peer.close()
            peer = Peer(server.port)
        if number % 500 == 0:
            assert totals(volume) == before[0]
    peer.close()
    assert (totals(volume), scanned(volume)) == before
    assert server.peak_bytes() < PEAK_BYTES_MAX


# -- time --------------------------------------------------------------------------------------------------------------


def test_an_unauthenticated_client_that_trickles_is_cut_off(serve: Serve) -> None:
    server = serve(handshake_s=0.2)
    with Peer(server.port, None) as peer, suppress(ConnectionError):
        peer.read()
        peer.socket.settimeout(0.02)
        for byte in frame(Type.AUTH, 1, bytes(1000)):
            try:
                peer.send(bytes([byte]))
                assert peer.socket.recv(1) == b""
                return
            except TimeoutError:
                continue
        pytest.fail("the server listens to a trickle")


def test_a_client_that_stops_in_the_middle_of_a_message_is_cut_off(serve: Serve) -> None:
    server = serve(stall_s=0.2)
    with Peer(server.port) as patient, Peer(server.port) as peer:
        peer.send(frame(Type.PROBE, 1, bytes(100))[:50])
        assert peer.rest() == b""
        assert patient.ask(Type.STAT)[0] == Type.DONE, "who is silent between messages stays"


def test_a_large_message_that_trickles_is_cut_off(serve: Serve, connect: Connect) -> None:
    """Others wait for the memory that it has been promised."""
    server = serve(stall_s=0.3, slowest_bytes_s=100 << 20, pending_bytes_max=3 << 20, message_bytes_max=3 << 20)
    body = commit_body(IdempotencyKey(b"whatever", 1, 0), [Store(sign(1), plain(bytes(2 << 20)))])
    with Peer(server.port) as peer, ThreadPoolExecutor(1) as pool:
        raw = frame(Type.COMMIT, 1, body)
        peer.send(raw[:70_000])
        waiting = pool.submit(connect(server.address).commit, [Store(sign(2), plain(bytes(2 << 20)))])
        peer.socket.settimeout(0.05)
        for at in range(70_000, len(raw)):
            try:
                peer.send(raw[at : at + 1])
                assert peer.socket.recv(1) == b""
                break
            except TimeoutError:
                continue
            except ConnectionError:
                break
        assert waiting.result(60)[0].effect is Effect.NEW


@pytest.mark.parametrize("questions", [3, 30])
def test_a_client_that_takes_no_answers_is_cut_off(serve: Serve, connect: Connect, questions: int) -> None:
    server = serve(stall_s=0.3)
    volume = connect(server.address)
    volume.commit([Store(sign(1), plain(bytes(1 << 20)))])
    others = volume.activity().clients
    with Peer(server.port, receive_bytes=4096) as peer:
        assert volume.activity().clients == others + 1
        peer.send(frame(Type.FETCH, 1, b"\0\0\0\1" + packed_key()) * questions)
        wait_until(lambda: volume.activity().clients == others, "the client to be cut off")
    assert server.peak_bytes() < PEAK_BYTES_MAX


def test_beyond_the_limit_of_connections_clients_wait_for_a_place(serve: Serve, connect: Connect) -> None:
    server = serve(connections_max=3)
    peers = [Peer(server.port) for _ in range(3)]
    with pytest.raises(VolumeDown, match="too many connections"):
        connect(server.address, retry_s=0.0).stat()
    peers.pop().close()
    assert connect(server.address).stat().blocks == 0
    for peer in peers:
        peer.close()
