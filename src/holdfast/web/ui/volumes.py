"""Volumes, for people: what they are doing, how full and how fragmented they are (B5).

GET /volumes    the table of `holdfast volume list`; with scripts, it follows by itself
"""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.web.context import WebContext
from holdfast.web.ui.render import render


def routes(site: WebContext) -> list[Route]:
    async def overview(request: Request) -> Response:
        site.tokens.require_read(request)
        volumes = await run_in_threadpool(site.volumes.listing)
        totals = {
            name: sum(each[name] for each in volumes if each["up"])
            for name in ("blocks", "disk_bytes", "free_bytes", "dead_bytes", "outstanding")
        }
        down = [each for each in volumes if not each["up"]]
        return render(site, request, "volumes.html", volumes=volumes, totals=totals, down=down)

    return [Route("/volumes", overview)]
