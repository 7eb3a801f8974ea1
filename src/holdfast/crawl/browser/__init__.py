"""Pages in a real browser (`--browser`): Chromium through Playwright, with one way to the network.

    open_browser   a Browser, or what stands in where there is none                                 open
    Browser        takes pages, a few at a time, and delivers their parts and then themselves       browser
      Tab          one Chromium, which shows one page after the other                               tab, chromium
        NetworkGate  every request of that Chromium passes here, and is made by our own Fetcher     network
          BrowserRobots  robots.txt, for what pages request                                         robots
        Visit      a page while it is shown: what it waits for, what it has led to                  visit
        Rendering  load, wait, scroll, wait; then links, screenshot, rendered page and text         render

Chromium has no network of its own: its only proxy is a port at which nobody answers, and names do not resolve. What it
requests is fetched as everything else is, so that limits, cookies and the policy on addresses hold, and what is kept is
what the servers sent. Each tab is a process of its own: so everything that it requests belongs to the page it shows.

A page itself is fetched first, when it is its host's turn. It is shown only if it turns out to be HTML: downloads,
redirects and errors need no browser, and a browser that fails costs nothing but what it would have found.

What is delivered: first what the page requested (`part`), then what was made of it (`part`, and `resource` says what),
last the page, the only one that is neither, and that ends the job. Parts that come too late come after it.
"""
