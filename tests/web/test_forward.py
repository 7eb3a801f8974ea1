"""H8, N12: a request about a URL is answered by the node that serves it, whichever node was asked."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import pytest
from certificates import Authority, make_authority
from pages_kept import answer, html, kept
from serving import Served, ask, serving

from holdfast.archive import Archive
from holdfast.errors import ClusterDown, NotAMember
from holdfast.web.auth.tokens import Tokens
from holdfast.web.forward import HERE

TIME = "20240102030405"
THERE = "http://there.example/"
LARGE = Random(5).randbytes(3 << 20)
TOKEN = "a token that is long enough"


@dataclass
class TableRouter:
    """A table of hosts, as a test writes it."""

    authority: Authority
    name: str
    table: dict[str, list[str]] = field(default_factory=dict)
    is_cut_off: bool = False
    peer_name: str = "localhost"
    expelled: set[str] = field(default_factory=set)  # certificates

    def __post_init__(self) -> None:
        self.file = self.authority.issue(self.name)

    def route(self, url: str) -> list[str]:
        route = self.table.get(urlsplit(url).hostname or "", [HERE])
        if not route:
            raise ClusterDown(f"no live node holds {url}")
        return route

    def require_current(self) -> None:
        if self.is_cut_off:
            raise ClusterDown("cut off from the cluster")

    def require_member(self, certificate: bytes | None) -> None:
        name = ssl.DER_cert_to_PEM_cert(certificate or b"") if certificate else ""
        if name in self.expelled or not name:
            raise NotAMember("no such member")

    def open_for_writing(self, path: Path) -> Archive:
        return Archive(path)

    def server_context(self) -> ssl.SSLContext:
        return self._context(ssl.PROTOCOL_TLS_SERVER)

    def client_context(self) -> ssl.SSLContext:
        return self._context(ssl.PROTOCOL_TLS_CLIENT)

    def _context(self, protocol: int) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(self.authority.certificate)
        context.load_cert_chain(self.file)
        return context


@dataclass
class TwoNodes:
    asked: Served
    other: Served
    router: TableRouter  # of the node that is asked
    other_router: TableRouter


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("certificates"), "cluster")


@pytest.fixture
def nodes(tmp_path: Path, authority: Authority) -> Iterator[TwoNodes]:
    asked_path = kept(tmp_path / "asked", [html("http://here.example/", TIME, "<p>here")])
    other_path = kept(
        tmp_path / "other",
        [
            html(THERE, TIME, '<p>there<a href="/next">next</a>'),
            answer(THERE + "large", TIME, "200 OK", ["Content-Type: application/octet-stream"], LARGE),
        ],
    )
    routers = TableRouter(authority, "asked"), TableRouter(authority, "other")
    with (
        serving(asked_path, router=routers[0]) as asked,
        serving(other_path, router=routers[1], tokens=Tokens([TOKEN])) as other,
    ):
        routers[0].table["there.example"] = [other.peer]
        yield TwoNodes(asked, other, *routers)


def test_a_capture_is_the_same_from_any_node(nodes: TwoNodes) -> None:
    """Its links and frames lead back to the node that was asked."""
    asked = nodes.asked
    page = ask(f"{asked.controls}/web/{TIME}/{THERE}", Accept="text/html")
    assert page.status == 200
    assert f"{asked.replay}/web/{TIME}mp_/{THERE}" in page.text
    assert nodes.other.replay not in page.text
    framed = ask(f"{asked.replay}/web/{TIME}mp_/{THERE}")
    assert (framed.status, b"there" in framed.body) == (200, True)
    assert f"/web/{TIME}mp_/{THERE}next" in framed.text
    assert ask(f"{asked.controls}/web/{TIME}id_/{THERE}").body == b'<p>there<a href="/next">next</a>'
    assert b"here" in ask(f"{asked.controls}/web/{TIME}id_/http://here.example/").body


def test_large_bodies_heads_and_ranges_pass_through(nodes: TwoNodes) -> None:
    address = f"{nodes.asked.controls}/web/{TIME}id_/{THERE}large"
    whole = ask(address)
    assert whole.body == LARGE
    head = ask(address, "HEAD")
    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", str(len(LARGE)))
    part = ask(address, Range="bytes=1000000-1000099")
    assert (part.status, part.body) == (206, LARGE[1_000_000:1_000_100])
    again = ask(address, If_None_Match=whole.headers["etag"])
    assert (again.status, again.body) == (304, b"")


def test_calendar_timegate_timemap_and_cdx_are_forwarded(nodes: TwoNodes) -> None:
    asked = nodes.asked.controls
    assert ask(f"{asked}/web/*/{THERE}").status == 200
    gate = ask(f"{asked}/web/timegate/{THERE}")
    assert (gate.status, gate.headers["location"]) == (302, f"{asked}/web/{TIME}/{THERE}")
    assert f"{asked}/web/{TIME}/{THERE}" in ask(f"{asked}/web/timemap/link/{THERE}").text
    assert ask(f"{asked}/web/cdx?url=there.example").text.startswith("example,there)/ 2024")
    assert ask(f"{asked}/web?url=there.example").text.startswith("example,there)/ 2024")
    missing = ask(f"{asked}/web/{TIME}id_/{THERE}missing")
    assert missing.status == 404, "archived nowhere: the node that would have it says so"


def test_without_a_live_holder_the_status_is_503(nodes: TwoNodes) -> None:
    """Never 404: that would say that the URL is not archived."""
    address = f"{nodes.asked.controls}/web/{TIME}id_/{THERE}"
    nodes.router.table["there.example"] = []
    assert ask(address).status == 503
    nodes.router.table["there.example"] = ["127.0.0.1:9"]
    assert ask(address).status == 503
    nodes.router.table["there.example"] = ["127.0.0.1:9", nodes.other.peer]
    assert ask(address).status == 200, "the next holder responds"


def test_a_node_that_is_cut_off_serves_nothing(nodes: TwoNodes) -> None:
    """N2: it may lack removals."""
    nodes.other_router.is_cut_off = True
    assert ask(f"{nodes.asked.controls}/web/{TIME}id_/{THERE}").status == 503
    nodes.router.is_cut_off = True
    assert ask(f"{nodes.asked.controls}/web/{TIME}id_/http://here.example/").status == 503


def test_connections_to_another_node_are_used_again(nodes: TwoNodes) -> None:
    before = nodes.other.site.counters.total("connections")
    for _ in range(5):
        assert ask(f"{nodes.asked.controls}/web/{TIME}id_/{THERE}").status == 200
    assert nodes.other.site.counters.total("connections") == before + 1


def test_the_peer_port_accepts_only_members(nodes: TwoNodes, tmp_path: Path) -> None:
    host, _, port = nodes.other.peer.partition(":")
    stranger = TableRouter(make_authority(tmp_path, "stranger"), "stranger").client_context()
    stranger.check_hostname, stranger.verify_mode = False, ssl.CERT_NONE
    anonymous = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anonymous.check_hostname, anonymous.verify_mode = False, ssl.CERT_NONE
    for context in (stranger, anonymous):
        connection = http.client.HTTPSConnection(host, int(port), context=context, timeout=20)
        with pytest.raises((OSError, http.client.HTTPException)):
            connection.request("GET", f"/web/{TIME}id_/{THERE}")
            connection.getresponse()
        connection.close()


@pytest.mark.parametrize("is_asked", [True, False], ids=["of the node that is asked", "of the other node"])
def test_a_certificate_of_a_node_that_was_expelled_counts_no_more(nodes: TwoNodes, is_asked: bool) -> None:
    """H3: on either end, although the cluster's authority has signed it."""
    router = nodes.other_router if is_asked else nodes.router
    router.expelled.add(_certificate(router.authority, "asked" if is_asked else "other"))
    address = f"{nodes.asked.controls}/web/{TIME}id_/{THERE}"
    assert ask(address).status == 503
    router.expelled.clear()
    assert ask(address).status == 200


def _certificate(authority: Authority, name: str) -> str:
    text = (authority.directory / f"{authority.name}-{name}.crt").read_text()
    return text[text.index("-----BEGIN CERT") :]


def test_clients_cannot_pose_as_nodes(nodes: TwoNodes) -> None:
    """The headers of forwarded requests mean nothing on other ports: a token is still needed."""
    posed = {"Holdfast_App": "controls", "Holdfast_Origins": "http://evil.example http://evil.example"}
    assert ask(f"{nodes.other.controls}/web/{TIME}id_/{THERE}", **posed).status == 401
    page = ask(f"{nodes.asked.controls}/web/{TIME}/{THERE}", Accept="text/html", **posed)
    assert "evil.example" not in page.text
    member = nodes.router.client_context()
    connection = http.client.HTTPSConnection(*nodes.other.peer.split(":"), context=member, timeout=20)  # type: ignore[arg-type]
    connection.request("GET", f"/web/{TIME}id_/{THERE}")
    assert connection.getresponse().status == 400, "a request that nobody has let pass"
    connection.close()
