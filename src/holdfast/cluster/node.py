"""A node's process: the NATS server of a keeper, the connection to the service, the duty, and what depends on them.

    start    the server, if this node is a keeper → connection → list of members → lease → claims
    stop     all partitions are handed over → the lease is given up → connection and server end
    rebuild  the old service is closed → all nodes get a signed statement about the new one → each goes on with it

The cluster's part runs in an event loop of its own thread. What copies records, and later what crawls, are *services*:
the node makes them, tells them who the members are, asks them which partitions are in sync, and lets them drain a
partition before another node gets it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from holdfast.cluster.answers.routes import RouteTable
from holdfast.cluster.control import serve_control
from holdfast.cluster.copies.partitions import PartitionRule, split_domain
from holdfast.cluster.copies.removal.removal_log import FILE as REMOVALS
from holdfast.cluster.copies.removal.removal_log import OnBus, ServiceRemovalLog
from holdfast.cluster.create import new_id
from holdfast.cluster.directory import NodeAddress, NodeDirectory
from holdfast.cluster.membership.admission import SERVICE, SETTINGS, TRUST, Administration, Admitted, raised
from holdfast.cluster.membership.agent import DutyAgent, Rights, boot_time_s
from holdfast.cluster.membership.authority import Trust, is_due
from holdfast.cluster.membership.bus import Bus, Message, ServiceAccess
from holdfast.cluster.membership.identity import MemberIdentity, ca_context
from holdfast.cluster.membership.keeper import KeeperProcess
from holdfast.cluster.membership.members import MemberList
from holdfast.cluster.membership.service import Keeper, NatsService
from holdfast.cluster.settings import PROTOCOLS, ClusterSettings
from holdfast.cluster.status import NodeStatus, OwnStatus, node_table, write_table
from holdfast.env.lock import WriterLock
from holdfast.env.paths import CONTROL, NODES
from holdfast.errors import ClusterDown, HoldfastError, NotAMember, UsageError
from holdfast.storage.volumes.remote.connection import split_address

log = logging.getLogger("holdfast.cluster")
T = TypeVar("T")

_CONNECT_S = 5.0
_RETRY_S = 0.3
_TRIES = 10
_PATIENCE_S = 5.0  # before the log says what the node waits for
_STATUS_S = 1.0
_RENEWAL_LOOK_S = 3600.0
_ORDER_S = 5.0
_COMMANDS_MAX = 16  # to services, at a time
_DRAINS_MAX = 32  # partitions, at a time


@dataclass(frozen=True, slots=True)
class NodeContext:
    """What a service of a node gets to know. The callables are for any thread."""

    archive: Path
    settings: ClusterSettings
    address: NodeAddress  # name, and where the node protocol listens
    identity: Callable[[], MemberIdentity]  # with the TLS contexts; a renewed certificate makes a new one
    members: Callable[[], MemberList]
    live: Callable[[], frozenset[str]]  # members with a lease, as far as is known
    rights: Callable[[], Rights]  # to fetch
    owner: Callable[[int], str | None]  # of a partition, as far as is known
    notify: Callable[[bytes], None]  # sends a few bytes to the services of all other nodes; they may get lost
    removals: ServiceRemovalLog
    on_bus: OnBus  # raises ClusterDown without a connection


class NodeService(Protocol):
    """Something that runs as long as its node does. Called from the node's threads, never from its event loop."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def in_sync(self) -> frozenset[int]:
        """The partitions that agree with those of every live holder, in the present epoch."""

    def drain(self, partition: int) -> None:
        """Returns when nothing is fetched for the partition any more, and what was fetched is safe elsewhere."""

    def members_changed(self, members: MemberList) -> None: ...
    def notified(self, sender: str, data: bytes) -> None: ...
    def status(self) -> dict[str, Any]:
        """Fields of `NodeStatus`."""

    def command(self, command: dict[str, Any]) -> dict[str, Any] | None:
        """What a user of this machine asks for; None if it is not for this service."""


MakeService = Callable[[NodeContext], NodeService]


class ClusterNode:
    """One node, from `start` to `stop`. For the main thread."""

    def __init__(self, directory: NodeDirectory, services: Sequence[MakeService] = (), pages: str = "") -> None:
        self.directory = directory
        self.settings = directory.settings()
        self.address = directory.address()
        self.pages = pages  # URL of this node's pages, for the table
        self.on_end: Callable[[], None] = lambda: None  # called from another thread when the node ends by itself
        self.failure: HoldfastError | None = None
        self._identity = directory.identity()
        self._members = directory.members()
        self._make_services = services
        self._services: list[NodeService] = []
        self._lock: WriterLock | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready: Future[None] = Future()
        self._stop = asyncio.Event()
        self._next: asyncio.Future[NatsService] | None = None
        self._service = directory.service()
        self._bus: Bus | None = None
        self._agent: DutyAgent | None = None
        self._keeper: KeeperProcess | None = None
        self._administration: Administration | None = None
        self._status: dict[str, NodeStatus] = {}
        self._own = OwnStatus(directory.archive)
        self._down_since_s: dict[str, float] = {}
        self._waits_for = ""
        self._waits_since_s = 0.0
        self._has_left = False
        self._is_rebuilding = False
        self._has_connected = False
        # Of their own, because these may last: an import for hours, a partition until other nodes have its records.
        self._commands = ThreadPoolExecutor(_COMMANDS_MAX, "command")
        self._drains = ThreadPoolExecutor(_DRAINS_MAX, "drain")

    # -- life -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Returns when the node has its list of members, or has to wait for other keepers.

        Raises Busy if it runs already, ClusterDown if the service cannot be reached, NotAMember if it refuses.
        """
        try:
            self._lock = self.directory.lock()
            self._thread = threading.Thread(target=self._run, name="cluster")
            self._thread.start()
            self._ready.result()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Hands all partitions over and ends. Idempotent."""
        thread = self._thread
        while thread is not None and thread.is_alive():
            if self._loop is None:  # it has just begun
                self._stop.set()
            else:
                with suppress(RuntimeError):  # it ended just now
                    self._loop.call_soon_threadsafe(self._stop.set)
            thread.join(_RETRY_S)
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except HoldfastError as error:
            self.failure = error
        except Exception as error:  # the thread's edge
            log.exception("the node failed")
            self.failure = HoldfastError(f"the node failed: {error}")
        if self._ready.done():
            if self.failure is not None or self._has_left:
                self.on_end()
        elif self.failure is not None:
            self._ready.set_exception(self.failure)
        else:
            self._ready.set_result(None)

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        control = await serve_control(self.directory.path, self._command)
        context = self._context()
        self._services = [make(context) for make in self._make_services]
        started: list[NodeService] = []
        table = asyncio.create_task(self._keep_table())
        try:
            for service in self._services:
                await asyncio.to_thread(service.start)
                started.append(service)
            current: NatsService | None = self._service
            while current is not None and not self._stop.is_set():
                current = await self._serve(current)
        finally:
            table.cancel()
            control.close()
            for pool in (self._commands, self._drains):
                pool.shutdown(wait=False, cancel_futures=True)
            (self.directory.path / CONTROL).unlink(missing_ok=True)
            for service in reversed(started):
                await asyncio.to_thread(service.stop)
            self._own.close()
            (self.directory.path / NODES).unlink(missing_ok=True)

    def _context(self) -> NodeContext:
        return NodeContext(
            self.directory.archive,
            self.settings,
            self.address,
            lambda: self._identity,
            lambda: self._members,
            self._live,
            lambda: self._agent.rights if self._agent is not None else Rights(),
            lambda partition: self._agent.duty.owner_of(partition) if self._agent is not None else None,
            self._notify,
            ServiceRemovalLog(self.directory.path / REMOVALS, self._on_bus),
            self._on_bus,
        )

    def _on_bus(self, call: Callable[[Bus], Awaitable[T]]) -> T:
        """Runs a coroutine with the connection to the service, for a thread of a service. Raises ClusterDown."""
        bus, loop = self._bus, self._loop
        if bus is None or loop is None or loop.is_closed() or self._agent is None:
            raise ClusterDown("no connection to the NATS service")

        async def run() -> T:
            return await call(bus)

        try:
            return asyncio.run_coroutine_threadsafe(run(), loop).result()
        except CancelledError:  # the event loop ends
            raise ClusterDown("the node stops") from None

    def _live(self) -> frozenset[str]:
        agent = self._agent
        leases = {each.name: agent.duty.lease_of(each.name) for each in self._members} if agent is not None else {}
        return frozenset(name for name, lease in leases.items() if lease is not None and not lease.revoked)

    def _notify(self, data: bytes) -> None:
        bus, loop = self._bus, self._loop
        if bus is not None and loop is not None and not loop.is_closed():
            asyncio.run_coroutine_threadsafe(_quietly(bus.publish(f"notify.{self.address.name}", data)), loop)

    # -- one incarnation of the service ----------------------------------------------------------------

    async def _serve(self, service: NatsService) -> NatsService | None:
        """Works with a service until the node stops (None), or another service takes its place."""
        self._service = service
        self._next = asyncio.get_running_loop().create_future()
        own = service.keeper(self.address.name)
        if own is not None:
            await self._start_keeper(service, own)
        work = asyncio.create_task(self._work(service))
        stop = asyncio.create_task(self._stop.wait())
        try:
            ends: list[asyncio.Future[Any]] = [work, stop, self._next]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if self._has_left:
                await self._stop.wait()  # until who asked for it has the response
            if work.done() and not self._stop.is_set() and not self._next.done() and not self._has_left:
                work.result()
            if self._agent is not None and not self._next.done() and not self._has_left:
                await self._hand_over(self._agent)
            return self._next.result() if self._next.done() else None
        finally:
            for task in (work, stop):
                task.cancel()
            await asyncio.gather(work, stop, return_exceptions=True)
            await self._disconnect()

    async def _start_keeper(self, service: NatsService, own: Keeper) -> None:
        self._keeper = KeeperProcess(service, own, self.address.listen_host, self.directory.keeper_files())
        await asyncio.to_thread(self._keeper.start, self._identity.trust)

    async def _hand_over(self, agent: DutyAgent) -> None:
        if not await agent.stop():
            log.warning("not all partitions were handed over; others take them when this node's lease ends")

    async def _disconnect(self) -> None:
        await self._drop_connection()
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            await asyncio.to_thread(keeper.stop)

    async def _drop_connection(self) -> None:
        agent, bus = self._agent, self._bus
        self._agent = self._bus = self._administration = None
        if agent is not None:
            agent.duty.resign(boot_time_s())  # gives up all rights here; the lease ends by itself
        if bus is not None:
            await bus.close()

    async def _work(self, service: NatsService) -> None:
        """Goes on after every trouble with the service, except for a node that has not reached it once."""
        while True:
            try:
                await self._take_part(service)
            except ClusterDown as error:
                if self._keeper is None:
                    await self._drop_connection()
                    await self._look_elsewhere(service)
                    if not self._has_connected:
                        raise
                self._wait_for(str(error))
            await self._drop_connection()
            await asyncio.sleep(_RETRY_S)

    async def _take_part(self, service: NatsService) -> None:
        bus = self._bus = Bus(self._access(service))
        await bus.open(_CONNECT_S)
        self._has_connected = True
        await bus.subscribe("service.*", self._on_service, queue="members")
        await bus.subscribe(f"order.{self.address.name}.*", self._on_order)
        await self._find_keys(bus, service)
        await self._compare_settings(bus)
        agent = self._agent = DutyAgent(
            bus,
            self.address.name,
            self.settings,
            drain=self._drain,
            in_sync=self._in_sync,
            on_members=self._take_members,
            waits=service.number > 1,
        )
        await bus.subscribe("status.*", self._on_status)
        await bus.subscribe("notify.*", self._on_notify)
        await bus.watch(self._on_key)
        for key in (TRUST, SERVICE):
            if known := await bus.get(key):
                self._on_key(key, known.value, known.revision)
        await agent.start()
        if self._administration is not None:
            await self._administration.start()
        self._forget_old_stores(service)
        self._waits_for = ""
        self._set_ready()
        tasks = [
            asyncio.create_task(each)
            for each in (
                agent.run(),
                bus.run(),
                self._keep_certificate(bus),
                self._look_for_service(bus, agent, service),
            )
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()

    def _access(self, service: NatsService) -> ServiceAccess:
        """The same node with whatever certificate it has by then."""
        access = self._identity.access(service)
        return replace(access, jwt=lambda: self._identity.user_jwt, tls=lambda: ca_context(self._identity.trust.ca))

    async def _find_keys(self, bus: Bus, service: NatsService) -> None:
        """Returns when the service has the keys of this incarnation. The first node of a cluster writes them."""
        if self.directory.is_administrator:
            self._administration = Administration(
                bus, self.directory.authority(), self._identity.trust, self.settings, self.directory.signed_service()
            )
        for _ in range(_TRIES):
            try:
                if self.directory.is_founding and self._administration is not None:
                    await self._administration.create(self._members)
                    self.directory.set_founding(False)
                if await bus.has_keys():
                    return
                await self._ask_for_service(bus)
                self._wait_for("it has no keys of this cluster; if they are lost: 'holdfast cluster rebuild'")
            except ClusterDown as error:
                if bus.refusal.done():
                    raise bus.refusal.result() from None
                self._wait_for(str(error))
            await asyncio.sleep(_RETRY_S)
        raise ClusterDown(self._waits_for)  # another server may know more

    async def _ask_for_service(self, bus: Bus) -> None:
        """Whether another node knows a later service."""
        with suppress(ClusterDown, NotAMember):
            self._take_service((await bus.request(f"service.{self.address.name}", b"", 1.0)).decode())

    async def _look_elsewhere(self, service: NatsService) -> None:
        """Asks where any member may run a server: the keepers may be others since this node has heard of them."""
        places = []
        for member in self._members:
            host, port = split_address(member.address)
            places.append(NodeAddress(member.name, host, port).keeper)
        bus = Bus(self._access(replace(service, keepers=tuple(places), url="")))
        try:
            await bus.open(_CONNECT_S)
            await self._ask_for_service(bus)
        except (ClusterDown, NotAMember) as error:
            log.debug("%s", error)
        finally:
            await bus.close()

    async def _look_for_service(self, bus: Bus, agent: DutyAgent, service: NatsService) -> None:
        """The service may have been closed, or a connection made again to one that knows another incarnation only."""
        while True:
            await asyncio.sleep(self.settings.lease_s)
            if bus.connected.is_set() and agent.rights.until_s < boot_time_s() and not self._is_rebuilding:
                with suppress(ClusterDown, NotAMember):
                    if not await bus.has_keys():
                        await self._ask_for_service(bus)
                    elif signed := await bus.successor():
                        self._take_service(signed)

    async def _compare_settings(self, bus: Bus) -> None:
        known = await bus.get(SETTINGS)
        if known is not None and ClusterSettings.from_json(known.value) != self.settings:
            raise UsageError(f"'{self.directory.path}/settings.json' differs from the settings of the cluster")

    def _wait_for(self, reason: str) -> None:
        now_s = boot_time_s()
        if not self._waits_for:
            self._waits_since_s = now_s
        if now_s - self._waits_since_s > _PATIENCE_S:
            self._waits_since_s = float("inf")
            log.warning("waiting for the NATS service: %s", reason)
        self._waits_for = reason
        self._set_ready()

    def _set_ready(self) -> None:
        if not self._ready.done():
            self._ready.set_result(None)

    def _forget_old_stores(self, service: NatsService) -> None:
        """What servers of earlier incarnations kept."""
        kept = self.directory.keeper_files().store(service).name
        for path in self.directory.nats_path.glob("*/") if self.directory.nats_path.exists() else ():
            if path.name != kept:
                shutil.rmtree(path, ignore_errors=True)

    # -- services ---------------------------------------------------------------------------------------

    def _in_sync(self, members: MemberList) -> frozenset[int]:
        """Of all services together; a node without services holds nothing that could differ."""
        if members.split_epoch != self._members.split_epoch:
            return frozenset()  # services do not know yet which records belong to which partition now
        sets = [service.in_sync() for service in self._services]
        return frozenset.intersection(*sets) if sets else frozenset(range(self.settings.partitions))

    async def _drain(self, partition: int) -> None:
        for service in reversed(self._services):  # the copies last: what the others have fetched is safe then
            await asyncio.get_running_loop().run_in_executor(self._drains, service.drain, partition)

    def _take_members(self, members: MemberList) -> None:
        self._members = members
        self.directory.save_members(members)
        for service in self._services:
            service.members_changed(members)

    async def _on_notify(self, message: Message) -> None:
        if message.sender != self.address.name:
            for service in self._services:
                await asyncio.to_thread(service.notified, message.sender, message.data)

    # -- what others say --------------------------------------------------------------------------------

    def _on_key(self, key: str, value: bytes, revision: int) -> None:
        if key == TRUST:
            self._take_trust(Trust.from_json(value))
        elif key == SERVICE:
            self._take_service(value.decode())

    def _take_trust(self, trust: Trust) -> None:
        """What the authority has signed since: who is revoked."""
        known = self._identity.trust
        if trust == known or trust.root != known.root or trust.signed_s < known.signed_s:
            return
        self._save_identity(replace(self._identity, trust=trust))

    def _save_identity(self, identity: MemberIdentity) -> None:
        self.directory.save_trust(identity.trust)
        self.directory.save_identity(identity.certificate, identity.user_jwt)
        self._identity = identity
        if self._administration is not None:
            self._administration.trust = identity.trust
        if self._keeper is not None:
            self._keeper.trust(identity.trust)

    def _take_service(self, signed: str) -> None:
        """A later service of this cluster takes the place of the present one."""
        service = NatsService.from_signed(signed, self._identity.trust)
        if service.number > self._service.number and self._next is not None and not self._next.done():
            log.warning("the cluster has a new NATS service, number %d", service.number)
            self.directory.save_service(signed)
            self._next.set_result(service)

    async def _on_service(self, message: Message) -> None:
        await message.respond(self.directory.signed_service().encode())

    async def _on_order(self, message: Message) -> None:
        """An administrator tells this node about a new service."""
        await message.respond(b"{}")
        self._take_service(json.loads(message.data)["service"])

    async def _on_status(self, message: Message) -> None:
        self._status[message.sender] = NodeStatus.from_json(message.data)

    # -- what goes on -----------------------------------------------------------------------------------

    async def _keep_table(self) -> None:
        while True:
            try:
                await self._renew_table()
            except (OSError, HoldfastError) as error:  # a full disk: there may be room again
                log.debug("the table of nodes is not written: %s", error)
            await asyncio.sleep(_STATUS_S)

    async def _renew_table(self) -> None:
        """The table and the routes of this node; its figures, for the others."""
        more: dict[str, Any] = {}
        for service in self._services:
            more |= await asyncio.to_thread(service.status)
        own = await asyncio.to_thread(self._own.look, self.pages, more)
        self._status[self.address.name] = own
        bus, agent = self._bus, self._agent
        if bus is not None and bus.connected.is_set():
            await _quietly(bus.publish(f"status.{self.address.name}", own.to_json()))
        if agent is not None and self._administration is not None:
            await _quietly(self._mark_lost(agent, self._administration))
        duty = agent.duty if agent is not None and bus is not None and bus.connected.is_set() else None
        table = node_table(self.address.name, self.settings, self._service, self._members, duty, self._status.get)
        await asyncio.to_thread(write_table, self.directory.path, table)
        if agent is not None and agent.rights.until_s > boot_time_s():
            await asyncio.to_thread(self._routes(agent).write, self.directory.path)

    def _routes(self, agent: DutyAgent) -> RouteTable:
        """For the web workers, while this node has a lease: it hears from the cluster."""
        leases = {each.name: agent.duty.lease_of(each.name) for each in self._members}
        since = self._members.split_epoch
        live = {
            name: lease.in_sync if lease.epoch >= since else frozenset[int]()
            for name, lease in leases.items()
            if lease is not None and not lease.revoked
        }
        rule = PartitionRule(self.settings.partitions, self._members.splits)
        indexing = frozenset(name for name, status in self._status.items() if status.is_indexing)
        return RouteTable(self.address.name, self._members, rule, self.settings.copies, live, boot_time_s(), indexing)

    async def _mark_lost(self, agent: DutyAgent, administration: Administration) -> None:
        """A member that is away for too long counts as lost; its records are copied again. It may come back."""
        live, now_s = self._live(), boot_time_s()
        for member in agent.members:
            if member.name in live:
                self._down_since_s.pop(member.name, None)
                if member.state == "lost":
                    await administration.set_state(member.name, "")
            elif not member.state:
                since_s = self._down_since_s.setdefault(member.name, now_s)
                if now_s - since_s > self.settings.lost_after_s:
                    log.warning("node '%s' is lost", member.name)
                    await administration.set_state(member.name, "lost")

    async def _keep_certificate(self, bus: Bus) -> None:
        """Renews this node's certificate and rights in time, and when its address or its protocols have changed."""
        while True:
            member = self._members.find(self.address.name)
            is_moved = member is not None and (member.address != self.address.address or member.protocols != PROTOCOLS)
            if is_moved or is_due(self._identity.certificate):
                try:
                    await self._renew(bus)
                except HoldfastError as error:
                    log.warning("the certificate is not renewed yet: %s", error)
                    await asyncio.sleep(_RETRY_S * 10)
                    continue
            await asyncio.sleep(_RENEWAL_LOOK_S)

    async def _renew(self, bus: Bus) -> None:
        body = {"address": self.address.address, "host": self.address.host, "protocols": list(PROTOCOLS)}
        response = await bus.request(f"renew.{self.address.name}", json.dumps(body).encode())
        admitted = Admitted.from_json(raised(json.loads(response)))
        self._save_identity(
            replace(
                self._identity,
                certificate=admitted.certificate,
                user_jwt=admitted.user_jwt,
                trust=admitted.trust,
            )
        )

    # -- commands ---------------------------------------------------------------------------------------

    async def _command(self, command: dict[str, Any]) -> dict[str, Any]:
        """What a user of this machine asks for."""
        match command["command"]:
            case "weight":
                await self._admin().set_weight(command["node"], command["weight"])
            case "split":
                return await self._split(command["domain"], command["parts"])
            case "forget":
                return await self._forget(command["node"])
            case "leave":
                await self._leave()
            case "rebuild":
                return await self._rebuild(command["keepers"], command["nats"], is_gone=command["old_is_gone"])
            case other:
                for service in self._services:
                    run = asyncio.get_running_loop().run_in_executor(self._commands, service.command, command)
                    if (response := await run) is not None:
                        return response
                raise UsageError(f"unknown command '{other}'")
        return {}

    def _admin(self) -> Administration:
        if not self.directory.is_administrator:
            raise NotAMember(f"node '{self.address.name}' has no administrator right: use a node that has it")
        if self._administration is None or self._agent is None:
            raise ClusterDown(f"no connection to the NATS service: {self._waits_for or 'connecting'}")
        return self._administration

    async def _split(self, domain: str, parts: int) -> dict[str, Any]:
        domain = split_domain(domain)
        PartitionRule(self.settings.partitions, {domain: parts})  # raises if the number is bad
        members = await self._admin().set_split(domain, parts)
        rule = PartitionRule(self.settings.partitions, members.splits)
        return {"domain": domain, "parts": parts, "partitions": sorted(rule.of_domain(domain)), "epoch": members.epoch}

    async def _forget(self, name: str) -> dict[str, Any]:
        administration = self._admin()
        self._members.get(name)
        if name == self.address.name:
            raise UsageError("a node cannot forget itself: 'holdfast node leave'")
        if self._service.keeper(name) is not None:
            raise UsageError(f"node '{name}' is a keeper: 'holdfast cluster rebuild --keepers' with others first")
        members = await administration.forget(name)
        return {"members": [each.name for each in members]}

    async def _leave(self) -> None:
        """Hands over the records and the duty of this node, is forgotten, and stops."""
        agent, bus, name = self._agent, self._bus, self.address.name
        if agent is None or bus is None:
            raise ClusterDown("no connection to the NATS service: a node leaves when others can take over")
        if self._service.keeper(name) is not None:
            raise UsageError(f"node '{name}' is a keeper: 'holdfast cluster rebuild --keepers' with others first")
        others = [each for each in self._members if each.name != name and not each.state]
        if not others:
            raise UsageError(f"'{name}' is the last node of the cluster")
        if not any(each.is_administrator for each in others):
            raise UsageError(f"'{name}' is the last administrator: join another one, with a token of --administrator")
        await self._request_leave(bus, done=False)
        while not self._is_handed_over(agent):
            await asyncio.sleep(_RETRY_S)
        await agent.stop()
        self._has_left = True
        try:
            await self._request_leave(bus, done=True)
            self.directory.retire()
        finally:
            self._stop.set()

    async def _request_leave(self, bus: Bus, *, done: bool) -> None:
        try:
            raised(json.loads(await bus.request(f"leave.{self.address.name}", json.dumps({"done": done}).encode())))
        except ClusterDown:
            if not (done and bus.refusal.done()):  # it is forgotten before the answer comes
                raise

    def _is_handed_over(self, agent: DutyAgent) -> bool:
        """Whether all who hold partitions now have said, knowing this epoch, that they are in sync."""
        members = agent.members
        own = members.find(self.address.name)
        if own is None or own.state != "leaving":
            return False
        for partition in range(self.settings.partitions):
            for name in members.holders(partition, self.settings.copies):
                lease = agent.duty.lease_of(name)
                if lease is None or lease.revoked or lease.epoch < members.epoch or partition not in lease.in_sync:
                    return False
        return True

    # -- rebuild ----------------------------------------------------------------------------------------

    async def _rebuild(self, keepers: list[str], nats: str, *, is_gone: bool) -> dict[str, Any]:
        """Starts a new service with these keepers, or with a service that others run, and fills it from this node."""
        if not self.directory.is_administrator:
            raise NotAMember(f"node '{self.address.name}' has no administrator right: use a node that has it")
        service = self._new_service(keepers, nats)
        await self._require_usable(service, is_gone=is_gone)
        signed = service.signed(self.directory.authority())
        self._is_rebuilding = True  # this node moves last
        try:
            await self._close_service(signed, is_gone=is_gone)
            informed = await self._inform(signed)
            self.directory.set_founding(True)
            self._take_service(signed)
        finally:
            self._is_rebuilding = False
        others = [each.name for each in self._members if each.name not in informed and each.name != self.address.name]
        return {"number": service.number, "keepers": [each.name for each in service.keepers], "not_informed": others}

    def _new_service(self, keepers: list[str], nats: str) -> NatsService:
        if nats:
            return NatsService(self._service.number + 1, new_id(), (), nats)
        names = keepers or [each.name for each in self._service.keepers]
        if not names:
            raise UsageError("the present service is run by others: say which is the next one, --keepers or --nats")
        if len(names) not in (1, 3, 5) or len(set(names)) != len(names):
            raise UsageError(f"bad keepers {', '.join(names)}: 1, 3 or 5 different nodes")
        places = []
        for name in names:
            host, port = split_address(self._members.get(name).address)
            places.append(NodeAddress(name, host, port).keeper)
        return NatsService(self._service.number + 1, new_id(), tuple(places))

    async def _require_usable(self, service: NatsService, *, is_gone: bool) -> None:
        """Raises before anything is changed: nobody fetches while a service does not work."""
        if not service.is_own:
            bus = Bus(self._access(service))
            try:
                await bus.open(_CONNECT_S)
            finally:
                await bus.close()
            return
        if self._agent is None or is_gone:  # nobody is known to have a lease
            return
        names, live = [each.name for each in service.keepers], self._live() | {self.address.name}
        absent = [name for name in names if name not in live]
        if 2 * len(absent) >= len(names):
            raise ClusterDown(f"keepers {', '.join(absent)} do not run: start them first, or choose others")

    async def _close_service(self, successor: str, *, is_gone: bool) -> None:
        """Nobody renews a lease of the old service after this. Who still reaches it finds the next one there."""
        try:
            if self._bus is None:
                raise ClusterDown("no connection to it")
            if await self._bus.has_keys():
                await self._bus.close_keys(successor)
        except ClusterDown as error:
            if not is_gone:
                raise ClusterDown(
                    f"the old NATS service cannot be closed ({error}): if all of its servers are stopped for good, "
                    "give --old-is-gone"
                ) from error

    async def _inform(self, signed: str) -> set[str]:
        """The nodes that know of the new service now. The others ask when they reach one of its servers."""
        bus = self._bus
        order = json.dumps({"service": signed}).encode()

        async def inform(name: str) -> str:
            try:
                assert bus is not None
                await bus.request(f"order.{name}.{self.address.name}", order, _ORDER_S)
            except ClusterDown:
                return ""
            return name

        names = [each.name for each in self._members if each.name != self.address.name]
        return set(await asyncio.gather(*(inform(name) for name in names))) - {""} if bus is not None else set()


async def _quietly(work: Awaitable[Any]) -> None:
    """What is repeated soon may fail."""
    try:
        await work
    except ClusterDown as error:
        log.debug("%s", error)
