"""Writing over HTTP: captures and WARC files received, and the one thread that adds them."""
