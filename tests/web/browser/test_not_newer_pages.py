"""A page not newer than a time, in a browser: its parts, what its scripts ask for, and where it leads (H8)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from replay_browser import Stage, missing, staged, strangers, until

from holdfast.archive.ingest.exchange import Exchange, page

A = "http://a.example"
OLD, NEW, ASKED = "20200101000000", "20220101000000", "20211201000000"
SCRIPT = b"fetch('/data.txt').then((it) => it.text()).then((text) => { window.seen = text; });"


def captures() -> Iterator[Exchange]:
    for time in (OLD, NEW):
        seconds_later = str(int(time) + 7)
        text = f"<title>{time}</title><script src=/s.js></script><a id=on href='{A}/next'>next</a>"
        yield page(f"{A}/", text.encode(), "text/html", time)
        yield page(f"{A}/s.js", SCRIPT, "text/javascript", seconds_later)
        yield page(f"{A}/data.txt", time.encode(), "text/plain", seconds_later)
        yield page(f"{A}/next", f"<title>next of {time}</title>".encode(), "text/html", seconds_later)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    if missing:
        pytest.skip(missing)
    with staged(Path(tmp_path_factory.mktemp("not newer")), list(captures())) as stage:
        yield stage


@pytest.mark.parametrize("worker", [True, False], ids=["worker", "no worker"])
def test_h8_parts_scripts_and_links_stay_at_the_time(stage: Stage, worker: bool) -> None:
    with stage.context(worker=worker) as tab:
        frame = tab.open(f"{A}/", f"not-newer/{ASKED}")
        assert until(frame, "window.seen") == OLD
        assert tab.page.inner_text("#date") == "1 January 2020, 00:00:00 UTC"
        frame.click("#on")
        tab.framed(lambda frame: frame.url.endswith(f"/main/not-newer/{ASKED}mp_/{A}/next"))
        tab.until(lambda: tab.page.url == f"{stage.served.controls}/main/not-newer/{ASKED}/{A}/next")
        tab.until(lambda: tab.page.inner_text("#date") == "1 January 2020, 00:00:07 UTC")
        assert tab.page.main_frame.child_frames[0].title() == f"next of {OLD}"
    assert strangers(stage.trap.hosts, stage.served) == set()
