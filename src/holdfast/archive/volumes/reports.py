"""Reports on volumes: what `holdfast volume list`, the page `/volumes` and `/metrics` show (B5).

Volumes on this machine are read directly. Remote ones are asked in threads, all at the same time, within the caller's
time limit: one that is slow is reported as down, with that as the reason, and is not asked again before it has
responded. So a report never waits for more than one limit, and requests never pile up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.config import VolumeSettings
from holdfast.env import Environment, WriterLock
from holdfast.errors import HoldfastError
from holdfast.storage.store.store import BlockStore
from holdfast.storage.volume import Active, Activity, ReadableVolume, VolumeStat

ANSWER_S = 2.0
DOWN = Activity("down")
IDLING = Activity("idling")
STORING = Activity("storing")


@dataclass(frozen=True, slots=True)
class VolumeReport:
    """One row of `holdfast volume list`."""

    settings: VolumeSettings
    stat: VolumeStat | None  # None: the volume is down
    reason: str = ""  # why it is down
    activity: Activity = DOWN

    @property
    def place(self) -> str:
        """Where it is: an address, a URL, or a directory; empty: where the archive keeps volumes."""
        return self.settings.address or self.settings.url or self.settings.path

    @property
    def capacity_bytes(self) -> int | None:
        """What it holds and what it has room for; None if it is down."""
        return None if self.stat is None else self.stat.disk_bytes + self.stat.free_bytes

    @property
    def fragmentation(self) -> float | None:
        """The share of its bytes on disk that compaction would give back; None if it is down."""
        if self.stat is None:
            return None
        return min(1.0, self.stat.dead_bytes / self.stat.disk_bytes) if self.stat.disk_bytes else 0.0


@dataclass(slots=True)
class _StatusRequest:
    """A request to one volume, until it responds or fails."""

    settings: VolumeSettings
    started_s: float
    done: threading.Event = field(default_factory=threading.Event)
    report: VolumeReport | None = None


class VolumeReports:
    """Asks the volumes of a store for their state. Any thread may call."""

    def __init__(self, instance: BlockStore, lock_of: Callable[[VolumeSettings], Path], env: Environment) -> None:
        """`lock_of` gives the lock that is held while a volume of this machine is written."""
        self._instance = instance
        self._lock_of = lock_of
        self._env = env
        self._pending: dict[str, _StatusRequest] = {}
        self._lock = threading.Lock()

    def take(self, answer_s: float = ANSWER_S) -> list[VolumeReport]:
        """One for each volume, in the order of the settings; returns after `answer_s` at the latest."""
        settings = self._instance.settings.volume
        deadline = self._env.monotonic() + answer_s
        requests = {each.name: self._request(each) for each in settings if each.address or each.url}
        return [
            self._result(requests[each.name], deadline) if each.name in requests else self._report(each)
            for each in settings
        ]

    def _request(self, settings: VolumeSettings) -> _StatusRequest:
        with self._lock:
            pending = self._pending.get(settings.name)
            if pending is not None and not pending.done.is_set():
                return pending
            request = self._pending[settings.name] = _StatusRequest(settings, self._env.monotonic())
        # A daemon: a volume that never responds must not keep the process alive.
        threading.Thread(target=self._run, args=[request], name=f"holdfast-report-{settings.name}", daemon=True).start()
        return request

    def _run(self, request: _StatusRequest) -> None:
        try:
            request.report = self._report(request.settings)
        finally:
            request.done.set()

    def _result(self, request: _StatusRequest, deadline_s: float) -> VolumeReport:
        request.done.wait(max(0.0, deadline_s - self._env.monotonic()))
        if request.report is not None:
            return request.report
        waited_s = self._env.monotonic() - request.started_s
        return VolumeReport(request.settings, None, f"no answer within {waited_s:.1f} s")

    def _report(self, settings: VolumeSettings) -> VolumeReport:
        volume = self._instance.volumes.get(settings.name)
        if volume is None:
            return VolumeReport(settings, None, str(self._instance.down.get(settings.name, "it is not open")))
        try:
            stat, activity = self._status(volume, settings)
        except (HoldfastError, OSError) as error:  # also one whose directory has gone
            return VolumeReport(settings, None, str(error).removeprefix(f"volume {settings.name!r} is down: "))
        return VolumeReport(settings, stat, "", activity)

    def _status(self, volume: ReadableVolume, settings: VolumeSettings) -> tuple[VolumeStat, Activity]:
        if isinstance(volume, Active):
            return volume.status()
        is_written = WriterLock.holder(self._lock_of(settings)) is not None
        return volume.stat(), STORING if is_written else IDLING
