"""Commits of all clients, made durable together.

The event loop hands in what arrives; one thread takes all that has gathered while the last group was on its way to the
disk, and commits it as one. So one client pays one sync, and sixty-four share one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue

from holdfast.errors import HoldfastError, VolumeDown
from holdfast.storage.server.handlers import VolumeHandlers
from holdfast.storage.volume import IdempotencyKey, Operation, OperationResult

log = logging.getLogger("holdfast.server")

Result = list[OperationResult] | None | HoldfastError


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit on its way; with None for operations it is to be made void. `answer` is called on the event loop."""

    operations: list[Operation] | None
    idempotency_key: IdempotencyKey | None
    answer: Callable[[Result], None]


class Committer:
    """`submit` is for the event loop. `deliver` gets what is done, in the committing thread."""

    def __init__(self, service: VolumeHandlers, deliver: Callable[[list[tuple[Commit, Result]]], None]) -> None:
        self._service = service
        self._deliver = deliver
        self._queue: SimpleQueue[Commit | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="committing")
        self._thread.start()

    def submit(self, commit: Commit) -> None:
        self._queue.put(commit)

    def close(self) -> None:
        """Everything submitted before is done when this returns."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (first := self._queue.get()) is not None:
            group, is_last = [first], False
            while not self._queue.empty():
                following = self._queue.get()
                if following is None:
                    is_last = True
                    break
                group.append(following)
            self._deliver(self._done(group))
            if is_last:
                return

    def _done(self, group: list[Commit]) -> list[tuple[Commit, Result]]:
        commits = [(commit, commit.operations) for commit in group if commit.operations is not None]
        results: list[tuple[Commit, Result]] = []
        if commits:
            try:
                outcomes = self._service.volume.commit_all([(ops, commit.idempotency_key) for commit, ops in commits])
            except HoldfastError as error:
                outcomes = [error] * len(commits)
            except Exception as error:  # the edge of the process: a client's answer must not be lost with its thread
                log.exception("a commit failed")
                outcomes = [VolumeDown(f"the server failed to commit: {error!r}")] * len(commits)
            for (commit, operations), result in zip(commits, outcomes, strict=True):
                if isinstance(result, list):
                    self._service.note(operations, result)
                results.append((commit, result))
        return results + [(commit, self._void(commit)) for commit in group if commit.operations is None]

    def _void(self, commit: Commit) -> Result:
        assert commit.idempotency_key is not None
        try:
            return self._service.volume.void(commit.idempotency_key)
        except HoldfastError as error:
            return error
        except Exception as error:  # as above
            log.exception("a commit could not be made void")
            return VolumeDown(f"the server failed to make a commit void: {error!r}")
