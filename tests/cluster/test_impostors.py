"""Who is not a member, or no longer, gets nothing from the cluster (H3)."""

from __future__ import annotations

import asyncio
import json
import shutil
import ssl
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from node_cluster import NodeCluster, NodeProcess, free_address, running_cluster, wait_until

from holdfast.cluster.create import join_cluster
from holdfast.cluster.membership.admission import node_rights
from holdfast.cluster.membership.authority import Authority
from holdfast.cluster.membership.bus import Bus, ServiceAccess
from holdfast.cluster.membership.identity import MemberIdentity, ca_context, key_of
from holdfast.cluster.membership.nkeys import KeyPair
from holdfast.cluster.membership.placement import placement_id
from holdfast.errors import ClusterDown, NotAMember, UsageError


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeCluster]:
    with running_cluster(tmp_path_factory.mktemp("impostors"), 2) as cluster:
        yield cluster


def access_of(cluster: NodeCluster, name: str) -> ServiceAccess:
    directory = cluster[name].directory
    return directory.identity().access(directory.service())


def connect(access: ServiceAccess, use: Any = None) -> Any:
    """What the function returns with a connection, or the error."""

    async def run() -> Any:
        bus = Bus(access)
        await bus.open(2.0)
        try:
            return await use(bus) if use is not None else None
        finally:
            await bus.close()

    return asyncio.run(run())


def user_jwt(authority: Authority, key: KeyPair, name: str = "n2", days: float = 1.0) -> str:
    publish, subscribe = node_rights("test", name, administrator=True)
    return authority.user_jwt(key.public, name, publish, subscribe, datetime.now(UTC) + timedelta(days=days))


def test_a_member_connects(cluster: NodeCluster) -> None:
    connect(access_of(cluster, "n2"))


def test_rights_of_another_need_its_key(cluster: NodeCluster) -> None:
    stolen = access_of(cluster, "n1")
    with pytest.raises(NotAMember, match="refuses"):
        connect(replace(stolen, sign=KeyPair.generate().sign))


def test_forged_rights_are_refused(cluster: NodeCluster) -> None:
    key = KeyPair.generate()
    with pytest.raises(NotAMember, match="refuses"):
        connect(replace(access_of(cluster, "n2"), sign=key.sign, jwt=lambda: user_jwt(Authority.generate(), key)))


def test_expired_rights_are_refused(cluster: NodeCluster) -> None:
    key, authority = KeyPair.generate(), cluster["n1"].directory.authority()
    with pytest.raises(NotAMember, match="refuses"):
        connect(replace(access_of(cluster, "n2"), sign=key.sign, jwt=lambda: user_jwt(authority, key, days=-1.0)))


def test_a_server_of_another_ca_is_not_trusted(cluster: NodeCluster) -> None:
    other = Authority.generate().found("test")
    with pytest.raises(ClusterDown, match="certificate"):
        connect(replace(access_of(cluster, "n2"), tls=lambda: ca_context(other.ca)))


def test_a_node_cannot_speak_for_another(cluster: NodeCluster) -> None:
    """Nor change the list of members, or answer those who join."""

    async def use(bus: Bus) -> None:
        for subject in ("renew.n1", "leave.n1", "order.n1.n2"):
            with pytest.raises(ClusterDown):
                await bus.request(subject, b'{"done": true}', 0.5)
        with pytest.raises(ClusterDown):
            await bus.swap("members", b"{}", 1, 0.5)
        with pytest.raises(ClusterDown):
            await bus.close_keys("")

    before = cluster["n1"].directory.members()
    connect(access_of(cluster, "n2"), use)
    assert cluster["n1"].directory.members() == before


def test_certificates_of_nodes_have_their_keys(cluster: NodeCluster) -> None:
    """Both ends of a TLS 1.3 connection can compare the other's key with the list of members."""
    members = cluster["n1"].directory.members()
    ours, theirs = (cluster[name].directory.identity() for name in ("n1", "n2"))
    seen = handshake(ours, theirs)
    assert seen == (members.get("n2").public_key, members.get("n1").public_key, "TLSv1.3")


def test_a_certificate_of_another_ca_is_refused(cluster: NodeCluster) -> None:
    ours = cluster["n1"].directory.identity()
    authority, key = Authority.generate(), KeyPair.generate()
    trust = authority.found("test")
    certificate = authority.certificate(trust, key.public, "n2", "127.0.0.1")
    impostor = MemberIdentity("n2", key, certificate, "", replace(trust, ca=ours.trust.ca))
    with pytest.raises(ssl.SSLError):
        handshake(impostor, ours)


def handshake(client: MemberIdentity, server: MemberIdentity) -> tuple[bytes, bytes, str | None]:
    """The key that each end sees, and the version."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.client_context().wrap_bio(to_client, to_server, server_hostname=client.peer_name)
    other = server.server_context().wrap_bio(to_server, to_client, server_side=True)
    done: set[ssl.SSLObject] = set()
    for end in 10 * (one, other):
        try:
            if end not in done:
                end.do_handshake()
                done.add(end)
        except ssl.SSLWantReadError:
            pass
    assert len(done) == 2
    keys = [key_of(end.getpeercert(binary_form=True) or b"") for end in (one, other)]
    return keys[0], keys[1], one.version()


def test_a_token_lets_one_node_in_once(cluster: NodeCluster, tmp_path: Path) -> None:
    token = cluster.token()
    join_cluster(tmp_path / "a", token, "a", free_address())
    with pytest.raises(NotAMember, match="used"):
        join_cluster(tmp_path / "b", token, "b", free_address())
    assert not (tmp_path / "b" / "holdfast.toml").exists()
    join_cluster(tmp_path / "a", token, "a", "")  # its answer may have been lost: the same node may ask again
    members = cluster["n1"].directory.members()
    assert members.find("a") is not None and members.find("b") is None
    cluster["n1"].command("forget", node="a")


def test_nobody_chooses_a_position(cluster: NodeCluster, tmp_path: Path) -> None:
    """The nonce is drawn once for a token, after the key is known: asking again does not change it."""
    token = cluster.token()
    join_cluster(tmp_path / "c", token, "c", free_address())
    first = cluster["n1"].directory.members().get("c")
    shutil.rmtree(tmp_path / "c" / "cluster" / "authority", ignore_errors=True)
    (tmp_path / "c" / "cluster" / "service.jwt").unlink()
    join_cluster(tmp_path / "c", token, "c", "")
    again = cluster["n1"].directory.members().get("c")
    assert again.placement_id == first.placement_id == placement_id(first.public_key, first.nonce)
    cluster["n1"].command("forget", node="c")


def test_expired_tokens_and_those_of_others_are_refused(cluster: NodeCluster, tmp_path: Path) -> None:
    with pytest.raises(NotAMember, match="expired"):
        join_cluster(tmp_path / "d", cluster.token(hours=0.0), "d", free_address())
    own, authority = cluster.token(), Authority.generate()
    forged = type(own).issue(authority, authority.found("test"), own.service, administrator=True)
    with pytest.raises(NotAMember):
        join_cluster(tmp_path / "d", replace(forged, ca=own.ca), "d", free_address())
    assert not (tmp_path / "d" / "holdfast.toml").exists()


def test_a_taken_name_is_refused(cluster: NodeCluster, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'n2' already"):
        join_cluster(tmp_path / "n2", cluster.token(), "n2", free_address())


def test_a_copied_directory_does_not_run_twice(cluster: NodeCluster, tmp_path: Path) -> None:
    copy = NodeProcess(tmp_path / "n2")
    shutil.copytree(cluster["n2"].path, copy.path, ignore=shutil.ignore_patterns("control", "lock"))
    before = cluster.wait_owned("n1", "n2")
    code, said = copy.run_until_refused()
    assert code == 4, said
    assert "directory copied" in said
    assert cluster.wait_owned("n1", "n2") == before
    assert cluster["n2"].process is not None and cluster["n2"].process.poll() is None


def test_the_same_directory_does_not_run_twice(cluster: NodeCluster) -> None:
    twin = NodeProcess(cluster["n2"].path)
    twin.said = cluster.root / "twin.out"
    code, said = twin.run_until_refused()
    assert code == 4, said


def test_a_forgotten_node_ends_and_stays_out(cluster: NodeCluster) -> None:
    node = cluster.join("n3")
    node.start()
    cluster.wait_owned("n1", "n2", "n3")
    cluster["n1"].command("forget", node="n3")
    assert node.process is not None
    assert node.process.wait(60) == 8, node.said.read_text()
    cluster.wait_owned("n1", "n2")
    code, said = node.run_until_refused()
    assert code == 8, said
    with pytest.raises(NotAMember, match="refuses"):
        connect(access_of(cluster, "n3"))
    cluster.nodes.remove(node)
    _stays_out(cluster, node.path)


def _stays_out(cluster: NodeCluster, path: Path) -> None:
    """A new token does not let its key in again, and stays unused."""
    token = cluster.token()
    with pytest.raises(NotAMember, match="forgotten"):
        join_cluster(path, token, "n3", free_address())
    assert cluster["n1"].directory.members().find("n3") is None
    join_cluster(path.with_name("n5"), token, "n5", free_address())
    cluster["n1"].command("forget", node="n5")


def test_an_administrator_passes_its_right_on_and_leaves(cluster: NodeCluster) -> None:
    """Only a token that says so gives it."""
    node = cluster.join("n4", administrator=True)
    node.start()
    cluster.wait_owned("n1", "n2", "n4")
    assert node.row("n4")["administrator"] and not node.row("n2")["administrator"]
    node.command("weight", node="n2", weight=1.25)  # not more: by chance, a node might own none of 16 partitions
    wait_until(lambda: cluster["n1"].row("n2")["weight"] == 1.25, "the new weight")
    with pytest.raises(NotAMember, match="administrator"):
        cluster["n2"].command("weight", node="n2", weight=1.0)
    _leaves(cluster, node)


def _leaves(cluster: NodeCluster, node: NodeProcess) -> None:
    """Hands over, is forgotten, and stops."""
    node.command("leave")
    assert node.process is not None
    assert node.process.wait(60) == 0, node.said.read_text()
    cluster.wait_owned("n1", "n2")
    assert cluster["n1"].directory.members().find("n4") is None
    assert not node.directory.is_member
    cluster.nodes.remove(node)


def test_certificates_are_renewed(cluster: NodeCluster) -> None:
    """Here because the node has moved: its certificate must name the new host."""
    node = cluster["n2"]
    assert node.stop() == 0
    before = node.directory.identity().certificate
    moved = free_address()
    own = node.directory.address()
    node.directory.save_address(replace(own, port=int(moved.rpartition(":")[2])))
    node.start()
    wait_until(lambda: cluster["n1"].row("n2")["address"] == moved, "the new address")
    wait_until(lambda: node.directory.identity().certificate != before, "another certificate")
    cluster.wait_owned("n1", "n2")


def test_the_last_administrator_does_not_leave(cluster: NodeCluster) -> None:
    with pytest.raises(UsageError, match="keeper"):
        cluster["n1"].command("leave")
    assert json.loads(cluster["n1"].directory.members().to_json())["members"][0]["name"] == "n1"
