"""Traps that are good HTTP: there is always one more page."""

from __future__ import annotations

from holdfast.crawl.job.job import CrawlJob
from hostile_web.exchange import Answer, Request, plain
from hostile_web.lure import Lure, Place, html, link

LINKS = 100_000  # in the one page with many
LONG = 100 << 10  # bytes of a long URL
DEEP = 100_000  # elements in each other
_START = 2026 * 12
_SHOP = 5  # pages behind session ids


def _calendar(request: Request, place: Place) -> Answer:
    """Months as paths: /calendar/2026/11/."""
    parts = request.target.strip("/").split("/")
    month = int(parts[1]) * 12 + int(parts[2]) - 1 if len(parts) == 3 else _START
    near = [f"/calendar/{other // 12:04}/{other % 12 + 1:02}/" for other in (month - 1, month + 1)]
    return html("".join(map(link, near)))


def _years(job: CrawlJob) -> int:
    return min(job.traps.host_urls_max, (2 * job.traps.calendar_years + 2) * 12 + 3)


def _query_calendar(request: Request, place: Place) -> Answer:
    """Days without end as queries of one path, with no date in them."""
    day = int(request.target.rpartition("=")[2] or 0) if "=" in request.target else 0
    return html(link(f"/agenda?page={day + 1}") + link(f"/agenda?page={day + 7}"))


def _repeat(request: Request, place: Place) -> Answer:
    """A relative link in a page that is found at any depth."""
    return html(link("news/today/") + link("today/"))


def _session(request: Request, place: Place) -> Answer:
    """A shop of few pages whose links have a new session id at every request."""
    sid = f"{place.requests:032x}"
    pages = [f"/item/{number};jsessionid={sid}" for number in range(_SHOP)]
    pages += [f"/show/{number}?PHPSESSID={sid}" for number in range(_SHOP)]
    return html("".join(map(link, pages)))


def _subdomains(request: Request, place: Place) -> Answer:
    """Each host links to two more."""
    first, _, rest = request.host.partition(".")
    number = int(first[1:]) if first[1:].isdigit() else 0
    return html("".join(link(place.url(f"n{other}.{rest}", "/")) for other in (2 * number + 1, 2 * number + 2)))


def _loop(request: Request, place: Place) -> Answer:
    following = {"/": "/a", "/a": "/b", "/b": "/c", "/c": "/a"}.get(request.target, "/")
    return plain(302, "", ("Location", following))


def _self_redirect(request: Request, place: Place) -> Answer:
    return plain(301, "", ("Location", request.target), ("Set-Cookie", f"seen={place.requests}; Path=/"))


def _redirects(request: Request, place: Place) -> Answer:
    number = int(request.target.rpartition("/")[2] or 0)
    return plain(307, "", ("Location", f"/hop/{number + 1}"))


def _styles(request: Request, place: Place) -> Answer:
    """Each style sheet imports the next."""
    if request.target == "/":
        return html('<link rel="stylesheet" href="/0.css">')
    number = int(request.target[1:].partition(".")[0])
    return plain(200, f'@import "{number + 1}.css";', kind="text/css")


def _many(request: Request, place: Place) -> Answer:
    """One page with very many links; those who follow one find nothing more."""
    if request.target != "/":
        return html("<p>The end.</p>")
    return html("".join(f'<a href="/leaf/{number}">{number}</a>\n' for number in range(LINKS)))


def _long(request: Request, place: Place) -> Answer:
    """Links and a redirect of 100 KB."""
    if request.target == "/":
        return html(link("/" + "a" * LONG) + link("/?" + "b" * LONG) + link("/moved"))
    if request.target == "/moved":
        return plain(302, "", ("Location", "/" + "c" * LONG))
    return html("<p>Nobody should come here.</p>")


def _deep(request: Request, place: Place) -> Answer:
    """Elements in elements, with a link at the bottom."""
    if request.target != "/":
        return html("<p>The bottom.</p>")
    return html("<div><b>" * (DEEP // 2) + link("/bottom"))


def _private(request: Request, place: Place) -> Answer:
    """A public page that leads to the inside: by redirects to an address and to a name, and by pictures."""
    if request.target == "/":
        pictures = "".join(f'<img src="{url}/picture">' for url in _inside(place))
        return html(link("/by-address") + link("/by-name") + pictures)
    address, name = _inside(place)
    return plain(302, "", ("Location", f"{address if request.target == '/by-address' else name}/secret"))


def _inside(place: Place) -> tuple[str, str]:
    return place.url(place.private, ""), place.url("inside.trap.test", "")


MAZES = (
    Lure("calendar", "months without end", _calendar, _years, "/calendar/2026/11/"),
    Lure(
        "agenda",
        "one path with queries without end",
        _query_calendar,
        lambda job: min(job.traps.query_variants_max, job.traps.host_urls_max) + 1,
        "/agenda",
    ),
    Lure(
        "path-repeat",
        "relative links that make paths longer",
        _repeat,
        lambda job: min(job.traps.host_urls_max, 2 ** (2 * job.traps.segment_repeats_max + 2)),
        "/news/",
    ),
    Lure("session", "few pages, each link with a new session id", _session, lambda job: 2 * _SHOP + 1),
    Lure("subdomains", "hosts without end", _subdomains, lambda job: job.traps.hosts_max + 1),
    Lure("redirect-loop", "redirects in a circle", _loop, lambda job: 5),
    Lure("self-redirect", "a redirect to itself", _self_redirect, lambda job: 2),
    Lure("redirects", "redirects without end", _redirects, lambda job: job.fetch.redirects_max + 2, "/hop/0"),
    Lure("css-chain", "style sheets without end", _styles, lambda job: job.traps.embed_hops_max + 3),
    Lure("many-links", "a page with 100,000 links", _many, lambda job: min(LINKS, job.traps.host_urls_max) + 1),
    Lure("long-urls", "URLs of 100 KB", _long, lambda job: 2),
    Lure("deep", "100,000 elements in each other", _deep, lambda job: 2),
    Lure("private", "leads to a private address", _private, lambda job: 3),
)
