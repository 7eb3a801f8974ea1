"""Which addresses may be asked, and how names become addresses (issue: private addresses are refused by default)."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from pathlib import Path

import pytest
from fetching_servers import fetching, job, ok, run, serving, settings
from hypothesis import given
from hypothesis import strategies as st

from holdfast.crawl.fetch.addresses import NAMES_MAX, AddressPolicy, ResolvedName, Resolver, literal
from holdfast.crawl.processes.messages import Fetched, FetchOutcome
from holdfast.errors import InvalidSetting

REFUSED = [
    "0.0.0.0",
    "10.1.2.3",
    "100.64.0.1",
    "127.0.0.1",
    "127.9.9.9",
    "169.254.169.254",
    "172.16.0.1",
    "192.0.0.1",
    "192.0.0.8",
    "192.0.0.9",
    "192.0.0.170",
    "192.0.0.255",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "2002:7f00:1::",
    "64:ff9b:1::101:101",
    "64:ff9b:1:ffff:ffff:ffff:ffff:ffff",
    "::ffff:0:101:101",
    "::ffff:0:7f00:1",
    "100::1",
    "100:0:0:1::1",
    "2001::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:2::1",
    "2001:10::1",
    "2001:20::1",
    "2001:1ff::1",
    "2001:db8::1",
    "3fff::1",
    "3fff:fff::1",
    "4000::1",
    "5f00::1",
    "8000::1",
    "fec0::1",
    "feff::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "ff02::1",
    "nonsense",
]
ALLOWED = [
    "1.1.1.1",
    "93.184.216.34",
    "192.0.1.1",
    "192.0.3.1",
    "192.31.196.1",
    "198.17.255.255",
    "198.20.0.1",
    "223.255.255.255",
    "2001:200::1",
    "2001:4860:4860::8888",
    "2606:4700::1111",
    "2a00:1450::1",
    "3ffe:ffff::1",
    "::ffff:1.1.1.1",
    "64:ff9b::101:101",
]


@pytest.mark.parametrize("address", REFUSED)
def test_addresses_that_are_not_public_are_refused(address: str) -> None:
    assert AddressPolicy().refusal(address)


@pytest.mark.parametrize("address", ALLOWED)
def test_public_addresses_are_not(address: str) -> None:
    assert AddressPolicy().refusal(address) == ""


def test_what_counts_as_private_can_be_said() -> None:
    policy = AddressPolicy(refuse=("192.0.2.0/24", "2001:db8::/32"))
    assert policy.refusal("192.0.2.7") and policy.refusal("::ffff:192.0.2.7") and policy.refusal("2001:db8::1")
    assert not policy.refusal("127.0.0.1")
    assert not AddressPolicy(private=True).refusal("127.0.0.1")
    with pytest.raises(InvalidSetting, match=r"fetch\.refuse"):
        AddressPolicy(refuse=("10.0.0.0/99",))


def test_a_crawl_that_is_at_home_in_a_network_is_not_let_into_others() -> None:
    policy = AddressPolicy(networks=("127.0.0.0/8", "192.168.7.9/24", "fd00:1::/64"))
    for address in ("127.0.1.1", "::ffff:127.0.0.1", "192.168.7.200", "fd00:1::7", "1.1.1.1"):
        assert policy.refusal(address) == ""
    for address in ("10.0.0.1", "192.168.8.1", "169.254.169.254", "fd00:2::7", "::1"):
        assert policy.refusal(address)
    assert not AddressPolicy(refuse=("127.0.0.0/8",), networks=("127.0.1.0/24",)).refusal("127.0.1.1")
    assert AddressPolicy(refuse=("127.0.0.0/8",), networks=("127.0.1.0/24",)).refusal("127.0.2.1")
    with pytest.raises(InvalidSetting, match="private networks"):
        AddressPolicy(networks=("home",))


@given(st.ip_addresses())
def test_the_policy_has_an_answer_for_every_address(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    refused = AddressPolicy().refusal(str(address))
    assert refused or address.is_global or address.version == 6


def test_literals() -> None:
    assert literal("[::1]") == "::1"
    assert literal("127.0.0.1") == "127.0.0.1"
    assert [literal(name) for name in ("example.com", "1.2.3.4.example", "x2", "1.2.3", "")] == [""] * 5


def test_names_are_looked_up_once_and_remembered() -> None:
    asked: list[str] = []

    def lookup(name: str) -> list[str]:
        asked.append(name)
        if name == "gone.example":
            raise socket.gaierror(-2, "Name or service not known")
        return ["192.0.2.1", "192.0.2.1", "2001:db8::1"]

    async def body() -> None:
        overrides = (("fixed.example", "192.0.2.9"), ("*.wild.example", "[2001:db8::9]"))
        resolver = Resolver(asyncio.get_running_loop(), overrides, lookup)
        answers: asyncio.Queue[ResolvedName] = asyncio.Queue()
        for _ in range(3):
            resolver.find("a.example", answers.put_nowait)
        got = [await answers.get() for _ in range(3)]
        assert [answer.addresses for answer in got] == [("192.0.2.1", "2001:db8::1")] * 3
        assert asked == ["a.example"]
        resolver.prefer("a.example", "2001:db8::1")
        known = resolver.known("a.example")
        assert known is not None and known.addresses == ("2001:db8::1", "192.0.2.1")

        resolver.find("gone.example", answers.put_nowait)
        failed = await answers.get()
        assert failed.addresses == () and "'gone.example'" in failed.failure
        assert resolver.known("gone.example") == failed

        for name, address in (
            ("fixed.example", "192.0.2.9"),
            ("x.wild.example", "2001:db8::9"),
            ("[::1]", "::1"),
            ("127.0.0.1", "127.0.0.1"),
        ):
            found = resolver.known(name)
            assert found is not None and found.addresses == (address,)
        assert resolver.known("wild.example") is None
        assert len(asked) == 2
        for number in range(NAMES_MAX + 10):
            resolver.known(f"{number}.wild.example")
        assert len(resolver._known) == NAMES_MAX
        resolver.close()

    run(body())


def test_private_addresses_are_refused_without_asking_them(tmp_path: Path) -> None:
    async def body() -> None:
        async with serving(ok()) as server:
            names = {"rebind.example": ["127.0.0.1"], "both.example": ["127.0.0.1", "::1"]}
            async with fetching(tmp_path, allow_private=False, lookup=lambda name: names[name]) as fetcher:
                for host in ("127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "rebind.example", "both.example"):
                    got = await fetcher.fetch(job(server.url(host=host)))
                    assert got.outcome == FetchOutcome.PRIVATE
                    assert "fetch.private" in got.detail
            assert server.connections == 0

    run(body())


def test_private_networks_are_asked_and_no_others(tmp_path: Path) -> None:
    names = {"home.example": ["127.0.0.1"], "away.example": ["127.1.0.1"]}

    async def body() -> None:
        async with serving(ok()) as server:
            start = {"allow_private": False, "private_networks": ("127.0.0.0/24",), "lookup": lambda name: names[name]}
            async with fetching(tmp_path, **start) as fetcher:
                wanted = {"127.0.0.1": FetchOutcome.OK, "home.example": FetchOutcome.OK}
                wanted |= {
                    "127.1.0.1": FetchOutcome.PRIVATE,
                    "away.example": FetchOutcome.PRIVATE,
                    "[::1]": FetchOutcome.PRIVATE,
                }
                for host, outcome in wanted.items():
                    assert (await fetcher.fetch(job(server.url(host=host)))).outcome == outcome
            assert len(server.requests) == 2

    run(body())


def test_the_connection_goes_to_the_address_that_was_checked(tmp_path: Path) -> None:
    """A name that means another address when it is looked up again gains nothing: nobody looks it up again."""
    answers = iter([["127.0.0.1"], ["127.0.0.2"]])

    async def body() -> None:
        async with serving(ok()) as server:
            fetch = settings(refuse=("127.0.0.2/32",))
            async with fetching(tmp_path, fetch, allow_private=False, lookup=lambda name: next(answers)) as fetcher:
                for _ in range(3):
                    got = await fetcher.fetch(job(server.url(host="rebind.example")))
                    assert (got.outcome, got.ip) == (FetchOutcome.OK, "127.0.0.1")
                assert f"Host: rebind.example:{server.port}\r\n".encode() in server.requests[0]

    run(body())


def test_another_address_is_tried_where_one_does_not_answer(tmp_path: Path) -> None:
    async def body() -> None:
        async with (
            serving(ok()) as server,
            fetching(tmp_path, lookup=lambda name: ["127.0.0.3", "127.0.0.1"]) as fetcher,
        ):
            got = await fetcher.fetch(job(server.url(host="two.example")))
            assert (got.outcome, got.ip) == (FetchOutcome.OK, "127.0.0.1")

    run(body())


def test_names_that_nobody_knows_do_not_wait_for_the_delay(tmp_path: Path) -> None:
    def lookup(name: str) -> list[str]:
        raise socket.gaierror(-2, "Name or service not known")

    async def body() -> None:
        async with fetching(tmp_path, settings(delay=1000.0, per_host=1), lookup=lookup) as fetcher:
            jobs = [job("http://gone.example/", number, delay=1000.0) for number in range(5)]
            got: list[Fetched] = await asyncio.wait_for(asyncio.gather(*map(fetcher.fetch, jobs)), 20)
            assert {fetched.outcome for fetched in got} == {FetchOutcome.DNS}

    run(body())
