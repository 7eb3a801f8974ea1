"""The CDX server, in the dialects of pywb, OutbackCDX and the Internet Archive."""
