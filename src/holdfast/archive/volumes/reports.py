"""How the volumes are: what `holdfast volume list`, the page `/volumes` and `/metrics` show (B5).

Volumes on this machine are asked at once. Those elsewhere are asked in threads, all at the same time, and not for
longer than the caller likes to wait: one that is slow is reported as down, with that as the reason, and is not asked
again before it has answered. So many looks at many volumes never wait for more than one limit, and never pile up.
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
class _Question:
    """What one volume is being asked, until it answers or fails."""

    settings: VolumeSettings
    asked_s: float
    done: threading.Event = field(default_factory=threading.Event)
    report: VolumeReport | None = None


class VolumeReports:
    """Asks the volumes of a store for their state. Any thread may call."""

    def __init__(self, instance: BlockStore, lock_of: Callable[[VolumeSettings], Path], env: Environment) -> None:
        """`lock_of` says by which lock is seen that a volume of this machine is being written to."""
        self._instance = instance
        self._lock_of = lock_of
        self._env = env
        self._asking: dict[str, _Question] = {}
        self._lock = threading.Lock()

    def take(self, answer_s: float = ANSWER_S) -> list[VolumeReport]:
        """One for each volume, in the order of the settings; returns after `answer_s` at the latest."""
        settings = self._instance.settings.volume
        deadline = self._env.monotonic() + answer_s
        questions = {each.name: self._ask(each) for each in settings if each.address or each.url}
        return [
            self._answer(questions[each.name], deadline) if each.name in questions else self._report(each)
            for each in settings
        ]

    def _ask(self, settings: VolumeSettings) -> _Question:
        with self._lock:
            asking = self._asking.get(settings.name)
            if asking is not None and not asking.done.is_set():
                return asking
            question = self._asking[settings.name] = _Question(settings, self._env.monotonic())
        # A daemon: a volume that never answers must not keep the process from ending.
        threading.Thread(
            target=self._settle, args=[question], name=f"how is volume {settings.name}", daemon=True
        ).start()
        return question

    def _settle(self, question: _Question) -> None:
        try:
            question.report = self._report(question.settings)
        finally:
            question.done.set()

    def _answer(self, question: _Question, deadline_s: float) -> VolumeReport:
        question.done.wait(max(0.0, deadline_s - self._env.monotonic()))
        if question.report is not None:
            return question.report
        waited_s = self._env.monotonic() - question.asked_s
        return VolumeReport(question.settings, None, f"no answer within {waited_s:.1f} s")

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
