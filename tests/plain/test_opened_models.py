"""The files of -m are read, parsed and digested once each."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from qverify.cli.main import main
from qverify.compiler import compile_model as compiling
from qverify.compiler.compile_model import compile_model
from qverify.errors import BadFileError, UsageError
from qverify.model_bin.records import decode, encode
from qverify.session import model_file as opening
from qverify.session.model_claims import differing_parameters
from qverify.session.models import open_models, parse_shapes
from qverify.session.other_jobs.demo import write_example

from tests.plain.test_light_model import products


def files(folder: Path, external: bool = False) -> list[str]:
    """The paths of a quantized ONNX and of the model.bin that it compiles to."""
    paths, model = [str(folder / "m.onnx"), str(folder / "m.bin")], products(2)
    Path(paths[1]).write_bytes(encode(compile_model(model.SerializeToString(), "m.onnx").graph))
    onnx.save(model, paths[0], save_as_external_data=external, location="m.data", size_threshold=1)
    return paths


def never(*_: Any) -> None:
    pytest.fail("parsed again")


def test_an_onnx_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = files(tmp_path)
    for module in (compiling, opening):
        monkeypatch.setattr(module, "parse", never)
    models = open_models(paths)
    contents = [Path(p).read_bytes() for p in paths]
    assert [row["sha256"] for row in models.rows] == [hashlib.sha256(data).hexdigest() for data in contents]
    assert models.binary_sha256 == models.rows[1]["sha256"] and models.original == contents[0]
    assert models.compiled is not None and models.compiled.graph is models.graph


def test_a_model_compiled_in_memory_has_a_digest_too(tmp_path: Path) -> None:
    models = open_models(files(tmp_path)[:1])
    assert models.binary_sha256 == hashlib.sha256(models.binary).hexdigest()
    assert models.compiled is not None
    assert models.compiled.graph.meta["source_sha256"] == models.rows[0]["sha256"]


def test_external_data_is_part_of_what_is_digested(tmp_path: Path) -> None:
    paths = files(tmp_path, external=True)
    models = open_models(paths[:1])
    assert models.original is not None and not any(
        i.external_data for i in onnx.ModelProto.FromString(models.original).graph.initializer
    )
    assert models.rows[0]["sha256"] == hashlib.sha256(models.original).hexdigest()
    assert models.compiled is not None
    assert compile_model(models.original, "m.onnx").integer_onnx == models.compiled.integer_onnx


@pytest.mark.parametrize("data", [b"", b"\x0a\x00", b"no model at all"])
def test_what_is_no_onnx_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "m.onnx").write_bytes(data)
    with pytest.raises(BadFileError, match="not an ONNX"):
        open_models([str(tmp_path / "m.onnx")])


def test_parameters_that_the_onnx_does_not_compile_to_are_stated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An input that does not use them gives the right values in every tensor."""
    write_example(str(tmp_path))
    quantized, image = str(tmp_path / "digits_quant.onnx"), str(tmp_path / "zero.npy")
    graph = compile_model(Path(quantized).read_bytes(), "digits_quant.onnx").graph
    np.save(image, np.zeros((1, 1, 8, 8), np.float32))
    weights = next(n for n, value in graph.constants.items() if value.ndim == 4)
    graph.constants[weights] = graph.constants[weights] ^ 0x55
    (tmp_path / "other.bin").write_bytes(encode(graph))
    assert main(["-m", f"{quantized},{tmp_path}/other.bin", "-b", "local", "-i", image, "-r"]) == 0
    stated = f"parameters of model.bin differ from what its ONNX compiles to ({weights}), judged only as far as these inputs use them"
    lines = [line for line in capsys.readouterr().out.splitlines() if "Strict check PASSED" in line]
    assert len(lines) == 3 and all(stated in line for line in lines)


def test_words_and_constants_that_differ_are_found() -> None:
    known = compile_model(products(2).SerializeToString(), "m.onnx").graph
    changed = decode(encode(known))
    assert differing_parameters(changed, known) == []
    node, (name, value) = known.nodes[-1], next(iter(known.constants.items()))
    changed.nodes[-1] = replace(node, words=(*node.words, 1))
    changed.constants[name] = value.reshape(1, *value.shape)
    assert differing_parameters(changed, known) == [name, node.name]
    del changed.constants[name]
    assert differing_parameters(changed, known) == [name, node.name]


def test_dims_are_parsed_with_commas_or_crosses():
    assert parse_shapes(("a=1,3,224,224", "b=1x3", "c:0=7")) == {"a": (1, 3, 224, 224), "b": (1, 3), "c:0": (7,)}
    for bad in ("a=1xx3", "a=x", "=1", "a=-1x3", "1,3"):
        with pytest.raises(UsageError, match="wanted NAME=1,3,224,224"):
            parse_shapes((bad,))
