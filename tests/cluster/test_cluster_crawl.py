"""One crawl over all nodes: complete, each URL once, whichever node is asked (H1, H4, I1).

Real node processes, real NATS servers, the hostile web.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from crawl_cluster import (
    all_captured,
    captured,
    crawl_state,
    crawling_cluster,
    fetched_by,
    fetchers_of,
    has_removed,
    job_for,
    processes_of,
    start_crawl,
    status_of,
    wait_ended,
)
from hostile_web import LogEntry, Web, checks
from node_cluster import WAIT_S, NodeCluster, NodeProcess, run_holdfast, wait_until

from holdfast.cluster.crawl.log import LogCut, LogMessage, last_cut, unpack_message
from holdfast.cluster.membership.bus import Bus
from holdfast.crawl.job.file import write_job
from holdfast.crawl.report.crawls import crawl_status
from holdfast.errors import Busy, UnknownName, UsageError


def web_of(pages: int = 120, **more: float) -> Web:
    """All kinds of pages, links and hosts, but nobody who asks for patience."""
    return Web(seed=11, pages=pages, hosts=9, pauses=0, crawl_delay_s=0.0, robots_bytes=20_000, words=8, **more)  # type: ignore[arg-type]


def test_three_nodes_capture_what_one_node_captures(tmp_path: Path) -> None:
    with web_of(flaky=0).serving() as served, crawling_cluster(tmp_path) as cluster:
        start_crawl(cluster["n2"], job_for(served))
        assert wait_ended(cluster["n3"])["state"] == "finished"
        log = served.log()
        found = all_captured(cluster)
        assert served.web.reachable() - found == set()
        assert checks.repeated(requests_of(log, served.web)) == []
        assert checks.disallowed(log, served.web) == []
        fetched = {node.name: fetched_by(node.path) for node in cluster.nodes}
        assert sum(map(bool, fetched.values())) > 1, "seven domains have more than one owner"
        assert not set.intersection(*map(set, fetched.values()))
        assert sum(map(len, fetched.values())) == status_of(cluster["n1"].path).tally["fetched"]


def holdfast_command(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "holdfast", *map(str, words)]


def holdfast(*words: str | Path) -> str:
    done = run_holdfast(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def hosts_of(log: list[LogEntry]) -> set[str]:
    return {entry.host for entry in log}


def requests_of(log: list[LogEntry], web: Web) -> list[LogEntry]:
    """All but those for robots.txt, which each owner of a host reads."""
    return [entry for entry in log if web.graph.url(entry.host, entry.target) not in web.robots_urls]


def repeated_urls(log: list[LogEntry], web: Web) -> set[str]:
    return {web.graph.url(entry.host, entry.target) for entry in checks.repeated(requests_of(log, web))}


def assert_polite(log: list[LogEntry], web: Web, delay_s: float) -> None:
    """No two requests to a host closer than the delay, whoever sends them.

    A robots.txt that is redirected to a host of another node is fetched from there without asking that node.
    """
    log = [entry for entry in log if entry.path == checks.ROBOTS or entry in requests_of(log, web)]
    early = [
        (host, f"{second.received - first.answered:.3f} s", first.target, second.target)
        for host in sorted(hosts_of(log))
        for first, second in checks.too_soon(log, host, delay_s)
    ]
    assert early == []
    assert checks.disallowed(log, web) == []


def test_a_limit_is_reached_and_never_exceeded(tmp_path: Path) -> None:
    """I1: credits are drawn in blocks, and come back from nodes that have nothing to fetch."""
    with web_of(400, flaky=0).serving() as served, crawling_cluster(tmp_path, 4) as cluster:
        start_crawl(cluster["n4"], job_for(served, limit=100))
        ended = wait_ended(cluster["n1"])
        assert ended["state"] == "limit"
        status_of(cluster["n1"].path)
        fetched = [url for node in cluster.nodes for url in fetched_by(node.path)]
        assert len(fetched) == 100
        wait_until(lambda: status_of(cluster["n2"].path).tally["fetched"] == 100, "the last report of every node")


def test_nodes_join_and_stop_while_it_crawls(tmp_path: Path) -> None:
    """H4: a planned hand-over waits for transfers and for the log: nothing is fetched twice, nothing is missed."""
    delay_s = 0.5
    with web_of(flaky=0).serving() as served, crawling_cluster(tmp_path, 2, copies=2) as cluster:
        start_crawl(cluster["n1"], job_for(served, delay=delay_s))
        wait_until(lambda: len(requests_of(served.log(), served.web)) > 30, "requests")
        cluster.join("n3").start()
        wait_until(lambda: cluster["n3"].row("n3")["owned"], "partitions of n3")
        assert cluster["n2"].stop() == 0
        assert wait_ended(cluster["n3"])["state"] == "finished"
        for name in ("n1", "n3"):
            assert status_of(cluster[name].path).tally["queued"] == 0, "what was handed over is queued nowhere else"
        log = served.log()
        assert served.web.reachable() - all_captured(cluster) == set()
        assert checks.repeated(requests_of(log, served.web)) == []
        assert_polite(log, served.web, delay_s)


def test_a_node_dies_with_its_disk(tmp_path: Path) -> None:
    """H5: what is fetched again was under way, or not copied, when the node died."""
    delay_s = 0.4
    with web_of(flaky=0).serving() as served, crawling_cluster(tmp_path, 3, copies=3) as cluster:
        start_crawl(cluster["n1"], job_for(served, delay=delay_s))
        wait_until(lambda: len(requests_of(served.log(), served.web)) > 40, "requests")
        dead = max((cluster["n2"], cluster["n3"]), key=lambda node: len(fetched_by(node.path)))
        alive = [node for node in cluster.nodes if node is not dead]
        first = set(fetched_by(dead.path)[:5])
        wait_until(lambda: all(first <= captured(node.path).keys() for node in alive), "copies of its first captures")
        dead.kill()
        copied = set(captured(alive[0].path)) & set(captured(alive[1].path))
        safe = copied & set(fetched_by(dead.path))
        assert safe
        shutil.rmtree(dead.path)
        assert wait_ended(cluster["n1"])["state"] == "finished"
        log = served.log()
        assert served.web.reachable() - all_captured(cluster) == set()
        assert repeated_urls(log, served.web) & safe == set()
        assert_polite(log, served.web, delay_s)


def test_a_node_that_was_stopped_sends_nothing(tmp_path: Path) -> None:
    """The right to fetch has ended when its processes go on: they close all connections first."""
    delay_s = 0.4
    with web_of(80, flaky=0).serving() as served, crawling_cluster(tmp_path, 3, copies=3) as cluster:
        start_crawl(cluster["n1"], job_for(served, delay=delay_s))
        others = [cluster["n2"], cluster["n3"]]
        stopped = wait_until(
            lambda: next((each for each in others if len(fetched_by(each.path)) > 5), None), "requests"
        )
        family = processes_of(stopped)
        assert len(family) > 2, "a node, a fetcher, a parse worker"
        for each in family:
            os.kill(each, signal.SIGSTOP)
        cluster.wait_owned(*(node.name for node in cluster.nodes if node is not stopped))
        before = len(served.log())
        wait_until(lambda: len(served.log()) > before + 5, "requests of the others")
        for each in family:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGCONT)
        assert wait_ended(cluster["n3"])["state"] == "finished"
        assert served.web.reachable() - all_captured(cluster) == set()
        assert_polite(served.log(), served.web, delay_s)


def test_an_owner_that_is_cut_off_from_nats_and_not_from_the_web(tmp_path: Path) -> None:
    """Its requests end with its right, before others take over; then it takes part again."""
    delay_s = 0.4
    with web_of(80, flaky=0).serving() as served, crawling_cluster(tmp_path, 3, copies=3) as cluster:
        start_crawl(cluster["n1"], job_for(served, delay=delay_s))
        others = [cluster["n2"], cluster["n3"]]  # the server is that of n1
        owner = wait_until(lambda: next((each for each in others if len(fetched_by(each.path)) > 5), None), "requests")
        cut = Path(f"{owner.path}.cut")
        cut.touch()
        cluster.wait_owned(*(node.name for node in cluster.nodes if node is not owner))
        wait_until(lambda: not fetchers_of(owner), "the end of its fetcher")
        fetched, before = len(fetched_by(owner.path)), len(served.log())
        wait_until(lambda: len(served.log()) > before + 5, "requests of the others")
        assert len(fetched_by(owner.path)) == fetched
        cut.unlink()
        assert wait_ended(owner)["state"] == "finished"
        assert served.web.reachable() - all_captured(cluster) == set()
        assert_polite(served.log(), served.web, delay_s)


def test_all_data_of_nats_is_lost(tmp_path: Path) -> None:
    """H5: the nodes fill a new service with their jobs and their frontiers; the crawl ends with the right set."""
    with web_of(flaky=0).serving() as served, crawling_cluster(tmp_path, 3, copies=2) as cluster:
        start_crawl(cluster["n2"], job_for(served, delay=0.4))
        wait_until(lambda: len(requests_of(served.log(), served.web)) > 40, "requests")
        cluster["n1"].kill()
        for store in (cluster["n1"].directory.path / "nats").glob("*/"):
            shutil.rmtree(store)
        cluster["n1"].start()
        cluster["n1"].rebuild(["n1"], old_is_gone=True)
        assert wait_ended(cluster["n2"])["state"] == "finished"
        assert served.web.reachable() - all_captured(cluster) == set()
        assert_polite(served.log(), served.web, 0.4)


def test_all_data_of_nats_and_a_disk_are_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """H5: what the lost node knew comes from checkpoints, from what others keep for it, and from its captures."""
    delay_s = 0.4
    monkeypatch.setenv("CHECKPOINT_MESSAGES", "3")
    with web_of(180, flaky=0).serving() as served, crawling_cluster(tmp_path, 3, copies=3) as cluster:
        start_crawl(cluster["n2"], job_for(served, delay=delay_s))
        dead = wait_until(lambda: cut_by(cluster, "n2", "n3"), "a log that is cut off")[0]
        alive = [node for node in cluster.nodes if node is not dead]
        cluster["n1"].kill()
        dead.kill()
        safe = set.intersection(*(set(captured(node.path)) for node in alive)) & set(fetched_by(dead.path))
        assert safe
        shutil.rmtree(dead.path)
        for store in (cluster["n1"].directory.path / "nats").glob("*/"):
            shutil.rmtree(store)
        cluster["n1"].start()
        wait_until(lambda: cluster["n1"].rebuild(["n1"], old_is_gone=True), "another service")
        assert wait_ended(alive[1])["state"] == "finished"
        log = served.log()
        assert served.web.reachable() - all_captured(cluster) == set()
        assert repeated_urls(log, served.web) & safe == set()
        assert_polite(log, served.web, delay_s)


def log_of(cluster: NodeCluster) -> dict[str, list[tuple[int, LogMessage]]]:
    """What is in the log now, by partition, with sequence numbers."""
    directory = cluster["n1"].directory

    async def read() -> dict[str, list[tuple[int, LogMessage]]]:
        bus = Bus(directory.identity().access(directory.service()))
        await bus.open()
        try:
            counts, _ = await bus.count_log("web.*")
            found = {topic: await bus.read_log(topic, 0) for topic in counts}
            return {topic: [(each.revision, unpack_message(each.value)) for each in found[topic]] for topic in found}
        finally:
            await bus.close()

    return asyncio.run(read())


def cuts_of(log: dict[str, list[tuple[int, LogMessage]]]) -> dict[str, LogCut]:
    """The partitions whose log tells of a checkpoint, and up to where."""
    found = {topic: [cut for _, each in messages if (cut := last_cut(each))] for topic, messages in log.items()}
    return {topic: cuts[-1] for topic, cuts in found.items() if cuts}


def cut_by(cluster: NodeCluster, *names: str) -> list[NodeProcess]:
    """Those of the nodes that have cut off a log."""
    cutters = {cut.record.rpartition("-")[0].rpartition(".")[2] for cut in cuts_of(log_of(cluster)).values()}
    return [cluster[name] for name in names if name in cutters]


def test_the_log_is_cut_off_and_a_node_dies_with_its_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """H5: whoever owns its partitions next reads checkpoints, then what is left of the log. Merged ones are removed."""
    delay_s = 0.4
    monkeypatch.setenv("CHECKPOINT_MESSAGES", "2")
    monkeypatch.setenv("CHECKPOINTS_MERGED", "2")
    with web_of(160, flaky=0).serving() as served, crawling_cluster(tmp_path, 3, copies=3) as cluster:
        start_crawl(cluster["n1"], job_for(served, delay=delay_s))
        dead = wait_until(lambda: cut_by(cluster, "n2", "n3"), "a log that is cut off")[0]
        alive = [node for node in cluster.nodes if node is not dead]
        wait_until(lambda: all(has_removed(node.path) for node in cluster.nodes), "checkpoints that are removed")
        dead.kill()
        copied = set.intersection(*(set(captured(node.path)) for node in alive))
        safe = copied & set(fetched_by(dead.path))
        assert safe
        shutil.rmtree(dead.path)
        assert wait_ended(cluster["n1"])["state"] == "finished"
        log = served.log()
        assert served.web.reachable() - all_captured(cluster) == set()
        assert repeated_urls(log, served.web) & safe == set()
        assert_polite(log, served.web, delay_s)
        left = log_of(cluster)
        cuts = cuts_of(left)
        assert cuts
        assert [topic for topic, cut in cuts.items() for number, _ in left[topic] if number <= cut.sequence] == []


def test_any_node_starts_shows_and_stops_it(tmp_path: Path) -> None:
    """H8: the commands are those of one machine, and say the same at each node."""
    with web_of(400, flaky=0).serving() as served, crawling_cluster(tmp_path, 3, copies=2) as cluster:
        paths = [node.path for node in cluster.nodes]
        job = tmp_path / "job.toml"
        job.write_text(write_job(job_for(served, delay=2.0)))  # it does not end by itself meanwhile
        with subprocess.Popen(holdfast_command("-a", paths[1], "crawl", job), stderr=subprocess.PIPE) as started:

            def is_shared() -> bool:
                assert started.poll() is None, started.communicate()
                return sum(bool(fetched_by(path)) for path in paths) > 1

            wait_until(is_shared, "requests of several nodes")
            for path in paths:
                wait_until(lambda path=path: crawl_status(path, "web").tally["fetched"] > 10, "the tally of all nodes")
            shown = json.loads(holdfast("-a", paths[2], "crawl", "status", "web", "--json"))
            assert (shown["state"], shown["shared"]) == ("running", True)
            busy = run_holdfast("-a", paths[0], "crawl", job)
            assert busy.returncode == Busy.exit_code
            holdfast("-a", paths[0], "crawl", "stop", "web", "--wait")
            assert started.wait(WAIT_S) == 0
        assert all(status_of(path).state == "stopped" for path in paths)
        rows = [json.loads(line) for line in holdfast("-a", paths[2], "crawl", "log", "web", "--json").splitlines()]
        assert {row["node"] for row in rows} == {"n1", "n2", "n3"}
        assert [row["time"] for row in rows] == sorted(row["time"] for row in rows)
        for path in [each for each in paths if fetched_by(each)][:1]:
            url = fetched_by(path)[0]
            answers = [json.loads(holdfast("-a", each, "crawl", "why", url, "--json")) for each in paths]
            assert {(each["state"], each["node"]) for each in answers} == {("done", path.name)}
        before = {url for path in paths for url in fetched_by(path)}
        secrets = tmp_path / "secrets"
        secrets.write_text("https://example.com Authorization: Bearer 3f9c\n")
        for option in (("--credentials", secrets), ("--header", "Authorization: Bearer 3f9c")):
            refused = run_holdfast("-a", paths[1], "crawl", "https://example.com/", "--name", "login", *option)
            assert refused.returncode == UsageError.exit_code
            assert "holdfast import" in refused.stderr
            assert "3f9c" not in refused.stderr
        with pytest.raises(UnknownName):
            crawl_state(cluster["n1"], "login")
        holdfast("-a", paths[2], "crawl", "--resume", "web", "--limit", "30", "--delay", "0.1")
        assert len({url for path in paths for url in fetched_by(path)}) == len(before) + 30


def test_nobody_fetches_without_a_lease(tmp_path: Path) -> None:
    """Cut off from NATS, not from the web: requests end with the right, and go on when NATS is back."""
    delay_s = 0.2
    with web_of(flaky=0).serving() as served, crawling_cluster(tmp_path, 2, copies=2) as cluster:
        start_crawl(cluster["n1"], job_for(served, delay=delay_s))
        wait_until(lambda: len(requests_of(served.log(), served.web)) > 20, "requests")
        server = cluster["n1"].server_pid()
        os.kill(server, signal.SIGSTOP)
        try:
            wait_until(lambda: not fetchers_of(cluster["n1"]) and not fetchers_of(cluster["n2"]), "the fetchers' end")
            before = len(served.log())
            wait_until(lambda: not cluster["n2"].table()["connected"], "a node that knows it")
            assert len(served.log()) == before
        finally:
            os.kill(server, signal.SIGCONT)
        assert wait_ended(cluster["n2"])["state"] == "finished"
        assert served.web.reachable() - all_captured(cluster) == set()
        assert_polite(served.log(), served.web, delay_s)


def test_four_nodes_in_trouble_capture_what_one_node_captures(tmp_path: Path) -> None:
    """H4, H5: a server of NATS is killed, a node dies with its disk, one joins, one is stopped and comes back."""
    delay_s = 0.5
    with web_of(flaky=0).serving() as served, crawling_cluster(tmp_path, 4, copies=3) as cluster:
        wait_until(lambda: cluster["n1"].rebuild(["n1", "n2", "n3"]), "a service of three")
        cluster.wait_owned("n1", "n2", "n3", "n4")
        start_crawl(cluster["n3"], job_for(served, delay=delay_s))

        def more_requests() -> None:
            before = len(served.log())
            wait_until(lambda: len(served.log()) > before + 8, "requests")

        more_requests()
        os.kill(wait_until(cluster["n2"].server_pid, "the server of n2"), signal.SIGKILL)
        more_requests()
        cluster["n4"].kill()
        shutil.rmtree(cluster["n4"].path)
        cluster.join("n5").start()
        more_requests()
        assert cluster["n3"].stop() == 0
        cluster["n3"].start()
        assert wait_ended(cluster["n2"])["state"] == "finished"
        log = served.log()
        assert served.web.reachable() - all_captured(cluster) == set()
        assert_polite(log, served.web, delay_s)
