"""Monitoring: `/health`, `/status`, `/metrics`.

The counters of all workers, and what the archive holds. Cheap: totals are in the catalog, volumes are queried at most
once a second, for at most a second, and disk use is counted at most every ten seconds.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from holdfast import __version__
from holdfast.catalog import Total
from holdfast.crawl.report.crawls import crawls
from holdfast.errors import HoldfastError, VolumeDown
from holdfast.web.context import WebContext
from holdfast.web.server.counters import BUCKETS_S, KINDS, NAMES, Counters

_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_UNCACHED = {"Cache-Control": "no-store"}
_GAUGES = {"connections_open": "Open connections.", "in_flight": "Requests in progress."}
_NODE_GAUGES = {
    "owned": "Partitions that a node fetches for.",
    "held": "Partitions whose records a node holds.",
    "behind": "Partitions that a node holds, and is not in sync with other holders.",
    "free_bytes": "Free on the disk of a node.",
    "dead_bytes": "That compaction of a node would free.",
}
_VOLUME_GAUGES = {
    "blocks": "Blocks in a volume.",
    "content_bytes": "Bytes of the contents in a volume.",
    "disk_bytes": "Bytes of a volume on disk.",
    "dead_bytes": "Bytes that compaction would free.",
    "free_bytes": "Bytes that a volume has left.",
    "outstanding": "Requests waiting for a volume.",
}
_MEANINGS = {
    "cache_hits": "Rewritten responses found in the cache.",
    "cache_misses": "Rewritten responses not found in the cache.",
    "errors": "Requests that failed by an error of the server.",
    "connections": "Connections accepted.",
    "connections_refused": "Connections beyond the limit.",
    "timeouts": "Requests that did not come in time.",
    "stalls": "Clients cut off because they did not read.",
    "captures_missing": "URLs that are not in the archive.",
    "fuzzy_matches": "URLs that were found without a cache-busting parameter.",
    "writes": "Captures added over HTTP.",
    "queries_cut": "Queries ended because they were too large.",
    "access_log_lost": "Lines of the access log that were dropped.",
}


async def status_page(site: WebContext, request: Request) -> Response:
    return JSONResponse(await run_in_threadpool(status, site), headers=_UNCACHED)


async def metrics_page(site: WebContext, request: Request) -> Response:
    return Response(await run_in_threadpool(metrics, site), media_type=_TEXT, headers=_UNCACHED)


async def health(site: WebContext, request: Request) -> Response:
    """`ok`, or 503 and why not. Needs no token: monitors have none."""
    try:
        await run_in_threadpool(_require_readable, site)
    except (HoldfastError, OSError) as error:
        return PlainTextResponse(f"{error}\n", 503, headers=_UNCACHED)
    return PlainTextResponse("ok\n", headers=_UNCACHED)


def _require_readable(site: WebContext) -> None:
    site.identity.require_same()
    site.archive.catalog.totals()
    for name, reason in site.archive.instance.down.items():
        raise VolumeDown(f"volume {name!r} is down: {reason}")


def status(site: WebContext) -> dict[str, Any]:
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
    """By collection. None with access rules: totals would reveal what is excluded."""
    return site.archive.catalog.totals()[0] if site.access.is_open else {}


def _worker(counters: Counters, row: int) -> dict[str, int]:
    names = ("pid", "started", "connections_open", "in_flight", "memory_bytes", "restarts")
    return {name: counters.of_worker(row, name) for name in names}


def _used(site: WebContext) -> dict[str, Any]:
    """Disk use and savings, without what access rules would hide: how much was captured."""
    found = site.volumes.usage().as_dict()
    if not site.access.is_open:
        for name in ("captured_bytes", "unique_bytes", "saved_by_duplicates_bytes"):
            found[name] = None
    return found


def _stored(site: WebContext) -> dict[str, Any]:
    reports = site.volumes.reports()
    stats = [report.stat for report in reports if report.stat is not None]
    return {
        "contents": sum(stat.blocks for stat in stats),
        "referenced_bytes": sum(stat.referenced_bytes for stat in stats),
        **_used(site),
        "volumes_up": len(stats),
        "volumes_down": len(reports) - len(stats),
    }


def metrics(site: WebContext) -> str:
    """The response of `/metrics`, in the text format of Prometheus."""
    return "\n".join([*_traffic(site.counters), *_workers(site.counters), *_holdings(site), ""])


def _traffic(counters: Counters) -> Iterator[str]:
    rows = ((f'{{kind="{kind}",status="{name}"}}', count) for kind, name, count in counters.requests())
    yield from _family("requests_total", "counter", "Requests answered.", rows)
    sizes = ((f'{{kind="{kind}"}}', counters.total(f"{kind}.bytes")) for kind in KINDS)
    yield from _family("response_bytes_total", "counter", "Bytes of response bodies sent.", sizes)
    yield from _head("request_seconds", "histogram", "Time from the head of a request to the end of its response.")
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
    yield from _family("worker_restarts_total", "counter", "Times that a worker was started again.", restarts)


def _holdings(site: WebContext) -> Iterator[str]:
    captures = ((f'{{collection="{name}"}}', total.captures) for name, total in _totals(site).items())
    yield from _family("captures", "gauge", "Captures in the archive.", captures)
    stored = _stored(site)
    parts = ((f'{{part="{part}"}}', size) for part, size in stored.pop("disk").items())
    for name, value in stored.items():
        rows = [("", value)] if value is not None else []
        yield from _family(name, "gauge", f"As in /status: {name.replace('_', ' ')}.", rows)
    yield from _family("disk_part_bytes", "gauge", "Bytes on disk, by what they are for.", parts)
    yield from _volumes(site)
    yield from _nodes(site)


def _volumes(site: WebContext) -> Iterator[str]:
    """One row for each volume; one that is down has no other figures."""
    found = site.volumes.listing()
    up = ((f'{{volume="{each["name"]}"}}', int(each["up"])) for each in found)
    yield from _family("volume_up", "gauge", "Whether a volume responds.", up)
    for name, meaning in _VOLUME_GAUGES.items():
        rows = ((f'{{volume="{each["name"]}"}}', each[name]) for each in found if each["up"])
        yield from _family(f"volume_{name}", "gauge", meaning, rows)


def _nodes(site: WebContext) -> Iterator[str]:
    """In a cluster, one row per node; a node that is down has no figures."""
    found = site.nodes()["nodes"]
    if not found:
        return
    up = ((f'{{node="{each["name"]}"}}', int(each["state"] != "down")) for each in found)
    yield from _family("node_up", "gauge", "Whether a node of the cluster has its lease.", up)
    for name, meaning in _NODE_GAUGES.items():
        rows = ((f'{{node="{each["name"]}"}}', each[name]) for each in found if each.get(name) is not None)
        yield from _family(f"node_{name}", "gauge", meaning, rows)


def _family(name: str, kind: str, meaning: str, rows: Iterable[tuple[str, int]]) -> Iterator[str]:
    yield from _head(name, kind, meaning)
    for labels, value in rows:
        yield f"holdfast_{name}{labels} {value}"


def _head(name: str, kind: str, meaning: str) -> Iterator[str]:
    yield f"# HELP holdfast_{name} {meaning}"
    yield f"# TYPE holdfast_{name} {kind}"
