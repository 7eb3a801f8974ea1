"""The child process, end to end over its sockets: jobs in, what was fetched out to readers, notes to the conductor."""

from __future__ import annotations

import marshal
import pickle
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from holdfast.crawl.job.job import CrawlJob, FetchSettings
from holdfast.crawl.processes.messages import Fetched, FetcherStart, FetchJob, FetchOutcome, pack, unpack_fetched
from holdfast.env.child_process import frames_from

LONG_S = 120.0  # after which something is wrong, on any machine
CODE = "from holdfast.crawl.fetch.process import main; main()"


ASKED = threading.Semaphore(0)  # how often /slow was asked for
GO_ON = threading.Semaphore(0)  # lets so many of those be answered


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet

    def do_GET(self) -> None:
        if self.path == "/slow":
            ASKED.release()
            GO_ON.acquire(timeout=LONG_S)
        body = b"x" * (3 << 20) if self.path == "/large" else self.path.encode()
        self.send_response(503 if self.path == "/busy" else 200)
        if self.path == "/busy":
            self.send_header("Retry-After", "77")
        self.send_header("Set-Cookie", "crawl=1; Path=/")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    def handle_error(self, *arguments: Any) -> None:
        """That a crawl hangs up is no news."""


@contextmanager
def web() -> Iterator[str]:
    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Child:
    """The process, and our ends of its sockets."""

    def __init__(self, directory: Path, readers: int, **fetch: Any) -> None:
        pairs = [socket.socketpair() for _ in range(1 + readers)]
        theirs = [pair[1] for pair in pairs]
        self.control, *self.readers = [pair[0] for pair in pairs]
        descriptors = [each.fileno() for each in theirs]
        self.process = subprocess.Popen([sys.executable, "-c", CODE, *map(str, descriptors)], pass_fds=descriptors)
        for each in theirs:
            each.close()
        settings = FetchSettings(**({"delay": 0.0, "per_host": 4} | fetch))
        start = pickle.dumps(FetcherStart(CrawlJob(fetch=settings), directory, allow_private=True))
        self.send_raw(len(start).to_bytes(8, "little") + start)
        for each in (self.control, *self.readers):
            each.settimeout(LONG_S)
        self.notes = map(marshal.loads, frames_from(self.control))

    def send_raw(self, data: bytes) -> None:
        self.control.sendall(data)

    def send(self, *jobs: FetchJob) -> None:
        self.send_raw(b"".join(pack(("job", tuple(job))) for job in jobs))

    def send_note(self, *message: Any) -> None:
        self.send_raw(pack(message))

    def pause_for_long(self, host: str) -> None:
        self.send_note("pause", host, time.time() + 1000, "why")

    def note(self, kind: str) -> tuple[Any, ...]:
        return next(note for note in self.notes if note[0] == kind)

    def close(self) -> int:
        self.control.close()
        for each in self.readers:
            each.close()
        return self.process.wait(LONG_S)


@contextmanager
def child(directory: Path, readers: int = 1, **fetch: Any) -> Iterator[Child]:
    started = Child(directory, readers, **fetch)
    try:
        yield started
    finally:
        try:
            started.close()
        finally:
            if started.process.poll() is None:
                started.process.kill()
                started.process.wait()


def _collected(process: Child, count: int) -> list[Fetched]:
    """So many of what the readers get, from all of them; each is settled at once."""
    readers = process.readers
    got: list[Fetched] = []
    lock = threading.Semaphore(0)

    def read(reader: socket.socket) -> None:
        try:
            for frame in frames_from(reader):
                got.append(unpack_fetched(frame))
                lock.release()
        except OSError:
            pass

    threads = [threading.Thread(target=read, args=(reader,)) for reader in readers]
    for thread in threads:
        thread.start()
    for number in range(count):
        assert lock.acquire(timeout=LONG_S)
        process.send_note("settled", number + 1)
    for reader in readers:
        reader.shutdown(socket.SHUT_RD)
    for thread in threads:
        thread.join()
    return got


def test_jobs_go_in_and_what_was_fetched_comes_out(tmp_path: Path) -> None:
    with web() as site, child(tmp_path, readers=2) as process:
        jobs = [FetchJob(number, f"{site}/{number}", "site") for number in range(200)]
        process.send(*jobs)
        got = _collected(process, 200)
        assert sorted(fetched.job.id for fetched in got) == list(range(200))
        assert all(fetched.outcome == FetchOutcome.OK for fetched in got)
        assert {fetched.body.decode() for fetched in got} == {f"/{number}" for number in range(200)}
        taken = [process.note("taken") for _ in range(200)]
        assert {note[1] for note in taken} == set(range(200))
        assert {note[2] for note in taken} <= {0, 1}
        stats = process.note("stats")[1]
        assert {"active", "waiting", "connections"} <= set(stats)
        assert process.close() == 0
    assert "crawl\t1" in (tmp_path / "cookies.txt").read_text()


def test_pauses_are_reported_and_obeyed(tmp_path: Path) -> None:
    with web() as site, child(tmp_path) as process:
        process.send(FetchJob(1, f"{site}/busy", "site"))
        kind, host, until, reason = process.note("pause")
        assert (kind, host, reason) == ("pause", "site", "status 503, Retry-After: 77")
        first = unpack_fetched(next(frames_from(process.readers[0])))
        assert abs(until - (first.started + first.elapsed + 77)) < 5
        process.send_raw(pack(("pause", "other", until, "restart")))
        process.send(
            FetchJob(2, f"{site}/a", "site"), FetchJob(3, f"{site}/b", "other"), FetchJob(4, f"{site}/c", "third")
        )
        second = unpack_fetched(next(frames_from(process.readers[0])))
        assert second.job.id == 4
        assert next(note for note in process.notes if note[0] == "stats" and note[1]["waiting"])[1]["waiting"] == 2


def test_large_bodies_go_through_files_that_are_the_readers(tmp_path: Path) -> None:
    with web() as site, child(tmp_path, memory_bytes_max=1 << 20) as process:
        (tmp_path / "spool").mkdir(exist_ok=True)
        process.send(FetchJob(1, f"{site}/large", "site"))
        got = unpack_fetched(next(frames_from(process.readers[0])))
        assert (got.body, got.size) == (b"", 3 << 20)
        assert Path(got.spool).stat().st_size == 3 << 20
        assert process.close() == 0
        assert Path(got.spool).exists(), "it is the reader's"


def test_readers_that_do_not_read_hold_fetching_up(tmp_path: Path) -> None:
    with web() as site, child(tmp_path) as process:
        process.send(*(FetchJob(number, f"{site}/large", "site") for number in range(60)))
        stats = next(note[1] for note in process.notes if note[0] == "stats" and not note[1]["active"])
        assert 0 < stats["waiting"] < 60
        got = _collected(process, 60)
        assert sum(fetched.size for fetched in got) == 60 * (3 << 20)


def test_as_many_requests_as_workers_are_made_before_the_first_of_them_is_settled(tmp_path: Path) -> None:
    """H5: what a crawl that is killed asks for again is bounded by that."""
    with web() as site, child(tmp_path) as process:
        process.send(*(FetchJob(number, f"{site}/{number}", "site") for number in range(200)))
        workers = CrawlJob().workers
        assert [process.note("taken")[0] for _ in range(workers)] == ["taken"] * workers
        stats = [process.note("stats")[1] for _ in range(2)]
        assert [(each["active"], each["waiting"]) for each in stats] == [(0, 200 - workers)] * 2
        process.send_note("settled", 10)
        assert [process.note("taken")[0] for _ in range(10)] == ["taken"] * 10
        assert process.note("stats")[1]["waiting"] == 190 - workers


def test_told_to_stop_it_hands_on_what_is_under_way_and_begins_nothing(tmp_path: Path) -> None:
    """H5: then it ends, so that the readers see their end."""
    with web() as site, child(tmp_path, per_host=1) as process:
        process.send(*(FetchJob(number, f"{site}/large", f"host{number}") for number in range(20)))
        for _ in range(20):
            process.note("taken")  # more than the socket holds: nobody reads
        process.send(FetchJob(20, f"{site}/slow", "site"), FetchJob(21, f"{site}/never", "site"))
        assert ASKED.acquire(timeout=LONG_S)
        process.send_note("stop", 10 * LONG_S)
        process.pause_for_long("nobody")
        process.note("recalled")  # so that it has read that it is to stop, too
        GO_ON.release()
        got = [unpack_fetched(frame).job.id for frame in frames_from(process.readers[0])]
        assert sorted(got) == list(range(21))
        assert process.process.wait(LONG_S) == 0


def test_told_to_stop_it_breaks_off_what_takes_too_long(tmp_path: Path) -> None:
    """H5: it was not fetched, then; what was is handed on."""
    with web() as site, child(tmp_path) as process:
        process.send(FetchJob(1, f"{site}/1", "site"), FetchJob(2, f"{site}/slow", "site"))
        process.note("taken")
        assert ASKED.acquire(timeout=LONG_S)
        process.send_note("stop", 0.0)
        assert [unpack_fetched(frame).job.id for frame in frames_from(process.readers[0])] == [1]
        assert process.process.wait(LONG_S) == 0
        GO_ON.release()


def test_the_conductor_s_end_and_sigterm_end_it_and_ctrl_c_does_not(tmp_path: Path) -> None:
    with web() as site, child(tmp_path) as process:
        process.send(FetchJob(1, f"{site}/1", "site"))
        process.note("taken")
        process.process.send_signal(signal.SIGINT)
        process.send(FetchJob(2, f"{site}/2", "site"))
        assert process.note("taken")[1] == 2
        process.process.send_signal(signal.SIGTERM)
        assert process.process.wait(LONG_S) == 0


def test_the_conductor_s_end_is_seen_though_there_are_frames_before_it(tmp_path: Path) -> None:
    """H5: a conductor that is killed leaves what it has sent, and has not read what was sent to it."""
    with web() as site, child(tmp_path) as process:
        process.send(FetchJob(1, f"{site}/1", "site"))
        process.note("stats")
        process.send(FetchJob(2, f"{site}/2", "site"))
        assert select.select([process.control], [], [], LONG_S)[0], "a note, which stays unread"
        process.process.send_signal(signal.SIGSTOP)
        process.send(FetchJob(3, f"{site}/3", "site"))
        process.control.close()
        process.process.send_signal(signal.SIGCONT)
        assert process.process.wait(LONG_S) == 0


def test_a_full_disk_is_no_fault_of_a_page(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """H5: what cannot be written is told as that, leaves nothing behind, and does not end the process."""
    with web() as site, child(tmp_path, memory_bytes_max=10) as process:
        process.send(FetchJob(1, f"{site}/1", "site"))
        assert process.note("taken")[1] == 1
        resource.prlimit(process.process.pid, resource.RLIMIT_FSIZE, (50, resource.RLIM_INFINITY))
        late = "/" + "x" * 99  # fails only when the file is closed
        process.send(
            FetchJob(2, f"{site}/large", "site"), FetchJob(3, site + late, "site"), FetchJob(4, f"{site}/4", "site")
        )
        got = {fetched.job.id: fetched for fetched in _collected(process, 4)}
        assert [got[number].outcome for number in (1, 2, 3, 4)] == [
            FetchOutcome.OK,
            FetchOutcome.NO_SPACE,
            FetchOutcome.NO_SPACE,
            FetchOutcome.OK,
        ]
        for number in (2, 3):
            assert f"'{tmp_path / 'spool'}'" in got[number].detail and "File too large" in got[number].detail
            assert (got[number].body, got[number].spool) == (b"", "")
        assert list((tmp_path / "spool").iterdir()) == []
        process.send(FetchJob(5, f"{site}/5", "site"))
        assert next(note for note in process.notes if note[:2] == ("taken", 5))
        assert process.close() == 0
    told = capfd.readouterr().err
    assert "Traceback" not in told
    assert "cannot write the cookies down" in told


def test_what_has_not_begun_is_given_back_when_its_host_is_paused(tmp_path: Path) -> None:
    with web() as site, child(tmp_path, per_host=1) as process:
        process.send(
            FetchJob(1, f"{site}/slow", "site"), FetchJob(2, f"{site}/2", "site"), FetchJob(3, f"{site}/3", "site")
        )
        assert ASKED.acquire(timeout=LONG_S)
        process.pause_for_long("site")
        assert process.note("recalled") == ("recalled", "site", [2, 3])
        process.pause_for_long("nobody")
        assert process.note("recalled") == ("recalled", "nobody", [])
        GO_ON.release()
        assert process.note("taken")[1] == 1
        process.send(FetchJob(3, f"{site}/3", "other"))
        assert process.note("taken")[1] == 3
        assert [fetched.job.id for fetched in _collected(process, 2)] == [1, 3]


def test_what_waits_for_a_host_that_asked_for_a_long_pause_is_given_back(tmp_path: Path) -> None:
    with web() as site, child(tmp_path, per_host=1) as process:
        process.send(*(FetchJob(number, f"{site}/busy", "site") for number in (1, 2, 3)))
        assert process.note("pause")[1] == "site"
        assert next(process.notes) == ("recalled", "site", [2, 3])
        assert process.note("taken")[1] == 1


def test_what_waits_for_a_host_that_is_paused_for_long_is_given_back(tmp_path: Path) -> None:
    with web() as site, child(tmp_path, per_host=1) as process:
        process.send_note("pause", "short", time.time() + 25, "why")
        process.send_note("pause", "long", time.time() + 25, "why")
        process.send(*(FetchJob(number, f"{site}/{number}", host) for number, host in ((1, "short"), (2, "long"))))
        process.send(*(FetchJob(number, f"{site}/{number}", host) for number, host in ((3, "short"), (4, "long"))))
        process.pause_for_long("long")
        assert process.note("recalled") == ("recalled", "long", [2, 4])
        process.send(FetchJob(5, f"{site}/5", "long"), FetchJob(6, f"{site}/6", "long"))  # sent before that was known
        assert process.note("pause")[1] == "long"
        assert next(process.notes) == ("recalled", "long", [5, 6])
        process.pause_for_long("short")
        assert process.note("recalled") == ("recalled", "short", [1, 3])


def test_what_waits_for_a_host_with_a_long_delay_is_given_back(tmp_path: Path) -> None:
    """All of it if more than one waits, with the time until when; a single one is the next one, and stays."""
    with web() as site, child(tmp_path, per_host=1, per_address=1_000_000) as process:
        process.send(*(FetchJob(number, f"{site}/{number}", "site", delay=500.0) for number in (1, 2, 3, 4)))
        process.send(*(FetchJob(number, f"{site}/{number}", "other", delay=500.0) for number in (5, 6)))
        _, host, until, reason = process.note("pause")
        assert (host, reason) == ("site", "its delay")
        assert next(process.notes) == ("recalled", "site", [2, 3, 4])
        got = {fetched.job.id: fetched for fetched in _collected(process, 2)}
        assert set(got) == {1, 5}
        assert abs(until - (got[1].started + got[1].elapsed + 500)) < 5
        process.pause_for_long("other")
        assert process.note("recalled") == ("recalled", "other", [6])
