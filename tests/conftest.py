"""Where the real models, emulators and binaries are; every skip has its reason."""

from __future__ import annotations

import shutil
import signal
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


def pytest_configure() -> None:
    """A shell that starts pytest in the background has it ignore Ctrl-C, and so would every program the tests press it on."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--board",
        action="append",
        default=[],
        metavar="URI",
        help="run tests/conformance/test_every_place.py over this board too (may be repeated)",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`where` runs over every kind of board, and the ones the tester names."""
    if "where" in metafunc.fixturenames:
        from tests.board_kinds import NAMES

        named = [*NAMES, *metafunc.config.getoption("--board")]
        metafunc.parametrize("where", named, indirect=True, scope="session")


@pytest.fixture(scope="session")
def where(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """A Place (places.py), started once for all tests over it; skipped where this machine lacks what it needs."""
    from tests.board_kinds import Unavailable, place

    try:
        opened = place(request.param, tmp_path_factory.mktemp("place"))
        found = opened.__enter__()
    except Unavailable as error:
        pytest.skip(str(error))
    yield found
    opened.__exit__(None, None, None)
