"""Col2Im (torch's Fold), written out: the values of onnxruntime for every form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.ops.qdq import Qdq
from tests.plain.test_attention_past import assert_same_values
from tests.plain.verified_model import refused, verified

FORMS: dict[str, tuple[list[int], list[int], dict[str, Any]]] = {  # image, block
    "apart": ([6, 4], [2, 2], {"strides": [2, 2]}),
    "overlapping": ([5, 6], [3, 2], {"pads": [1, 0, 1, 1]}),
    "gaps": ([7, 7], [1, 2], {"strides": [3, 2]}),
    "dilated": ([7, 6], [2, 3], {"dilations": [2, 1], "pads": [0, 1, 1, 0]}),
    "line": ([9], [3], {"strides": [2], "pads": [1, 1]}),
    "volume": ([4, 3, 4], [2, 2, 1], {"strides": [1, 1, 2]}),
}


def columns(image: list[int], block: list[int], attributes: dict[str, Any]) -> int:
    rank, count = len(image), 1
    strides, dilations, pads = (
        attributes.get(n, [v] * k) for n, v, k in (("strides", 1, rank), ("dilations", 1, rank), ("pads", 0, 2 * rank))
    )
    for a in range(rank):
        count *= (image[a] + pads[a] + pads[a + rank] - dilations[a] * (block[a] - 1) - 1) // strides[a] + 1
    return count


def folded(m: Qdq, form: str, quantized: bool = False) -> None:
    image, block, attributes = FORMS[form]
    m.opset = 18
    x = m.op("Tanh", [m.input((2, 3 * int(np.prod(block)), columns(image, block, attributes)))])
    at = len(m.constants)
    sizes = [m.constant(f"{n}{at}", np.array(v, np.int64)) for n, v in (("image", image), ("block", block))]
    y = m.op("Col2Im", [m.quantize(x) if quantized else x, *sizes], **attributes)
    m.output(m.quantize(y) if quantized else y)


@pytest.mark.parametrize("form", FORMS)
def test_values_are_those_of_onnxruntime(form: str) -> None:
    m = Qdq(seed=3)
    folded(m, form)
    assert_same_values(m)


@pytest.mark.parametrize("quantized", [False, True])
def test_a_fold_is_verified(quantized: bool, tmp_path: Path) -> None:
    m = Qdq(seed=4)
    folded(m, "overlapping", quantized)
    assert not verified(m.model(), tmp_path).islands


def too_large_blocks(m: Qdq) -> None:
    m.opset = 18
    sizes = [m.constant(n, np.array(v, np.int64)) for n, v in (("image", [17, 16]), ("block", [17, 16]))]
    m.output(m.op("Col2Im", [m.input((1, 272, 1)), *sizes]))


def test_blocks_of_too_many_elements_are_refused_by_name() -> None:
    refused(too_large_blocks, r"Col2Im\): other types than float32, and blocks of more than 256 elements")


def negative_image(m: Qdq) -> None:
    m.opset = 18
    m.kinds["y"] = (1, 3, 4, 4)
    sizes = [m.constant(n, np.array(v, np.int64)) for n, v in (("image", [4, -4]), ("block", [2, 2]))]
    m.output(m.op("Col2Im", [m.op("Tanh", [m.input((1, 12, 9))]), *sizes], "y"))


def test_a_negative_image_is_refused_by_name() -> None:
    refused(negative_image, r"Col2Im\): an image of \[4, -4\] from blocks of \[2, 2\]; wanted sizes of 1 or more")


def every_form(m: Qdq) -> None:
    for form in ("overlapping", "dilated"):
        folded(m, form)


GOOD = {"folds": every_form}
