"""Queries and indexing beside bare tantivy: the same documents, the same words, and nothing around it.

archive of a crawl ──► workers: text ──► index build         beside tantivy given the same text
                  └──► index ──► query: hits, facets, snippets beside tantivy's own searcher on the same files
"""
