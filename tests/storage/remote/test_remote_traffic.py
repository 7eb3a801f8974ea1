"""What travels: a duplicate its signature only, a content once and as it is stored, no message beyond the limits."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import Mock, patch

import pytest
from remote_messages import packed_key
from remote_peer import Peer, commit_body, frame
from remote_proxy import Proxy
from remote_servers import Server
from waiting import wait_until

import holdfast
from holdfast import Plan
from holdfast.errors import TooLarge, VolumeDown, VolumeFull, VolumeReadOnly
from holdfast.storage.server import wire
from holdfast.storage.server.handlers import RequestHandlers
from holdfast.storage.server.options import ServerOptions
from holdfast.storage.server.service import VolumeService
from holdfast.storage.server.wire import Type
from holdfast.storage.store.bloom import LOADED_AFTER
from holdfast.storage.volume import BlockKey, Claim, Effect, IdempotencyKey, OperationResult, Refer, Release, Store
from holdfast.storage.volumes.remote.client import RemoteVolume
from holdfast.testing.volumes import fetched, perform, plain, scanned, sign, totals

Connect = Callable[..., RemoteVolume]
Serve = Callable[..., Server]
DUPLICATE_BYTES_MAX = 200
PEAK_BYTES_MAX = 500 << 20
MIB = 1 << 20


# -- bytes on the wire ------------------------------------------------------------------------------------------------


def test_a_duplicate_costs_its_signature(serve: Serve, connect: Connect, through: Callable[..., Proxy]) -> None:
    """Whatever its size: both directions together, from asking to counting."""
    server = serve()
    connect(server.address).commit([Store(sign(size), plain(bytes(size))) for size in (1, 1000, MIB, 50 * MIB)])
    proxy = through(server.port)
    volume = connect(proxy.address)
    volume.stat()
    for size in (1, 1000, MIB, 50 * MIB):
        before = proxy.passed_bytes
        (found,) = volume.probe([sign(size)])
        assert perform(volume, Refer(found[0].key)).effect is Effect.COUNTED
        assert proxy.passed_bytes - before < DUPLICATE_BYTES_MAX
        before = proxy.passed_bytes
        assert perform(volume, Claim(sign(size), size)).effect is Effect.DUPLICATE
        assert proxy.passed_bytes - before < DUPLICATE_BYTES_MAX


def test_storing_a_duplicate_in_an_archive_costs_its_signature(
    serve: Serve, through: Callable[..., Proxy], secret_file: Path, tmp_path: Path, closing: ExitStack
) -> None:
    proxy = through(serve().port)
    path = tmp_path / "archive"
    holdfast.init(path, Plan(1))
    settings = path / "holdfast.toml"
    text = settings.read_text().replace('name = "v0"', f'name = "v0"\naddress = "{proxy.address}"')
    settings.write_text(f'{text}\n[remote]\nsecret_file = "{secret_file}"\n')
    archive = closing.enter_context(holdfast.open(path))
    contents = [Random(size).randbytes(size) for size in (1, 100, 10_000, MIB, 50 * MIB)]
    keys = [archive.contents.put(content) for content in contents]
    for content, key in zip(contents, keys, strict=True):
        before = proxy.passed_bytes
        assert archive.contents.put(content) == key
        passed = proxy.passed_bytes - before
        assert passed < DUPLICATE_BYTES_MAX, len(content)


def test_one_round_trip_for_what_is_surely_new_or_surely_known(
    serve: Serve, through: Callable[..., Proxy], secret_file: Path, tmp_path: Path, closing: ExitStack
) -> None:
    """What another client stored since the filter was synchronized is sent once, and counted as a duplicate."""
    proxy = through(serve().port)
    connector = tmp_path / "connector.toml"
    lines = ["format = 1", "[remote]", f'secret_file = "{secret_file}"', "follow_s = 3600.0"]
    connector.write_text("\n".join([*lines, "[[volume]]", 'name = "v0"', f'address = "{proxy.address}"']))
    first, second = (closing.enter_context(holdfast.connect(connector)).contents for _ in range(2))
    first.store_batch([b"%d" % number for number in range(40)])
    for number in range(LOADED_AFTER + 1):
        first.put(b"%d" % number)
    wait_until(lambda: first._store.is_new(b"?" * 32, "v0"), "the filter to be loaded")
    second.put(b"0")
    pages = [Random(number).randbytes(10_000) for number in range(2)]

    def cost(contents: Any, page: bytes) -> tuple[int, bool, int]:
        commits, before = proxy.commits, proxy.passed_bytes
        stored = contents.store(page)
        return proxy.commits - commits, proxy.passed_bytes - before > DUPLICATE_BYTES_MAX, stored.references

    assert cost(first, pages[0]) == (1, True, 1), "surely new"
    assert cost(first, pages[0]) == (1, False, 2), "surely known"
    assert cost(second, pages[0]) == (1, False, 3), "known, though there is no filter: a claim"
    assert cost(second, pages[1]) == (2, True, 1), "there is no filter: a claim, then the content"
    assert cost(first, pages[1]) == (1, True, 2), "not heard of yet: sent, and counted"
    assert cost(first, pages[1]) == (1, False, 3), "and known from then on"


def test_a_content_of_fifty_million_bytes(serve: Serve, connect: Connect, through: Callable[..., Proxy]) -> None:
    server = serve()
    proxy = through(server.port)
    volume = connect(proxy.address)
    data = Random(50).randbytes(50 * MIB)
    assert perform(volume, Store(sign(1), plain(data))) == OperationResult(Effect.NEW, BlockKey(sign(1)), 1, len(data))
    assert proxy.up_bytes < len(data) + 1000
    assert fetched(volume, BlockKey(sign(1))) == (data, 1)
    assert proxy.down_bytes < len(data) + 1000
    assert server.peak_bytes() < PEAK_BYTES_MAX


def test_many_large_contents_are_fetched_a_few_at_a_time(serve: Serve, connect: Connect) -> None:
    server = serve()
    volume = connect(server.address)
    for number in range(40):
        perform(volume, Store(sign(number), plain(bytes([number]) * (4 * MIB))))
    before = server.peak_bytes()
    blocks = volume.fetch([BlockKey(sign(number)) for number in range(40)])
    assert [bytes(block.encoded.data[:1]) for block in blocks if block] == [bytes([n]) for n in range(40)]
    assert len(scanned(volume)) == 40
    assert server.peak_bytes() - before < 80 * MIB


def test_a_content_beyond_the_message_limit_is_refused_before_it_is_sent(
    serve: Serve, connect: Connect, through: Callable[..., Proxy]
) -> None:
    proxy = through(serve(message_bytes_max=MIB).port)
    volume = connect(proxy.address)
    with pytest.raises(TooLarge, match=r"10486\d\d bytes .*limit of the server at .*1048576"):
        perform(volume, Store(sign(1), plain(bytes(MIB))))
    assert proxy.up_bytes < 1000
    perform(volume, Store(sign(1), plain(bytes(MIB - 1000))))
    assert totals(volume)[:3] == (1, 0, 1)


def test_what_the_server_refuses_is_raised_as_its_own_error(serve: Serve, connect: Connect) -> None:
    server = serve(store={"content_bytes_max": 1000}, capacity_bytes=100_000)
    volume = connect(server.address)
    with pytest.raises(TooLarge, match="over the server's limit of 1000"):
        perform(volume, Store(sign(1), plain(bytes(1001))))
    with pytest.raises(VolumeFull, match=f"volume 'v0' at {server.address}: .*capacity of 100000 bytes"):
        for number in range(1000):
            perform(volume, Store(sign(number), plain(bytes(1000))))
    stored = totals(volume)[0]
    assert 50 < stored < 100
    perform(volume, Refer(BlockKey(sign(0))))
    volume.commit([Release(BlockKey(sign(number))) for number in range(stored)])
    volume.compact(0.0, None)
    perform(volume, Store(sign(-1), plain(bytes(1000))))
    server.stop()
    volume = connect(serve(read_only=True).address)
    with pytest.raises(VolumeReadOnly, match=r"volume 'v0' at .* is read-only"):
        perform(volume, Store(sign(1), plain(b"one")))
    with pytest.raises(VolumeReadOnly, match=r"volume 'v0' at .* is read-only"):
        volume.add_dictionary(1, b"words")
    assert perform(volume, Release(BlockKey(sign(-1)))).effect is Effect.REMOVED


def test_a_long_message_has_the_time_limit_for_each_of_its_parts(serve: Serve, connect: Connect) -> None:
    """What the system calls a time-out is for the whole of what one call sends: a slow line would never be enough."""
    volume = connect(serve().address)
    link = volume._pool.take()
    sent: list[int] = []

    class Noting:
        def __init__(self, real: socket.socket) -> None:
            self.real = real

        def sendall(self, data: memoryview) -> None:
            sent.append(len(data))
            self.real.sendall(data)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.real, name)

    link._socket = Noting(link._socket)  # type: ignore[assignment]
    link.call(Type.PROBE, wire.pack_signatures([sign(number) for number in range(20_000)]))
    assert len(sent) > 2 and max(sent) <= 256 << 10
    volume._pool.give_back(link)


def test_another_volume_in_the_place_of_one_has_no_news_since(serve: Serve, connect: Connect, tmp_path: Path) -> None:
    """Its serial numbers begin anew: what it has stored before that of the other must not be taken for known."""
    server = serve(tmp_path / "first")
    volume = connect(server.address)
    volume.commit([Store(sign(number), plain(b"%d" % number)) for number in range(5)])
    position = volume.position()
    assert volume.news(position).signatures == []
    server.stop()
    volume = connect(serve(tmp_path / "second").address)
    volume.commit([Store(sign(-number), plain(b"-%d" % number)) for number in range(1, 20)])
    assert volume.news(position).signatures is None


def test_news_that_are_requested_during_a_commit_come_with_the_next_request() -> None:
    """The volume has counted the commit already; its signatures are news when it is durable."""
    volume = Mock(**{"position.return_value": 10})
    spec = Mock(**{"identity.uid": b"0a", "identity.signature": "sha256", "identity.organization": "log"})
    service = VolumeService(volume, spec, ServerOptions(), Mock(**{"monotonic.return_value": 0.0}))
    first = service.news(0).position
    volume.position.return_value = 11
    during = service.news(first)
    service.note([[OperationResult(Effect.NEW, BlockKey(sign(1)), 1, 3)]])
    after = service.news(during.position)
    assert [*(during.signatures or []), *(after.signatures or [])] == [sign(1)]
    assert service.news(after.position).signatures == []


def test_a_full_disk_refuses_new_contents_and_keeps_the_old(serve: Serve, connect: Connect) -> None:
    server = serve(file_bytes_max=200_000)
    volume = connect(server.address)
    stored = 0
    with pytest.raises((VolumeFull, VolumeDown)):
        for number in range(100):
            perform(volume, Store(sign(number), plain(bytes(10_000))))
            stored += 1
    assert stored >= 10
    assert fetched(volume, BlockKey(sign(stored - 1))) == (bytes(10_000), 1)
    assert totals(volume)[0] == stored
    server.stop()
    assert len(scanned(connect(serve().address))) == stored


# -- back-pressure ----------------------------------------------------------------------------------------------------


def test_ten_thousand_questions_are_answered_to_a_client_that_reads_late(serve: Serve, connect: Connect) -> None:
    """Their answers, 300 MB, are made only as fast as they are taken."""
    server = serve(stall_s=600.0)
    perform(connect(server.address), Store(sign(1), plain(bytes(30_000))))
    count, before = 10_000, server.peak_bytes()
    body = b"\0\0\0\1" + packed_key()
    with Peer(server.port, receive_bytes=65536) as peer, ThreadPoolExecutor(1) as pool:
        questions = b"".join(frame(Type.FETCH, number, body) for number in range(count))
        sending = pool.submit(peer.send, questions)
        fetched(connect(server.address), BlockKey(sign(1)))  # others are served meanwhile
        for number in range(count):
            kind, request, answer = peer.read()
            assert (kind, request, len(answer) > 30_000) == (Type.DONE, number, True)
        sending.result()
    assert server.peak_bytes() - before < 50 * MIB


def test_commits_that_wait_are_bounded(serve: Serve, connect: Connect) -> None:
    """A client sends ten times as much as the server may hold, and reads no answer meanwhile."""
    server = serve(pending_bytes_max=16 * MIB, outstanding_max=64, stall_s=600.0)
    before = server.peak_bytes()
    client, count = b"whatever", 2000
    with Peer(server.port) as peer, ThreadPoolExecutor(1) as pool:

        def send() -> None:
            for number in range(1, count + 1):
                store = Store(sign(number), plain(bytes(100_000)))
                peer.send(
                    frame(
                        Type.COMMIT, number, commit_body(IdempotencyKey(client, number, max(0, number - 500)), [store])
                    )
                )

        sending = pool.submit(send)
        answers = {peer.read()[:2] for _ in range(count)}
        sending.result()
        assert answers == {(Type.DONE, number) for number in range(1, count + 1)}
    assert totals(connect(server.address))[0] == count
    assert server.peak_bytes() - before < 200 * MIB


def test_large_questions_wait_for_their_share_of_the_memory(serve: Serve, connect: Connect) -> None:
    server = serve(pending_bytes_max=20 * MIB, message_bytes_max=20 * MIB)
    volume = connect(server.address)
    with ThreadPoolExecutor(12) as pool:
        stores = [Store(sign(number), plain(bytes([number]) * (10 * MIB))) for number in range(12)]
        assert {outcome.effect for outcome in pool.map(lambda store: perform(volume, store), stores)} == {Effect.NEW}
    assert totals(volume)[:3] == (12, 0, 12)
    assert server.peak_bytes() < 300 * MIB


def test_answers_that_nobody_takes_are_bounded(serve: Serve, connect: Connect) -> None:
    """Beyond the memory for all clients together, those with the most are cut off."""
    server = serve(pending_bytes_max=32 * MIB, message_bytes_max=MIB, stall_s=600.0)
    volume = connect(server.address)
    perform(volume, Store(sign(1), plain(bytes(MIB - 1000))))
    question = frame(Type.FETCH, 1, b"\0\0\0\1" + packed_key())
    peers = [Peer(server.port, receive_bytes=4096) for _ in range(40)]
    for peer in peers:
        peer.send(question * 20)
    wait_until(lambda: volume.activity().clients < 20, "clients to be cut off")
    assert fetched(volume, BlockKey(sign(1))) == (bytes(MIB - 1000), 1)
    assert server.peak_bytes() < PEAK_BYTES_MAX
    for peer in peers:
        peer.close()


def test_answers_may_come_in_another_order(serve: Serve) -> None:
    with Peer(serve().port) as peer:
        commit = commit_body(IdempotencyKey(b"whatever", 1, 0), [Store(sign(1), plain(b"one"))])
        peer.send(frame(Type.COMMIT, 1, commit) + frame(Type.NEWS, 2, bytes(8)) + frame(Type.STAT, 3))
        answers = {number: kind for kind, number, _ in (peer.read() for _ in range(3))}
        assert answers == {1: Type.DONE, 2: Type.DONE, 3: Type.DONE}


def test_a_scan_that_nobody_goes_on_with_is_given_up() -> None:
    """It holds megabytes that it has read ahead. Its client may go on all the same, behind its mark."""
    service = Mock(options=ServerOptions(scan_kept_s=5.0))
    service.scan.side_effect = lambda position, counted: iter([[Mock(mark=position)]] * 3)
    server = Mock(**{"now.return_value": 100.0})
    server.threads.submit = lambda run: run()
    server.call_soon = lambda function, *arguments: function(*arguments)
    handlers = RequestHandlers(Mock(server=server), service)
    with patch.multiple(wire, pack_key=lambda key: b"", pack_block=lambda block: []):
        handlers.handle(Type.SCAN, 1, memoryview(b"\1\0"))
        handlers.tick(104.0)
        handlers.handle(Type.SCAN, 2, memoryview(b"\1\0"))
        assert service.scan.call_count == 1, "it continued the scan that it had"
        handlers.tick(106.0)
        handlers.handle(Type.SCAN, 3, memoryview(b"\1\0"))
    assert service.scan.call_count == 2


def test_scans_of_one_connection_do_not_disturb_each_other(serve: Serve, connect: Connect) -> None:
    server = serve(response_bytes_max=2000)
    connect(server.address).commit([Store(sign(n), plain(b"%d" % n * 100)) for n in range(100)])
    with Peer(server.port) as peer:
        peer.send(b"".join(frame(Type.SCAN, n, b"\1\0") + frame(Type.SIGNATURES, 1000 + n, b"\1") for n in range(200)))
        answers = [peer.read() for _ in range(400)]
    assert {kind for kind, _, _ in answers} == {Type.DONE}
    assert len({body for _, number, body in answers if number < 1000}) == 1
    for _, number, body in answers:
        if number >= 1000:
            assert sorted(wire.unpack_signatures(body)) == sorted(sign(n) for n in range(100))


@pytest.mark.parametrize("organization", ["log", "tree"])
def test_a_fetch_of_many_blocks_is_answered_in_parts(organization: str, serve: Serve, connect: Connect) -> None:
    """Each is of limited size, but has at least one block."""
    server = serve(organization=organization, response_bytes_max=2000)
    volume = connect(server.address)
    volume.commit([Store(sign(n), plain(bytes(5000 if n == 50 else 300))) for n in range(100)])
    keys = [BlockKey(sign(n)) for n in (50, 1000, *range(100), 1001)]
    with Peer(server.port) as peer:
        for wanted, counts in ((keys, 1), (keys[2:], 6), (keys[52:], 1), (keys[1:], 7)):
            assert peer.ask(Type.FETCH, wire.pack_keys(wanted))[2][:4] == counts.to_bytes(4, "big")
    blocks = volume.fetch(keys)
    assert [None if block is None else len(block.encoded.data) for block in blocks] == [
        None if each.signature in (sign(1000), sign(1001)) else 5000 if each.signature == sign(50) else 300
        for each in keys
    ]


# -- stopping ---------------------------------------------------------------------------------------------------------


def test_a_server_that_is_stopped_under_load_keeps_what_it_acknowledged(
    serve: Serve, connect: Connect, memory_path: Path
) -> None:
    """Every client gets an answer, or the end of its connection."""
    directory = memory_path / "stopped"
    server = serve(directory)
    acknowledged: list[set[int]] = [set() for _ in range(6)]
    begun = threading.Barrier(7)

    def work(index: int) -> None:
        number, sent = index * 1_000_000, 0
        with Peer(server.port) as peer:
            try:
                while True:
                    for _ in range(20):
                        sent += 1
                        body = commit_body(
                            IdempotencyKey(b"client%02d" % index, sent, 0), [Store(sign(number + sent), plain(b"x"))]
                        )
                        peer.send(frame(Type.COMMIT, sent, body))
                    for _ in range(20):
                        kind, request, _ = peer.read()
                        assert kind == Type.DONE
                        acknowledged[index].add(number + request)
                    if sent == 40:
                        begun.wait(60)
            except ConnectionError:
                return

    with ThreadPoolExecutor(6) as pool:
        working = [pool.submit(work, index) for index in range(6)]
        begun.wait(60)
        server.stop()
        for each in working:
            each.result(60)
    stored = {key.signature for key, _, _ in scanned(connect(serve(directory).address))}
    assert all(sign(number) in stored for each in acknowledged for number in each)
    assert min(map(len, acknowledged)) >= 40


def test_answers_on_their_way_still_go_out_when_the_server_stops(serve: Serve, connect: Connect) -> None:
    server = serve()
    perform(connect(server.address), Store(sign(1), plain(bytes(20 * MIB))))
    with Peer(server.port, receive_bytes=4096) as peer, ThreadPoolExecutor(1) as pool:
        peer.send(frame(Type.FETCH, 1, b"\0\0\0\1" + packed_key()))
        head = peer.socket.recv(1, socket.MSG_PEEK)
        assert head
        stopping = pool.submit(server.stop)
        assert len(peer.read()[2]) > 20 * MIB
        assert peer.rest() == b""
        stopping.result(60)


def test_a_client_waits_for_a_server_that_is_started_again(serve: Serve, connect: Connect) -> None:
    server = serve()
    volume = connect(server.address, down_s=0.0)
    perform(volume, Store(sign(1), plain(b"one")))
    server.stop()
    impatient = connect(server.address, retry_s=0.0)
    with pytest.raises(VolumeDown, match="is down: no response from"):
        impatient.stat()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(perform, volume, Refer(BlockKey(sign(1))))
        server = serve(port=server.port)
        assert waiting.result(60).references == 2
