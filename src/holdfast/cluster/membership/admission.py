"""How a node joins, from both ends, and what administrators do about members (H3).

    node → administrator    its key, name, address and protocols, signed with the token's key and its own
    administrator → node    a nonce, drawn now and bound to token and key for good; the cluster's settings
    node → administrator    the same with the nonce, signed again
    administrator → node    certificate, rights, list of members

The nonce is drawn after the key is known and only once for a token, so a node cannot try for a better position. All
steps can be repeated: a node whose answer got lost sends the same request again. Another key cannot use the token.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from holdfast import errors
from holdfast.cluster.membership.agent import MEMBERS
from holdfast.cluster.membership.authority import Authority, Trust, rights_end
from holdfast.cluster.membership.bus import Bus, Message, full_subject
from holdfast.cluster.membership.members import NAME, MemberList
from holdfast.cluster.membership.nkeys import KeyPair, is_signed
from holdfast.cluster.membership.placement import Member, placement_id
from holdfast.cluster.membership.token import JoinToken, read_token, token_name
from holdfast.cluster.settings import PROTOCOLS, ClusterSettings
from holdfast.errors import ClusterDown, Denied, HoldfastError, NotAMember, UsageError

log = logging.getLogger("holdfast.cluster")

SETTINGS, TRUST, SERVICE = "settings", "trust", "service"  # keys
_NONCE_BYTES = 16
_SKEW_MAX_S = 300.0
_ANSWER_S = 20.0
_JOIN_S = 60.0  # while the service has no leader, or no administrator's node is connected to it
_RETRY_S = 0.5
_REFUSAL_S = 3.0


@dataclass(frozen=True, slots=True)
class Admitted:
    """What a node gets when it joins, or renews its certificate."""

    certificate: str
    user_jwt: str
    trust: Trust
    service: str  # signed
    members: MemberList
    authority: dict[str, str]  # for an administrator

    def to_json(self) -> dict[str, Any]:
        return {
            "certificate": self.certificate,
            "user_jwt": self.user_jwt,
            "trust": asdict(self.trust),
            "service": self.service,
            "members": self.members.to_json().decode(),
            "authority": self.authority,
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Admitted:
        members = MemberList.from_json(values["members"].encode())
        trust = Trust(**values["trust"])
        return cls(values["certificate"], values["user_jwt"], trust, values["service"], members, values["authority"])


def node_rights(cluster: str, name: str, *, administrator: bool) -> tuple[list[str], list[str]]:
    """The subjects under which a node may publish, and those that it may subscribe to."""
    if administrator:
        return [">"], [">"]
    own = [f"ask.*.{name}", f"status.{name}", f"notify.{name}", f"renew.{name}", f"service.{name}", f"leave.{name}"]
    own += [f"crawl.*.{name}"]
    publish = [full_subject(cluster, each) for each in own]
    publish += [
        "$KV.*.lease.*",
        "$KV.*.own.*",
        "$KV.*.removal.*",
        "$KV.*.crawl.*",
        "$KV.*.credit.*",
        full_subject(cluster, "log.>"),
        "$JS.API.INFO",
        "$JS.API.STREAM.INFO.*",
        "$JS.API.STREAM.MSG.GET.*",
        "$JS.API.STREAM.PURGE.*",  # the log of a crawl; the stream of keys does not allow it
    ]
    publish += ["$JS.API.DIRECT.GET.>"]
    heard = ["status.*", "notify.*", "service.*", "keys.>", f"ask.{name}.*", f"order.{name}.*", f"crawl.{name}.*"]
    return publish, [f"_INBOX.{name}.>", *(full_subject(cluster, each) for each in heard)]


# -- the node that joins ---------------------------------------------------------------------------------------------


async def join(
    token: JoinToken, key: KeyPair, name: str, agree: Callable[[ClusterSettings, list[str]], tuple[str, str]]
) -> tuple[ClusterSettings, Admitted]:
    """Joins the cluster of the token.

    `agree` gets the cluster's settings and the addresses of its members, and returns this node's address and host; it
    may raise before the node becomes a member.

    Raises ClusterDown if nobody answers, and NotAMember, Denied or UsageError if the cluster refuses.
    """
    bus = Bus(token.access())
    try:
        await bus.open()
        body = {
            "token": token.jwt,
            "name": name,
            "key": key.public.hex(),
            "address": "",
            "host": "",
            "protocols": list(PROTOCOLS),
            "time": time.time(),
            "nonce": "",
        }
        offered = await _send(bus, token, key, body)
        settings = ClusterSettings.from_json(offered["settings"].encode())
        address, host = agree(settings, offered["addresses"])
        more = {"address": address, "host": host, "time": time.time(), "nonce": offered["nonce"]}
        answer = await _send(bus, token, key, body | more)
        return settings, Admitted.from_json(answer)
    except (NotAMember, ClusterDown):
        if not bus.connected.is_set():  # its rights may have ended just now
            await asyncio.wait([bus.refusal], timeout=_REFUSAL_S)
        if bus.refusal.done():
            raise NotAMember(
                "the cluster refuses the token: it has expired, or is another cluster's; "
                "'holdfast cluster token' makes a new one"
            ) from None
        raise
    finally:
        await bus.close()


async def _send(bus: Bus, token: JoinToken, key: KeyPair, body: dict[str, Any]) -> dict[str, Any]:
    text = json.dumps(body)
    request = {
        "body": text,
        "token_signature": token.key.sign(text.encode()).hex(),
        "node_signature": key.sign(text.encode()).hex(),
    }
    end_s = time.monotonic() + _JOIN_S
    while True:
        try:
            return await _ask(bus, f"join.{token.name}", json.dumps(request).encode())
        except ClusterDown:
            if bus.refusal.done() or time.monotonic() > end_s:
                raise
        await asyncio.sleep(_RETRY_S)


async def _ask(bus: Bus, subject: str, request: bytes) -> dict[str, Any]:
    try:
        response = await bus.request(subject, request, _ANSWER_S)
    except ClusterDown as error:
        raise ClusterDown(f"no administrator's node answers: start one ({error})") from error
    return raised(json.loads(response))


def raised(response: dict[str, Any]) -> dict[str, Any]:
    """The response, unless it is an error: that is raised."""
    if "error" in response:
        kind = getattr(errors, response["error"], HoldfastError)
        raise (kind if issubclass(kind, HoldfastError) else HoldfastError)(response["message"])
    return response


def error_response(error: HoldfastError) -> bytes:
    return json.dumps({"error": type(error).__name__, "message": str(error)}).encode()


# -- administrators --------------------------------------------------------------------------------------------------


class Administration:
    """What a node with the authority's keys does for others, and at the word of its user. For the bus's event loop."""

    def __init__(self, bus: Bus, authority: Authority, trust: Trust, settings: ClusterSettings, service: str) -> None:
        """`service` is the signed statement about the one that the bus is connected to."""
        self.trust = trust
        self._bus = bus
        self._authority = authority
        self._settings = settings
        self._service = service

    async def start(self) -> None:
        """Answers those who join or renew their certificate."""
        await self._bus.subscribe("join.*", self._answering(self._join), queue="administrators")
        await self._bus.subscribe("renew.*", self._answering(self._renew), queue="administrators")
        await self._bus.subscribe("leave.*", self._answering(self._leave), queue="administrators")

    def _answering(self, handle: Callable[[Message], Any]) -> Callable[[Message], Any]:
        async def receive(message: Message) -> None:
            try:
                response = json.dumps(await handle(message)).encode()
            except HoldfastError as error:
                log.info("refused '%s': %s", message.subject, error)
                response = error_response(error)
            except (ValueError, TypeError, KeyError):
                response = error_response(UsageError("not a request of this protocol"))
            await message.respond(response)

        return receive

    async def create(self, members: MemberList) -> None:
        """Fills a new service. Idempotent; the list of members is written last, so nobody sees a half of it."""
        await self._bus.create_keys()
        values = {SETTINGS: self._settings.to_json(), TRUST: self.trust.to_json(), SERVICE: self._service.encode()}
        for key, value in {**values, MEMBERS: members.to_json()}.items():
            await self._bus.swap(key, value, 0)

    # -- joining -----------------------------------------------------------------------------------

    async def _join(self, message: Message) -> dict[str, Any]:
        request = json.loads(message.data)
        text = request["body"]
        body = json.loads(text)
        token, claims = read_token(body["token"], self.trust)
        key = bytes.fromhex(body["key"])
        if message.sender != token_name(token) or not is_signed(
            token, text.encode(), bytes.fromhex(request["token_signature"])
        ):
            raise NotAMember("the request is not signed with the key of its token")
        if not is_signed(key, text.encode(), bytes.fromhex(request["node_signature"])):
            raise NotAMember("the request is not signed with the key of the node")
        if claims["service"] != self._bus.access.service.number:
            raise NotAMember(
                "the token is older than the last 'cluster rebuild': 'holdfast cluster token' makes a new one"
            )
        self._check(body)
        if (await self._present_trust()).is_revoked(key):  # before the token is used up
            raise NotAMember(
                f"the node with this key was forgotten, or has left: '{body['name']}' joins with an empty directory"
            )
        nonce = await self._nonce(token_name(token), key)
        if not body["nonce"]:
            addresses = [each.address for each in await self.members() if each.public_key != key]
            return {"nonce": nonce.hex(), "settings": self._settings.to_json().decode(), "addresses": addresses}
        if bytes.fromhex(body["nonce"]) != nonce:
            raise NotAMember("the nonce is not the one that was drawn")
        return await self._admit(body, key, nonce, administrator=bool(claims["administrator"]))

    def _check(self, body: dict[str, Any]) -> None:
        if not NAME.fullmatch(body["name"]):
            raise UsageError(f"bad name of a node '{body['name'][:64]}'")
        skew_s = body["time"] - time.time()
        if abs(skew_s) > _SKEW_MAX_S:
            direction = "ahead of" if skew_s > 0 else "behind"
            raise Denied(
                f"the clock of node '{body['name']}' is {abs(skew_s) / 60:.0f} minutes {direction} the cluster's: "
                "set it, then join again"
            )

    async def _nonce(self, token: str, key: bytes) -> bytes:
        """Bound to the token and the first key that used it."""
        bound = json.dumps({"key": key.hex(), "nonce": secrets.token_hex(_NONCE_BYTES)}).encode()
        await self._bus.change(f"join.{token}", lambda known: bound if known is None else None)
        known = await self._bus.get(f"join.{token}")
        assert known is not None
        values = json.loads(known.value)
        if values["key"] != key.hex():
            raise NotAMember("the token was used already by another node: 'holdfast cluster token' makes a new one")
        return bytes.fromhex(values["nonce"])

    async def _admit(self, body: dict[str, Any], key: bytes, nonce: bytes, *, administrator: bool) -> dict[str, Any]:
        lowest, highest = body["protocols"]
        member = Member(
            name=body["name"],
            placement_id=placement_id(key, nonce),
            public_key=key,
            nonce=nonce,
            address=body["address"],
            protocols=(int(lowest), int(highest)),
            is_administrator=administrator,
        )

        def add(members: MemberList) -> MemberList:
            known = members.find(member.name)
            if known is not None and known.public_key != key:
                raise UsageError(f"the cluster has a node '{member.name}' already: choose another name with --name")
            if any(each.public_key == key and each.name != member.name for each in members):
                raise UsageError("this node's key belongs to a member with another name")
            if taken := next((each for each in members if each.address == member.address and each != known), None):
                raise UsageError(f"node '{taken.name}' has the address '{taken.address}': give another --address")
            kept = member if known is None else replace(known, address=member.address, protocols=member.protocols)
            changed = members if kept == known else members.with_member(kept)
            _ = changed.protocol  # raises if there is none in common
            return changed

        members = await self.change_members(add)
        log.info("node '%s' has joined", member.name)
        return self._issue(members.get(member.name), body["host"], members).to_json()

    def _issue(self, member: Member, host: str, members: MemberList) -> Admitted:
        publish, subscribe = node_rights(self.trust.cluster, member.name, administrator=member.is_administrator)
        return Admitted(
            certificate=self._authority.certificate(self.trust, member.public_key, member.name, host),
            user_jwt=self._authority.user_jwt(member.public_key, member.name, publish, subscribe, rights_end()),
            trust=self.trust,
            service=self._service,
            members=members,
            authority=self._authority.secrets() if member.is_administrator else {},
        )

    async def _renew(self, message: Message) -> dict[str, Any]:
        """For a member that runs with another address, or whose certificate ends soon."""
        body = json.loads(message.data)
        members = await self.change_members(lambda known: _with_address(known, message.sender, body))
        return self._issue(members.get(message.sender), body["host"], members).to_json()

    # -- members -----------------------------------------------------------------------------------

    async def members(self) -> MemberList:
        known = await self._bus.get(MEMBERS)
        return MemberList.from_json(known.value) if known is not None else MemberList()

    async def change_members(self, change: Callable[[MemberList], MemberList]) -> MemberList:
        """The list after the change, which is applied to whatever the list is by then."""
        result = MemberList()

        def changed(value: bytes | None) -> bytes | None:
            nonlocal result
            known = MemberList.from_json(value) if value is not None else MemberList()
            result = change(known)
            return result.to_json() if result != known else None

        await self._bus.change(MEMBERS, changed)
        return result

    async def set_weight(self, name: str, weight: float) -> MemberList:
        if not 0 < weight <= 1000:
            raise UsageError(f"bad weight {weight:g}: more than 0, up to 1000")
        return await self.change_members(lambda known: _replaced(known, name, weight=weight))

    async def set_split(self, domain: str, parts: int) -> MemberList:
        return await self.change_members(lambda known: known.with_split(domain, parts))

    async def set_state(self, name: str, state: str) -> MemberList:
        """'lost' and 'leaving' members hold no partitions."""
        return await self.change_members(lambda known: _replaced(known, name, state=state))

    async def forget(self, name: str) -> MemberList:
        """Removes a member for good: its rights end now, and its records are copied again from others."""
        member = (await self.members()).get(name)

        def revoked(value: bytes | None) -> bytes:
            trust = Trust.from_json(value) if value is not None else self.trust
            self.trust = self._authority.revoke(trust, member.public_key)
            return self.trust.to_json()

        await self._bus.change(TRUST, revoked)  # first: a member can be forgotten again if the rest fails
        return await self.change_members(lambda known: known.without(name) if known.find(name) else known)

    async def _present_trust(self) -> Trust:
        """What the authority has signed, whichever administrator had it do so."""
        known = await self._bus.get(TRUST)
        return Trust.from_json(known.value) if known is not None else self.trust

    async def _leave(self, message: Message) -> dict[str, Any]:
        """A member that leaves for good: first it hands its records over, then it is forgotten."""
        if json.loads(message.data)["done"]:
            await self.forget(message.sender)
        else:
            await self.set_state(message.sender, "leaving")
        return {}


def _replaced(members: MemberList, name: str, **changes: Any) -> MemberList:
    member = members.get(name)
    changed = replace(member, **changes)
    return members if changed == member else members.with_member(changed)


def _with_address(members: MemberList, name: str, body: dict[str, Any]) -> MemberList:
    lowest, highest = body["protocols"]
    changed = _replaced(members, name, address=str(body["address"]), protocols=(int(lowest), int(highest)))
    _ = changed.protocol
    return changed
