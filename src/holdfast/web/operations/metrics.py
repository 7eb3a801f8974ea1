"""For those who run the server: `/health`, `/status`, `/metrics`.

What all workers counted together, and what the archive holds. All of it is cheap: totals stand in the catalog, figures
of volumes are asked for at most once a second, and not for long.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from holdfast import __version__
from holdfast.catalog import Total
from holdfast.crawl.crawls import crawls
from holdfast.errors import HoldfastError, VolumeDown
from holdfast.web.auth.tokens import may_read
from holdfast.web.context import WebContext
from holdfast.web.server.counters import BUCKETS_S, KINDS, NAMES, Counters

_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_UNCACHED = {"Cache-Control": "no-store"}
_GAUGES = {
    "connections_open": "Connections that are open.",
    "in_flight": "Requests that are being answered.",
}
_VOLUME_GAUGES = {
    "blocks": "Blocks in a volume.",
    "content_bytes": "Bytes of the contents in a volume.",
    "disk_bytes": "Bytes that a volume takes.",
    "dead_bytes": "Bytes of a volume that compaction would give back.",
    "free_bytes": "Bytes that a volume has room for.",
    "outstanding": "Requests that wait for a volume.",
}
_MEANINGS = {
    "cache_hits": "Rewritten answers that were in the cache.",
    "cache_misses": "Rewritten answers that were not.",
    "errors": "Requests that failed by an error of the server.",
    "connections": "Connections that were made.",
    "connections_refused": "Connections beyond the limit.",
    "timeouts": "Requests that did not come in time.",
    "stalls": "Clients that did not read.",
    "captures_missing": "URLs that are not in the archive.",
    "fuzzy_matches": "URLs that were found without a cache-busting parameter.",
    "writes": "Captures taken in.",
    "queries_cut": "Queries that took too long.",
    "access_log_lost": "Lines of the access log that were lost.",
}


def routes(site: WebContext) -> list[Route]:
    async def on_health(request: Request) -> Response:
        return await health(site)

    async def on_status(request: Request) -> Response:
        may_read(site, request)
        return JSONResponse(await run_in_threadpool(status, site), headers=_UNCACHED)

    async def on_metrics(request: Request) -> Response:
        may_read(site, request)
        text = await run_in_threadpool(metrics, site)
        return Response(text, media_type=_TEXT, headers=_UNCACHED)

    return [Route("/health", on_health), Route("/status", on_status), Route("/metrics", on_metrics)]


# -- health ------------------------------------------------------------------------------------------------------------


async def health(site: WebContext) -> Response:
    """`ok`, or 503 and why not. It needs no token: those who watch over a server have none."""
    try:
        await run_in_threadpool(_require_readable, site)
    except (HoldfastError, OSError) as error:
        return PlainTextResponse(f"{error}\n", 503, headers=_UNCACHED)
    return PlainTextResponse("ok\n", headers=_UNCACHED)


def _require_readable(site: WebContext) -> None:
    site.standing.require_same()
    site.archive.catalog.totals()
    for name, reason in site.archive.instance.down.items():
        raise VolumeDown(f"volume {name!r} is down: {reason}")


# -- status ------------------------------------------------------------------------------------------------------------


def status(site: WebContext) -> dict[str, Any]:
    """What `/status` tells."""
    counters = site.counters
    collections = _totals(site)
    started = min(filter(None, (counters.of_worker(row, "started") for row in range(counters.workers))), default=0)
    return {
        "version": __version__,
        "uptime_s": max(0, int(time.time()) - started) if started else 0,
        "workers": [_worker(counters, row) for row in range(counters.workers)],
        "requests": sum(count for _, _, count in counters.requests()),
        "collections": {name: total._asdict() for name, total in collections.items()},
        "captures": sum(total.captures for total in collections.values()) if site.access.is_open else None,
        **_stored(site),
        "crawls_running": [each.name for each in crawls(site.archive.path) if each.running],
    }


def _totals(site: WebContext) -> dict[str, Total]:
    """By collection. With access rules there are none: they would tell of what is excluded."""
    return site.archive.catalog.totals()[0] if site.access.is_open else {}


def _worker(counters: Counters, row: int) -> dict[str, int]:
    names = ("pid", "started", "connections_open", "in_flight", "memory_bytes", "restarts")
    return {name: counters.of_worker(row, name) for name in names}


def _stored(site: WebContext) -> dict[str, int]:
    reports = site.volumes.reports()
    stats = [report.stat for report in reports if report.stat is not None]
    return {
        "contents": sum(stat.blocks for stat in stats),
        "content_bytes": sum(stat.content_bytes for stat in stats),
        "referenced_bytes": sum(stat.referenced_bytes for stat in stats),
        "stored_bytes": sum(stat.stored_bytes for stat in stats),
        "volumes_up": len(stats),
        "volumes_down": len(reports) - len(stats),
    }


# -- metrics -----------------------------------------------------------------------------------------------------------


def metrics(site: WebContext) -> str:
    """What `/metrics` tells, in the text format of Prometheus."""
    return "\n".join([*_traffic(site.counters), *_workers(site.counters), *_holdings(site), ""])


def _traffic(counters: Counters) -> Iterator[str]:
    rows = ((f'{{kind="{kind}",status="{name}"}}', count) for kind, name, count in counters.requests())
    yield from _family("requests_total", "counter", "Requests that were answered.", rows)
    sizes = ((f'{{kind="{kind}"}}', counters.total(f"{kind}.bytes")) for kind in KINDS)
    yield from _family("response_bytes_total", "counter", "Bytes of bodies that were sent.", sizes)
    yield from _head("request_seconds", "histogram", "Time from the head of a request to the end of its answer.")
    for kind in KINDS:
        yield from _histogram(counters, kind)
    for name in NAMES:
        yield from _family(f"{name}_total", "counter", _MEANINGS[name], [("", counters.total(name))])
    for name, meaning in _GAUGES.items():
        yield from _family(name, "gauge", meaning, [("", counters.total(name))])


def _histogram(counters: Counters, kind: str) -> Iterator[str]:
    counts = counters.latencies(kind)
    if not sum(counts):
        return
    below = 0
    for bound, count in zip((*BUCKETS_S, "+Inf"), counts, strict=True):
        below += count
        yield f'holdfast_request_seconds_bucket{{kind="{kind}",le="{bound}"}} {below}'
    yield f'holdfast_request_seconds_sum{{kind="{kind}"}} {counters.total(f"{kind}.microseconds") / 1e6:.6f}'
    yield f'holdfast_request_seconds_count{{kind="{kind}"}} {below}'


def _workers(counters: Counters) -> Iterator[str]:
    rows = range(counters.workers)
    memory = [(f'{{worker="{row}"}}', counters.of_worker(row, "memory_bytes")) for row in rows]
    yield from _family("worker_memory_bytes", "gauge", "Resident memory of a worker.", memory)
    restarts = [(f'{{worker="{row}"}}', counters.of_worker(row, "restarts")) for row in rows]
    yield from _family("worker_restarts_total", "counter", "Times that a worker died and was started again.", restarts)


def _holdings(site: WebContext) -> Iterator[str]:
    captures = ((f'{{collection="{name}"}}', total.captures) for name, total in _totals(site).items())
    yield from _family("captures", "gauge", "Captures in the archive.", captures)
    for name, value in _stored(site).items():
        yield from _family(name, "gauge", f"As /status has it: {name.replace('_', ' ')}.", [("", value)])
    yield from _volumes(site)


def _volumes(site: WebContext) -> Iterator[str]:
    """One row for each volume; one that is down has no other figures."""
    found = site.volumes.listing()
    up = ((f'{{volume="{each["name"]}"}}', int(each["up"])) for each in found)
    yield from _family("volume_up", "gauge", "Whether a volume answers.", up)
    for name, meaning in _VOLUME_GAUGES.items():
        rows = ((f'{{volume="{each["name"]}"}}', each[name]) for each in found if each["up"])
        yield from _family(f"volume_{name}", "gauge", meaning, rows)


def _family(name: str, kind: str, meaning: str, rows: Iterable[tuple[str, int]]) -> Iterator[str]:
    yield from _head(name, kind, meaning)
    for labels, value in rows:
        yield f"holdfast_{name}{labels} {value}"


def _head(name: str, kind: str, meaning: str) -> Iterator[str]:
    yield f"# HELP holdfast_{name} {meaning}"
    yield f"# TYPE holdfast_{name} {kind}"
