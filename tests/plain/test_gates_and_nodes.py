"""No gate excuses a node of a dump that is not what its own recorded inputs give: within the scope it is FAILED, outside of it
named."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.tensors.recording import Array

from tests.plain.test_compare_locates import LOGITS, MODEL, RELU1, RELU2, board, compare, host, plus, save

__all__ = ["host"]
MILD = ("--min-cosine", "0.5")
FAILS = f"{RELU2} fails when recomputed from its recorded inputs"


def test_a_gate_does_not_pass_a_node_of_a_dump(host: dict[str, Array]) -> None:
    report = compare("host", save(board(host, {RELU2: plus(3)})), *MILD)
    assert (report["verdict"], report["pairs"][0]["cause"], report["pairs"][0]["why"]) == ("FAILED", "node", FAILS)
    assert [(b["side"], b["node"]) for b in report["blamed"]] == [("B", RELU2)]


def test_relax_board_names_the_node_instead(host: dict[str, Array]) -> None:
    report = compare("host", save(board(host, {RELU2: plus(3)})), *MILD, "--relax-board")
    assert report["verdict"] == "PASSED" and not report["blamed"]
    assert FAILS in report["pairs"][0]["relaxed"]


def test_a_node_outside_the_scope_is_named(host: dict[str, Array]) -> None:
    report = compare("host", save(board(host, {RELU2: plus(3)})), *MILD, "--outputs-only")
    assert report["verdict"] == "PASSED" and FAILS in report["pairs"][0]["relaxed"]
    assert any(FAILS in caveat for caveat in report["caveats"])


def test_a_final_output_that_its_own_integers_contradict_fails(host: dict[str, Array]) -> None:
    """The final output is right, and the integers that it is made of, which the scope does not contain, are not."""
    tensors = dict(host)
    tensors["prob_QuantizeLinear_Output"] = plus(3)(host["prob_QuantizeLinear_Output"])
    report = compare("host", save(tensors), "--outputs-only")
    assert report["verdict"] == "FAILED"
    assert report["pairs"][0]["why"] == "prob fails when recomputed from its recorded inputs"


@pytest.mark.parametrize(("option", "verdict"), [("True", "FAILED"), ("False", "PASSED")])
def test_a_dump_in_the_boards_place(host: dict[str, Array], option: str, verdict: str) -> None:
    np.save("x.npy", np.random.default_rng(1).random((1, 1, 8, 8)).astype(np.float32))
    assert main(["infer", "-m", MODEL, "-o", "own", "--side", "reference", "-i", "x.npy"]) == 0
    names = json.loads(Path("own/manifest.json").read_text())["tensors"]
    own = {name: np.load(f"own/{file}") for file, name in names.items()}
    path = save(board(own, {RELU2: plus(3)}))
    main(["-q", "-m", f"{MODEL},{path}", "-i", "x.npy", "--json", "report.json", "-r", option, *MILD])
    pair = json.loads(Path("report.json").read_text())["pairs"][1]
    assert pair["verdict"] == verdict and FAILS in [pair["why"], *pair["relaxed"]]


def test_what_recomputing_cannot_tell_is_named_beside_the_gate(host: dict[str, Array]) -> None:
    """All between the first convolution and the last layer is missing, which is off by one step, up and down in turns."""
    tensors = board(host, {})
    sign = np.where(np.arange(10) % 2, 1, -1).reshape(host[LOGITS].shape)
    tensors[LOGITS] = (tensors[LOGITS].astype(int) + sign).clip(0, 255).astype(host[LOGITS].dtype)
    left_out = tuple(n for n in tensors if n not in (RELU1, LOGITS, "prob") and "image" not in n and "prob" not in n)
    whole = save({n: v for n, v in host.items() if n not in left_out}, "a.npz")
    report = compare(whole, save(tensors, leave_out=(*left_out, "prob")), *MILD)
    said = "judged by the gate alone, as recomputing it does not tell roundings from faults"
    assert any(said in text for text in report["pairs"][0]["relaxed"]), report["pairs"][0]


def test_a_first_node_that_differs_is_open_under_any_gate(host: dict[str, Array]) -> None:
    """The dump lacks the quantized input, so that the device's input is as likely wrong as its first convolution."""
    np.save("x.npy", np.random.default_rng(1).random((1, 1, 8, 8)).astype(np.float32))
    assert main(["infer", "-m", MODEL, "-o", "own", "--side", "reference", "-i", "x.npy"]) == 0
    names = json.loads(Path("own/manifest.json").read_text())["tensors"]
    own = {name: np.load(f"own/{file}") for file, name in names.items() if not name.startswith("image")}
    largest = own[RELU1].reshape(*own[RELU1].shape[:2], 4, 2, 4, 2).max((3, 5), keepdims=True)
    spread = np.broadcast_to(largest, (*largest.shape[:3], 2, 4, 2)).reshape(own[RELU1].shape).astype(int)
    own[RELU1].flat[np.flatnonzero(own[RELU1] + 9 < spread)[0]] += 9  # which the maximum of its window does not show
    path = save(own)
    words = ["-m", f"{MODEL},{path}", "-i", "x.npy", "--json", "report.json", "-r", "True"]
    assert main([*words, "--min-sqnr", "10"]) == 3
    pair = json.loads(Path("report.json").read_text())["pairs"][1]
    assert (pair["verdict"], pair["cause"]) == ("INCONCLUSIVE", "not_judged")
    assert f"{RELU1} differs and cannot be judged when recomputed" in pair["why"]
