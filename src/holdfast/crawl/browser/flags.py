"""How Chromium is started: without a network, without habits of its own."""

from __future__ import annotations

_ALWAYS = (
    "--proxy-bypass-list=<-loopback>",  # else it asks this machine without the proxy
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-quic",
    "--dns-prefetch-disable",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-domain-reliability",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-extensions",
    "--no-first-run",
    "--no-pings",
    "--no-default-browser-check",
    "--block-new-web-contents",
    "--deny-permission-prompts",
    "--disable-notifications",
    "--disable-speech-api",
    "--disk-cache-size=1",
    "--mute-audio",
    "--js-flags=--max-old-space-size=512",  # MB, of a renderer
)
UNWANTED = ("--disable-popup-blocking",)  # of those that Playwright gives


def flags(dead_port: int) -> list[str]:
    """`dead_port` is one of this machine at which nobody answers."""
    return [f"--proxy-server=http://127.0.0.1:{dead_port}", *_ALWAYS]
