"""A capture found by URL and time, and sent: rewritten, raw, or as a download.

    URL, time ──► find ──► the capture that stands for the time, as access rules allow
                    │
                    ▼
                 response    status, headers and payload, whatever kind of record it came in
                    │
                    ├─ render      rewritten by kind, or as it was; with its policy (`csp`) and Memento headers
                    └─ downloads   one record, or a WARC file of what a query finds

    cache        replies in memory, large payloads in files: what is kept between requests

Guarantees: nothing is sent that an access rule excludes or blocks. Every archived response carries a policy under which
it can reach nothing but the archive. A payload of another length than announced is an error, never a short response.
"""
