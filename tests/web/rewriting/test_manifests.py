"""Players of streamed media find their segments in the archive (W17)."""

from __future__ import annotations

import pytest
from script_snippets import SCENE

from holdfast.web.rewrite.content import rewrite_dash, rewrite_hls

AT = "/main/20240102030405im_/"


def test_w17_hls_addresses_lead_into_the_archive() -> None:
    source = (
        b"#EXTM3U\r\n#EXT-X-VERSION:7\r\n"
        b'#EXT-X-KEY:METHOD=AES-128,URI="https://keys.example/k?a=1",IV=0x1\r\n'
        b'#EXT-X-MAP:URI="/init.mp4"\r\n'
        b'#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="a",NAME="URI=x",URI="//cdn.example/audio.m3u8"\r\n'
        b"#EXTINF:4.0,\r\nhttps://cdn.example/1.ts\r\n#EXTINF:4.0,\r\nseg/2.ts\r\n"
        b"#EXTINF:4.0,\r\n/3.ts  \r\n#EXT-X-ENDLIST\r\n"
    )
    assert rewrite_hls(source, SCENE).decode() == (
        "#EXTM3U\r\n#EXT-X-VERSION:7\r\n"
        f'#EXT-X-KEY:METHOD=AES-128,URI="{AT}https://keys.example/k?a=1",IV=0x1\r\n'
        f'#EXT-X-MAP:URI="{AT}https://news.example/init.mp4"\r\n'
        f'#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="a",NAME="URI=x",URI="{AT}https://cdn.example/audio.m3u8"\r\n'
        f"#EXTINF:4.0,\r\n{AT}https://cdn.example/1.ts\r\n#EXTINF:4.0,\r\nseg/2.ts\r\n"
        f"#EXTINF:4.0,\r\n{AT}https://news.example/3.ts  \r\n#EXT-X-ENDLIST\r\n"
    )


def test_w17_dash_addresses_lead_into_the_archive() -> None:
    source = (
        b'<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011"><BaseURL> https://cdn.example/v/ </BaseURL>'
        b"<Location>//cdn.example/m.mpd?a=1&amp;b=2</Location><BaseURL>video/</BaseURL>"
        b'<SegmentTemplate media="https://cdn.example/$Number$.m4s?x=1&amp;y=2" initialization="init.mp4"/>'
        b"<SegmentURL media='/s1.m4s'/></MPD>"
    )
    assert rewrite_dash(source, SCENE).decode() == (
        '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011">'
        f"<BaseURL> {AT}https://cdn.example/v/ </BaseURL>"
        f"<Location>{AT}https://cdn.example/m.mpd?a=1&amp;b=2</Location><BaseURL>video/</BaseURL>"
        f'<SegmentTemplate media="{AT}https://cdn.example/$Number$.m4s?x=1&amp;y=2" initialization="init.mp4"/>'
        f'<SegmentURL media="{AT}https://news.example/s1.m4s"/></MPD>'
    )


@pytest.mark.parametrize("text", [b"", b"<html>https://a.example/", b"https://a.example/x.ts", b"\xff\xfe\x00"])
def test_w17_what_is_no_manifest_stays(text: bytes) -> None:
    assert rewrite_hls(text, SCENE) == text
    assert rewrite_dash(text, SCENE) == text


@pytest.mark.parametrize("piece", [b"<BaseURL>", b"<BaseURL ", b' media="', b"\n \t", b'\n#URI="', b"<BaseURL>  "])
def test_w17_hostile_repetition_of_manifests_is_read_in_one_pass(piece: bytes) -> None:
    assert rewrite_hls(b"#EXTM3U\n" + piece * 20_000, SCENE)
    assert rewrite_dash(b"MPD" + piece * 20_000, SCENE)
