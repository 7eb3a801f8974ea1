"""`holdfast demo`: a small made-up web site, crawled twice, so that there is something to look at.

`site` serves it on loopback; its prose is in `articles.txt`, in three languages.
"""
