"""Fetching: the one door through which a crawl asks servers for anything.

    job ─▶ politeness (is it its turn?) ─▶ dns (where is it, and may we ask there?) ─▶ transfer (libcurl) ─▶ fetched

It runs in a process of its own, which only moves bytes: it decodes nothing and looks into nothing but the head.

Guarantees. A host is never asked by more than `per_host` fetches at a time, nor sooner than its delay after the last
one ended, nor before the time that it asked us to wait for; the same holds, less strictly, for an address that many
hosts share.

A connection goes to the very address that was checked, so no name can lead to a private network but to those that the
crawl was told of (`FetcherStart.private_networks`). No server sets a cookie beyond its own domain. What is handed on is
what was sent: the request's bytes, the response's head as it came, the body with nothing but the transfer-encoding
removed. A body that was not complete says so. Sizes and times are bounded, whatever a server does.

What waits for a host that is left alone for more than half a minute is given back, so that it keeps no place of others.
What cannot be written down here is `Outcome.NO_SPACE`, which says nothing about the page.

    politeness   whose turn it is: pure logic, times are passed in
    waiting      what a server's 429 or 503 asks for
    addresses    which addresses may be asked
    dns          names to addresses, remembered for a while
    cookies      what servers asked to be given back
    request      the message sent
    response     the head received, and what failures mean
    tls          what was agreed on for a connection
    body         what comes in, bounded
    handle       one libcurl handle, used again and again
    transfer     many handles on one event loop
    fetcher      all of it behind `submit` and `fetch`
    outlet       frames to other processes, never waiting for them
    process      the child process
"""
