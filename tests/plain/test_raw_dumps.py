"""Folders of raw files without a description: those of `qvrt infer`, and NAME.bin with --dtype or -m."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.model_bin.records import decode
from qverify.sides.dumps.qvrt_dump import read_qvrt_dump
from qverify_agents.binaries import host_architecture, runtime_path

OUTPUT, NODE = "model_infer_output_0_prob.bin", "node_3_relu2_QuantizeLinear_Output.bin"


@pytest.fixture
def model_bin(digits: Path, tmp_path: Path) -> Path:
    out = tmp_path / "m.bin"
    assert main(["compile", str(digits / "digits_quant.onnx"), "-o", str(out)]) == 0
    return out


@pytest.fixture
def host(model_bin: Path, tmp_path: Path) -> Path:
    """The simulator's tensors of the same input as qvrt's."""
    np.save(tmp_path / "x.npy", np.random.default_rng(1).random((1, 1, 8, 8), np.float32))
    words = ["infer", "-m", str(model_bin), "-i", str(tmp_path / "x.npy"), "-o", str(tmp_path / "host")]
    assert main(words) == 0
    return tmp_path / "host"


@pytest.fixture
def dump(host: Path, model_bin: Path) -> Callable[..., Path]:
    def run(*more: str) -> Path:
        """Returns the folder that qvrt wrote with these options."""
        np.load(host.parent / "x.npy").tofile(host.parent / "x.bin")
        folder = host.parent / "board"
        folder.mkdir()
        files = [f"--model_file={model_bin}", f"--input_file={host.parent / 'x.bin'}", f"--dump_path={folder}"]
        command = [str(runtime_path(host_architecture())), "infer", *files, *more]
        done = subprocess.run(command, capture_output=True, check=True, timeout=60)
        if "--digests" in more:
            (folder / "digests.txt").write_bytes(done.stdout)
        return folder

    return run


LEVELS = (
    ("--dump_intermediate=1",),
    ("--dump_intermediate=2", "--enable_dump"),
    ("--dump_intermediate=3", "--enable_dump", "--digests"),
    ("--dump_intermediate=1", "--remove_padding_process"),
)


@pytest.mark.parametrize("more", LEVELS, ids=lambda m: m[0][-1] + str(len(m)))
def test_what_qvrt_writes_is_read_with_the_model(more, dump, host, model_bin, capsys):
    folder = dump(*more)
    assert main(["compare", "-m", str(model_bin), str(host), str(folder)]) == 0
    shown = capsys.readouterr().out
    assert "8 of 8 tensors" in shown and "bit-equal" in shown and "does not state model and inputs" in shown
    assert ("not read" in shown) == (more[0][-1] in "23")


def _change(path: Path) -> None:
    path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:])


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _link(path: Path) -> None:
    path.rename(path.parents[1] / "elsewhere")
    path.symlink_to(path.parents[1] / "elsewhere")


BROKEN: dict[str, tuple[Callable[[Path], object], int, str]] = {
    "another value": (lambda f: _change(f / NODE), 1, "FAILED (relu2"),
    "no file": (lambda f: (f / NODE).unlink(), 3, "no file of it in the dump"),
    "too short": (lambda f: (f / NODE).write_bytes(bytes(255)), 3, "255 bytes, wanted 256;"),
    "too long": (lambda f: (f / NODE).write_bytes(bytes(1 << 20)), 3, "257 bytes, wanted 256;"),
    "a pipe": (lambda f: _pipe(f / NODE), 3, "not a regular file"),
    "a link": (lambda f: _link(f / NODE), 3, "Too many levels of symbolic links"),
    "two files that differ": (lambda f: _change(f / OUTPUT), 3, "as a node's output and as an output of the model"),
    "another name": (lambda f: (f / NODE).rename(f / "node_3_relu3.bin"), 3, "belongs to no compared tensor"),
    "another node": (lambda f: shutil.copy(f / NODE, f / "node_77_x.bin"), 3, "belongs to no compared tensor"),
    "a digest of two runs": (
        lambda f: (f / "digests.txt").write_text(2 * f"{7:016x} relu2_QuantizeLinear_Output 5\n"),
        3,
        "twice",
    ),
    "an unlike digest": (
        lambda f: (f / "digests.txt").write_text(f"{7:016x} relu2_QuantizeLinear_Output 5\n"),
        3,
        "do not match the digest",
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_dump_of_qvrt_that_is_not_whole_never_passes(kind, dump, host, model_bin, capsys):
    folder = dump("--dump_intermediate=1", "--enable_dump")
    alter, status, said = BROKEN[kind]
    alter(folder)
    assert main(["compare", "-m", str(model_bin), str(host), str(folder)]) == status
    assert said in " ".join(capsys.readouterr().out.split()), kind


def test_padding_is_read_and_two_runs_in_one_folder_are_not(tmp_path, model_bin):
    """A graph whose tensors have padding, which no example has."""
    from dataclasses import replace

    graph = decode(model_bin.read_bytes())
    names = graph.observable()
    padded = {n: replace(graph.spec(n), aligned_shape=(*graph.spec(n).shape[:-1], 300)) for n in names}
    graph = replace(graph, tensors={**graph.tensors, **padded})
    for at, name in enumerate(names):
        value = np.full(graph.spec(name).shape, at, graph.spec(name).numpy_dtype)
        (tmp_path / f"node_{at}_{name}.bin").write_bytes(graph.spec(name).aligned_bytes(value))
    side = read_qvrt_dump(str(tmp_path), graph)
    assert side.state == "complete" and all((side.tensors[n] == at).all() for at, n in enumerate(names))
    (tmp_path / f"node_0_{names[0]}.bin").write_bytes(bytes(graph.spec(names[0]).valid_bytes))
    side = read_qvrt_dump(str(tmp_path), graph)
    assert side.state == "did not run" and "two runs in one folder" in side.why and not side.tensors


def raw(folder: Path, **values: np.ndarray) -> str:
    folder.mkdir()
    for name, value in values.items():
        value.tofile(folder / f"{name}.bin")
    return str(folder)


V = np.linspace(-1, 1, 24, dtype=np.float32)


def test_two_raw_folders_compare_by_dtype_alone(tmp_path, capsys):
    a, b = raw(tmp_path / "a", y=V, z=V[:3]), raw(tmp_path / "b", y=V, z=V[:3])
    assert main(["compare", a, b]) == 2
    assert "with --dtype or -m a folder of raw .bin files" in capsys.readouterr().err
    assert main(["compare", a, b, "--dtype", "float32"]) == 0
    assert "2 of 2 tensors, 27 elements compared" in capsys.readouterr().out
    c = raw(tmp_path / "c", y=V + np.float32(0.1), z=V[:3])
    assert main(["compare", a, c, "--dtype", "float32"]) == 1


@pytest.mark.parametrize(
    ("values", "dtype", "said"),
    [
        ({"y": V[:23]}, "float32", "y is missing"),
        ({"y": V, "more": V}, "float32", "more is missing"),
        ({"other": V}, "float32", "is missing"),
        ({"y": V.view(np.uint8)[:95]}, "float32", "95 bytes, which are no whole number of float32"),
        ({"y": V[:0]}, "float32", "0 bytes, which are no whole number"),
        ({"y": V}, "x=float32", "nothing states its type: give --dtype"),
    ],
    ids=["shorter", "one more", "another name", "half an element", "empty", "dtype of another name"],
)
def test_raw_folders_that_are_not_alike_never_pass(values, dtype, said, tmp_path, capsys):
    a, b = raw(tmp_path / "a", y=V), raw(tmp_path / "b", **values)
    assert main(["compare", a, b, "--dtype", dtype]) == 3
    assert said in capsys.readouterr().out


def test_two_empty_raw_files_are_not_equal_tensors(tmp_path):
    a, b = raw(tmp_path / "a", y=V[:0]), raw(tmp_path / "b", y=V[:0])
    assert main(["compare", a, b, "--dtype", "float32"]) == 3


@pytest.mark.parametrize("kind", ["pipe", "link out of the folder"])
def test_raw_files_that_are_none_are_refused(kind, tmp_path, capsys):
    a, b = raw(tmp_path / "a", y=V), raw(tmp_path / "b")
    if kind == "pipe":
        os.mkfifo(tmp_path / "b" / "y.bin")
    else:
        (tmp_path / "b" / "y.bin").symlink_to(tmp_path / "a" / "y.bin")
    assert main(["compare", a, b, "--dtype", "float32"]) == 2
    error = capsys.readouterr().err
    assert ("not a regular file" if kind == "pipe" else "leads out of the folder") in error and error.count("\n") == 1


@pytest.mark.parametrize("real", [False, True], ids=["stored values", "real values"])
def test_raw_files_of_a_model_have_its_shapes_and_scales(real, host, model_bin, tmp_path, capsys):
    from qverify.sides.dumps.array_dump import open_array_dump

    graph = decode(model_bin.read_bytes())
    held = open_array_dump(str(host), "dump").tensors
    values = {n: graph.spec(n).dequantized(v).astype(np.float32) if real else v for n, v in held.items()}
    board = raw(tmp_path / "board", **values)
    words = ["compare", "-m", str(model_bin), str(host), board, *(["--dtype", "float32"] if real else [])]
    assert main(words) == 0
    assert "8 of 8 tensors" in capsys.readouterr().out
    (tmp_path / "board" / "relu2_QuantizeLinear_Output.bin").write_bytes(bytes(1024 + 4))
    assert main(words) == 3
    assert "1028 bytes do not fit" in capsys.readouterr().out


def test_one_folder_twice_is_said(host, tmp_path, capsys):
    (tmp_path / "link").symlink_to(host)
    for other in (host, tmp_path / "link"):
        assert main(["compare", str(host), str(other)]) == 0
        assert "PASSED (A and B are one folder, compared with itself)" in capsys.readouterr().out
    shutil.copytree(host, tmp_path / "copy")
    assert main(["compare", str(host), str(tmp_path / "copy")]) == 0
    assert "compared with itself" not in capsys.readouterr().out
