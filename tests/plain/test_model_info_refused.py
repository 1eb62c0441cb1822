"""The text of `hrt_model_exec model_info` that does not describe its outputs without doubt is refused, and not guessed at."""

from __future__ import annotations

from pathlib import Path

import pytest
from qverify.errors import BadFileError
from qverify.tensors.spec import TensorSpec
from qverify.vendor_files.model_info import outputs_of
from qverify.vendor_files.untrusted_files import UntrustedFile

HEAD = "[model name]: net\n"
FIELDS = {
    "name": "prob", "valid shape": "(1,2,4)", "aligned shape": "(1,2,8)", "aligned byte size": "16",
    "tensor type": "HB_DNN_TENSOR_TYPE_S8", "quanti type": "SCALE", "stride": "(16,8,1)",
    "scale data": "0.5", "zero_point data": "3", "quantizeAxis": "-1",
}  # fmt: skip


def output(number: int = 0, **changed: str) -> str:
    fields = FIELDS | {n if n in FIELDS else n.replace("_", " "): text for n, text in changed.items()}
    return f"output[{number}]: \n" + "".join(f"{name}: {text}\n" for name, text in fields.items() if text)


def read(folder: Path, text: str) -> dict[int, TensorSpec]:
    (folder / "info.txt").write_text(text)
    return outputs_of(UntrustedFile(str(folder / "info.txt")))


def only(folder: Path, text: str) -> TensorSpec:
    (spec,) = read(folder, HEAD + text).values()
    return spec


def test_what_is_read(tmp_path: Path) -> None:
    spec = only(tmp_path, output())
    assert (spec.name, spec.dtype, spec.shape, spec.aligned_shape) == ("prob", "int8", (1, 2, 4), (1, 2, 8))
    assert (spec.scale, spec.zero_point, spec.channel_axis) == ((0.5,), (3,), -1)
    spec = only(tmp_path, output(scale_data="0.5,0.25", **{"zero_point data": "0,1", "quantizeAxis": "1"}))
    assert (spec.scale, spec.zero_point, spec.channel_axis) == ((0.5, 0.25), (0, 1), 1)
    assert only(tmp_path, output(stride="(-1,8,1)")).aligned_shape == (1, 2, 8)  # a dynamic stride


@pytest.mark.parametrize("key", ["zero_point data", "zero point data"])
def test_the_zero_point_in_either_spelling(key: str, tmp_path: Path) -> None:
    text = output().replace("zero_point data: 3", f"{key}: 37,")
    assert only(tmp_path, text).zero_point == (37,)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (output(), "0 models in it, wanted one"),
        (HEAD + HEAD + output(), "2 models in it, wanted one"),
        (HEAD, "outputs []; wanted output[0], output[1] ..."),
        (HEAD + output(1), "outputs [1]; wanted output[0], output[1] ..."),
        (HEAD + output() + output(), "output[0] twice"),
        (HEAD + output(name=""), "output[0]: wanted a name, a valid shape and a known tensor type"),
        (HEAD + output(tensor_type="HB_DNN_IMG_TYPE_NV12"), "wanted a name, a valid shape and a known tensor type"),
        (HEAD + output(stride="", aligned_shape="(1,2,3)"), "the stored shape [1, 2, 3] does not contain the valid shape"),
        (HEAD + output(stride="", aligned_shape="(2,8)"), "the stored shape [2, 8] does not contain the valid shape"),
        (HEAD + output(stride="(16,8,2)"), "strides [16, 8, 2] of 16 bytes fit no aligned shape"),
        (HEAD + output(stride="(16,7,1)"), "strides [16, 7, 1] of 16 bytes fit no aligned shape"),
        (HEAD + output(scale_data="-0.5"), "1 scale and 1 zero point; wanted positive scales, and as many zero points"),
        (HEAD + output(scale_data="0.5,0.5"), "2 scales and 1 zero point; wanted positive scales, and as many"),
        (HEAD + output(scale_data="1,1", **{"zero_point data": ""}), "2 scales do not fit quantizeAxis -1 of [1, 2, 4]"),
        (
            HEAD + output(scale_data="1,1", **{"zero_point data": "0,0", "quantizeAxis": "2"}),
            "2 scales do not fit quantizeAxis 2 of [1, 2, 4]",
        ),
    ],
)  # fmt: skip
def test_what_is_in_doubt(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(BadFileError) as refusal:
        read(tmp_path, text)
    assert said in str(refusal.value) and "\n" not in str(refusal.value)
