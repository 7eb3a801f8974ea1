"""A browser that runs no scripts is shown archived pages as well (W17)."""

from __future__ import annotations

from hostile_pages import NEWS, TIME
from replay_browser import LOOK_MS, PATIENCE_MS, Stage, archived, needs_browser

pytestmark = needs_browser


def test_w17_the_frame_is_filled_without_scripts(stage: Stage) -> None:
    context = stage.browser.new_context(java_script_enabled=False)
    try:
        page = context.new_page()
        page.goto(f"{stage.served.controls}/main/{TIME}/{NEWS}/markup")
        for _ in range(PATIENCE_MS // LOOK_MS):
            frames = page.main_frame.child_frames
            if frames and archived(frames[0]) == f"{NEWS}/markup":
                break
            page.wait_for_timeout(LOOK_MS)
        assert archived(page.main_frame.child_frames[0]) == f"{NEWS}/markup"
    finally:
        context.close()
