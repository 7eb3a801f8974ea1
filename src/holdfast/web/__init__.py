"""The archive's face: what people and programs ask over HTTP, and what they are shown (W17, H8, I10).

What flows in: requests on two sockets. What flows out: captures as they were (`id_`), captures rewritten so that every
link and every part of a page comes from the archive too, pages for people, and answers for programs.

    request ──► server/   sockets, workers, limits
                   │
                   ▼
                 app      which origin, which target ──────────► pages/, api/, cdx_server, memento, operations
                   │ target: collection, time, modifier, URL
                   ▼
                 finding  access rules; the nearest capture; cache-busting parameters
                   ▼
                 reading  status, headers and payload of the capture, of its original if it is a revisit
                   ▼
                 rewriting/   HTML, CSS, scripts, manifests, headers
                   ▼
                 replaying    the answer, with its Memento headers

Guarantees. Archived scripts run on an origin of their own, and reach neither the pages with controls nor the live web:
rewriting, a runtime in the page, a service worker, and the browser's own policies each see to it. Nothing here writes
to the archive but `writing`, and that with a token only. What an access rule excludes is not shown anywhere.
"""
