"""The archive over HTTP: replay for people, interfaces for programs (W17, H8, I10).

What flows in: requests on two ports. What flows out: captures as they were (`id_`), captures rewritten so that every
link and every part of a page comes from the archive too, pages for people, and JSON, CDX, Memento and streams for
programs.

    request ──► server/    sockets, workers, limits
                   │
                   ▼
                  app      which origin, which target ─────► ui/, api/, cdx/, memento/, stream/, write/
                   │ request: collection, time, modifier, URL
                   ▼
                capture/   access rules; the capture for the time; status, headers and payload of it or its original
                   ▼
                rewrite/   HTML, CSS, scripts, manifests, headers; `runtime` continues in the browser
                   ▼
                 response, with its Memento headers

`context` is what the handlers of a worker share. `auth/` decides who may read and write.

Guarantees. Archived scripts run on a separate origin. They reach neither the pages with controls nor the live web:
rewriting, a runtime in the page, a service worker and browser policies each enforce that. Only `write/` writes to the
archive, and needs a token. What an access rule excludes appears nowhere.
"""
