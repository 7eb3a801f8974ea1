"""The crawls of a node as a service of its process: runs its share of the crawl that all nodes run together.

It looks at the jobs in the shared store. While one is running, this node crawls for the partitions that it owns. A node
runs one crawl at a time: of several, the first by name. When the service was rebuilt, every node restores the jobs that
it knows.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from holdfast.archive import Archive
from holdfast.cluster.copies.node_service import CopyService
from holdfast.cluster.crawl.job import SharedJob, keep_shared, kept_shared
from holdfast.cluster.crawl.permits import PermitAuthority, PermitRequest
from holdfast.cluster.crawl.reports import CrawlReport
from holdfast.cluster.crawl.share import PartitionShare
from holdfast.cluster.membership.admission import error_response
from holdfast.cluster.membership.agent import boot_time_s
from holdfast.cluster.membership.bus import Bus, Message
from holdfast.cluster.membership.members import MemberList
from holdfast.cluster.node import MakeService, NodeContext
from holdfast.crawl.crawl import Crawl
from holdfast.crawl.frontier import UrlState
from holdfast.crawl.job.file import parse_job
from holdfast.crawl.job.job import checked
from holdfast.crawl.paths import STOP
from holdfast.crawl.report.crawls import CrawlState, crawl_directory, log_path
from holdfast.crawl.report.log import LogFilter, read_log
from holdfast.crawl.report.why import why
from holdfast.errors import ClusterDown, HoldfastError, UnknownName
from holdfast.model import RecordId

log = logging.getLogger("holdfast.cluster")

_LOOK_S = 0.3
_DRAIN_S = 30.0  # for transfers that are under way when a partition is asked for
_RETRY_S = 10.0  # after a failure of this node's share
_LOG_ROWS_MAX = 1000  # of one node
_KNOWN = frozenset((UrlState.QUEUED, UrlState.DONE, UrlState.FAILED, UrlState.REFUSED))


def node_services() -> list[MakeService]:
    """The services of a node: its copies, then its crawls, which write through the archive that those have opened."""
    made: list[CopyService] = []

    def make_copies(context: NodeContext) -> CopyService:
        made.append(CopyService(context))
        return made[-1]

    return [make_copies, lambda context: CrawlService(context, lambda: made[-1].archive, made[-1].is_held)]


class CrawlService:
    """A `NodeService`. Any thread may call."""

    def __init__(
        self,
        context: NodeContext,
        archive: Callable[[], Archive | None],
        is_held: Callable[[RecordId, int], bool],
    ) -> None:
        """`is_held`: whether all holders of a partition have a record of this node."""
        self._context = context
        self._archive = archive
        self._is_held = is_held
        self._jobs: dict[str, tuple[SharedJob, int]] = {}  # by name, with the revision
        self._kept = kept_shared(context.archive)
        self._incarnation = 0
        self._authority = PermitAuthority(context.settings.partitions, context.settings.lease_s)
        self._answering: set[asyncio.Task[None]] = set()
        self._left: dict[int, float] = {}  # claims of partitions that are handed over, also before a share begins
        self._share: PartitionShare | None = None
        self._crawling: threading.Thread | None = None
        self._again_s = 0.0
        self._bus: Bus | None = None  # that this node listens to
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="crawl service")

    # -- life ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(_LOOK_S):
            try:
                self._look()
            except ClusterDown as error:
                log.debug("crawls: %s", error)
            except HoldfastError as error:
                log.warning("crawls: %s", error)
            except Exception:  # the edge of the thread: it must go on
                log.exception("the crawls of this node failed")
        if self._crawling is not None:
            self._crawling.join()

    def _look(self) -> None:
        self._context.on_bus(self._listen)
        number = self._context.on_bus(_incarnation)
        if number != self._incarnation:
            for shared in self._kept.values():
                self._restore(shared)
            self._incarnation = number
        found = self._context.on_bus(lambda bus: bus.entries("crawl.*"))
        for entry in found.values():
            self._take(SharedJob.from_json(entry.value), entry.revision)
        self._obey_files()
        self._begin()

    def _restore(self, shared: SharedJob) -> None:
        """Writes a job that this node knows, unless the service has it."""
        self._context.on_bus(lambda bus: bus.swap(shared.key, shared.to_json(), 0))

    def _take(self, shared: SharedJob, revision: int) -> None:
        if self._kept.get(shared.name) != shared:
            keep_shared(self._context.archive, shared)
            self._kept[shared.name] = shared
        self._jobs[shared.name] = shared, revision
        share = self._share
        if share is not None and share.name == shared.name:
            share.take_job(shared, revision)

    def _obey_files(self) -> None:
        """Somebody of this machine asked for a stop."""
        for name, (shared, _) in self._jobs.items():
            path = crawl_directory(self._context.archive, name) / STOP
            if path.exists():
                if shared.is_running:
                    self._stop_crawl(name)
                path.unlink(missing_ok=True)

    # -- requests of other nodes ------------------------------------------------------------------------------

    async def _listen(self, bus: Bus) -> None:
        """Answers other nodes, once for each connection."""
        if bus is not self._bus:
            self._bus = bus
            await bus.subscribe(f"crawl.{self._context.address.name}.*", self._answer)

    async def _answer(self, message: Message) -> None:
        request = json.loads(message.data)
        if request["about"] == "permits":
            await self._answer_permits(message, request)
            return
        task = asyncio.create_task(self._answer_question(message, request))  # may take long
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _answer_permits(self, message: Message, request: dict[str, Any]) -> None:
        rights = self._context.rights()
        response = self._authority.respond(
            PermitRequest.from_values(request), rights.claims, rights.until_s, boot_time_s()
        )
        if response is not None:
            await message.respond(json.dumps(response.to_values()).encode())

    async def _answer_question(self, message: Message, request: dict[str, Any]) -> None:
        try:
            response = json.dumps(await asyncio.to_thread(self._look_up, request)).encode()
        except HoldfastError as error:
            response = error_response(error)
        except Exception:  # the edge of the task
            log.exception("a question about a crawl could not be answered")
            return
        with suppress(ClusterDown):
            await message.respond(response)

    def _look_up(self, request: dict[str, Any]) -> dict[str, Any]:
        """What this node knows of a crawl. Raises UnknownName, UsageError."""
        archive, name = self._context.archive, request["name"]
        share = self._share
        if request["about"] == "why":
            found = why(archive, name, request["url"])
            is_owner = share is not None and share.name == name and share.owns(found["url"])
            return {"why": found, "node": self._context.address.name, "is_owner": is_owner}
        chosen = LogFilter(
            frozenset(request["events"]), frozenset(request["results"]), request["host"], request["text"]
        )
        rows = read_log(log_path(archive, name), chosen, last=min(request["last"], _LOG_ROWS_MAX))
        return {"log": [row | {"node": self._context.address.name} for row in rows]}

    def _ask_all(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        """The responses of all live nodes that know the crawl. Raises what this node raises."""
        name = self._context.address.name
        own, data = self._look_up(request), json.dumps(request).encode()

        async def ask(bus: Bus) -> list[bytes | BaseException]:
            others = sorted(self._context.live() - {name})
            asked = (bus.request(f"crawl.{each}.{name}", data) for each in others)
            return await asyncio.gather(*asked, return_exceptions=True)

        found = [own]
        for response in self._context.on_bus(ask):
            if isinstance(response, BaseException):
                log.warning("a node did not answer about the crawl '%s': %s", request["name"], response)
            elif "error" not in (values := json.loads(response)):
                found.append(values)
        return found

    # -- the crawl ----------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._crawling is not None and self._crawling.is_alive():
            return
        archive = self._archive()
        running = sorted(name for name, (shared, _) in self._jobs.items() if shared.is_running)
        is_able = archive is not None and self._context.rights().until_s > boot_time_s()
        if not running or not is_able or archive is None or time.monotonic() < self._again_s:
            return
        shared, revision = self._jobs[running[0]]
        share = PartitionShare(
            self._context, shared, revision, archive, self._left, self._is_held, self._end, self._add_roots
        )
        self._share = share
        self._crawling = threading.Thread(target=self._crawl, args=(archive, shared, share), name="crawl")
        self._crawling.start()

    def _crawl(self, archive: Archive, shared: SharedJob, share: PartitionShare) -> None:
        try:
            Crawl(archive, shared.crawl_job(), share=share).run(stopping=self._stopping.is_set)
        except HoldfastError as error:
            log.error("this node's share of the crawl '%s' failed: %s", shared.name, error)
            self._again_s = time.monotonic() + _RETRY_S
        except Exception:  # the edge of the thread
            log.exception("this node's share of the crawl '%s' failed", shared.name)
            self._again_s = time.monotonic() + _RETRY_S
        finally:
            self._share = None
            share.close()

    def _end(self, shared: SharedJob, revision: int) -> None:
        """Writes that a crawl has ended, unless its job has changed."""
        if self._context.on_bus(lambda bus: bus.swap(shared.key, shared.to_json(), revision)) is not None:
            log.info("the crawl '%s' is over: %s", shared.name, shared.reason)

    def _add_roots(self, name: str, roots: list[str]) -> None:
        def add(shared: SharedJob) -> SharedJob:
            return replace(shared, roots=tuple(dict.fromkeys((*shared.roots, *roots))))

        self._change(name, add)

    def _change(self, name: str, change: Callable[[SharedJob], SharedJob]) -> SharedJob:
        """Changes a job, whatever it is by then. Raises UnknownName, ClusterDown."""
        result: list[SharedJob] = []

        def changed(value: bytes | None) -> bytes | None:
            if value is None:
                if name in self._jobs:
                    raise ClusterDown(f"the new service does not know the crawl {name!r} yet: try again in a moment")
                known = ", ".join(sorted(self._jobs)) or "none"
                raise UnknownName(f"no crawl {name!r} in this cluster; known are {known}")
            before = SharedJob.from_json(value)
            result[:] = [change(before)]
            return result[0].to_json() if result[0] != before else None

        key = SharedJob(name, "").key
        self._context.on_bus(lambda bus: bus.change(key, changed))
        return result[0]

    def _stop_crawl(self, name: str) -> SharedJob:
        def ended(shared: SharedJob) -> SharedJob:
            return shared.ended(CrawlState.STOPPED, "asked to") if shared.is_running else shared

        return self._change(name, ended)

    def _start_crawl(self, text: str) -> SharedJob:
        """Starts a crawl on all nodes, or the one of that name again. Raises Busy, UsageError."""
        job, service = checked(parse_job(text, "the job")), self._context.on_bus(_incarnation)
        result: list[SharedJob] = []

        def started(value: bytes | None) -> bytes:
            result[:] = [SharedJob.started(job, SharedJob.from_json(value) if value is not None else None, service)]
            return result[0].to_json()

        key = SharedJob(job.name, "").key
        self._context.on_bus(lambda bus: bus.change(key, started))
        return result[0]

    # -- for the node -------------------------------------------------------------------------------------------

    def in_sync(self) -> frozenset[int]:
        return frozenset(range(self._context.settings.partitions))

    def drain(self, partition: int) -> None:
        claimed_s = self._context.rights().claims.get(partition)
        if claimed_s is not None:
            self._left[partition] = claimed_s
        share = self._share
        if share is not None:
            share.drain(partition, _DRAIN_S)

    def members_changed(self, members: MemberList) -> None:
        pass

    def notified(self, sender: str, data: bytes) -> None:
        share = self._share
        if share is None:
            return
        if data.startswith(b"links"):
            values = json.loads(data[5:])
            if values["crawl"] == share.name:
                share.hint(values["partitions"])
        elif data.startswith(b"crawl"):
            report = CrawlReport.from_json(data[5:])
            if report.crawl == share.name:
                share.take_report(sender, report)

    def status(self) -> dict[str, Any]:
        return {}

    def command(self, command: dict[str, Any]) -> dict[str, Any] | None:
        """What a program of this machine asks for; None if it is not about crawls."""
        match command["command"]:
            case "crawl-start":
                return _values(self._start_crawl(command["job"]))
            case "crawl-stop":
                return _values(self._stop_crawl(command["name"]))
            case "crawl-status":
                return _values(self._known(command["name"]))
            case "crawl-why":
                answers = self._ask_all({"about": "why", "name": command["name"], "url": command["url"]})
                best = max(answers, key=_certainty)
                return {**best["why"], "node": best["node"]}
            case "crawl-log":
                answers = self._ask_all(command | {"about": "log"})
                rows = [row for each in answers for row in each["log"]]
                rows.sort(key=lambda row: float(row.get("time", 0.0)))
                return {"rows": rows[-command["last"] :] if command["last"] else []}
            case _:
                return None

    def _known(self, name: str) -> SharedJob:
        return self._change(name, lambda shared: shared)


def _values(shared: SharedJob) -> dict[str, Any]:
    return {
        "name": shared.name,
        "visit": shared.visit,
        "run": shared.run,
        "state": shared.state.value,
        "reason": shared.reason,
    }


def _certainty(answer: dict[str, Any]) -> tuple[bool, bool, str]:
    """Whose word counts about a URL: the owner's, then of those that know it, of the last who has fetched it."""
    found = answer["why"]
    return answer["is_owner"], found["state"] in _KNOWN, str(found.get("visited") or "")


async def _incarnation(bus: Bus) -> int:
    return bus.access.service.number
