"""The committer: makes the commits of all clients durable together.

The event loop gathers the commits of one turn and makes them durable together, with one sync. What arrives meanwhile
waits in the sockets for the next turn. So one client pays one sync, and sixty-four share one.

While clients read, too, a thread commits, and the event loop goes on responding to them: the thread takes all that
arrived while the last group was being synced, and packs the responses. Without readers nobody would gain by that: the
hand-over to a thread and back costs more than half as much as a commit.

A client whose connection is lost in mid-commit repeats it with the same key, and gets the results of the first time
(`volumes/remote/pending_commits`).
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, NamedTuple

from holdfast.errors import HoldfastError, VolumeDown
from holdfast.storage.server import wire
from holdfast.storage.server.service import VolumeService
from holdfast.storage.server.wire import Type
from holdfast.storage.volume import IdempotencyKey, Operation, OperationResult, Result

if TYPE_CHECKING:
    from holdfast.storage.server.connection import ClientConnection

log = logging.getLogger("holdfast.server")


class Commit(NamedTuple):
    """A commit on its way. Without operations it is to be made void, or was refused and only waits its turn."""

    connection: ClientConnection
    request: int
    size: int  # of the request
    idempotency_key: IdempotencyKey
    operations: list[Operation] | None
    refusal: HoldfastError | None = None


class Committer:
    """For the event loop, but for `close`, which is for any other thread."""

    def __init__(
        self, service: VolumeService, loop: asyncio.AbstractEventLoop, may_hold_loop: Callable[[], bool]
    ) -> None:
        """`may_hold_loop` is True while nobody waits for anything but commits."""
        self._service = service
        self._loop = loop
        self._may_hold_loop = may_hold_loop
        self._gathered: list[Commit] = []  # in this turn of the loop
        self._queue: SimpleQueue[list[Commit] | None] = SimpleQueue()
        self._under_way = 0  # groups that the thread has not finished
        self._thread = threading.Thread(target=self._run, name="committer")
        self._thread.start()

    def submit(self, commit: Commit) -> None:
        """Commits at the end of this turn of the loop, when the other connections have submitted theirs."""
        if not self._gathered:
            self._loop.call_soon(self.flush)
        self._gathered.append(commit)

    def flush(self) -> None:
        """Commits what was submitted."""
        group, self._gathered = self._gathered, []
        if not group:
            return
        if not self._under_way and self._may_hold_loop():
            _respond(self._commit(group))
        else:
            self._under_way += 1
            self._queue.put(group)

    def close(self) -> None:
        """Everything flushed before is committed when this returns."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        queue = self._queue
        while (group := queue.get()) is not None:
            groups, is_last = 1, False
            while not is_last and not queue.empty():
                following = queue.get()
                if following is None:
                    is_last = True
                else:
                    group += following
                    groups += 1
            responses = self._commit(group)
            with suppress(RuntimeError):  # the loop is closed: no client is left
                self._loop.call_soon_threadsafe(self._finish, groups, responses)
            if is_last:
                return

    def _finish(self, groups: int, responses: list[tuple[Commit, bytes]]) -> None:
        self._under_way -= groups
        _respond(responses)

    def _commit(self, group: list[Commit]) -> list[tuple[Commit, bytes]]:
        """Commits the group; returns the frames of the responses in the order of the requests."""
        commits = [(each.operations, each.idempotency_key) for each in group if each.operations is not None]
        results = iter(self._results(commits) if commits else ())
        responses = []
        for each in group:
            result: Result | None = each.refusal
            if each.operations is not None:
                result = next(results)
            elif result is None:
                result = self._void(each.idempotency_key)
            if isinstance(result, HoldfastError):
                frame = wire.pack_frame(Type.FAILED, each.request, wire.pack_failure(result))
            else:
                frame = wire.pack_frame(Type.DONE, each.request, b"" if result is None else wire.pack_results(result))
            responses.append((each, frame))
        return responses

    def _results(self, commits: list[tuple[list[Operation], IdempotencyKey]]) -> list[Result]:
        try:
            results = self._service.volume.commit_all(commits)
        except HoldfastError as error:
            return [error] * len(commits)
        except Exception as error:  # the edge of the process: a response must not be lost with its thread
            log.exception("a commit failed")
            return [VolumeDown(f"the server failed to commit: {error!r}")] * len(commits)
        self._service.note(results)
        return results

    def _void(self, idempotency_key: IdempotencyKey) -> list[OperationResult] | HoldfastError | None:
        try:
            return self._service.volume.void(idempotency_key)
        except HoldfastError as error:
            return error
        except Exception as error:  # as above
            log.exception("a commit could not be made void")
            return VolumeDown(f"the server failed to make a commit void: {error!r}")


def _respond(responses: list[tuple[Commit, bytes]]) -> None:
    """On the event loop, which writes all responses of one turn together."""
    for commit, frame in responses:
        commit.connection.finish(frame, commit.size)
