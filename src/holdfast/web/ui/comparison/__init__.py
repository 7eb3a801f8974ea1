"""Two captures compared: what a page said, linked to and was sent with, then and later (N9).

    two captures ──► side       status, headers and decoded content of each; if it cannot be read, the reason
                       │
                       ├─ text       main text by lines, and by words within changed lines, in bounded time
                       └─ compare    links added, removed, kept; status and header fields; the whole
                       ▼
                     Comparison  as a value, and as JSON

Guarantees: time and memory are bounded for any bytes. If a limit was reached, the result says so; it is still a correct
difference, but not the shortest. `compare_captures` needs no server; `compare` finds the captures as replay does, under
the same access rules.
"""
