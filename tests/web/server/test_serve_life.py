"""The life of a server: it starts, survives the death of its parts, sees what is new, and stops cleanly (W17)."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from serve_program import Program, add_page, configure, is_alive, make_archive, program
from waiting import wait_until
from wire import Answer, ask, ask_on, connect, ends, request

from holdfast.archive import open as open_archive


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return make_archive(tmp_path / "archive")


class Load:
    """Clients that ask without a pause, in threads; what they got that is no answer of the right kind is kept."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._ended = threading.Event()
        self.answered = 0
        self.odd: list[Answer] = []
        self.broken = 0  # connections that ended without an answer
        self._threads = [threading.Thread(target=self._ask) for _ in range(4)]

    def _ask(self) -> None:
        while not self._ended.is_set():
            try:
                answer = ask(self._port, request("/health"))
            except OSError:
                self.broken += 1
                continue
            if answer.status == 0:
                self.broken += 1
            elif answer.status == 200:
                self.answered += 1
            else:
                self.odd.append(answer)

    @contextmanager
    def running(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        try:
            wait_until(lambda: self.answered > 20, "the load is there")
            yield
        finally:
            self._ended.set()
            for thread in self._threads:
                thread.join()


# -- starting ----------------------------------------------------------------------------------------------------------


def test_an_empty_archive_is_served_on_two_ports(archive: Path) -> None:
    with program(archive) as served:
        assert served.ports[0] != served.ports[1]
        health = served.ask("/health")
        assert (health.status, health.body) == (200, b"ok\n")
        assert ask(served.ports[1], request("/")).status in range(200, 500)
        assert served.status()["captures"] == 0


def test_it_listens_on_this_machine_only(archive: Path) -> None:
    with program(archive) as served:
        listening = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        own = {f"{port:04X}" for port in served.ports}
        places = {
            fields[1].split(":")[0] for fields in listening if fields[1].split(":")[1] in own and fields[3] == "0A"
        }
        assert places == {"0100007F"}


def test_a_name_is_listened_on_with_all_its_addresses(archive: Path) -> None:
    with program(archive, "--host", "localhost") as served:
        assert served.pages.startswith("http://localhost:")
        assert served.ask("/health", "X-A: b").status == 200


# -- what is new -------------------------------------------------------------------------------------------------------


def test_captures_that_are_added_meanwhile_are_seen(archive: Path) -> None:
    with program(archive) as served:
        assert served.status()["captures"] == 0
        add_page(archive, "http://new.example/")
        wait_until(lambda: served.status()["captures"] == 1, "the new capture is seen", patience_s=10)
        address = "/main/cdx?url=http://new.example/"
        wait_until(lambda: b"new.example" in served.ask(address).body, "and found", patience_s=10)


# -- stopping ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_signal_stops_it_cleanly(archive: Path, number: int) -> None:
    with program(archive) as served:
        workers = served.workers()
        code, errors = served.stop(number)
        assert (code, errors) == (0, "stopped\n")
        wait_until(lambda: not any(map(is_alive, workers)), "the workers are gone")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_it_stops_cleanly_under_load(archive: Path, number: int) -> None:
    with program(archive) as served:
        load = Load(served.ports[0])
        with load.running():
            code, errors = served.stop(number)
        assert (code, errors) == (0, "stopped\n")
        assert load.odd == []


def test_a_stuck_client_delays_the_stop_but_does_not_prevent_it(archive: Path) -> None:
    configure(archive, "[serve]\nstop_s = 0.2")
    with program(archive) as served, connect(served.ports[0]) as stuck:
        stuck.sendall(request("/api/captures", "Content-Length: 100", method="PUT", body=b"{"))
        with connect(served.ports[0]) as idle, connect(served.ports[0]) as silent:
            assert ask_on(idle, request("/health")).status == 200
            code, _ = served.stop()
            assert code == 0
            assert ends(idle)
            assert ends(silent)


def test_a_second_signal_stops_it_at_once(archive: Path) -> None:
    configure(archive, "[serve]\nstop_s = 1000\nclient_timeout_s = 1000")
    with program(archive) as served, connect(served.ports[0]) as stuck:
        workers = served.workers()
        stuck.sendall(request("/api/captures", "Content-Length: 100", method="PUT", body=b"{"))
        served.process.send_signal(signal.SIGTERM)
        wait_until(lambda: not _accepts(served.ports[0]), "it takes no more connections")
        code, _ = served.stop()
        assert code == 0
        wait_until(lambda: not any(map(is_alive, workers)), "the workers are gone")


def _accepts(port: int) -> bool:
    try:
        connect(port).close()
    except OSError:
        return False
    return True


# -- dying -------------------------------------------------------------------------------------------------------------


def test_a_worker_that_is_killed_is_replaced_and_others_go_on(archive: Path) -> None:
    with program(archive, "--workers", "2") as served:
        before = served.workers()
        load = Load(served.ports[0])
        with load.running():
            os.kill(before[0], signal.SIGKILL)
            wait_until(lambda: len(set(served.workers()) - {0}) == 2 and before[0] not in served.workers(), "a new one")
            answered = load.answered
            wait_until(lambda: load.answered > answered + 100, "answers go on")
        assert load.odd == []
        assert load.broken <= 4  # those that the dead one was answering
        assert sum(worker["restarts"] for worker in served.status()["workers"]) == 1
        assert before[1] in served.workers()
        code, errors = served.stop()
        assert code == 0
        assert f"worker {before[0]} died (signal SIGKILL)" in errors


def test_a_worker_that_ends_by_a_signal_without_a_name_is_replaced(archive: Path) -> None:
    with program(archive, "--workers", "1") as served:
        before = served.workers()
        os.kill(before[0], signal.SIGRTMIN + 1)
        wait_until(lambda: served.workers() != before, "a new one")
        code, errors = served.stop()
        assert code == 0
        assert f"worker {before[0]} died (signal {signal.SIGRTMIN + 1})" in errors


def test_a_worker_may_open_as_many_files_as_the_system_permits(archive: Path) -> None:
    """The usual soft limit, 1024, is less than `serve.connections_max` and the files of an archive."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
    try:
        with program(archive, "--workers", "1") as served:
            (worker,) = served.workers()
            assert resource.prlimit(worker, resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_workers_do_not_outlive_a_parent_that_is_killed(archive: Path) -> None:
    with program(archive, "--workers", "2") as served:
        workers = served.workers()
        served.process.kill()
        wait_until(lambda: not any(map(is_alive, workers)), "the workers are gone")


def test_an_archive_that_disappears_is_reported_as_ill(archive: Path) -> None:
    with program(archive) as served:
        (archive / "holdfast.toml").rename(archive / "elsewhere.toml")
        answer = served.ask("/health")
        assert answer.status == 503
        assert b"holdfast.toml" in answer.body
        (archive / "elsewhere.toml").rename(archive / "holdfast.toml")
        assert served.ask("/health").status == 200


def test_an_archive_that_was_put_back_from_a_copy_is_opened_anew(archive: Path) -> None:
    add_page(archive, "http://a.example/")
    copy = archive.with_name("copy")
    shutil.copytree(archive, copy)
    with program(archive, "--workers", "2") as served:
        before = set(served.workers())
        shutil.rmtree(archive)
        assert served.ask("/health").status == 503
        add_page(copy, "http://b.example/")
        copy.rename(archive)
        wait_until(lambda: _is_told(served, 2) and not before & set(served.workers()), "both read the other archive")
        wait_until(lambda: served.ask("/health").body == b"ok\n", "they are well")


def test_a_catalog_that_was_made_anew_is_read(archive: Path) -> None:
    add_page(archive, "http://a.example/")
    with program(archive) as served:
        before = served.workers()
        with open_archive(archive) as opened:
            opened.reindex()
        wait_until(lambda: _is_told(served, 1) and served.workers() != before, "another worker reads it")


def _is_told(served: Program, captures: int) -> bool:
    try:
        told = [json.loads(served.ask("/status").body) for _ in range(8)]
    except (OSError, ValueError):
        return False
    return all(each["captures"] == captures for each in told)


def test_an_address_that_guesses_tokens_is_locked_out_by_all_workers(archive: Path) -> None:
    """Connections go to any of them: together they take 20 wrong tokens, and then no right one either."""
    token = "t" * 32
    (archive / "tokens").write_text(token)
    configure(archive, '[serve]\nread_token_file = "tokens"\nwrite_token_file = "tokens"')
    with program(archive, "--workers", "4") as served:
        answers = [served.ask("/status", f"Authorization: Bearer {number:032}").status for number in range(60)]
        assert answers == [401] * 20 + [429] * 40
        right = f"Authorization: Bearer {token}"
        assert {served.ask("/status", right).status for _ in range(20)} == {429}
        put = request("/api/captures?url=http://a.example/", right, "Content-Length: 1", method="PUT", body=b"x")
        assert ask(served.ports[0], put).status == 429
        assert served.ask("/health").status == 200


# -- counting and logging ----------------------------------------------------------------------------------------------


def test_metrics_are_those_of_all_workers(archive: Path) -> None:
    with program(archive, "--workers", "2") as served:
        for _ in range(20):
            served.ask("/health")
        # A request is counted when its answer has gone, which its asker may have read before.
        wait_until(lambda: _requests_told(served) >= 20, "all are counted")
        text = served.ask("/metrics").body.decode()
        assert 'holdfast_worker_memory_bytes{worker="1"}' in text
        assert served.ask("/metrics").headers["content-type"].startswith("text/plain; version=0.0.4")


def _requests_told(served: Program) -> float:
    lines = served.ask("/metrics").body.decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("holdfast_requests_to"))


def test_every_line_of_the_metrics_has_the_form_that_prometheus_reads(archive: Path) -> None:
    with program(archive) as served:
        lines = served.ask("/metrics").body.decode().splitlines()
    names = {line.split()[2] for line in lines if line.startswith("# TYPE ")}
    values = [line for line in lines if not line.startswith("#")]
    assert values
    for line in values:
        name, _, value = line.rpartition(" ")
        plain = name.partition("{")[0]
        assert plain in names or plain.rsplit("_", 1)[0] in names, line
        float(value)


def test_the_access_log_is_opened_anew_when_it_was_moved(archive: Path, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    with program(archive, "--access-log", str(log)) as served:
        served.ask("/health?first")
        wait_until(lambda: "first" in log.read_text(), "the line is written")
        log.rename(tmp_path / "old.log")
        served.process.send_signal(signal.SIGHUP)
        wait_until(log.exists, "the log is opened anew")
        wait_until(lambda: _is_logged(served, log), "lines go there")
        assert served.stop()[0] == 0
    assert "second" not in (tmp_path / "old.log").read_text() or "second" in log.read_text()


def _is_logged(served: Program, log: Path) -> bool:
    served.ask("/health?second")
    return "second" in log.read_text()


def test_status_tells_what_there_is(archive: Path) -> None:
    add_page(archive, "http://kept.example/", b"large enough for the store" * 50)
    with program(archive, "--workers", "1") as served:
        status = json.loads(served.ask("/status").body)
    assert status["collections"]["main"]["captures"] == 1
    assert status["contents"] == 1
    assert status["crawls_running"] == []
    assert len(status["workers"]) == 1
