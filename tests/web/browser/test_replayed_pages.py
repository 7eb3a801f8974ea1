"""Every part of a page comes from the archive, whatever way it is asked for (W17)."""

from __future__ import annotations

import re

from hostile_pages import CDN, LATER, NEWS, TIME
from playwright.sync_api import Frame
from replay_browser import Stage, Tab, needs_browser, until
from waiting import wait_until

pytestmark = needs_browser


def answered(stage: Stage) -> set[str]:
    """The archived URLs that were asked for so far."""
    found = [re.search(r"/main/\d+[a-z]{2}_/(https?:.*)", url) for url in stage.asked]
    return {each[1] for each in found if each}


def _framed(frame: Frame) -> int:
    return sum(child.url.endswith("/frame") for child in frame.child_frames)


def test_w17_markup_is_replayed_with_all_its_parts(tab: Tab) -> None:
    tab.stage.asked.clear()
    frame = tab.open(f"{NEWS}/markup")
    until(frame, "seen.lazy && seen.inlineModule && document.fonts.size")
    frame.evaluate("document.fonts.load('12px Archived').catch(() => 0)")
    assert frame.evaluate("seen") == {
        "classic": f"{CDN}/classic.js",
        "srcdoc": "about:srcdoc",
        "inlineModule": "module with part",
        "lazy": "lazy true",
    }
    for picture in ("absolute", "relative", "rooted", "set", "pictured"):
        assert until(frame, f"document.getElementById('{picture}').naturalWidth") == 1, picture
    assert frame.evaluate("getComputedStyle(linked).color") == "rgb(1, 2, 3)"
    pictures = {f"{CDN}/p/{name}.png" for name in ("inline", "linked", "svg", "srcdoc", "poster")}
    assert pictures | {f"{CDN}/style.css", f"{CDN}/deep.css", "http://cdn.example/imported.css"} <= answered(tab.stage)
    assert f"{CDN}/font.woff2" in {url.replace("http://cdn", "https://cdn") for url in answered(tab.stage)}
    wait_until(lambda: frame.evaluate("1") and _framed(frame) == 2, "both frames")  # evaluating takes events in
    framed = [child.evaluate("seen.at") for child in frame.child_frames if child.url.endswith("/frame")]
    assert framed == [[f"{NEWS}/frame", True, True]] * 2


def test_w17_what_scripts_ask_for_is_of_the_archive(tab: Tab) -> None:
    tab.stage.asked.clear()
    frame = tab.open(f"{NEWS}/scripts")
    until(
        frame,
        "['fetch', 'xhr', 'events', 'imported', 'image', 'blankFrame', 'message', 'posted'].every((n) => n in seen)",
    )
    until(frame, "seen.socket.length === 3 && seen.classic && seen.fetchRooted && seen.fetchRelative")
    seen = frame.evaluate("seen")
    assert seen["fetch"] == [f"{CDN}/data.json", "cdn"]
    assert seen["xhr"] == ["http://cdn.example/data.json", "cdn"]
    assert (seen["fetchRooted"], seen["fetchRelative"], seen["blankFrame"]) == ("news", "news", "cdn")
    assert "results of q=1" in seen["posted"]
    assert (seen["events"], seen["imported"], seen["beacon"]) == ("told", "module with part", True)
    assert seen["socket"] == ["error", 1006, 3]
    assert (seen["classic"], seen["written"]) == (f"{CDN}/classic.js", f"{CDN}/written.js")
    for picture in ("inner", "adjacent", "written", "attributed"):
        assert until(frame, f"document.getElementById('{picture}').naturalWidth") == 1, picture
    pictures = {f"{CDN}/p/{name}.png" for name in ("styled", "ruled", "blank", "made")}
    assert pictures | {f"{CDN}/imported.css"} <= answered(tab.stage)


def test_w17_scripts_see_the_archived_place(tab: Tab) -> None:
    seen = tab.open(f"{NEWS}/scripts").evaluate("seen")
    page = f"{NEWS}/scripts"
    assert seen["place"] == [page, page, NEWS, NEWS, "news.example", True, True]
    assert seen["link"] == [f"{NEWS}/linked?x#y", "news.example", "/linked", "#y", "/linked?x#y"]
    assert seen["kept"] == [2, "a", "key1,key2", "taste=good"]
    assert seen["pushed"] == f"{NEWS}/pushed?a=1"


def test_w17_messages_carry_archived_origins(tab: Tab) -> None:
    frame = tab.open(f"{NEWS}/scripts")
    assert until(frame, "seen.message") == [NEWS, "hello"]


def test_w17_an_archived_page_cannot_replace_our_service_worker(tab: Tab) -> None:
    frame = tab.open(f"{NEWS}/scripts")
    assert until(frame, "seen.serviceWorker") == "SecurityError"
    assert frame.evaluate("navigator.serviceWorker.getRegistrations().then((all) => all.length)") == 0


def test_w17_workers_run_in_the_archive(tab: Tab) -> None:
    frame = tab.open(f"{NEWS}/workers")
    until(frame, "seen.classic && seen.module && seen.blob && seen.shared")
    at = f"{NEWS}/workers"
    assert frame.evaluate("seen") == {
        "classic": ["imported", "own", "cdn", "news", f"{at}/classic.js", "dead"],
        "module": ["module with part", "beside", "lazy", "cdn", f"{at}/module.js"],
        "blob": ["imported", "cdn"],
        "shared": ["cdn", f"{at}/shared.js"],
    }


def test_n9_the_banner_hears_of_what_times_the_parts_are(stage: Stage) -> None:
    with stage.context() as tab:
        tab.page.add_init_script(
            "window.told = []; if (window === top) addEventListener('message', (e) => told.push([e.origin, e.data]))"
        )
        tab.open(f"{NEWS}/parts")
        heard = "told.some(([, m]) => m.holdfast === 'parts' && m.count === 2 && m.missing === 1)"
        tab.until(lambda: tab.page.evaluate(heard))
        told = tab.page.evaluate("told")
    assert {origin for origin, _ in told} == {stage.served.replay}
    parts = [message for _, message in told if message["holdfast"] == "parts"][-1]
    assert parts == {"holdfast": "parts", "earliest": TIME, "latest": LATER, "count": 2, "missing": 1}
    places = [message for _, message in told if message["holdfast"] == "at"]
    assert places[-1] == {"holdfast": "at", "url": f"{NEWS}/parts", "timestamp": TIME, "title": "parts"}
