"""Draws every diagram of the documents."""

from __future__ import annotations

from pathlib import Path

from scripts.documents import floors_diagram, sequence_diagram
from scripts.documents.blocks import ROOT
from tests import test_layering, test_layering_c

IMAGES = ROOT / "docs" / "images"
FLOORS = test_layering.FLOORS


def every() -> dict[Path, str]:
    """Returns the current text of every diagram, by path in docs/images/."""
    runtime = tuple(tuple(room.removeprefix("src/") for room in rooms) for rooms in test_layering_c.FLOORS)
    return {
        IMAGES / "floors.svg": floors_diagram.draw_host_tool(FLOORS["qverify"], test_layering.SPEAK_TO_BOARDS),
        IMAGES / "floors-agents.svg": floors_diagram.draw_tree("agents/qverify_agents", FLOORS["qverify_agents"]),
        IMAGES / "floors-runtime.svg": floors_diagram.draw_tree("board_runtime", runtime),
        IMAGES / "main-job.svg": sequence_diagram.draw(),
    }
