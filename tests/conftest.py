"""Where the real models, emulators and binaries are; every skip has its reason."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MODELS = ROOT.parent / "shared" / "models"


def real_models() -> list[Path]:
    return sorted(p for p in MODELS.glob("*/*_q*.onnx") if p.parent.name != "bad")


@pytest.fixture(scope="session")
def digits() -> Path:
    """Folder of the packaged example."""
    return ROOT / "verifier" / "qverify" / "example"


def need_models() -> pytest.MarkDecorator:
    return pytest.mark.skipif(not real_models(), reason="the real models (../shared/models) are not beside the project")


def need_qemu(name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        shutil.which(f"qemu-{name}-static") is None and shutil.which(f"qemu-{name}") is None,
        reason=f"qemu-{name} is not on this machine",
    )
