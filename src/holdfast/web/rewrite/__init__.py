"""Rewriting: archived responses changed so that a browser finds everything they refer to in the archive.

    addresses    a reference ──► its address in the archive; used by all others
       │
       ├─ html        pages, as they stream through: markup, elements
       ├─ css         style sheets, and styles within pages
       ├─ javascript  scripts and modules
       └─ headers     the fields of the response, with cookies

    content      a capture's payload ──► the rewritten payload and its Content-Type, by kind; HLS and DASH manifests

`formats.html.links`, which crawls use too, finds URLs in CSS, `srcset`, refreshes and elements. Bytes that need no
change are kept. Nothing here raises, whatever the bytes. Rewriting makes pages look right; origins, the content
security policy and the service worker keep requests within the archive.
"""
