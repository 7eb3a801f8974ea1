"""Pages that load more when they are scrolled do so in replay; clock and chance may be the browser's own (P3)."""

from __future__ import annotations

from pathlib import Path

from frontend_site import live
from habit_pages import HEAD, SHOP, TIME, captures
from hostile_pages import PNG
from replay_browser import needs_browser, opened, staged, strangers, until

import holdfast
from holdfast.archive.create import init
from holdfast.config import ServeSettings
from holdfast.crawl.crawl import Crawl
from holdfast.crawl.job.job import BrowserSettings, CrawlJob, FetchSettings, ScopeKind

pytestmark = needs_browser

SCROLLED = f"""{HEAD}<style>img, article {{ display: block; height: 600px }}</style></head><body><div id=list></div>
<img loading=lazy id=late src="/late.png"><img class=lazy data-src="/data.png" id=data><div id=end>.</div><script>
let next = 0, isBusy = false;
async function more() {{
  if (isBusy || next >= 4) return;
  isBusy = true; next += 1;
  const item = await (await fetch("/api/items/" + next)).json();
  const entry = document.createElement("article"); entry.textContent = item.name; list.append(entry);
  isBusy = false; watching.unobserve(end); watching.observe(end);
}}
const watching = new IntersectionObserver((all) => all.some((each) => each.isIntersecting) && more());
watching.observe(end);
new IntersectionObserver((all, own) => all.forEach((each) => {{
  if (each.isIntersecting) {{ each.target.src = each.target.dataset.src; own.unobserve(each.target) }}
}})).observe(data);
</script></body></html>"""


def test_p3_endless_pages_and_lazy_pictures_go_on_in_replay(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "index.html").write_text(SCROLLED)
    for name in ("late", "data"):
        (site / f"{name}.png").write_bytes(PNG)
    root = tmp_path / "archive"
    init(root)
    with live({"endless.test": site}) as port:
        url = f"http://endless.test:{port}/"
        job = CrawlJob(
            seeds=(url,),
            name="endless",
            scope=ScopeKind.PAGE,
            sitemap=False,
            browser=BrowserSettings(enabled=True, tabs=1, idle_s=3.0),  # or a slow machine would miss some
            fetch=FetchSettings(delay=0.0, private=True, resolve=(("endless.test", "127.0.0.1"),), retries=0),
        )
        with holdfast.open(root) as archive:
            Crawl(archive, job).run()
            timestamp = archive.get(url).capture.timestamp
    with opened(root, tmp_path / "net.json") as stage, stage.context() as tab:
        frame = tab.open(url, timestamp)
        down = "scrollTo(0, document.body.scrollHeight), document.querySelectorAll('article').length === 4"
        until(frame, down)
        assert frame.evaluate("list.innerText.split('\\n').filter(Boolean)") == [
            "The first",
            "The second",
            "The third",
            "The fourth",
        ]
        for name in ("late", "data"):
            frame.evaluate(f"{name}.scrollIntoView()")
            until(frame, f"{name}.naturalWidth === 1")
        assert strangers(stage.trap.hosts, stage.served) == set()


def test_p3_clock_and_chance_are_the_browsers_own_if_so_set(tmp_path: Path) -> None:
    settings = ServeSettings(capture_time=False, seeded_random=False)
    with staged(tmp_path, list(captures())[:2], settings=settings) as stage, stage.context() as tab:
        seen, again = (tab.open(f"{SHOP}/clock", TIME).evaluate("seen") for _ in range(2))
        assert not any(seen["near"])
        assert seen["random"] != again["random"]
