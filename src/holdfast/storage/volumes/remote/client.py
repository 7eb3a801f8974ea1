"""A volume on another machine, as its clients see it: a volume like any other (W11, W12).

Every commit has a ticket, so it can be sent again when its answer was lost: it happens once. If the server stays away,
the outcome of a commit is unknown when `VolumeDown` is raised; as soon as the server is back, the commit is made void,
and what it had counted is taken back.

A scan of a volume on another machine.
"""

from __future__ import annotations

import json
import logging
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast.config import RemoteSettings
from holdfast.env import Environment
from holdfast.env.files import Buffer
from holdfast.errors import HoldfastError, MalformedInput, TooLarge, UsageError, VolumeDown, VolumeFull, VolumeReadOnly
from holdfast.model import ContentKey, Fault
from holdfast.storage.identity import VolumeNames
from holdfast.storage.server import wire
from holdfast.storage.server.wire import Type, WireReader
from holdfast.storage.volume import (
    Activity,
    Block,
    BlockFacts,
    BlockKey,
    News,
    Operation,
    OperationResult,
    ScanPosition,
    VolumeStat,
)
from holdfast.storage.volumes.compaction import Compaction, Progress
from holdfast.storage.volumes.faults import CheckProgress
from holdfast.storage.volumes.remote.connection import Pool, ServerLink, load_credentials
from holdfast.storage.volumes.remote.retries import Attempts, PendingCommits, Tickets

_U64 = struct.Struct(">Q")


class RemoteScan:
    """A scan on a connection of its own: the next batch is on its way while the last one is looked at."""

    def __init__(self, pool: Pool, *, counted: bool, after: ScanPosition | None) -> None:
        self._pool = pool
        self._counted = counted
        self._mark = after
        self._link: ServerLink | None = None
        self._request: int | None = None

    def next(self) -> list[Block]:
        """The next batch; empty at the end. Raises VolumeDown."""
        return self._pool.persist(self._attempt)

    def _attempt(self) -> list[Block]:
        try:
            return self._next()
        except (OSError, MalformedInput):
            self._drop()
            raise

    def _next(self) -> list[Block]:
        if self._link is None:
            self._link = self._pool.take()
        if self._request is None:
            self._request = self._link.send(Type.SCAN, self._question())
        request, self._request = self._request, None
        batch = _scanned(self._link.receive(request))
        if batch:
            self._mark = batch[-1].mark
            self._ask_ahead()
        return batch

    def _ask_ahead(self) -> None:
        """If that fails, it will be noticed when the answer is needed: this batch is sound."""
        assert self._link is not None
        try:
            self._request = self._link.send(Type.SCAN, self._question())
        except OSError:
            self._drop()

    def _question(self) -> bytes:
        if self._mark is None:
            return bytes([self._counted, 0])
        return bytes([self._counted, 1]) + wire.pack_key(self._mark.key) + _U64.pack(self._mark.serial)

    def _drop(self) -> None:
        if self._link is not None:
            self._link.close()
        self._link = self._request = None

    def __enter__(self) -> RemoteScan:
        return self

    def __exit__(self, *_: object) -> None:
        if self._link is not None and self._request is None:
            self._pool.give_back(self._link)
        else:
            self._drop()


def _scanned(answer: memoryview) -> list[Block]:
    reader = WireReader(answer)
    blocks = []
    for _ in range(reader.u32()):
        key = wire.read_key(reader)
        blocks.append(wire.read_block(reader, key))
    reader.end()
    return blocks


log = logging.getLogger("holdfast.storage")

KEYS_TOGETHER = 2048
OPERATIONS_TOGETHER = 2048
COMMIT_BYTES = 4 << 20  # beyond which a commit is sent in parts

_NO_POSITION = (1 << 64) - 1  # there can be no news since then
_SHARE = struct.Struct(">d")


class RemoteVolume:
    """Any thread may call any method; each uses a connection of its own meanwhile."""

    def __init__(self, name: str, address: str, settings: RemoteSettings, env: Environment, directory: Path) -> None:
        """Nothing is asked of the server yet. `directory` is what paths in the settings are relative to."""
        self.name = name
        self.address = address
        self._pool = Pool(name, address, load_credentials(settings, directory), settings, env)
        self._pool.connected = self._meet
        self._env = env
        self._tickets = Tickets(env.random_bytes(8))
        self._doubts = PendingCommits(self._tickets)
        self._facts: dict[str, Any] = {}
        self._expected = ""
        self._names = VolumeNames()

    # -- who is there -------------------------------------------------------------------------------------------

    @property
    def available(self) -> bool:
        """False for a while after the server could not be reached."""
        return self._pool.available

    @property
    def organization(self) -> str:
        return str(self._known()["organization"])

    @property
    def signature(self) -> str:
        """The name of the algorithm that the volume's signatures are made with."""
        return str(self._known()["signature"])

    def expect(self, signature: str, names: VolumeNames) -> None:
        """A volume whose signatures are made in another way counts as down, and one that has another name already."""
        self._expected, self._names = signature, names

    def _known(self) -> dict[str, Any]:
        """What the server said of itself. Raises VolumeDown if it never did."""
        if not self._facts:
            self._pool.use(lambda link: None)
        return self._facts

    def _meet(self, link: ServerLink) -> None:
        """A new connection: who is it, and what became of commits that were given up?"""
        if self._expected not in ("", link.facts.get("signature")):
            raise VolumeDown(
                f"it was made for signature {link.facts.get('signature')!r}, this client uses {self._expected!r}"
            )
        self._names.claim(self.name, str(link.facts.get("uid")))
        before, self._facts = self._facts, link.facts
        if before and before.get("uid") != link.facts.get("uid"):
            log.warning("another volume than before answers for %r at %s", self.name, self.address)
        self._doubts.settle(link)

    def _ask(self, kind: Type, *body: Buffer) -> memoryview:
        """The answer to one request, copied; the request may be asked more than once."""
        return self._pool.use(lambda link: memoryview(bytes(link.ask(kind, *body))))

    # -- reading ------------------------------------------------------------------------------------------------

    def probe(self, signatures: Sequence[bytes]) -> list[tuple[BlockFacts, ...]]:
        found: list[tuple[BlockFacts, ...]] = []
        for start in range(0, len(signatures), KEYS_TOGETHER):
            part = signatures[start : start + KEYS_TOGETHER]
            packed = wire.pack_signatures(part)
            found += self._pool.use(lambda link, q=packed, s=part: wire.unpack_facts(link.ask(Type.PROBE, q), s))  # type: ignore[misc]
        return found

    def fetch(self, keys: Sequence[BlockKey]) -> list[Block | None]:
        return self._fetch(keys, patient=True)

    def fetch_at_once(self, keys: Sequence[BlockKey]) -> list[Block | None]:
        """As `fetch`; a server that does not answer is not waited for."""
        return self._fetch(keys, patient=False)

    def _fetch(self, keys: Sequence[BlockKey], *, patient: bool) -> list[Block | None]:
        blocks: list[Block | None] = []
        while len(blocks) < len(keys):
            wanted = keys[len(blocks) : len(blocks) + KEYS_TOGETHER]
            blocks += self._pool.use(lambda link, wanted=wanted: _fetched(link, wanted), patient=patient)  # type: ignore[misc]
        return blocks

    def note_damaged(self, keys: Sequence[BlockKey]) -> None:
        """The server remembers them. One of an earlier release cannot: then they must be met again."""
        for start in range(0, len(keys), KEYS_TOGETHER):
            with suppress(UsageError):
                self._ask(Type.DAMAGED, wire.pack_keys(keys[start : start + KEYS_TOGETHER]))

    def may_be_damaged(self) -> bool:
        """The server knows."""
        return True

    def wake(self) -> None:
        """If it was down just now, it is asked again at once, and with patience."""
        self._pool.wake()

    def scan(self, *, counted: bool = True, after: ScanPosition | None = None) -> Iterator[list[Block]]:
        """Reads ahead by one batch, and goes on where it was if the connection breaks."""
        with RemoteScan(self._pool, counted=counted, after=after) as scan:
            while batch := scan.next():
                yield batch

    def signatures(self) -> Iterator[bytes]:
        """If the connection breaks meanwhile, VolumeDown is raised."""
        try:
            link = self._pool.borrow()
            try:
                first = True
                while batch := wire.unpack_signatures(link.ask(Type.SIGNATURES, bytes([first]))):
                    yield from batch
                    first = False
            except BaseException:
                link.close()
                raise
            self._pool.give_back(link)
        except (OSError, MalformedInput) as error:
            raise VolumeDown(f"the volume server at {self.address} broke off: {error}") from error

    def stat(self) -> VolumeStat:
        return VolumeStat(**self._told(Type.STAT)["stat"])

    def activity(self) -> Activity:
        """What the server is doing."""
        return Activity(**self._told(Type.STAT)["activity"])

    def status(self) -> tuple[VolumeStat, Activity]:
        """Both at the price of one request. Who wants to know how it is does not wait until it is well again."""
        told = self._told(Type.STAT, patient=False)
        return VolumeStat(**told["stat"]), Activity(**told["activity"])

    def position(self) -> int:
        return self.news(_NO_POSITION).position

    def news(self, since: int) -> News:
        reader = WireReader(self._ask(Type.NEWS, _U64.pack(since)))
        (position,) = reader.fields(_U64)
        return News(position, wire.read_signatures(reader) if reader.u8() else None)

    def refresh(self) -> None:
        """Every look-up asks the server anyway."""

    def dictionary(self, number: int | None = None) -> tuple[int, bytes] | None:
        asked = b"\0" if number is None else b"\1" + number.to_bytes(4, "big")
        answer = self._ask(Type.DICTIONARY, asked)
        return (int.from_bytes(answer[:4], "big"), bytes(answer[4:])) if len(answer) else None

    def _told(
        self, kind: Type, body: bytes = b"", progress: Progress | None = None, *, patient: bool = True
    ) -> dict[str, Any]:
        def advance(body: memoryview) -> None:
            if progress is not None:
                progress(WireReader(body).fields(_U64)[0])

        def talk(link: ServerLink) -> bytes:
            return bytes(link.ask(kind, body, progress=advance))

        told: dict[str, Any] = json.loads(self._pool.use(talk, patient=patient))
        return told

    # -- writing ------------------------------------------------------------------------------------------------

    def commit(self, operations: Sequence[Operation]) -> list[OperationResult]:
        """Large ones are sent in parts. If one of them fails, what those before it have counted is taken back."""
        outcomes: list[OperationResult] = []
        try:
            for part, body in self._parts(operations):
                outcomes += self._commit(part, body)
        except BaseException:
            if outcomes:
                self._doubts.take_back(operations, outcomes)
                self._settle_now()
            raise
        return outcomes

    def _named(self, error: VolumeFull | VolumeReadOnly) -> HoldfastError:
        """The server does not know under which name it is known here."""
        return type(error)(f"volume {self.name!r} at {self.address}: {error}")

    def _parts(self, operations: Sequence[Operation]) -> Iterator[tuple[Sequence[Operation], list[Buffer]]]:
        limit = int(self._known().get("message_bytes_max", COMMIT_BYTES))
        buffers: list[Buffer] = []
        size = first = 0
        for index, operation in enumerate(operations):
            packed = wire.pack_operation(operation)
            length = sum(map(len, packed))
            if length + 64 > limit:
                raise TooLarge(
                    f"a content of {length} bytes is over the limit of the server at {self.address}, {limit}"
                )
            if buffers and (size + length > COMMIT_BYTES or index - first >= OPERATIONS_TOGETHER):
                yield operations[first:index], buffers
                buffers, size, first = [], 0, index
            buffers += packed
            size += length
        if buffers:
            yield operations[first:], buffers

    def _commit(self, operations: Sequence[Operation], packed: list[Buffer]) -> list[OperationResult]:
        attempts = Attempts(self._tickets.issue(), operations, packed)

        def talk(link: ServerLink) -> list[OperationResult]:
            if self._doubts:  # or they would pile up as long as this connection lasts
                self._doubts.settle(link)
            return attempts.send(link)

        try:
            outcomes = self._pool.use(talk)
        except (VolumeFull, VolumeReadOnly) as error:
            self._tickets.close(attempts.idempotency_key)
            raise self._named(error) from error
        except BaseException as error:
            if attempts.times_sent and (isinstance(error, VolumeDown) or not isinstance(error, HoldfastError)):
                self._doubts.give_up(attempts.idempotency_key, operations)
            else:
                self._tickets.close(attempts.idempotency_key)
            raise
        self._tickets.close(attempts.idempotency_key)
        return outcomes

    def _settle_now(self) -> None:
        """Tries to; what fails is tried again with the next connection."""
        with suppress(HoldfastError):
            self._pool.use(self._doubts.settle)

    def add_dictionary(self, number: int, data: bytes) -> None:
        try:
            self._ask(Type.ADD_DICTIONARY, number.to_bytes(4, "big"), data)
        except (VolumeFull, VolumeReadOnly) as error:
            raise self._named(error) from error

    # -- what the server does with its volume -------------------------------------------------------------------

    def compact(self, dead_share_min: float, progress: Progress | None) -> Compaction:
        """The server reclaims the space of dead entries."""
        return Compaction(**self._told(Type.COMPACT, _SHARE.pack(dead_share_min), progress))

    def check(self, watch: CheckProgress) -> Iterator[Fault]:
        """The server reads all its files; what it finds wrong."""
        read = watch.bytes
        told = self._told(Type.CHECK, progress=watch.read)
        watch.read(told["bytes"] - (watch.bytes - read))  # what was too little to be told before
        watch.blocks += told["blocks"]
        watch.notes += told["notes"]
        for fault in told["faults"]:
            key = ContentKey.parse(fault["key"]) if fault["key"] else None
            if key is not None and key.volume == fault["volume"]:  # the server calls it by its directory
                key = replace(key, volume=self.name)
            yield Fault(**(fault | {"volume": self.name, "key": key}))

    def close(self) -> None:
        if self._doubts:
            self._pool.wake()
            self._settle_now()
        if self._doubts:
            log.warning(
                "volume %r: the outcome of %d commits is unknown; 'holdfast check' tells", self.name, len(self._doubts)
            )
        self._pool.close()


def _fetched(link: ServerLink, keys: Sequence[BlockKey]) -> list[Block | None]:
    """The first of the blocks, as many as one answer has."""
    reader = WireReader(link.ask(Type.FETCH, wire.pack_keys(keys)))
    count = reader.u32()
    if not 0 < count <= len(keys):
        raise MalformedInput(f"an answer with {count} blocks, {len(keys)} were asked for")
    return [wire.read_block(reader, key) if reader.u8() else None for key in keys[:count]]
