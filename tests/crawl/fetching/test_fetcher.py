"""The fetcher as a whole (H5, P): politeness as a server's own log shows it, and the ways around the delay."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise
from pathlib import Path

from fetching_servers import Answer, fetching, job, ok, run, serving, settings

from holdfast.crawl.fetch.fetcher import Fetcher
from holdfast.crawl.processes.messages import AddressPermit, AddressUse, Fetched, FetchOutcome


def _logging(log: list[tuple[float, float, bytes]], answer: bytes) -> Answer:
    """A server that notes when each request came and when its answer was given."""

    async def answers(request: bytes, writer: asyncio.StreamWriter) -> bool:
        came = time.monotonic()
        await asyncio.sleep(0)
        log.append((came, time.monotonic(), request.split()[1]))
        writer.write(answer)
        return True

    return answers


def test_the_server_s_log_shows_the_delay_and_the_order(tmp_path: Path) -> None:
    log: list[tuple[float, float, bytes]] = []

    async def body() -> None:
        async with (
            serving(_logging(log, ok())) as server,
            fetching(tmp_path, settings(per_host=1, adaptive=0.0)) as fetcher,
        ):
            jobs = [job(server.url(f"/{number}"), number, delay=0.05) for number in range(6)]
            await asyncio.gather(*map(fetcher.fetch, jobs))
        assert [path for _, _, path in log] == [b"/%d" % number for number in range(6)]
        assert all(later[0] - earlier[1] >= 0.05 for earlier, later in pairwise(log))

    run(body())


def test_retry_after_is_obeyed_to_the_letter_and_told(tmp_path: Path) -> None:
    log: list[tuple[float, float, bytes]] = []
    told: list[tuple[str, float, str]] = []
    refusal = b"HTTP/1.1 429 Too Many\r\nretry-after: 1\r\nContent-Length: 0\r\n\r\n"

    async def body() -> None:
        async with (
            serving(_logging(log, refusal)) as server,
            fetching(tmp_path, on_pause=lambda *paused: told.append(paused)) as fetcher,
        ):
            first = await fetcher.fetch(job(server.url("/1")))
            assert first.outcome == FetchOutcome.OK
            await asyncio.gather(
                fetcher.fetch(job(server.url("/2"))), fetcher.fetch(job(server.url("/3")), polite=False)
            )
            assert min(entry[0] for entry in log[1:]) - log[0][1] >= 1.0
            assert told[0][0] == f"127.0.0.1:{server.port}"
            assert told[0][2] == "status 429, Retry-After: 1"

    run(body())


def test_parts_of_a_page_do_not_wait_for_the_delay(tmp_path: Path) -> None:
    async def body() -> None:
        async with serving(ok()) as server, fetching(tmp_path, settings(per_host=1)) as fetcher:
            await fetcher.fetch(job(server.url("/page"), delay=1000.0))
            parts = [job(server.url(f"/{number}"), number, delay=1000.0) for number in range(20)]
            got = await asyncio.wait_for(asyncio.gather(*(fetcher.fetch(part, polite=False) for part in parts)), 20)
            assert all(fetched.outcome == FetchOutcome.OK for fetched in got)
            assert server.connections <= 6

    run(body())


def test_while_held_nothing_begins(tmp_path: Path) -> None:
    async def body() -> None:
        async with serving(ok()) as server, fetching(tmp_path) as fetcher:
            fetcher.hold(True)
            waiting = asyncio.ensure_future(fetcher.fetch(job(server.url("/held"))))
            for _ in range(20):
                await asyncio.sleep(0)
            assert (server.requests, fetcher.stats()["waiting"]) == ([], 1)
            fetcher.hold(False)
            assert (await waiting).outcome == FetchOutcome.OK

    run(body())


def test_a_host_paused_from_outside_waits(tmp_path: Path) -> None:
    async def body() -> None:
        async with serving(ok()) as server, fetching(tmp_path) as fetcher:
            fetcher.pause("paused", fetcher.now() + 1000, "restart")
            fetcher.submit(job(server.url("/1"))._replace(host="paused"), lambda fetched: None)
            assert (await fetcher.fetch(job(server.url("/2")))).outcome == FetchOutcome.OK
            assert len(server.requests) == 1
            assert fetcher.stats()["waiting"] == 1

    run(body())


def test_there_are_never_more_at_a_time_than_workers(tmp_path: Path) -> None:
    most = active = 0

    async def answer(_request: bytes, writer: asyncio.StreamWriter) -> bool:
        nonlocal most, active
        active += 1
        most = max(most, active)
        await asyncio.sleep(0.001)
        active -= 1
        writer.write(ok())
        return True

    async def body() -> None:
        async with serving(answer) as server, fetching(tmp_path, settings(per_address=1000)) as fetcher:
            jobs = [job(server.url("/"), number)._replace(host=f"h{number}") for number in range(100)]
            await asyncio.gather(*map(fetcher.fetch, jobs))
        assert most <= 16

    run(body())


def test_what_a_killed_process_left_in_files_is_deleted(tmp_path: Path) -> None:
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool" / "1-a-1").write_bytes(b"left")

    async def body() -> None:
        async with fetching(tmp_path):
            assert list((tmp_path / "spool").iterdir()) == []

    run(body())


def test_a_fetch_that_nobody_waits_for_leaves_no_file(tmp_path: Path) -> None:
    async def body() -> None:
        answer = ok(b"x" * 100_000)
        async with serving(answer) as server, fetching(tmp_path, settings(memory_bytes_max=1000)) as fetcher:
            given_up = asyncio.ensure_future(fetcher.fetch(job(server.url("/1"))))
            await asyncio.sleep(0)
            given_up.cancel()
            kept: Fetched = await fetcher.fetch(job(server.url("/2")))
            while len(server.requests) < 2 or fetcher.stats()["active"]:
                await asyncio.sleep(0.001)
            assert [str(path) for path in (tmp_path / "spool").iterdir()] == [kept.spool]

    run(body())


# -- permits -----------------------------------------------------------------------------------------------------------


async def _use(fetcher: Fetcher, address: str, *, wants: bool) -> AddressUse:
    """The next report about an address that says so."""
    while True:
        for use in fetcher.uses():
            if (use.address, use.wants) == (address, wants):
                return use
        await asyncio.sleep(0.005)


def _permit(address: str, number: int, from_s: float = 0.0, until_s: float = 60.0) -> AddressPermit:
    now_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    return AddressPermit(address, number, now_s + from_s, now_s + until_s, room=4)


def test_a_fetch_waits_for_a_permit_of_its_address(tmp_path: Path) -> None:
    """Not with one that is over; and one that comes too early is no use before its time."""
    log: list[tuple[float, float, bytes]] = []

    async def body() -> None:
        async with serving(_logging(log, ok())) as server, fetching(tmp_path, needs_permits=True) as fetcher:
            fetch = asyncio.create_task(fetcher.fetch(job(server.url("/polite"), delay=0.01)))
            await fetcher.fetch(job(server.url("/part")), polite=False)
            assert (await _use(fetcher, "127.0.0.1", wants=True)).seen == 0
            fetcher.permit(_permit("127.0.0.1", 1, -2.0, -1.0))
            assert (await _use(fetcher, "127.0.0.1", wants=True)).seen == 1
            assert [path for _, _, path in log] == [b"/part"]
            begin = time.monotonic() + 0.3
            fetcher.permit(_permit("127.0.0.1", 2, 0.3))
            assert (await asyncio.wait_for(fetch, 20)).outcome == FetchOutcome.OK
            assert log[-1][0] >= begin
            assert (await _use(fetcher, "127.0.0.1", wants=False)).seen == 2

    run(body())


def test_the_second_address_of_a_host_needs_a_permit_of_its_own(tmp_path: Path) -> None:
    log: list[tuple[float, float, bytes]] = []

    async def body() -> None:
        more = {"needs_permits": True, "lookup": lambda name: ["127.0.0.9", "127.0.0.1"]}
        async with serving(_logging(log, ok())) as server, fetching(tmp_path, **more) as fetcher:
            url = f"http://two.test:{server.port}/"
            fetch = asyncio.create_task(fetcher.fetch(job(url, delay=0.01)))
            await _use(fetcher, "127.0.0.9", wants=True)
            fetcher.permit(_permit("127.0.0.9", 1))  # where nobody listens
            await _use(fetcher, "127.0.0.1", wants=True)
            assert log == []
            fetcher.permit(_permit("127.0.0.1", 2))
            assert (await asyncio.wait_for(fetch, 20)).outcome == FetchOutcome.OK
            assert len(log) == 1

    run(body())


def test_a_host_none_of_whose_addresses_responds_fails(tmp_path: Path) -> None:
    """It goes from one address to the next, each with a permit, and not for ever."""

    async def body() -> None:
        addresses = ["127.0.0.8", "127.0.0.9"]
        async with (
            serving(ok()) as server,
            fetching(tmp_path, needs_permits=True, lookup=lambda _: addresses) as fetcher,
        ):
            for number, address in enumerate(addresses, 1):
                fetcher.permit(_permit(address, number))
            fetch = asyncio.create_task(fetcher.fetch(job(f"http://none.test:{server.port}/", delay=0.01)))
            number = len(addresses)
            while not fetch.done():
                for use in fetcher.uses():
                    if use.wants:
                        number += 1
                        fetcher.permit(_permit(use.address, number))
                await asyncio.sleep(0.005)
            assert fetch.result().outcome == FetchOutcome.CONNECT

    run(body())
