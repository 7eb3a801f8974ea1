"""The parent of the workers: binds the ports, starts workers, replaces dead ones, stops all.

    SIGINT, SIGTERM   stop: no new connections, requests in progress finish; a second signal: at once
    SIGHUP            reopen the access log; stop if our terminal is gone

A dead worker is replaced after a delay that doubles with each short life. If workers never become ready, the
server ends with their error.

Parent and worker talk over a pair of sockets; end of file means that the other is dead:

    parent → worker   `WorkerStart`, pickled; then single letters: S stop, H reopen the log
    worker → parent   R ready; or E and the pickled error that kept it from starting
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from socket import socket, socketpair
from types import FrameType

from holdfast.config import ServeSettings
from holdfast.env.child_process import receive_pickled, send_pickled, start_child
from holdfast.errors import HoldfastError
from holdfast.web.auth.tokens import TokenAttempts
from holdfast.web.context import Origins
from holdfast.web.forward import Router
from holdfast.web.server.counters import Counters
from holdfast.web.server.listen import Listening, listen, shown_host

log = logging.getLogger("holdfast.web")

STOP, REOPEN, READY, FAILED = b"S", b"H", b"R", b"E"
_FEW_HEAPS = {"MALLOC_ARENA_MAX": "2"}  # one arena per thread would fragment and grow without bound
_DELAY_S, _DELAY_MAX_S = 0.1, 5.0  # before a worker is started again; doubled after each short life
_LONG_LIFE_S = 10.0
_SHORT_LIVES_MAX = 6  # in a row, without being ready once
_KILL_AFTER_S = 5.0  # beyond the time that requests have to finish
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SIGNAL_NAMES = {each.value: each.name for each in signal.Signals}  # most real-time signals have none
_TOKEN_BYTES = 24


@dataclass(frozen=True, slots=True)
class Serving:
    origins: Origins
    workers: int
    token: str  # for writing, made for this run; empty: none was
    is_exposed: bool  # other machines can connect, and need no token to read


@dataclass(frozen=True, slots=True)
class WorkerStart:
    """The configuration of a worker. Numbers are inherited descriptors."""

    root: Path  # of the archive
    settings: ServeSettings
    origins: Origins
    write_tokens: tuple[str, ...]  # in addition to those of the file
    counters: int
    attempts: int
    log_level: int
    row: int = 0  # of the counters
    controls: tuple[int, ...] = ()
    replay: tuple[int, ...] = ()
    peers: tuple[int, ...] = ()
    router: Router | None = None  # in a cluster


def run_server(
    root: Path,
    settings: ServeSettings,
    announce: Callable[[Serving], None],
    *,
    write: bool = False,
    router: Router | None = None,
    peer: tuple[str, int] | None = None,
) -> None:
    """Serves the archive in `root` until a signal says stop; `announce` is called when it is ready.

    In a cluster, `router` says which node answers, and `peer` is the host and port for requests of other nodes.

    `write` permits writing: with the tokens of the settings, or if there are none with one made for this run. For the
    main thread. Raises Busy if a port is taken, and what opening an archive may raise.
    """
    workers = settings.workers or os.cpu_count() or 1
    token = secrets.token_urlsafe(_TOKEN_BYTES) if write and not settings.write_token_file else ""
    with (
        closing(listen(settings, workers, peer)) as listening,
        closing(Counters.make(workers)) as counters,
        closing(TokenAttempts.make()) as attempts,
    ):
        host = shown_host(settings.host)
        origins = Origins(
            settings.controls_url.rstrip("/") or f"http://{host}:{listening.controls.number}",
            settings.replay_url.rstrip("/") or f"http://{host}:{listening.replay.number}",
        )
        start = WorkerStart(
            root=root.resolve(),
            settings=settings,
            origins=origins,
            write_tokens=(token,) if token else (),
            counters=counters.descriptor,
            attempts=attempts.descriptor,
            log_level=logging.getLogger("holdfast").getEffectiveLevel(),
            router=router,
        )
        is_exposed = not settings.read_token_file and not listening.is_local
        serving = Serving(origins, workers, token, is_exposed)
        Supervisor(start, listening, counters).run(lambda: announce(serving))


@dataclass(slots=True)
class WorkerProcess:
    """A worker, or the slot of one that is due to start."""

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
    """Handles the signals of the process. Main thread only."""

    def __init__(self, start: WorkerStart, listening: Listening, counters: Counters) -> None:
        """`start` is common to all workers; each also gets its row and its sockets."""
        self._start = start
        self._listening = listening
        self._counters = counters
        self._selector = DefaultSelector()
        self._workers = [WorkerProcess(row) for row in range(counters.workers)]
        self._announced = False
        self._stop_by = 0.0  # not 0: stopping
        self._on_terminal = os.isatty(0)

    def run(self, announce: Callable[[], None]) -> None:
        """Until a signal says stop. `announce` is called once, when all workers are ready. Raises their error."""
        with self._signals() as signalled:
            try:
                for worker in self._workers:
                    self._launch(worker)
                while not self._stop_by or any(worker.process for worker in self._workers):
                    self._step(signalled)
                    if not self._announced and all(worker.is_ready for worker in self._workers):
                        self._announced = True
                        announce()
            finally:
                self._kill()
                self._selector.close()

    def _step(self, signalled: socket) -> None:
        for key, _ in self._selector.select(self._timeout()):
            if key.fileobj is signalled:
                for number in signalled.recv(64):
                    self._handle(number)
            else:
                self._read(key.data)
        now = time.monotonic()
        if self._stop_by and now > self._stop_by:
            log.warning("workers did not stop in time: they are killed")
            self._kill()
        for worker in self._workers:
            if worker.process is None and not self._stop_by and now >= worker.due:
                self._launch(worker)

    def _timeout(self) -> float | None:
        """Until the next thing is due."""
        if self._stop_by:
            times = [self._stop_by]
        else:
            times = [worker.due for worker in self._workers if worker.process is None]
        return max(0.0, min(times) - time.monotonic()) if times else None

    # -- workers --------------------------------------------------------------------------------------------------

    def _launch(self, worker: WorkerProcess) -> None:
        ours, theirs = socketpair()
        controls = tuple(each.fileno() for each in self._listening.controls.sockets[worker.row])
        replay = tuple(each.fileno() for each in self._listening.replay.sockets[worker.row])
        peer_port = self._listening.peers
        peers = () if peer_port is None else tuple(each.fileno() for each in peer_port.sockets[worker.row])
        worker.process = start_child(
            "holdfast.web.server.worker",
            arguments=[str(theirs.fileno())],
            env=_FEW_HEAPS if "MALLOC_ARENA_MAX" not in os.environ else None,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno(), self._start.counters, self._start.attempts, *controls, *replay, *peers],
            start_new_session=True,  # Ctrl-C is for the parent
        )
        theirs.close()
        worker.channel, worker.is_ready, worker.born = ours, False, time.monotonic()
        self._selector.register(ours, EVENT_READ, worker)
        with suppress(OSError):  # it is dead already: the selector will notice
            start = replace(self._start, row=worker.row, controls=controls, replay=replay, peers=peers)
            send_pickled(ours, start)

    def _read(self, worker: WorkerProcess) -> None:
        assert worker.channel is not None
        try:
            letter = worker.channel.recv(1)
            if letter == FAILED:
                worker.error = receive_pickled(worker.channel)
        except (OSError, EOFError):
            letter = b""
        if letter == READY:
            worker.is_ready, worker.unready_lives = True, 0
        elif not letter:
            self._reap(worker)

    def _reap(self, worker: WorkerProcess) -> None:
        process, channel = worker.process, worker.channel
        assert process is not None
        assert channel is not None
        self._selector.unregister(channel)
        channel.close()
        try:
            code = process.wait(_KILL_AFTER_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        worker.process, worker.channel = None, None
        if self._stop_by:
            return
        ended = f"exit code {code}" if code >= 0 else f"signal {_SIGNAL_NAMES.get(-code, -code)}"
        worker.unready_lives += not worker.is_ready
        worker.short_lives = worker.short_lives + 1 if time.monotonic() - worker.born < _LONG_LIFE_S else 0
        if not self._announced or worker.unready_lives >= _SHORT_LIVES_MAX:
            raise worker.error or HoldfastError(f"a worker of the server ended before it was ready ({ended})")
        delay = min(_DELAY_S * 2**worker.short_lives, _DELAY_MAX_S)
        worker.due = time.monotonic() + delay
        self._counters.add_restart(worker.row)
        log.warning("worker %d died (%s); starting it again in %.1f s", process.pid, ended, delay)

    # -- signals --------------------------------------------------------------------------------------------------

    @contextmanager
    def _signals(self) -> Iterator[socket]:
        """A socket on which the numbers of signals arrive."""
        ours, theirs = socketpair()
        theirs.setblocking(False)
        before = {number: signal.getsignal(number) for number in _SIGNALS}
        wakeup = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        for number in _SIGNALS:
            if before[number] is not signal.SIG_IGN or number == signal.SIGTERM:  # nohup, or in the background
                signal.signal(number, _on_signal)
        self._selector.register(ours, EVENT_READ)
        try:
            yield ours
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(wakeup)
            ours.close()
            theirs.close()

    def _handle(self, number: int) -> None:
        if number == signal.SIGHUP and not self._is_terminal_gone():
            self._send(REOPEN)
        elif number in _SIGNALS and self._stop_by:
            self._kill()
        elif number in _SIGNALS:
            self._stop_by = time.monotonic() + self._start.settings.stop_s + _KILL_AFTER_S
            self._listening.close()
            self._send(STOP)

    def _is_terminal_gone(self) -> bool:
        try:
            return self._on_terminal and os.tcgetpgrp(0) < 0
        except OSError:
            return True

    def _send(self, letter: bytes) -> None:
        for worker in self._workers:
            if worker.channel is not None:
                with suppress(OSError):
                    worker.channel.sendall(letter)

    def _kill(self) -> None:
        for worker in self._workers:
            if worker.process is not None:
                worker.process.kill()
                worker.process.wait()
                worker.process = None
            if worker.channel is not None:
                with suppress(KeyError, ValueError):
                    self._selector.unregister(worker.channel)
                worker.channel.close()
                worker.channel = None


def _on_signal(number: int, frame: FrameType | None) -> None:
    """Nothing to do: Python has written the signal number to the socket."""
