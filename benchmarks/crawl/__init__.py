"""`python -m benchmarks crawl`: one local site, crawled by Holdfast and by the crawlers that people use today.

A directory of pages goes in. `site` makes a web site of it once for a run, `rewriting` turns the pages' own links into
links within the site; `server` puts nginx before it, fresh for every crawl, with a log of what was asked for.
`crawlers` knows how each is started at its fastest, `tree` runs it and charges it for all its processes. The server's
log says what was really fetched: a crawl that missed a page of the site has no figure. Figures come back, `target`
judges them, `report` and `chart` show them. `frontier` measures Holdfast's own frontier with very many URLs, without
any server.

All crawlers are run as programs, Holdfast too, from the command line, and none is imported.
"""
