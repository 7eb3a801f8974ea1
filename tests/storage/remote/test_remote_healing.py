"""A damaged block behind a volume server is healed by the next store of its content, from whichever client (N13)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from remote_servers import Server

from holdfast.config import RemoteSettings, Settings, StoreSettings, VolumeSettings
from holdfast.env import REAL
from holdfast.errors import DamagedBlock, VolumeFull
from holdfast.model import StoreMode
from holdfast.storage.store.contents import Contents
from holdfast.storage.store.put import StoreOptions
from holdfast.storage.store.store import BlockStore
from holdfast.storage.volume import BlockKey, Claim, Effect, Heal, OperationResult, Refer, Store
from holdfast.storage.volumes.damage import CheckProgress
from holdfast.storage.volumes.remote.client import RemoteVolume
from holdfast.testing.volumes import fetched, perform, plain, sign

Connect = Callable[..., RemoteVolume]
Serve = Callable[..., Server]

PAGE = b"<p>the page that comes to harm</p>" * 30


@pytest.fixture(params=["log", "tree", "hash", "hashed-log"])
def organization(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@contextmanager
def client(root: Path, secret_file: Path, *servers: Server) -> Iterator[Contents]:
    """An archive's contents in volumes on other machines."""
    root.mkdir(exist_ok=True)
    remote = RemoteSettings(secret_file=str(secret_file), retry_s=30.0)
    volumes = tuple(VolumeSettings(f"v{at}", address=server.address) for at, server in enumerate(servers))
    settings = Settings(store=StoreSettings(codec="none"), remote=remote, volume=volumes)
    instance = BlockStore(root, settings, REAL, writable=True)
    contents = Contents(instance)
    try:
        yield contents
    finally:
        contents.close()
        instance.close()


def harm(directory: Path, content: bytes) -> None:
    """Flips a byte of the content's block, while its server runs."""
    for file in [each for each in directory.rglob("*") if each.is_file() and "keydir" not in each.parts]:
        raw = file.read_bytes()
        if content in raw and file.name not in ("redo", "tickets"):
            with file.open("r+b") as handle:
                handle.seek(raw.index(content) + 5)
                handle.write(b"\xff")


@pytest.mark.parametrize("meet", ["read", "check"])
def test_another_client_heals_what_one_has_met(
    tmp_path: Path, serve: Serve, secret_file: Path, organization: str, meet: str
) -> None:
    server = serve(organization=organization)
    with client(tmp_path / "one", secret_file, server) as one, client(tmp_path / "other", secret_file, server) as other:
        keys = [one.put(PAGE) for _ in range(3)]
        harm(server.directory, PAGE)
        if meet == "read":
            with pytest.raises(DamagedBlock):
                one.get(keys[0])
        else:
            volume = one._store.volumes["v0"]
            assert isinstance(volume, RemoteVolume)
            assert [(fault.kind, fault.key) for fault in volume.check(CheckProgress())] == [("damaged block", keys[0])]
        stored = other.store(PAGE)
        assert (stored.key, stored.references, stored.duplicate) == (keys[0], 4, True)
        assert one.get(keys[0]) == other.get(keys[0]) == PAGE
        assert one.store(PAGE).references == 5
        remote = other._store.volumes["v0"]
        assert isinstance(remote, RemoteVolume)
        assert list(remote.check(CheckProgress())) == []
    assert "healed" in (tmp_path / "other" / "audit.log").read_text()


def test_a_comparison_heals(tmp_path: Path, serve: Serve, secret_file: Path, organization: str) -> None:
    server = serve(organization=organization)
    with client(tmp_path / "one", secret_file, server) as contents:
        key = contents.put(PAGE)
        harm(server.directory, PAGE)
        assert contents.store(PAGE, StoreOptions(StoreMode.COMPARE)).references == 2
        assert contents.get(key) == PAGE


def test_what_is_known_survives_a_restart_of_the_server(
    serve: Serve, connect: Connect, tmp_path: Path, organization: str
) -> None:
    server = serve(tmp_path / "volume", organization=organization)
    volume, key = connect(server.address), BlockKey(sign(1))
    volume.commit([Store(sign(1), plain(PAGE)), Refer(key)])
    harm(server.directory, PAGE)
    with pytest.raises(DamagedBlock):
        volume.fetch([key])
    server.kill()
    server.wait()
    volume = connect(serve(tmp_path / "volume", organization=organization).address)
    assert perform(volume, Claim(sign(1), len(PAGE))).effect is Effect.MISSING
    assert perform(volume, Heal(key, plain(PAGE))) == OperationResult(Effect.HEALED, key, 3, len(PAGE))
    assert fetched(volume, key) == (PAGE, 3)


def test_a_volume_at_its_capacity_counts_and_heals(
    tmp_path: Path, serve: Serve, secret_file: Path, organization: str
) -> None:
    """And while it is full, its contents are not stored again in the other one."""
    servers = [serve(tmp_path / f"volume-{at}", organization=organization) for at in range(2)]
    pages = [b"<p>%d</p>" % number * 100 for number in range(40)]
    with client(tmp_path / "one", secret_file, *servers) as contents:
        keys = [stored.key for stored in contents.store_batch(pages)]
        used = contents._store.volumes["v0"].stat().disk_bytes
    servers[0].stop()
    full = serve(tmp_path / "volume-0", organization=organization, capacity_bytes=max(1, used // 2))
    with client(tmp_path / "one", secret_file, full, servers[1]) as contents:
        with pytest.raises(VolumeFull):
            contents.put(b"new" * 100, StoreOptions(volume="v0"))
        harm(tmp_path / "volume-0", next(page for page, key in zip(pages, keys, strict=True) if key.volume == "v0"))
        for count in (2, 3):
            for key in keys:
                try:
                    contents.get(key)
                except DamagedBlock:
                    assert count == 2
            stored = contents.store_batch(pages)
            assert [each.key for each in stored] == keys
            assert {each.references for each in stored} == {count}
        assert contents.get_batch(keys) == pages


def test_a_server_that_is_read_only_counts_and_heals(
    tmp_path: Path, serve: Serve, secret_file: Path, organization: str
) -> None:
    servers = [serve(tmp_path / f"volume-{at}", organization=organization) for at in range(2)]
    pages = [b"<p>%d</p>" % number * 100 for number in range(10)]
    with client(tmp_path / "one", secret_file, *servers) as contents:
        keys = [stored.key for stored in contents.store_batch(pages)]
    servers[0].stop()
    closed = serve(tmp_path / "volume-0", organization=organization, read_only=True)
    harmed = next(key for key in keys if key.volume == "v0")
    harm(tmp_path / "volume-0", pages[keys.index(harmed)])
    with client(tmp_path / "one", secret_file, closed, servers[1]) as contents:
        with pytest.raises(DamagedBlock):
            contents.get(harmed)
        stored = contents.store_batch(pages)
        assert [each.key for each in stored] == keys
        assert {each.references for each in stored} == {2}
        assert contents.get_batch(keys) == pages
