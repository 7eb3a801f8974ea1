"""The archive over HTTP: replay for people, interfaces for programs (W17, H8, I10).

In: requests on two ports. Out: captures as they were (`id_`), captures rewritten so that links and parts of a page come
from the archive too, pages for people, and JSON, CDX, Memento and streams for programs.

    request ──► server/    sockets, workers, limits
                   │
                   ▼
                  app      which origin, which target ─────► ui/, api/, memento/
                   │ request: collection, time, modifier, URL
                   ▼
                replay/    access rules; the capture for the time; status, headers and payload of it or its original
                   ▼
                rewrite/   HTML, CSS, scripts, manifests, headers; `runtime` continues in the browser
                   ▼
                 response, with its Memento headers

The handlers of a worker share a `context`. `auth/` decides who may read and write. In a cluster, `answers` and
`forward` reach the other nodes.

Guarantees. Archived scripts run on a separate origin. They reach neither the pages with controls nor the live web:
rewriting, a runtime in the page, a service worker and browser policies each enforce that. Only `api/write/` writes to
the archive, and it needs a token. A capture that an access rule excludes appears nowhere.
"""
