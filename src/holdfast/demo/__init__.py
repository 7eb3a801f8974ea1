"""The small web site that `holdfast demo` crawls, and the server that serves it on loopback."""
