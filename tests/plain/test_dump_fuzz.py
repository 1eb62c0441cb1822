"""Folders, .npz and manifests cut and changed at random: a verdict, or one line that names the file; never anything else."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from qverify.cli.main import main

SLOW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
VALUES = {"y": np.arange(60, dtype=np.float32).reshape(3, 4, 5), "z": np.arange(60, dtype=np.int8)}
JUNK = (
    b"\0",
    b"\xff" * 8,
    b"-",
    b"9" * 30,
    b"[",
    b"{",
    b'"',
    b"1e999",
    b"NaN",
    b"(",
    b"../",
    b"PK\x03\x04",
    b"PK\x01\x02",
)
ODD: tuple[Any, ...] = (None, True, -1, 1 << 70, 1.5, "", "x", [], {}, [[]], {"a": 1}, "\ud800", "a\0b", "\0.npy")


def spoiled(data: st.DataObject, held: bytes) -> bytes:
    found = bytearray(held)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(found)))
        way = data.draw(st.sampled_from(("cut", "flip", "junk", "drop")))
        if way == "cut":
            found = found[:at]
        elif way == "flip" and at < len(found):
            found[at] ^= 1 << data.draw(st.integers(0, 7))
        elif way == "junk":
            found[at:at] = data.draw(st.sampled_from(JUNK))
        elif way == "drop":
            del found[at : at + data.draw(st.integers(1, 20))]
    return bytes(found)


def turned(data: st.DataObject, held: Any) -> Any:
    """A JSON value, one place of it changed."""
    if data.draw(st.integers(0, 5)) == 0:
        return data.draw(st.sampled_from(ODD))
    if isinstance(held, dict) and held:
        key = data.draw(st.sampled_from(sorted(held)))
        return {k: turned(data, v) if k == key else v for k, v in held.items()}
    if isinstance(held, list) and held:
        at = data.draw(st.integers(0, len(held) - 1))
        return [turned(data, v) if i == at else v for i, v in enumerate(held)]
    return data.draw(st.sampled_from(ODD))


def manifest(data: st.DataObject, held: bytes) -> bytes:
    return json.dumps(turned(data, json.loads(held))).encode()


def holds(words: list[str], file: Path, change: Callable[[st.DataObject, bytes], bytes]) -> None:
    whole, named = file.read_bytes(), {file.name, file.parent.name, "0000.npy"}

    @SLOW
    @given(st.data())
    def run(data: st.DataObject) -> None:
        file.write_bytes(change(data, whole))
        out, errors = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(errors):
            status = main(words)
        said = errors.getvalue()
        assert status in (0, 1, 2, 3) and "internal error" not in said, said
        if status == 2:
            assert said.count("\n") == 1 and any(name in said for name in named), said

    run()


@pytest.fixture
def dumps(tmp_path: Path) -> Path:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for at, values in enumerate(VALUES.values()):
            np.save(tmp_path / name / f"{at:04d}.npy", values)
        listed = {"0000.npy": "y", "0001.npy": "z"}
        text = json.dumps({"side": "simulator", "state": "complete", "inputs": ["0" * 64], "tensors": listed})
        (tmp_path / name / "manifest.json").write_text(text)
        np.savez_compressed(tmp_path / f"{name}.npz", **VALUES)
        (tmp_path / f"{name}_raw").mkdir()
        (tmp_path / f"{name}_raw" / "y.raw").write_bytes(VALUES["y"].tobytes())
        entry = {"name": "y", "file": "y.raw", "dtype": "float32", "shape": [3, 4, 5], "offset": 0}
        (tmp_path / f"{name}_raw" / "dump.json").write_text(json.dumps({"tensor": [entry]}))
    return tmp_path


@pytest.mark.parametrize("change", [spoiled, manifest])
@pytest.mark.parametrize("file", ["b/manifest.json", "b_raw/dump.json"])
def test_manifests(file: str, change: Callable[[st.DataObject, bytes], bytes], dumps: Path) -> None:
    folder = file.split("/")[0]
    holds(["compare", str(dumps / folder.replace("b", "a", 1)), str(dumps / folder)], dumps / file, change)


@pytest.mark.parametrize("file", ["b/0000.npy", "b_raw/y.raw", "b.npz"])
def test_arrays(file: str, dumps: Path) -> None:
    name = file.split("/")[0]
    holds(["compare", str(dumps / name.replace("b", "a", 1)), str(dumps / name)], dumps / file, spoiled)


def test_an_input(digits: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", image=np.zeros((1, 1, 8, 8), np.float32))
    words = ["-m", str(digits / "digits_quant.onnx"), "-i", str(tmp_path / "in.npz")]
    holds(words, tmp_path / "in.npz", spoiled)
