"""Triage on the shipped bad cases: the right rung, the known culprit first; on another runtime's dumps nobody is blamed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qverify.cli.main import main

from tests.conftest import MODELS, need_models
from tests.models.test_inputs_end_to_end import IMAGES, MBV1, YUNET

pytestmark = need_models()
BAD = MODELS / "bad"
DUMPS = ("ad_toycar_tfl_opt", "ad_toycar_tfl_ref", "kws_mlperf_int8_tfl_ref", "resnet8_cifar10_tfl_opt",
         "resnet8_cifar10_tfl_ref", "vww_96_tfl_ref")  # fmt: skip


def triage(tmp_path: Path, *words: object) -> tuple[int, dict[str, Any]]:
    out = tmp_path / "triage.json"
    status = main(["triage", *map(str, words), "--json", str(out)])
    return status, json.loads(out.read_text())


def described(folder: Path, words: str) -> Path:
    """The options of `inputs prepare` as a description file."""
    given = words.split()
    table = dict(zip((w.removeprefix("--") for w in given[::2]), given[1::2], strict=True))
    wide, high = table.pop("size").split("x")
    lines = [f"size = [{wide}, {high}]"]
    lines += [f"{k} = {v if k in ('mean', 'scale') else repr(v)}" for k, v in table.items()]
    path = folder / "inputs.toml"
    path.write_text("[inputs.input]\n" + "\n".join(lines).replace("'", '"') + "\n")
    return path


@pytest.mark.parametrize(
    ("case", "culprits", "kind"),
    [
        ("onelayer_obj16", ["obj_16"], "few_clipped"),
        ("onelayer_220", ["220"], "few_clipped"),
        ("objheads", ["obj_8", "obj_16", "obj_32"], "few_clipped"),
        ("blackcalib", ["obj_8", "obj_16", "obj_32"], "clipped"),
    ],
)
def test_yunet(case: str, culprits: list[str], kind: str, tmp_path: Path) -> None:
    models = f"{MODELS}/yunet_n_320/yunet_n_320.onnx,{BAD}/yunet_{case}_u8s8_qdq.onnx"
    more = ("-b", "local", "-i", IMAGES / "face.jpg", "--description", described(tmp_path, YUNET))
    status, found = triage(tmp_path, "-m", models, *more)
    assert (status, found["broken"], found["rungs"][0]["kind"]) == (1, "float ~ reference", kind)
    assert sorted(row["tensor"] for row in found["losses"][: len(culprits)]) == sorted(culprits)
    assert [r["verdict"] for r in found["rungs"][1:]] == ["PASSED", "PASSED"] and not found["unpaired"]


@pytest.mark.parametrize(
    ("case", "first", "kind"), [("pertensor", "conv_dw_", "weights"), ("rawcalib", "input", "input_range")]
)
def test_mobilenet(case: str, first: str, kind: str, tmp_path: Path) -> None:
    models = f"{MODELS}/mbv1_025_224/mbv1_025_224.onnx,{BAD}/mbv1_025_224_{case}_u8s8_qdq.onnx"
    more = ("-b", "local", "-i", IMAGES / "parrot.jpg", "--description", described(tmp_path, MBV1))
    status, found = triage(tmp_path, "-m", models, *more)
    assert (status, found["broken"], found["rungs"][0]["kind"]) == (1, "float ~ reference", kind)
    assert found["losses"][0]["tensor"].startswith(first)
    assert [r["verdict"] for r in found["rungs"][1:]] == ["PASSED", "PASSED"]


def test_the_converter_that_lost_biases(tmp_path: Path) -> None:
    models = f"{MODELS}/kwt1/kwt1.onnx,{BAD}/kwt1_tf2onnx_lostbias_float.onnx"
    status, found = triage(tmp_path, "-m", models)
    assert (status, found["broken"]) == (1, "float ~ float2")
    rung = found["rungs"][0]
    assert (rung["first_divergence"]["tensor"], rung["kind"], rung["not_forced"]) == ("blk0.ffn1", "node", 0)
    assert rung["forced_failures"] == [f"blk{block}.ffn{half}" for block in range(12) for half in (1, 2)]


@pytest.mark.parametrize("folder", ["yunet_n_320", "mbv1_025_224"])
def test_the_good_ones_hold(folder: str, tmp_path: Path) -> None:
    models = f"{MODELS}/{folder}/{folder}.onnx,{MODELS}/{folder}/{folder}_u8s8_qdq.onnx"
    image, words = ("face.jpg", YUNET) if folder.startswith("yunet") else ("parrot.jpg", MBV1)
    more = ("-i", IMAGES / image, "--description", described(tmp_path, words))
    assert triage(tmp_path, "-m", models, *more)[0] == 0


@pytest.mark.parametrize("name", DUMPS)
@pytest.mark.parametrize("spoiled", [False, True])
def test_litert_is_blamed_only_where_it_is_spoiled(name: str, spoiled: bool, tmp_path: Path) -> None:
    with np.load(MODELS / "golden" / f"{name}.npz") as held:
        tensors = {n: held[n] for n in held.files}
    np.save(tmp_path / "x.npy", tensors.pop("__input_float"))
    node = [n for n in tensors if n.endswith("_QuantizeLinear_Output")][3]
    if spoiled:
        tensors[node] = np.where(tensors[node] > 0, tensors[node] - 3, tensors[node] + 3)
    np.savez(tmp_path / "dump.npz", **tensors)
    folder = name[: name.index("_tfl")]
    model = MODELS / folder / f"{folder}_tfl_int8_qdq.onnx"
    status, found = triage(tmp_path, "-m", f"{model},{tmp_path}/dump.npz", "-i", tmp_path / "x.npy")
    rung = found["rungs"][-1]
    assert rung["not_forced"] == 0 and (rung["blame"] is not None) == spoiled == (status == 1)
    if spoiled:
        assert rung["blame"]["node"] == node


@pytest.mark.parametrize("photo", ["cat.jpg", "hot_dog.jpg", "sunflower.jpg"])
def test_a_good_network_with_nothing_to_see(photo: str, tmp_path: Path) -> None:
    """No face: whole outputs below one LSB, whose cosine tells nothing; nobody is accused, and nothing is PASSED by it."""
    models = f"{MODELS}/yunet_n_320/yunet_n_320.onnx,{MODELS}/yunet_n_320/yunet_n_320_u8s8_qdq.onnx"
    more = ("-i", IMAGES / photo, "--description", described(tmp_path, YUNET))
    status, found = triage(tmp_path, "-m", models, *more)
    assert (status, found["broken"], found["rungs"][0]["kind"]) == (3, None, "too_small")
