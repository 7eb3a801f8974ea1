"""The page of a cluster's nodes: state, partitions, space and requests (B5).

GET /nodes    the table of `holdfast nodes`; with scripts, it refreshes itself
"""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from holdfast.web.context import WebContext
from holdfast.web.ui.render import render


async def nodes(site: WebContext, request: Request) -> Response:
    table = await run_in_threadpool(site.nodes)
    down = [each for each in table["nodes"] if each["state"] == "down"]
    return render(site, request, "nodes.html", table=table, down=down)
