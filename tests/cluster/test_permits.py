"""Permits for addresses that hosts of several nodes share: no two of their requests too close, whatever goes wrong."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from random import SystemRandom

import pytest
from permit_world import LEASE_S, LIMIT, PARTITIONS, PermitWorld

from holdfast.cluster.crawl import permits
from holdfast.cluster.crawl.permits import (
    NodeUse,
    PermitAuthority,
    PermitClient,
    PermitRequest,
    PermitResponse,
    partition_of_address,
)
from holdfast.crawl.processes.messages import AddressPermit, AddressUse

SCHEDULES = 60
WEAK_SCHEDULES_MAX = 200  # until a weakened variant must be caught
SEED = int(os.environ.get("HOLDFAST_SEED", SystemRandom().randrange(10**9)))
ADDRESS = "192.0.2.7"
CLAIMS = {partition_of_address(ADDRESS, PARTITIONS): 0.0}
NEVER = float("inf")


def test_no_two_nodes_come_too_close_at_an_address() -> None:
    """In all schedules; and everything is fetched, in turns."""
    for seed in range(SEED, SEED + SCHEDULES):
        world = PermitWorld(seed)
        world.run()
        assert world.violations() == [], f"HOLDFAST_SEED={seed}"
        assert world.most_at_once() <= LIMIT, f"HOLDFAST_SEED={seed}"
        assert world.left() == 0, f"HOLDFAST_SEED={seed}"
        assert world.handovers() > 10, f"HOLDFAST_SEED={seed}"


class _FromTimeSent(PermitClient):
    """Begins before the authority could know."""

    def answered(self, owner: str, response: PermitResponse | None, received_s: float) -> list[AddressPermit]:
        _, sent_s = self._under_way[owner]
        return super().answered(owner, response, sent_s)


class _OwesNothing(PermitClient):
    """Does not say until when an address rests."""

    def _said(self, *arguments: object) -> NodeUse:
        return super()._said(*arguments)._replace(owed_s=0.0)  # type: ignore[arg-type]


class _HidesTransfers(PermitClient):
    """Does not say what is under way."""

    def _said(self, *arguments: object) -> NodeUse:
        return super()._said(*arguments)._replace(active=0)  # type: ignore[arg-type]


@pytest.mark.parametrize("client", [_FromTimeSent, _OwesNothing, _HidesTransfers])
def test_weakened_clients_are_caught(client: type[PermitClient]) -> None:
    assert _is_caught(lambda seed: PermitWorld(seed, client))


@pytest.mark.parametrize("name", ["SILENT_LEASES", "PATIENCE_LEASES"])
def test_hasty_authorities_are_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that grants at once after its claim; one that does not wait for transfers of the last node."""
    monkeypatch.setattr(permits, name, 0.0)
    assert _is_caught(PermitWorld)


def _is_caught(make: Callable[[int], PermitWorld]) -> bool:
    for seed in range(SEED, SEED + WEAK_SCHEDULES_MAX):
        world = make(seed)
        world.run()
        if world.violations() or world.most_at_once() > LIMIT:
            return True
    return False


# -- single rules ------------------------------------------------------------------------------------------------------


def said(
    party: str, number: int, *, permit: int = 0, wants: bool = True, active: int = 0, owed_s: float = 0.0
) -> PermitRequest:
    return PermitRequest(party, number, LIMIT, [NodeUse(ADDRESS, permit, wants, active, owed_s, 0.5)])


def granted(response: PermitResponse | None) -> bool:
    assert response is not None
    return ADDRESS in response.granted


def test_the_order_is_that_of_the_first_requests() -> None:
    authority, now_s = PermitAuthority(PARTITIONS, LEASE_S), 10 * LEASE_S
    assert granted(authority.respond(said("a", 1), CLAIMS, NEVER, now_s))
    assert not granted(authority.respond(said("b", 1), CLAIMS, NEVER, now_s))
    assert not granted(authority.respond(said("c", 1), CLAIMS, NEVER, now_s))
    holding = authority.respond(said("a", 2, permit=1, wants=False), CLAIMS, NEVER, now_s)
    assert holding is not None
    assert holding.yields == [ADDRESS]
    assert not granted(authority.respond(said("a", 3), CLAIMS, NEVER, now_s)), "given back, and at the end of the queue"
    assert not granted(authority.respond(said("c", 2), CLAIMS, NEVER, now_s))
    assert granted(authority.respond(said("b", 2), CLAIMS, NEVER, now_s))


def test_a_new_authority_is_silent() -> None:
    authority = PermitAuthority(PARTITIONS, LEASE_S)
    silent_s = permits.SILENT_LEASES * LEASE_S
    assert not granted(authority.respond(said("a", 1), CLAIMS, NEVER, silent_s / 2))
    response = authority.respond(said("a", 2), CLAIMS, NEVER, silent_s - 0.1)
    assert response is not None
    begin_s, end_s, _ = response.granted[ADDRESS]
    assert begin_s == pytest.approx(0.1)
    assert end_s - begin_s == LEASE_S


def test_only_the_owner_grants_and_only_while_it_has_its_right() -> None:
    authority, now_s = PermitAuthority(PARTITIONS, LEASE_S), 10 * LEASE_S
    for number, (claims, until_s) in enumerate([({}, NEVER), (CLAIMS, now_s)], 1):
        response = authority.respond(said("a", number), claims, until_s, now_s)
        assert response is not None
        assert (response.granted, response.refused) == ({}, [ADDRESS])


def test_an_old_request_is_ignored() -> None:
    authority, now_s = PermitAuthority(PARTITIONS, LEASE_S), 10 * LEASE_S
    assert granted(authority.respond(said("a", 2), CLAIMS, NEVER, now_s))
    assert authority.respond(said("a", 1), CLAIMS, NEVER, now_s) is None
    assert not granted(authority.respond(said("b", 1), CLAIMS, NEVER, now_s)), "the old one gave nothing back"


def test_a_silent_node_is_forgotten_after_its_right_has_ended() -> None:
    authority, now_s = PermitAuthority(PARTITIONS, LEASE_S), 10 * LEASE_S
    assert granted(authority.respond(said("a", 1), CLAIMS, NEVER, now_s))
    later_s = now_s + permits.SILENT_LEASES * LEASE_S
    assert not granted(authority.respond(said("b", 1), CLAIMS, NEVER, later_s))
    assert granted(authority.respond(said("b", 2), CLAIMS, NEVER, later_s + 0.1))


def test_nothing_is_kept_of_addresses_that_nobody_uses() -> None:
    authority, now_s = PermitAuthority(PARTITIONS, LEASE_S), 10 * LEASE_S
    authority.respond(said("a", 1), CLAIMS, NEVER, now_s)
    authority.respond(said("a", 2, wants=False), CLAIMS, NEVER, now_s)
    assert len(authority) == 0
    authority.respond(said("a", 3), CLAIMS, NEVER, now_s)
    authority.respond(PermitRequest("b", 1, LIMIT, []), {}, NEVER, now_s + 100 * LEASE_S)
    assert len(authority) == 0, "the partition is another's"


def test_messages_are_what_they_were() -> None:
    request = said("a", 3, permit=2, active=1, owed_s=0.25)
    assert PermitRequest.from_values(request.to_values()) == request
    response = PermitResponse({ADDRESS: (0.0, 2.0, 4)}, ["192.0.2.8"], [])
    assert PermitResponse.from_values(response.to_values()) == response


def test_many_addresses_go_into_several_requests() -> None:
    """A message of NATS has a limit. What does not fit goes next, and nothing is left out."""
    client = PermitClient("a", LIMIT, PARTITIONS, LEASE_S, lambda partition: "n1")
    client.used([AddressUse(f"2001:db8::{number:x}", wants=True) for number in range(5000)])
    now_s, told = 100.0, set[str]()
    for _ in range(3):
        ((owner, request),) = client.due(now_s)
        assert len(json.dumps(request.to_values())) < 1 << 19
        told |= {use.address for use in request.uses}
        assert client.due(now_s + 0.015) == [], "one request is under way at a time"
        client.answered(owner, PermitResponse(), now_s + 0.02)
        now_s += 0.03
    assert len(told) == 5000


def test_a_permit_that_comes_after_the_fetcher_s_end_is_given_back() -> None:
    client, now_s = PermitClient("a", LIMIT, PARTITIONS, LEASE_S, lambda partition: "n1"), 100.0
    client.used([AddressUse(ADDRESS, wants=True, gap_s=0.5)])
    client.due(now_s)
    client.restarted(now_s)
    assert client.answered("n1", PermitResponse({ADDRESS: (0.0, LEASE_S, LIMIT)}), now_s + 0.01) == []
    ((_, request),) = client.due(now_s + 0.1)
    assert [(use.permit, use.wants, use.active) for use in request.uses] == [(0, False, 0)]
    assert 0.0 < request.uses[0].owed_s <= 0.5, "the requests of the last fetcher count"


def test_a_permit_that_never_reaches_the_fetcher_is_given_back() -> None:
    """Otherwise nobody could ask for the address again."""
    client, now_s = PermitClient("a", LIMIT, PARTITIONS, LEASE_S, lambda partition: "n1"), 100.0
    client.used([AddressUse(ADDRESS, wants=True)])
    client.due(now_s)
    assert len(client.answered("n1", PermitResponse({ADDRESS: (0.0, LEASE_S, LIMIT)}), now_s)) == 1
    told = []
    for later_s in (LEASE_S / 2, 3 * LEASE_S):
        ((owner, request),) = client.due(now_s + later_s)
        client.answered(owner, PermitResponse(), now_s + later_s)
        told += [(use.permit, use.wants) for use in request.uses]
    assert told == [(1, False), (0, True)]
