"""The volumes page: activity, space and fragmentation (B5).

GET /volumes    the table of `holdfast volume list`; with scripts, it refreshes itself
"""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from holdfast.web.context import WebContext
from holdfast.web.ui.render import render


async def volumes(site: WebContext, request: Request) -> Response:
    volumes = await run_in_threadpool(site.volumes.listing)
    totals = {
        name: sum(each[name] for each in volumes if each["up"])
        for name in ("blocks", "disk_bytes", "free_bytes", "dead_bytes", "outstanding")
    }
    usage = await run_in_threadpool(site.volumes.usage)
    down = [each for each in volumes if not each["up"]]
    return render(site, request, "volumes.html", volumes=volumes, totals=totals, down=down, usage=usage)
