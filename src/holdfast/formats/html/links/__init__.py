"""Links: what a response points to, as a browser would understand it.

    Document        URL, headers and content of a response
       │
       ├─ header_fields      Link, Location, Content-Location, Refresh
       └─ by its type
            ├─ html          elements with their attributes (microsyntax: srcset, refresh); <base>; forms; and within:
            ├─ css           url(), src(), image-set(), @import
            └─ script        what looks like a URL in JavaScript and JSON; imports
       │
    References      texts as written, by hop; without repeats, bounded
       │
       └─ join               against the URL of the document or its <base>, in its encoding
       │
    list[Link]      absolute, canonical, http or https, each URL once with its strongest hop

Hops, the strongest first: REDIRECT (Location of a 3xx, refresh), EMBED (what a browser loads by itself), LINK (what a
person may follow), RELATION (what <link>, <meta> and fields of the header state, and nobody clicks on), FORM (a GET
form, sent as it comes), SPECULATIVE (what scripts may load). `links_of`, for those who fetch, gives a RELATION as a
LINK.

Guarantees: nothing here raises, whatever the bytes; time and memory grow no faster than the content, of which at most
`PAGE_BYTES_MAX` or `SCRIPT_BYTES_MAX` bytes are read; at most `LINKS_MAX` links are given, the strongest. The
document itself is not among them for those who fetch (`links_of`), unless it redirects to itself; it is in the link
graph (`links_of_page`, `links_of_fields`), unless only a fragment refers to it. No state is kept: any thread may call.
"""
