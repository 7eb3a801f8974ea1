"""A seeded, hostile, local web: many hosts on loopback addresses, served by a process of its own.

    from hostile_web import Web, checks

    with Web(seed=1, hosts=6, pages=3000).serving() as served:
        crawl(served.seeds, resolve=served.resolve)             # any crawler; no name is looked up outside
        assert captured == served.web.reachable()               # to the last URL
        assert not checks.disallowed(served.log(), served.web)  # by the server's own log

        changed = served.change(share=0.1)                      # then crawl again

The pages are computed from the seed when they are asked for: any number of them costs no memory, and the same seed
gives the same web. `served.web` is the web as it stands: what is `reachable`, `forbidden`, or `changed`, which status
is the `expected_status`; `robots_urls` and `sitemap_urls`, which are not counted as reachable; `traps`, each with its
entry and the number of requests that a crawl with limits makes there at most; `live`, the page that a script builds.

    hosts ─▶ graph ─▶ pages ─▶ site ─┐         who there is; who links to whom; in which words; how it is sent
               └────▶ survey          ├─▶ server ─▶ log ─▶ checks
             mazes, broken ─▶ traps ──┤
                              live ───┘

Guarantees: the server binds to 127.0.1.* and 127.0.2.1 only. It ends with its block, and with the process that started
it, however that ends. Its log has every request, in the order of arrival, with the bytes that were sent.
"""

from __future__ import annotations

from hostile_web import checks
from hostile_web.exchange import LogEntry
from hostile_web.generator import Served, Web
from hostile_web.traps import SANE, Trap

__all__ = ["SANE", "LogEntry", "Served", "Trap", "Web", "checks"]
