"""SigmaStar's container and text, through the command line. Every fixture is synthetic, written from the published description
of the format; no dump of the vendor's own tool was at hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main

from tests.plain.profile_fuzz import spoil


def record(name, values, kind="float", scale=0.0, zero=0, pad=0, side="out", at=0, strings=False, constant=0):
    """One record; values NHWC; pad: garbage elements behind the innermost dim."""
    shape = list(values.shape)
    stored = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, pad)], constant_values=7)
    data = stored.tobytes()
    head = (
        f"//{side} 0 s: {scale:f} z: {zero} type: {kind} name: {name} bConstant:{constant} shape:{shape} dims:{len(shape)}\n"
        f"op_{side}[{at}] CONV_2D = {{\n//buffer data size: {len(data)}\n"
    )
    if strings:
        flat = [f"{v:.6f}" for v in stored.reshape(-1)]
        rows = [", ".join(flat[i : i + 16]) + ", \n" for i in range(0, len(flat), 16)]
        return head.encode() + b"\n" + "".join(rows).encode() + b"};\n"
    return head.encode() + data + b"\n};\n"


def container(folder: Path, *records: bytes, floats=1, name="sigma_outtensor_dump.bin") -> str:
    path = folder / name
    path.write_bytes(f"isFloat: {floats}\n".encode() + b"".join(records))
    return str(path)


def text(folder: Path, name: str, values, pad=0) -> str:
    stored = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, pad)])
    flat = stored.reshape(-1)
    shapes = ["[" + " ".join(map(str, a.shape)) + "]" for a in (values, stored)]
    lines = [
        f"{name} Tensor:",
        "{",
        f"tensor dim:{values.ndim}, Original shape:{shapes[0]}, Alignment shape:{shapes[1]}",
    ]
    lines += ["The following tensor data shape is alignment shape.", "tensor data:"]
    lines += ["  ".join(f"{v:.6f}" for v in flat[i : i + 16]) for i in range(0, flat.size, 16)]
    path = folder / "unknown_model_image.txt"
    path.write_text("\n".join([*lines, "}", ""]))
    return str(path)


@pytest.fixture
def net(tmp_path: Path):
    """NCHW values as an ONNX has them, and their folder."""
    values = np.random.default_rng(1).standard_normal((1, 5, 3, 4)).astype(np.float32)
    np.savez(tmp_path / "host.npz", **{"conv1/out:0": values})
    return values, str(tmp_path / "host.npz")


def nhwc(values):
    return np.ascontiguousarray(values.transpose(0, 2, 3, 1))


def test_a_container_is_told_by_its_first_line_stripped_and_transposed(net, tmp_path, capsys):
    values, host = net
    path = container(tmp_path, record("conv1/out:0", nhwc(values), pad=3))
    assert main(["compare", host, path]) == 0
    shown = capsys.readouterr().out
    assert "60 elements compared" in shown and "bit-equal" in shown and "NHWC to NCHW: 1: conv1" in shown


def test_one_wrong_element_fails(net, tmp_path):
    values, host = net
    wrong = nhwc(values)
    wrong[0, 2, 3, 4] += 0.001
    assert main(["compare", host, container(tmp_path, record("conv1/out:0", wrong))]) == 1


def test_garbage_that_the_shape_counts_in_is_cut_only_by_the_other_sides_shape(net, tmp_path, capsys):
    values, host = net
    padded = np.pad(nhwc(values), [(0, 0)] * 3 + [(0, 3)], constant_values=9)
    assert main(["compare", host, container(tmp_path, record("conv1/out:0", padded))]) == 0
    assert "innermost dim 8 cut to 5" in capsys.readouterr().out


def test_data_that_holds_a_closing_line_is_read_by_its_size(tmp_path):
    values = np.frombuffer(b"\n};\nxxx0\n};\nxxx1", np.float32).copy()
    np.savez(tmp_path / "a.npz", x=values, y=values)
    path = container(tmp_path, record("x", values), record("y", values, at=1))
    assert main(["compare", str(tmp_path / "a.npz"), path]) == 0


def test_equal_axes_are_not_guessed(tmp_path, capsys):
    values = np.random.default_rng(2).standard_normal((1, 4, 4, 4)).astype(np.float32)
    np.savez(tmp_path / "a.npz", x=values)
    assert main(["compare", str(tmp_path / "a.npz"), container(tmp_path, record("x", nhwc(values)))]) == 3
    assert "fits as it is and transposed" in capsys.readouterr().out


def test_what_one_side_lacks_is_never_passed(net, tmp_path, capsys):
    values, host = net
    more = container(tmp_path, record("conv1/out:0", nhwc(values)), record("conv2", nhwc(values)))
    assert main(["compare", host, more]) == 3 and "conv2 in A: not in the dump" in capsys.readouterr().out
    assert main(["compare", host, container(tmp_path, record("conv3/out", nhwc(values)))]) == 3
    assert main(["compare", host, container(tmp_path, record("conv1/out", nhwc(values)))]) == 0
    assert "conv1/out:0" in capsys.readouterr().out  # a known rewriting of the name, and said


def test_a_quantized_dump_is_dequantized_aloud_and_held_to_the_decimals_of_its_scale(tmp_path, capsys):
    q = np.random.default_rng(3).integers(-128, 128, (1, 3, 4, 5)).astype(np.int8)
    real = ((q.astype(np.float32) - 3) * np.float32(0.0321)).transpose(0, 3, 1, 2)
    np.savez(tmp_path / "a.npz", x=real)
    path = container(tmp_path, record("x", q, "SGS_S8", 0.0321, 3), floats=0)
    assert main(["compare", str(tmp_path / "a.npz"), path]) == 2
    assert "known only to 3 decimals" in capsys.readouterr().err
    assert main(["compare", str(tmp_path / "a.npz"), path, "-c", "3"]) == 0
    assert "dequantized: 1: x" in capsys.readouterr().out
    assert main(["compare", path, path, "-c", "9"]) == 0  # stored values against stored values: nothing is lost


def test_a_string_dump_and_a_text_claim_six_decimals(net, tmp_path, capsys):
    values, host = net
    for path in (
        container(tmp_path, record("conv1/out:0", nhwc(values), strings=True)),
        text(tmp_path, "conv1/out:0", nhwc(values), pad=3),
    ):
        assert main(["compare", host, path]) == 0
        shown = capsys.readouterr().out
        assert "known to 6 decimals" in shown and "; bit-equal" not in shown
        for finer in (["-c", "7"], ["--rule", "exact"], ["--atol", "1e-9"], ["--max-rmse", "1e-8"], ["--rtol", "1"]):
            assert main(["compare", host, path, *finer]) == 2
            assert capsys.readouterr().err.count("\n") == 1
        assert main(["compare", path, path, "-c", "6"]) == 0
        assert "; bit-equal" not in capsys.readouterr().out


def test_nan_in_a_text_is_judged_not_read_over(net, tmp_path):
    values, _ = net
    holed = values.copy()
    holed[0, 0, 0, 0] = np.nan
    path = text(tmp_path, "conv1/out:0", nhwc(holed))
    assert main(["compare", net[1], path]) == 1
    assert main(["compare", path, path]) == 3


def test_constants_and_inputs_are_not_results(net, tmp_path, capsys):
    values, host = net
    kept = record("conv1/out:0", nhwc(values))
    weight = record("w", nhwc(values), side="in", constant=1)
    image = record("image", nhwc(values), side="in")
    assert main(["compare", host, container(tmp_path, weight, image, kept)]) == 0
    assert "inputs of the network that the other side does not have: not compared: 1: image" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda b: b[:-30], "byte"),
        (lambda b: b.replace(b"data size: 240", b"data size: 99999999999999"), "at most"),
        (lambda b: b.replace(b"data size: 240", b"data size: 2000000000"), "2000000000 bytes of data"),
        (lambda b: b.replace(b"shape:[1, 3, 4, 5]", b"shape:[1, 99999, 99999, 99999]"), "at most"),
        (lambda b: b.replace(b"shape:[1, 3, 4, 5]", b"shape:[1, -3, 4, 5]"), "'-3'"),
        (lambda b: b.replace(b"dims:4", b"dims:3"), "dims:3"),
        (lambda b: b.replace(b"//out 0", b"garbage"), "//out"),
        (
            lambda b: (
                b.replace(b"s: 0.000000", b"s: nan").replace(b"type: float", b"type: SGS_S8").replace(b"1", b"0", 1)
            ),
            "finite",
        ),
    ],
)
def test_a_spoiled_container_is_one_line(net, tmp_path, capsys, spoil, said):
    path = Path(container(tmp_path, record("conv1/out:0", nhwc(net[0]))))
    path.write_bytes(spoil(path.read_bytes()))
    assert main(["compare", net[1], str(path)]) == 2
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1 and said in shown and "byte" in shown and path.name in shown


def test_two_dumps_in_one_folder_are_not_chosen_from(net, tmp_path, capsys):
    (tmp_path / "d").mkdir()
    for name in ("a_outtensor_dump.bin", "b_outtensor_dump.bin"):
        container(tmp_path / "d", record("conv1/out:0", nhwc(net[0])), name=name)
    assert main(["compare", net[1], str(tmp_path / "d")]) == 2 and "2 dumps" in capsys.readouterr().err
    (tmp_path / "d" / name).unlink()
    assert main(["compare", net[1], str(tmp_path / "d")]) == 0


def test_a_link_out_of_the_folder_is_refused(net, tmp_path, capsys):
    (tmp_path / "d").mkdir()
    path = container(tmp_path, record("conv1/out:0", nhwc(net[0])))
    (tmp_path / "d" / "x_outtensor_dump.bin").symlink_to(path)
    assert main(["compare", net[1], str(tmp_path / "d")]) == 2
    assert "leads out of the folder" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["binary", "strings", "text"])
def test_flipped_and_cut_files_end_in_one_error_or_in_a_comparison(net, tmp_path, form):
    values, host = net
    made = text(tmp_path, "conv1/out:0", nhwc(values), 3) if form == "text" else ""
    path = Path(
        made or container(tmp_path, record("a", nhwc(values), strings=form == "strings"), record("b", nhwc(values)))
    )
    spoil("sigmastar", host, path, [path])


def test_a_scale_printed_as_zero_makes_nothing_equal(tmp_path, capsys):
    """(q - 0) * 0.000000 is equal everywhere; such a scale is none."""
    stored = np.arange(24, dtype=np.int8).reshape(2, 12)
    np.savez(tmp_path / "a.npz", x=stored)
    path = container(tmp_path, record("x", stored + np.int8(1), "SGS_S8", 0.0), floats=0)
    assert main(["compare", str(tmp_path / "a.npz"), path]) == 1
    np.savez(tmp_path / "a.npz", x=np.zeros((2, 12), np.float32))
    assert main(["compare", str(tmp_path / "a.npz"), path]) == 3
    path = container(tmp_path, record("x", stored, "SGS_S8", -0.5), floats=0)
    assert main(["compare", str(tmp_path / "a.npz"), path]) == 2 and "scale -0.5" in capsys.readouterr().err


def test_names_are_shown_without_what_a_terminal_obeys(tmp_path, capsys):
    values = np.zeros((2, 3), np.float32)
    np.savez(tmp_path / "a.npz", x=values)
    names = ("a\x1b[2Jb", "c\x07", "c\x08", "x")
    path = container(tmp_path, *(record(name, values, at=i) for i, name in enumerate(names)))
    assert main(["compare", str(tmp_path / "a.npz"), path]) == 3
    shown = capsys.readouterr().out
    assert "\x1b" not in shown and "a?[2Jb" in shown and "the dump contains it twice" in shown


def test_npy_files_beside_a_dump_are_not_taken_silently(net, tmp_path, capsys):
    (tmp_path / "d").mkdir()
    container(tmp_path / "d", record("conv1/out:0", nhwc(net[0])))
    np.save(tmp_path / "d" / "x.npy", net[0])
    assert main(["compare", net[1], str(tmp_path / "d")]) == 2
    assert "--profile sigmastar reads the latter" in capsys.readouterr().err
    assert main(["compare", net[1], str(tmp_path / "d"), "--profile-b", "sigmastar"]) == 0


def test_exactly_the_valid_elements_matter(net, tmp_path):
    """Every element of the aligned buffer changed in turn: a valid one fails, garbage of the innermost dim does not."""
    values, host = net
    path = Path(container(tmp_path, record("conv1/out:0", nhwc(values), pad=3)))
    whole = path.read_bytes()
    start = whole.index(b"data size: 384\n") + len(b"data size: 384\n")
    for at in range(96):
        held = bytearray(whole)
        held[start + 4 * at : start + 4 * at + 4] = np.float32(12345).tobytes()
        path.write_bytes(bytes(held))
        assert main(["compare", host, str(path)]) == (1 if at % 8 < 5 else 0), at
