"""Parts of the server by themselves: counters, names, ports, settings."""

from __future__ import annotations

import os
import socket
import tomllib
from pathlib import Path

import pytest

from holdfast import config
from holdfast.config import ServeSettings
from holdfast.errors import Busy, InvalidSetting, UsageError
from holdfast.web.server.connection import Refusal, verify_host
from holdfast.web.server.counters import BUCKETS_S, Counters
from holdfast.web.server.host_names import Hosts
from holdfast.web.server.listen import listen, shown_host


def test_counters_of_all_workers_are_summed_up() -> None:
    first = Counters.make(2)
    second = Counters(os.dup(first.descriptor), 1)
    first.add("errors")
    second.add("errors", 2)
    second.observe("cdx", 200, 0.003, 10)
    second.observe("cdx", 0, 99.0, 0)
    second.observe("unheard-of", 404, 0.0, 0)
    assert first.total("errors") == 3
    assert list(first.requests()) == [("cdx", "2xx", 1), ("cdx", "4xx", 1), ("other", "4xx", 1)]
    latencies = first.latencies("cdx")
    assert len(latencies) == len(BUCKETS_S) + 1
    assert (latencies[2], latencies[-1]) == (1, 1)
    second.close()
    first.close()


def test_a_new_worker_goes_on_counting_and_begins_its_gauges_anew() -> None:
    counters = Counters.make(1)
    counters.add("errors")
    counters.add("in_flight")
    counters.begin(pid=7, started=1)
    assert (counters.total("errors"), counters.total("in_flight"), counters.total("pid")) == (1, 0, 7)
    counters.close()


@pytest.mark.parametrize(
    ("host", "accepted"),
    [
        (b"archive.example.org", True),
        (b"Archive.Example.Org:8080", True),
        (b"public.example", True),
        (b"localhost.", True),
        (b"192.0.2.7:80", True),
        (b"[2001:db8::1]:80", True),
        (b"xarchive.example.org", False),
        (b"archive.example.org.evil.example", False),
        (b"", False),
        (b":80", False),
        (b"localhost@evil.example", False),
        (b"[::1]evil.example", False),
    ],
)
def test_only_names_of_ours_are_accepted(host: bytes, accepted: bool) -> None:
    hosts = Hosts.of(ServeSettings(hosts=("archive.example.org",)), "https://public.example:444")
    assert hosts.accepts(host) is accepted
    assert hosts.accepts(host) is accepted  # from memory


def test_the_name_that_the_machine_has_itself_is_accepted() -> None:
    assert Hosts.of(ServeSettings()).accepts(f"{socket.gethostname()}:8080".encode())


def test_a_name_that_is_not_ours_is_told_and_where_to_add_it() -> None:
    with pytest.raises(Refusal, match="host name 'vm' is not among those") as refused:
        verify_host([(b"host", b"vm:8080")], "1.1", Hosts([]))
    assert "'serve.hosts' in holdfast.toml" in str(refused.value)
    with pytest.raises(Refusal) as refused:
        verify_host([(b"host", b"<b>\xff\x1b" * 99)], "1.1", Hosts([]))
    assert str(refused.value).isascii()
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 700


@pytest.mark.parametrize(("host", "is_local"), [("127.0.0.1", True), ("localhost", True), ("0.0.0.0", False)])
def test_whether_only_this_machine_can_connect_is_known(host: str, is_local: bool) -> None:
    listening = listen(ServeSettings(host=host, port=0), 1)
    try:
        assert listening.is_local is is_local
    finally:
        listening.close()


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        number = other.getsockname()[1]
        with pytest.raises(Busy, match=rf"port {number} of 127\.0\.0\.1 is taken.*--port"):
            listen(ServeSettings(port=number), 1)
        with pytest.raises(Busy, match=rf"port {number} .*--replay-port"):
            listen(ServeSettings(port=0, replay_port=number), 1)


def test_two_servers_do_not_share_a_port() -> None:
    first = listen(ServeSettings(port=0), 2)
    with pytest.raises(Busy):
        listen(ServeSettings(port=first.controls.number), 2)
    first.close()


def test_hosts_and_ports_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UsageError, match="cannot listen on host"):
        listen(ServeSettings(host="no such host"), 1)
    with pytest.raises(UsageError, match=r"192\.0\.2\.1"):
        listen(ServeSettings(host="192.0.2.1", port=0), 1)


def test_the_shown_host_can_be_put_into_an_address() -> None:
    assert shown_host("127.0.0.1") == "127.0.0.1"
    assert shown_host("::1") == "[::1]"
    assert shown_host("0.0.0.0") not in ("", "0.0.0.0")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("hosts = 'a'", "list of strings"),
        ("hosts = [1]", "list of strings"),
        ("port = 70000", "at most 65535"),
        ("client_timeout_s = 0", "at least 0.1"),
        ("controls_url = 'ftp://a.example'", "controls_url"),
        ("controls_url = 'https://a.example/x'", "controls_url"),
        ("controls_url = 'https://a.example'\nreplay_url = 'https://a.example/'", "another origin"),
        ("prot = 1", "did you mean 'port'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(line: str, message: str) -> None:
    with pytest.raises(InvalidSetting, match=message):
        config.parse(tomllib.loads(f"format = 1\n[serve]\n{line}"), Path("holdfast.toml"))


def test_settings_are_read() -> None:
    text = 'format = 1\n[serve]\nport = 9000\nhosts = ["a.example"]\nclient_timeout_s = 5\nseeded_random = false'
    serve = config.parse(tomllib.loads(text), Path("holdfast.toml")).serve
    assert serve == ServeSettings(port=9000, hosts=("a.example",), client_timeout_s=5, seeded_random=False)
