"""Fetching: every request of a crawl is made here.

    job ─▶ politeness (is it its turn?) ─▶ addresses (DNS; is it allowed?) ─▶ transfer (libcurl) ─▶ fetched

It runs in its own process, which only moves bytes: it decodes nothing and parses only response heads.

Guarantees. A host never gets more than `per_host` requests at a time, and none before its delay since the end of the
last one, or before the time of its Retry-After. The same holds, less strictly, for an address that many hosts share.

A connection goes to exactly the address that was checked, so no name can lead to a private network other than those of
`FetcherStart.private_networks`. No server sets a cookie beyond its own domain. Requests and responses are passed on
exactly: the request's bytes, the response's head as received, the body without its transfer-encoding. An incomplete
body is marked. Sizes and times are bounded, whatever a server does.

Jobs of a host that pauses for more than half a minute are returned, to make room for others. A response that cannot be
written to disk is `Outcome.NO_SPACE`, which says nothing about the page.

    politeness   which host is next, and how long a 429 or 503 pauses it: pure logic, times are passed in
    addresses    DNS, and the policy on addresses
    cookies      the cookie jar
    request      the request message
    response     the head received, the meaning of failures, the parameters of TLS
    transfer     libcurl handles on one event loop; bounded bodies
    fetcher      all of it behind `submit` and `fetch`
    process      the child process, and its non-blocking connections to others
"""
