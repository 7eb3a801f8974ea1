"""A capture found by URL and time, and sent: rewritten, raw, or as a download.

    URL, time ──► find ──► the capture for the time, as access rules allow
                    │
                    ▼
                 response    status, headers and payload, for every kind of record
                    │
                    ├─ render      rewritten by kind, or as it was; with its policy (`csp`) and Memento headers
                    └─ downloads   one record, or a WARC file of the results of a query

    cache        kept between requests: responses in memory, large payloads in files

Guarantees: captures that an access rule excludes or blocks are never sent. The policy of an archived response confines
it to the archive. A payload of another length than announced is an error, never a short response.
"""
