"""H8, N2: which node serves a URL, as the web workers of a node see it."""

from __future__ import annotations

import pickle
import ssl
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.cluster.answers import routes
from holdfast.cluster.answers.routes import ClusterRouter, RouteTable
from holdfast.cluster.copies.partitions import PartitionRule
from holdfast.cluster.create import create_cluster
from holdfast.cluster.directory import NodeDirectory
from holdfast.cluster.membership.agent import boot_time_s
from holdfast.cluster.membership.members import MemberList
from holdfast.cluster.membership.placement import Member, placement_id
from holdfast.cluster.settings import ClusterSettings
from holdfast.env.paths import CLUSTER
from holdfast.errors import ClusterDown
from holdfast.web.forward import HERE

PARTITIONS = 16
NAMES = ("n1", "n2", "n3", "n4")
URL = "http://www.example.org/a"


def member(number: int) -> Member:
    key = bytes([number]) * 32
    return Member(f"n{number}", placement_id(key, b""), public_key=key, address=f"10.0.0.{number}:7400")


@pytest.fixture
def table() -> RouteTable:
    members = MemberList(1, tuple(map(member, range(1, 5))))
    everything = frozenset(range(PARTITIONS))
    return RouteTable("n1", members, PartitionRule(PARTITIONS), 2, dict.fromkeys(NAMES, everything), boot_time_s())


@pytest.fixture
def router(tmp_path: Path, table: RouteTable, monkeypatch: pytest.MonkeyPatch) -> ClusterRouter:
    monkeypatch.setattr(routes, "_LOOK_S", 0.0)
    (tmp_path / CLUSTER).mkdir()
    table.write(tmp_path / CLUSTER)
    return pickle.loads(pickle.dumps(ClusterRouter(tmp_path)))  # type: ignore[no-any-return]  # as workers get it


def own_url(table: RouteTable, first: str) -> str:
    """A URL whose first holder is that node."""
    for number in range(1000):
        url = f"http://site{number}.example/"
        if table.serving(table.rule.of_url(url) or 0)[0] == first:
            return url
    raise AssertionError("no such URL")


def test_all_urls_of_a_domain_go_to_its_first_live_holder(router: ClusterRouter, table: RouteTable) -> None:
    there, here = own_url(table, "n3"), own_url(table, "n1")
    assert router.route(here)[0] == HERE
    assert router.route(there)[0] == "10.0.0.3:7403"
    assert router.route(there) == router.route(there.replace("://", "://www.") + "deep/page?x=1")
    assert len(router.route(there)) == 2
    assert router.route("no address") == (HERE,)


def test_a_dead_node_and_one_behind_are_passed_over(router: ClusterRouter, table: RouteTable) -> None:
    """Liveness changes the route at once; who is not in sync comes last."""
    url = own_url(table, "n3")
    first, second = table.serving(table.rule.of_url(url) or 0)
    folder = router.archive / CLUSTER
    replace(table, live={**table.live, first: frozenset()}).write(folder)
    assert [part.split(":")[0][-1] for part in router.route(url) if part] == [
        each[-1] for each in (second, first) if each != "n1"
    ]
    replace(table, live={name: table.live[name] for name in NAMES if name != first}).write(folder)
    assert len(router.route(url)) == 1
    replace(table, live={}).write(folder)
    with pytest.raises(ClusterDown, match=f"no node that holds .* is alive: {first}, {second}"):
        router.route(url)


def test_an_index_that_lacks_much_is_asked_last(router: ClusterRouter, table: RouteTable) -> None:
    """Of those in sync; what is not asked of an index goes where it went before."""
    partition = table.rule.of_url(own_url(table, "n3")) or 0
    first, second = table.serving(partition)
    replace(table, indexing=frozenset((first,))).write(router.archive / CLUSTER)
    known = RouteTable.read(router.archive / CLUSTER)
    assert known.serving(partition) == [first, second]
    assert known.serving(partition, by_index=True) == [second, first]
    behind = replace(known, live={**table.live, second: frozenset()})
    assert behind.serving(partition, by_index=True) == [first, second]
    assert replace(known, indexing=frozenset(NAMES)).serving(partition, by_index=True) == [first, second]


def test_a_node_that_is_cut_off_serves_nothing(router: ClusterRouter, table: RouteTable) -> None:
    router.require_current()
    replace(table, heard_s=boot_time_s() - routes.CUT_OFF_S - 1).write(router.archive / CLUSTER)
    with pytest.raises(ClusterDown, match="cut off from the cluster for 61 s"):
        router.require_current()


def test_before_the_first_table_nothing_is_served(tmp_path: Path) -> None:
    with pytest.raises(ClusterDown, match="not heard from its cluster yet"):
        ClusterRouter(tmp_path).route(URL)


def test_connections_show_a_renewed_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """H3: without a restart of the worker, also if nobody has connected since."""
    monkeypatch.setattr(routes, "_LOOK_S", 0.0)
    create_cluster(tmp_path / "n1", ClusterSettings("c1", partitions=PARTITIONS), "n1", "127.0.0.1:7400")
    directory = NodeDirectory(tmp_path / "n1")
    router = ClusterRouter(directory.archive)
    server, client = router.server_context(), router.client_context()
    first = _shown(server, client, router.peer_name)
    assert _shown(server, client, router.peer_name) == first == _der(directory)
    identity, address = directory.identity(), directory.address()
    renewed = directory.authority().certificate(identity.trust, identity.key.public, "n1", address.host)
    directory.save_identity(renewed, identity.user_jwt)
    assert _der(directory) != first
    assert _shown(server, client, router.peer_name) == _der(directory)
    directory.certificate_path.write_text("damaged")
    assert len(_shown(server, client, router.peer_name)) > 100, "the last good one"


def _der(directory: NodeDirectory) -> bytes:
    return ssl.PEM_cert_to_DER_cert(directory.certificate_path.read_text())


def _shown(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> bytes:
    """The certificate that a server with that context shows."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asked = client.wrap_bio(to_client, to_server, server_hostname=name)
    asking = server.wrap_bio(to_server, to_client, server_side=True)
    for end in (asked, asking, asked, asking):
        with suppress(ssl.SSLWantReadError):
            end.do_handshake()
    found = asked.getpeercert(binary_form=True)
    assert found is not None
    return found
