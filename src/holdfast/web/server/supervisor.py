"""The parent of the workers: starts them, starts them again, stops them.

    SIGINT, SIGTERM   stop: no new connections, requests under way are finished; once more: at once
    SIGHUP            the access log is opened anew; if the terminal that we were started from is gone, stop

Whoever dies is replaced after a moment, which grows if it dies again and again. Workers that cannot even start once
end the server with their error.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from selectors import EVENT_READ, DefaultSelector
from socket import socket, socketpair
from types import FrameType

from holdfast.env.child_process import receive_pickled, send_pickled, start_child
from holdfast.errors import HoldfastError
from holdfast.web.server.channel import FAILED, READY, REOPEN, STOP, WorkerStart
from holdfast.web.server.counters import Counters
from holdfast.web.server.listen import Listening

log = logging.getLogger("holdfast.web")

_FEW_HEAPS = {"MALLOC_ARENA_MAX": "2"}  # one for each thread would grow for ever: pages come and go in all of them
_DELAY_S, _DELAY_MAX_S = 0.1, 5.0  # before a worker is started again; doubled each time that it lived shortly
_LONG_LIFE_S = 10.0
_SHORT_LIVES_MAX = 6  # in a row, without being ready once
_KILL_AFTER_S = 5.0  # beyond the time that requests have to finish
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(slots=True)
class WorkerProcess:
    """A worker, or the place of one that is due to be started."""

    row: int
    process: subprocess.Popen[bytes] | None = None
    channel: socket | None = None
    is_ready: bool = False
    born: float = 0.0
    due: float = 0.0  # when it is to be started again
    short_lives: int = 0
    unready_lives: int = 0
    error: BaseException | None = None


class Supervisor:
    """For the main thread: it takes the signals of the process."""

    def __init__(self, start: WorkerStart, listening: Listening, counters: Counters) -> None:
        """`start` is what all workers have in common."""
        self._start = start
        self._listening = listening
        self._counters = counters
        self._selector = DefaultSelector()
        self._children = [WorkerProcess(row) for row in range(counters.workers)]
        self._announced = False
        self._stop_by = 0.0  # not 0: stopping
        self._on_terminal = os.isatty(0)

    def run(self, announce: Callable[[], None]) -> None:
        """Until a signal says stop. `announce` is called once, when all workers are ready. Raises what keeps them."""
        with self._signals() as signalled:
            try:
                for child in self._children:
                    self._launch(child)
                while self._goes_on():
                    self._round(signalled)
                    if not self._announced and all(child.is_ready for child in self._children):
                        self._announced = True
                        announce()
            finally:
                self._kill()
                self._selector.close()

    def _goes_on(self) -> bool:
        return not self._stop_by or any(child.process for child in self._children)

    def _round(self, signalled: socket) -> None:
        for key, _ in self._selector.select(self._patience()):
            if key.fileobj is signalled:
                for number in signalled.recv(64):
                    self._obey(number)
            else:
                self._hear(key.data)
        now = time.monotonic()
        if self._stop_by and now > self._stop_by:
            log.warning("workers did not stop in time: they are killed")
            self._kill()
        for child in self._children:
            if child.process is None and not self._stop_by and now >= child.due:
                self._launch(child)

    def _patience(self) -> float | None:
        """Until the next thing that is due by itself."""
        times = [child.due for child in self._children if child.process is None and not self._stop_by]
        times += [self._stop_by] if self._stop_by else []
        return max(0.0, min(times) - time.monotonic()) if times else None

    # -- workers --------------------------------------------------------------------------------------------------

    def _launch(self, child: WorkerProcess) -> None:
        ours, theirs = socketpair()
        controls = tuple(each.fileno() for each in self._listening.controls.sockets[child.row])
        replay = tuple(each.fileno() for each in self._listening.replay.sockets[child.row])
        child.process = start_child(
            "holdfast.web.server.worker",
            arguments=[str(theirs.fileno())],
            env=_FEW_HEAPS if "MALLOC_ARENA_MAX" not in os.environ else None,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno(), self._counters.descriptor, self._start.attempts, *controls, *replay],
            start_new_session=True,  # Ctrl-C is for the parent
        )
        theirs.close()
        child.channel, child.is_ready, child.born = ours, False, time.monotonic()
        self._selector.register(ours, EVENT_READ, child)
        with suppress(OSError):  # it is dead already: the selector will tell
            send_pickled(ours, replace(self._start, row=child.row, controls=controls, replay=replay))

    def _hear(self, child: WorkerProcess) -> None:
        assert child.channel is not None
        try:
            letter = child.channel.recv(1)
            if letter == FAILED:
                child.error = receive_pickled(child.channel)
        except (OSError, EOFError):
            letter = b""
        if letter == READY:
            child.is_ready, child.unready_lives = True, 0
        elif not letter:
            self._bury(child)

    def _bury(self, child: WorkerProcess) -> None:
        assert child.process is not None
        assert child.channel is not None
        self._selector.unregister(child.channel)
        child.channel.close()
        try:
            code = child.process.wait(_KILL_AFTER_S)
        except subprocess.TimeoutExpired:
            child.process.kill()
            code = child.process.wait()
        lived = time.monotonic() - child.born
        process, child.process, child.channel = child.process, None, None
        if self._stop_by:
            return
        child.unready_lives += not child.is_ready
        child.short_lives = child.short_lives + 1 if lived < _LONG_LIFE_S else 0
        if not self._announced or child.unready_lives >= _SHORT_LIVES_MAX:
            raise child.error or HoldfastError(f"a worker of the server ended before it was ready ({_ended(code)})")
        delay = min(_DELAY_S * 2**child.short_lives, _DELAY_MAX_S)
        child.due = time.monotonic() + delay
        self._counters.add_restart(child.row)
        log.warning("worker %d died (%s); it is started again in %.1f s", process.pid, _ended(code), delay)

    # -- signals --------------------------------------------------------------------------------------------------

    @contextmanager
    def _signals(self) -> Iterator[socket]:
        """A socket on which the numbers of signals arrive."""
        ours, theirs = socketpair()
        theirs.setblocking(False)
        before = {number: signal.getsignal(number) for number in _SIGNALS}
        waker = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        for number in _SIGNALS:
            if before[number] is not signal.SIG_IGN or number == signal.SIGTERM:  # nohup, or in the background
                signal.signal(number, _take_note)
        self._selector.register(ours, EVENT_READ)
        try:
            yield ours
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(waker)
            ours.close()
            theirs.close()

    def _obey(self, number: int) -> None:
        if number == signal.SIGHUP and not self._is_terminal_gone():
            self._tell(REOPEN)
        elif number in _SIGNALS and self._stop_by:
            self._kill()
        elif number in _SIGNALS:
            self._stop_by = time.monotonic() + self._start.settings.stop_s + _KILL_AFTER_S
            self._listening.close()
            self._tell(STOP)

    def _is_terminal_gone(self) -> bool:
        try:
            return self._on_terminal and os.tcgetpgrp(0) < 0
        except OSError:
            return True

    def _tell(self, letter: bytes) -> None:
        for child in self._children:
            if child.channel is not None:
                with suppress(OSError):
                    child.channel.sendall(letter)

    def _kill(self) -> None:
        for child in self._children:
            if child.process is not None:
                child.process.kill()
                child.process.wait()
                child.process = None
            if child.channel is not None:
                with suppress(KeyError, ValueError):
                    self._selector.unregister(child.channel)
                child.channel.close()
                child.channel = None


def _take_note(number: int, frame: FrameType | None) -> None:
    """Its number has been written to the socket."""


def _ended(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
