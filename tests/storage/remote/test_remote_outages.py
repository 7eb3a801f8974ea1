"""Servers that are away, refuse us, or are listed twice: what clients do meanwhile (W14)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from remote_proxy import Proxy
from remote_servers import Forks, Server

import holdfast
from holdfast import ContentKey, StoreOptions
from holdfast.archive.connection import Connection
from holdfast.config import load_connector
from holdfast.env import REAL
from holdfast.errors import ContentNotFound, VolumeDown
from holdfast.storage.maintenance.check import Checker, CheckOptions
from holdfast.storage.maintenance.merge import Merger
from holdfast.storage.maintenance.repair import Restorer
from holdfast.storage.volumes.remote.client import RemoteVolume

EVER_S = 3600.0  # a test that waited so long would be seen to hang
IN_V0 = StoreOptions(volume="v0")
Serve = Callable[..., Server]
Connected = Callable[..., Connection]


@pytest.fixture
def connected(tmp_path: Path, secret_file: Path, closing: ExitStack) -> Connected:
    """A client of the servers at these addresses, with two replicas; keywords are settings of `[remote]`."""

    def to(addresses: Sequence[str], **settings: float) -> Connection:
        lines = ["format = 1", "[store]", "replicas = 2", "[remote]", f'secret_file = "{secret_file}"']
        lines += [f"{name} = {value}" for name, value in settings.items()]
        for number, address in enumerate(addresses):
            lines += ["[[volume]]", f'name = "v{number}"', f'address = "{address}"']
        (tmp_path / "connector.toml").write_text("\n".join(lines) + "\n")
        return closing.enter_context(holdfast.connect(tmp_path / "connector.toml"))

    return to


@pytest.fixture
def two(serve: Serve, tmp_path: Path) -> list[Server]:
    return [serve(tmp_path / f"v{number}") for number in range(2)]


def addresses(servers: Sequence[Server]) -> list[str]:
    return [server.address for server in servers]


# -- reading -----------------------------------------------------------------------------------------------------------


def test_a_replica_is_read_before_a_server_that_is_away_is_waited_for(two: list[Server], connected: Connected) -> None:
    contents = connected(addresses(two), retry_s=EVER_S, down_s=EVER_S).contents
    pages = [b"page %d" % number for number in range(8)]
    keys = [contents.put(page, IN_V0) for page in pages]
    two[0].kill()
    assert contents.get(keys[0]) == pages[0]
    assert contents.get_batch(keys) == pages


def test_a_content_without_a_replica_is_waited_for(two: list[Server], connected: Connected, forks: Forks) -> None:
    contents = connected(addresses(two), retry_s=EVER_S).contents
    key = contents.put(b"alone", StoreOptions(volume="v0", replicas=1))
    server = two[0]
    server.kill()
    found: list[bytes] = []
    reading = threading.Thread(target=lambda: found.append(contents.get(key)))
    reading.start()
    back = forks.serve(server.directory, port=server.port)
    try:
        reading.join()
        assert found == [b"alone"]
    finally:
        back.kill()


def test_a_connection_that_died_unnoticed_is_no_reason_to_read_elsewhere(
    two: list[Server], connected: Connected, forks: Forks
) -> None:
    """The server has been restarted since the client spoke to it: one new connection is tried."""
    connection = connected(addresses(two), retry_s=EVER_S)
    key = connection.contents.put(b"here", IN_V0)
    two[0].kill()
    back = forks.serve(two[0].directory, port=two[0].port)
    try:
        two[1].kill()
        assert connection.contents.get(key) == b"here"
        assert connection.instance.is_up("v0")
    finally:
        back.kill()


def test_while_one_thread_finds_out_whether_a_server_is_back_others_leave_it_alone(
    serve: Serve, connect: Callable[..., RemoteVolume], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.storage.volumes.remote.connection.CONNECT_TIMEOUT_S", EVER_S)
    server = serve()
    volume = connect(server.address, retry_s=0.0, down_s=0.0)
    server.kill()
    with pytest.raises(VolumeDown, match="no response from"):
        volume.stat()
    seen: list[bool] = []
    meet = volume._pool.take

    def look() -> object:
        seen.append(volume.available)
        return meet()

    volume._pool.take = look  # type: ignore[method-assign, assignment]
    with pytest.raises(VolumeDown):
        volume.stat()
    assert seen == [False]


# -- being refused -----------------------------------------------------------------------------------------------------


def test_who_is_refused_is_told_why(serve: Serve, connect: Callable[..., RemoteVolume], tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("another secret than the tests'")
    volume = connect(serve().address, secret_file=str(wrong))
    with pytest.raises(VolumeDown, match="cannot be used: the client does not know this server's secret"):
        volume.stat()
    assert not volume.available


def test_one_volume_under_two_names_is_used_under_one(serve: Serve, connected: Connected) -> None:
    """Or its blocks would pass for doubled ones, and merging them would remove the only copy."""
    server = serve()
    connection = connected([server.address, f"localhost:{server.port}"], retry_s=0.0)
    first, second = connection.instance.volumes["v0"], connection.instance.volumes["v1"]
    first.stat()
    with pytest.raises(VolumeDown, match="cannot be used: it is the same volume as 'v0'"):
        second.stat()
    key = connection.contents.put(b"kept once")
    assert key.volume == "v0"
    done = Restorer(connection.instance).run()
    assert (done.down, done.lost) == (["v1"], 0)
    Merger(connection.instance).run()
    assert connection.contents.get(key) == b"kept once"


def test_a_check_names_a_volume_that_is_listed_twice(serve: Serve, connected: Connected) -> None:
    server = serve()
    connection = connected([server.address, f"localhost:{server.port}"], retry_s=0.0)
    report = Checker(connection.path.parent, load_connector(connection.path), REAL, CheckOptions(deep=True)).check()
    (fault,) = report.faults
    assert (fault.volume, fault.kind) == ("v1", "unreadable volume")
    assert "the same volume as 'v0'" in fault.found


# -- upkeep while a volume is down -------------------------------------------------------------------------------------


def test_what_a_repair_could_not_look_at_is_told(two: list[Server], connected: Connected, serve: Serve) -> None:
    third = serve(two[0].directory.with_name("v2"))
    connection = connected(addresses([*two, third]), retry_s=0.0, down_s=EVER_S)
    keys: list[ContentKey] = [connection.contents.put(b"%d" % n, StoreOptions(replicas=1)) for n in range(30)]
    two[1].kill()
    done = Restorer(connection.instance).run()
    assert done.down == ["v1"]
    assert done.aligned == sum(key.volume != "v1" for key in keys)
    for key in keys:
        if key.volume != "v1":
            assert len(connection.contents.holders(key)) == 2


def test_a_check_counts_what_servers_have_read(two: list[Server], connected: Connected) -> None:
    connection = connected(addresses(two))
    connection.contents.put(b"x" * 5000, StoreOptions(codec="none", replicas=1))
    report = Checker(
        connection.path.parent, load_connector(connection.path), REAL, CheckOptions(volumes=("v0",))
    ).check()
    other = Checker(
        connection.path.parent, load_connector(connection.path), REAL, CheckOptions(volumes=("v1",))
    ).check()
    assert sorted([report.bytes > 5000, other.bytes > 5000]) == [False, True]


# -- rollbacks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at_close", [False, True])
def test_a_put_that_is_rolled_back_after_a_delete_leaves_no_copy(
    two: list[Server], connected: Connected, through: Callable[..., Proxy], *, at_close: bool
) -> None:
    """The delete saw the reference of the put, so it left the block and its replica to that."""
    proxy = through(two[0].port)
    first, second = (connected([proxy.address, two[1].address], retry_s=0.0, down_s=0.0) for _ in range(2))
    key = first.contents.put(b"page", IN_V0)
    second.contents.put(b"another page", IN_V0)
    proxy.lost_answers = {proxy.commits + 1}
    with pytest.raises(VolumeDown):
        second.contents.put(b"page", IN_V0)
    assert first.contents.delete(key) == 1
    if at_close:
        second.close()
    else:
        second.contents.put(b"yet another page", IN_V0)
    with pytest.raises(ContentNotFound):
        first.contents.get(key)
    assert first.contents.holders(key) == []
