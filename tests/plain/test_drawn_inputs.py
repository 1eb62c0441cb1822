"""The inputs that are drawn of many frames: those of the worst ones."""

from __future__ import annotations

import numpy as np
import pytest
from qverify.printable import visible
from qverify.renderers.html_page.page import render
from qverify.report.document import Verdict
from qverify.report.drawings import InputDrawing
from qverify.session.drawn_inputs import MAX_FRAMES, DrawnInputs

from tests.plain.test_report_formats import Page
from tests.plain.test_report_pages import failed


def run(verdicts: list[Verdict], picture: int = 8) -> list[InputDrawing]:
    """Adds a frame for each verdict; later ones have more tensors that fail."""
    kept, noise = DrawnInputs(), np.random.default_rng(0)
    for at, verdict in enumerate(verdicts):
        report = failed()
        pixels = noise.integers(0, 256, (picture, picture, 3), np.uint8)
        report.input_drawings = [InputDrawing("image", "uint8", (1, 3, picture, picture), pixels, None, "RGB")]
        row = {"frame": at, "source": f"<b>{at}.png", "verdict": verdict, "failing": at, "max_abs": None}
        kept.add(report, row)
        assert report.input_drawings == []
    return kept.worst()


@pytest.mark.parametrize(
    ("verdicts", "frames"),
    [
        (["PASSED", "INCONCLUSIVE", "FAILED", "PASSED"], [2, 1]),
        (["PASSED"] * 3, [2]),
        (["FAILED"] * (MAX_FRAMES + 3), [8, 7, 6, 5, 4, 3]),
        ([], []),
    ],
)
def test_those_of_the_worst_frames_are_kept(verdicts, frames):
    assert [(one.frame, one.source) for one in run(verdicts)] == [(at, f"<b>{at}.png") for at in frames]


def test_each_says_its_frame_and_together_they_leave_room():
    report = failed()
    report.frames = [
        {
            "frame": at,
            "source": f"{at}.png",
            "verdict": "FAILED",
            "why": "",
            "failing": 1,
            "max_abs": None,
            "board": None,
        }
        for at in range(MAX_FRAMES)
    ]
    report.input_drawings = run(["FAILED"] * MAX_FRAMES, picture=224)
    text = render(visible(report))
    page = Page(text)
    shown = "".join(page.text)
    pictures = [str(a["alt"]) for tag, a in page.tags if tag == "img"]
    assert pictures[0] == "the input image, frame 5: <b>5.png, as a picture" and 2 <= len(pictures) < MAX_FRAMES
    assert f"{MAX_FRAMES - len(pictures)} more would make the page too large" in shown
    assert "Inputs of the worst frames" in shown and len(text) < 1_500_000
