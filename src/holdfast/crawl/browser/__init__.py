"""Pages in a real browser (`--browser`): Chromium through Playwright, with one way to the network.

    open_browser   a Browser, or its substitute on machines without one                             open
    Browser        takes pages, a few at a time, and delivers their parts and then themselves       browser
      Tab          one Chromium, which shows one page after the other                               tab, chromium
        NetworkGate  intercepts every request of that Chromium; our own Fetcher makes it            network
          BrowserRobots  robots.txt, for what pages request                                         robots
        Visit      a page while it is shown: its pending requests and their results                 visit
        Rendering  load, wait, scroll, wait; then links, screenshot, rendered page and text         render

Chromium has no network access: its only proxy is a closed port, and names do not resolve. Its requests are fetched like
all others, so limits, cookies and the policy on addresses apply, and captures are exactly what the servers sent. Each
tab is a process, so every request belongs to the page it shows.

The page itself is fetched first, when it is its host's turn. It is shown only if it turns out to be HTML: downloads,
redirects and errors need no browser, and a browser that fails costs nothing except the parts it would have found.

Delivered, in this order: the page's requests (`part`), resources made from the page (`part`, with `resource` set), and
the page, which is neither and ends the job. Late parts follow it.
"""
