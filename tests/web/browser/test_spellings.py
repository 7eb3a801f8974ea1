"""Scripts see the archived place, however they ask for it (P3, W17)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from replay_browser import Stage, Tab, missing, needs_browser, staged, strangers, until
from spellings import ANYWHERE, CLASSIC, LIMITS, WINDOWS

from holdfast.archive.ingest.exchange import Exchange, page

pytestmark = needs_browser

TIME = "20240102030405"
SITE = "https://news.example"
PLACE = f"{SITE}/place"


def tried(forms: dict[str, str]) -> str:
    """A script that notes what each form gives."""
    text = "self.seen ||= {};\n"
    for form in forms:
        name = json.dumps(form)
        text += f"try {{ seen[{name}] = String({form}) }} catch (e) {{ seen[{name}] = 'failed: ' + e }}\n"
    return text


def document(text: str) -> bytes:
    head = "<!doctype html><html><head><meta charset=utf-8><title>place</title></head><body>"
    return f"{head}<script>window.highest = window; window.above = window</script>{text}</body></html>".encode()


def frame(text: str) -> bytes:
    known = "<script>var highest = window.parent, above = window.parent</script>"
    return f"<!doctype html><html><body>{known}{text}</body></html>".encode()


def captures() -> Iterator[Exchange]:
    in_classic, in_module = ANYWHERE | WINDOWS | CLASSIC, ANYWHERE | WINDOWS
    classic, module = f"<script>{tried(in_classic)}</script>", f"<script type=module>{tried(in_module)}</script>"
    linked = "<script src=/place/classic.js></script>"
    yield page(f"{PLACE}/page", document(f"{classic}<iframe src=frame></iframe>"), timestamp=TIME)
    yield page(f"{PLACE}/linked", document(linked), timestamp=TIME)
    yield page(f"{PLACE}/module", document(module), timestamp=TIME)
    yield page(f"{PLACE}/modules", document("<script type=module src=/place/module.js></script>"), timestamp=TIME)
    yield page(f"{PLACE}/frame", frame(classic), timestamp=TIME)
    script = "text/javascript"
    yield page(f"{PLACE}/classic.js", tried(in_classic).encode(), script, TIME)
    yield page(f"{PLACE}/module.js", b"import './part.js';" + tried(in_module).encode(), script, TIME)
    yield page(f"{PLACE}/part.js", b"export {}", script, TIME)
    yield page(f"{PLACE}/worker.js", (tried(ANYWHERE) + "postMessage(seen)").encode(), script, TIME)
    yield page(
        f"{PLACE}/module-worker.js", f"import './part.js';{tried(ANYWHERE)}postMessage(seen)".encode(), script, TIME
    )
    yield page(
        f"{PLACE}/workers",
        document(
            "<script>seen = {}; new Worker('worker.js').onmessage = (e) => { seen.classic = e.data };"
            "new Worker('module-worker.js', {type: 'module'}).onmessage = (e) => { seen.module = e.data }</script>"
        ),
        timestamp=TIME,
    )
    yield page(
        f"{PLACE}/limits", document(f"<script>{tried(dict.fromkeys(LIMITS, ''))}{LIMITED}</script>"), timestamp=TIME
    )
    yield page(f"{PLACE}/texts", document(TEXTS), timestamp=TIME)


LIMITED = """for (const piece of ["<script>", "seen.written = location.href", "<\\/script>"]) document.write(piece);
seen.function = String(() => location);"""

# Scripts that are made of text: handlers, addresses, timers, elements.
TEXTS = """
<button id=b onclick="seen.handler = [location.href, event.type, this.id]">x</button>
<a id=a href="javascript:seen.link = location.href; void 0">x</a>
<a id=c href="JavaScript:void(seen.voided = document.location.href)">x</a>
<div id=box></div>
<script>
seen = {};
b.click(); a.click(); c.click();
setTimeout("seen.timer = location.href");
const made = document.createElement("button"); made.setAttribute("onclick", "seen.attribute = window.location.href");
document.body.append(made); made.click();
box.innerHTML = `<img src="data:," onerror="seen.inner = location.href + &quot;&quot;">`;
const put = (text, how) => {
  const s = document.createElement("script"); how(s, text); document.body.append(s); return s;
};
put("seen.text = location.href", (s, t) => { s.text = t });
seen.read = put("seen.content = location.href", (s, t) => { s.textContent = t }).textContent;
put("seen.node = location.href", (s, t) => { s.appendChild(document.createTextNode(t)) });
put("seen.html = location.href", (s, t) => { s.innerHTML = t });
const late = put("", () => {}); late.text = "seen.late = location.href";
document.write("<script>seen.written = location.href<\\/script>");
document.body.append(document.createRange().createContextualFragment("<script>seen.ranged = location.href<\\/script>"));
const inner = document.createElement("iframe"); document.body.append(inner);
seen.blank = inner.contentWindow.eval("parent.location.href");
seen.run = [typeof eval, typeof Function, Function.prototype.constructor === Function, (() => {}) instanceof Function];
</script>"""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    if missing:
        pytest.skip(missing)
    with staged(Path(tmp_path_factory.mktemp("place")), list(captures())) as stage:
        yield stage
        assert strangers(stage.trap.hosts, stage.served) == set()


def wanted(forms: dict[str, str], url: str) -> dict[str, str]:
    known = {"href": url, "host": "news.example", "host twice": "news.example" * 2, "origin": SITE}
    known["origin twice"] = SITE * 2
    return {form: known.get(meant, meant) for form, meant in forms.items()}


@pytest.mark.parametrize("name", ["page", "linked", "module", "modules"])
def test_p3_pages_see_the_archived_place_in_any_spelling(tab: Tab, name: str) -> None:
    forms = ANYWHERE | WINDOWS | (CLASSIC if name in ("page", "linked") else {})
    if name != "page":
        forms = {form: meant for form, meant in forms.items() if meant != "/place/page"}
    found: dict[str, Any] = until(tab.open(f"{PLACE}/{name}"), "window.seen")
    assert {form: found[form] for form in forms} == wanted(forms, f"{PLACE}/{name}")


def test_p3_frames_see_the_archived_place_in_any_spelling(tab: Tab) -> None:
    inner = tab.open(f"{PLACE}/page").child_frames[0]
    forms = ANYWHERE | WINDOWS | CLASSIC
    assert until(inner, "window.seen") == wanted(forms, f"{PLACE}/frame")


@pytest.mark.parametrize("kind", ["classic", "module"])
def test_p3_workers_see_the_archived_place_in_any_spelling(tab: Tab, kind: str) -> None:
    found = until(tab.open(f"{PLACE}/workers"), f"seen.{kind}")
    url = f"{PLACE}/{'module-worker' if kind == 'module' else 'worker'}.js"
    assert found == wanted(ANYWHERE, url)


def test_p3_scripts_made_of_text_see_the_archived_place(tab: Tab) -> None:
    frame = tab.open(f"{PLACE}/texts")
    until(frame, "seen.timer && seen.link && seen.voided && seen.inner")
    seen = frame.evaluate("seen")
    assert seen.pop("handler") == [f"{PLACE}/texts", "click", "b"]
    assert seen.pop("read") == "seen.content = location.href"
    assert seen.pop("run") == ["function", "function", True, True]
    made = ("text", "content", "node", "html", "late", "written", "ranged")
    others = ("link", "voided", "timer", "attribute", "inner", "blank")
    assert seen == dict.fromkeys((*made, *others), f"{PLACE}/texts")


def test_p3_the_documented_limits_are_as_documented(tab: Tab) -> None:
    frame = tab.open(f"{PLACE}/limits")
    seen = frame.evaluate("seen")
    assert seen.pop("function") == "() => __hf_location"
    assert seen == dict.fromkeys((*LIMITS, "written"), frame.url)
