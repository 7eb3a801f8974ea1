"""Fetching: everything that a crawl requests from servers goes through here.

    job ─▶ politeness (is it its turn?) ─▶ dns (where is it, and may we ask there?) ─▶ transfer (libcurl) ─▶ fetched

It runs in its own process, which only moves bytes: it decodes nothing and reads nothing but the head.

Guarantees. A host never gets more than `per_host` requests at a time, nor one sooner than its delay after the last
one ended, nor one before the time its Retry-After names; the same holds, less strictly, for an address that many
hosts share.

A connection goes to the very address that was checked, so no name can lead to a private network other than those of
`FetcherStart.private_networks`. No server sets a cookie beyond its own domain. What is passed on is
what was sent: the request's bytes, the response's head as received, the body with only the transfer-encoding
removed. An incomplete body is marked. Sizes and times are bounded, whatever a server does.

Jobs of a host that pauses for more than half a minute are returned, so that they take no room from others.
A response that cannot be written to disk is `Outcome.NO_SPACE`, which says nothing about the page.

    politeness   which host is next, and how long a 429 or 503 pauses it: pure logic, times are passed in
    addresses    DNS, and which addresses are allowed
    cookies      the cookie jar
    request      the request message
    response     the head received, what failures mean, and what TLS agreed on
    transfer     libcurl handles on one event loop; bounded bodies
    fetcher      all of it behind `submit` and `fetch`
    process      the child process, and its non-blocking frames to others
"""
