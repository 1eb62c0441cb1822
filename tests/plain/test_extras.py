"""A library that only some inputs need, and that is not there: one line with the command that installs it."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image
from qverify.cli.main import main
from qverify.errors import MissingExtraError
from qverify.extras import EXTRAS, import_extra
from qverify.inputs import picture

from tests.test_layering import imports

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DISTRIBUTIONS = {
    "PIL": "pillow",
    "cv2": "opencv-python-headless",
    "ai_edge_litert": "ai-edge-litert",
    "serial": "pyserial",
    "google_crc32c": "google-crc32c",
    "multipart": "python-multipart",
    "skimage": "scikit-image",
    "prometheus_client": "prometheus-client",
}
WITH_ANOTHER = {"google": "onnx", "cryptography": "paramiko"}  # what comes with a dependency
INSTALL = "pip install 'qverify[images]'"

Block = Callable[[str], None]


@pytest.fixture
def block(monkeypatch: pytest.MonkeyPatch) -> Block:
    """Returns a function that makes a library one that is not installed."""

    def blocked(name: str) -> None:
        for module in [m for m in sys.modules if m.partition(".")[0] == name]:
            monkeypatch.delitem(sys.modules, module)
        monkeypatch.setitem(sys.modules, name, None)

    return blocked


@pytest.fixture
def photo(tmp_path: Path) -> str:
    path = tmp_path / "photo.png"
    Image.fromarray(np.arange(32 * 32 * 3, dtype=np.uint8).reshape(32, 32, 3)).save(path)
    return str(path)


def deep_photo(tmp_path: Path) -> str:
    """Returns a colour picture of 16 bits per channel."""
    path = str(tmp_path / "deep.png")
    cv2.imwrite(path, np.arange(32 * 32 * 3, dtype=np.uint16).reshape(32, 32, 3))
    return path


def prepare(path: str, tmp_path: Path, *options: str) -> int:
    words = ["--format", "rgb", "--size", "16x16", "--train", "rgb", *options]
    return main(["inputs", "prepare", path, "-o", str(tmp_path / "out"), *words])


@pytest.mark.parametrize(
    "library, options, what",
    [
        ("PIL", (), "a picture"),
        ("cv2", ("--library", "cv2"), "resizing with library cv2"),
        ("cv2", ("--format", "nv12", "--library", "pillow", "--mode", "opencv"), "colour mode opencv"),
    ],
)
def test_prepare_names_the_extra(library, options, what, block, photo, tmp_path, capsys):
    block(library)
    assert prepare(photo, tmp_path, *options) == 2
    printed = capsys.readouterr().err
    assert what in printed and f"needs {EXTRAS[library][0]}; {INSTALL}" in printed and printed.count("\n") == 1


def test_pillow_alone_suffices_where_nothing_is_asked_of_opencv(block, photo, tmp_path):
    block("cv2")
    assert prepare(photo, tmp_path, "--library", "pillow") == 0


def test_resizing_an_array_with_pillow_names_the_extra(block, tmp_path, capsys):
    np.save(tmp_path / "photo.npy", np.zeros((32, 32, 3), np.uint8))
    block("PIL")
    assert prepare(str(tmp_path / "photo.npy"), tmp_path, "--library", "pillow") == 2
    assert f"resizing with library pillow needs Pillow; {INSTALL}" in capsys.readouterr().err


def test_sixteen_bit_colours_name_the_extra(block, tmp_path):
    path = str(tmp_path / "deep.png")
    cv2.imwrite(path, np.arange(32 * 32 * 3, dtype=np.uint16).reshape(32, 32, 3))
    assert picture.read(path).shape == (32, 32, 3)
    block("cv2")
    with pytest.raises(
        MissingExtraError, match=r"deep\.png: a picture of 16 bits per channel needs OpenCV; pip install"
    ):
        picture.read(path)


def test_showing_what_was_prepared_names_the_extra(block, photo, tmp_path, capsys):
    assert prepare(photo, tmp_path) == 0
    block("PIL")
    assert main(["inputs", "show", str(tmp_path / "out"), "-o", str(tmp_path / "shown")]) == 2
    assert capsys.readouterr().err.rstrip().endswith(f"needs Pillow; {INSTALL}")


def test_a_mistake_that_cannot_be_tried_is_not_left_out_in_silence(block, photo, tmp_path, capsys):
    fed = tmp_path / "fed.bin"
    fed.write_bytes(bytes(range(256)) * 4)
    block("cv2")
    wanted = ["--format", "gray", "--size", "32x32", "--train", "gray", "--library", "pillow"]
    assert main(["inputs", "diff", photo, str(fed), *wanted]) == 2
    assert f"gray conversion by OpenCV needs OpenCV; {INSTALL}" in capsys.readouterr().err


def test_a_library_that_cannot_be_loaded_is_quoted(block, tmp_path, monkeypatch):
    block("cv2")
    monkeypatch.delitem(sys.modules, "cv2")
    monkeypatch.syspath_prepend(tmp_path)
    for program, said in (
        (
            "raise ImportError('libGL.so.1: cannot open shared object file')",
            "cannot be loaded: libGL.so.1: cannot open",
        ),
        ("import a_library_of_cv2", "lacks a_library_of_cv2; pip install"),
    ):
        (tmp_path / "cv2.py").write_text(program)
        with pytest.raises(MissingExtraError, match=f"x needs OpenCV, which {said}"):
            import_extra("cv2", "x")


def test_every_library_is_a_dependency_or_of_an_extra():
    """What is imported is installed with qverify; what is not, is of EXTRAS, by the extra's name in pyproject.toml."""
    names = {re.split(r"[^\w-]", d)[0] for d in PROJECT["dependencies"]}
    plugin = PROJECT["entry-points"]["pytest11"]["qverify"].replace(".", "/")  # read by pytest alone
    for path in [*(ROOT / "verifier" / "qverify").rglob("*.py"), *(ROOT / "agents" / "qverify_agents").rglob("*.py")]:
        for name in imports(path):
            top = name.partition(".")[0]
            if path.match(f"{plugin}.py") and top == "pytest":
                continue
            if path.match("tflite_model/run_litert.py") and top in EXTRAS:
                continue  # a program of its own, started once import_extra() has found the library
            if top not in sys.stdlib_module_names and top not in ("qverify", "qverify_agents"):
                assert {DISTRIBUTIONS.get(top, top), WITH_ANOTHER.get(top)} & names, f"{path}: {name}"
    for top, (_, extra) in EXTRAS.items():
        wanted = [re.split(r"[^\w-]", d)[0] for d in PROJECT["optional-dependencies"][extra]]
        assert DISTRIBUTIONS.get(top, top) in wanted


def test_doctor_lists_extras_and_what_the_processor_does(capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor"])
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("ok     processor: ") for line in lines)
    assert any("products of uint8 by int8" in line for line in lines)
    assert {extra for _, extra in EXTRAS.values()} == {
        line.split("extra ")[1].partition(":")[0] for line in lines if line[7:].startswith("extra ")
    }
