"""Every diagram of the documents, drawn anew."""

from __future__ import annotations

from pathlib import Path

from scripts.documents import floors_diagram, sequence_diagram
from scripts.documents.blocks import ROOT
from tests import test_layering

IMAGES = ROOT / "docs" / "images"


def every() -> dict[Path, str]:
    """File of docs/images/ to its text as it must be today."""
    return {
        IMAGES / "floors.svg": floors_diagram.draw(test_layering.FLOORS, test_layering.SPEAK_TO_BOARDS),
        IMAGES / "main-job.svg": sequence_diagram.draw(),
    }
