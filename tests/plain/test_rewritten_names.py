"""Names that tools rewrite pair in `compare`, where exactly one tensor is meant; the user's map pairs others."""

import numpy as np
import pytest
from qverify.cli.main import main


def dumps(folder, a, b):
    """Writes two dumps with the same values under these names; returns their paths."""
    rng = np.random.default_rng(0)
    values = [rng.normal(0, 1, (1, 3, 4)).astype(np.float32) for _ in a]
    for side, names in (("a", a), ("b", b)):
        np.savez(folder / f"{side}.npz", **dict(zip(names, values, strict=True)))
    return [str(folder / "a.npz"), str(folder / "b.npz")]


@pytest.mark.parametrize(
    "written",
    [
        "220",
        "220:0",
        "220_DequantizeLinear_Output",
        "220_int8",
        "220_quantized",
        "/220",
    ],
)
def test_a_known_rewriting_pairs_and_is_said(tmp_path, capsys, written):
    paths = dumps(tmp_path, ["220_QuantizeLinear_Output", "x/y"], [written, "x_y"])
    assert main(["compare", *paths]) == 0
    printed = capsys.readouterr().out
    assert f"220_QuantizeLinear_Output for {written}" in printed and "x/y for x_y" in printed


@pytest.mark.parametrize("fused", ["conv1;relu1", "conv1+relu1"])
def test_a_part_of_a_fused_name_pairs(tmp_path, capsys, fused):
    assert main(["compare", *dumps(tmp_path, ["relu1"], [fused])]) == 0
    assert f"relu1 for {fused}" in capsys.readouterr().out


def test_what_fits_two_tensors_is_not_paired_and_both_are_named(tmp_path, capsys):
    paths = dumps(tmp_path, ["conv1", "relu1"], ["conv1;relu1", "other"])
    assert main(["compare", *paths]) == 3
    assert "conv1 or relu1 for conv1;relu1" in capsys.readouterr().out


def test_equal_names_are_never_given_to_another_tensor(tmp_path, capsys):
    paths = dumps(tmp_path, ["x", "x_int8"], ["x_int8", "x:0"])
    assert main(["compare", *paths]) == 1  # x_int8 is x_int8, whose values differ, and x:0 is x
    assert "x for x:0" in capsys.readouterr().out


def test_another_shape_is_not_paired(tmp_path, capsys):
    np.savez(tmp_path / "a.npz", x=np.zeros((1, 4), np.float32))
    np.savez(tmp_path / "b.npz", **{"x:0": np.zeros((1, 5), np.float32)})
    assert main(["compare", str(tmp_path / "a.npz"), str(tmp_path / "b.npz")]) == 3


def test_values_before_quantization_are_not_the_quantized_tensor(digits, tmp_path, capsys):
    assert (
        main(["infer", "-m", str(digits / "digits_quant.onnx"), "--side", "reference", "-o", str(tmp_path / "host")])
        == 0
    )
    host = {p.stem: np.load(p) for p in (tmp_path / "host").glob("*.npy")}
    name = next(n for n in host if n.startswith("relu1"))
    capsys.readouterr()
    for off, paired in ((0.0, True), (0.3, False)):
        step = 0.001
        np.save(tmp_path / "x.npy", ((host[name].astype(np.float32) + off) * step).astype(np.float32))
        (tmp_path / "a").mkdir(exist_ok=True)
        host[name].tofile(tmp_path / "a" / "r.bin")
        (tmp_path / "a" / "dump.toml").write_text(
            f'[[tensor]]\nname = "{name}"\nfile = "r.bin"\ndtype = "uint8"\nshape = {list(host[name].shape)}\n'
            f"scale = {step}\nzero_point = 0\n"
        )
        np.savez(tmp_path / "b.npz", **{name.removesuffix("_QuantizeLinear_Output"): np.load(tmp_path / "x.npy")})
        status = main(["compare", str(tmp_path / "a"), str(tmp_path / "b.npz")])
        assert (status == 0) is paired and status in (0, 3)
        assert ("paired by a rewritten name" in capsys.readouterr().out) is paired


def test_a_map_is_drafted_then_used(tmp_path, capsys):
    paths = dumps(tmp_path, ["conv1", "conv2"], ["blob_conv1", "blob_conv2"])
    names = tmp_path / "names.toml"
    assert main(["compare", *paths, "--map", str(names)]) == 2
    assert "a draft is there now" in (error := capsys.readouterr().err) and error.count("\n") == 1
    draft = names.read_text()
    assert '# "blob_conv1" = "conv1"' in draft
    names.write_text(draft.replace('# "blob', '"blob'))
    assert main(["compare", *paths, "--map", str(names)]) == 0
    assert "paired by --map: 2 tensors" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[names]\n"blob_conv1" = "conv9"\n', "no tensor of A; did you mean conv"),
        ('[names]\n"blob_conv9" = "conv1"\n', "no tensor of B; did you mean blob_conv"),
        ('[names]\n"blob_conv1" = "conv1"\n"blob_conv2" = "conv1"\n', "given to several tensors of B"),
        ('[names]\n"blob_conv1" = "blob_conv2"\n', "no tensor of A"),
        ('[other]\nx = "y"\n', "wanted one table [names]"),
        ("[names]\nx = 3\n", "wanted one table [names]"),
        ("not toml", "not TOML"),
    ],
)
def test_a_wrong_map_is_refused_in_one_line(tmp_path, capsys, text, words):
    paths = dumps(tmp_path, ["conv1", "conv2"], ["blob_conv1", "blob_conv2"])
    (tmp_path / "names.toml").write_text(text)
    assert main(["compare", *paths, "--map", str(tmp_path / "names.toml")]) == 2
    assert words in (error := capsys.readouterr().err) and error.count("\n") == 1


def test_a_map_that_does_not_exist_and_is_not_needed_is_refused(tmp_path, capsys):
    paths = dumps(tmp_path, ["conv1"], ["conv1"])
    assert main(["compare", *paths, "--map", str(tmp_path / "no.toml")]) == 2
    assert "every tensor has a partner" in capsys.readouterr().err


def test_a_map_does_not_replace_a_tensor_of_that_name(tmp_path, capsys):
    paths = dumps(tmp_path, ["conv1", "conv2"], ["blob", "conv1"])
    (tmp_path / "names.toml").write_text('[names]\nblob = "conv1"\n')
    assert main(["compare", *paths, "--map", str(tmp_path / "names.toml")]) == 2
    assert "B has a tensor 'conv1' already" in capsys.readouterr().err


@pytest.mark.parametrize("by_map", [False, True])
def test_axes_of_one_element_do_not_keep_names_apart(tmp_path, capsys, by_map):
    values = np.random.default_rng(0).normal(0, 1, (1, 6)).astype(np.float32)
    np.savez(tmp_path / "a.npz", prob=values)
    np.savez(tmp_path / "b.npz", **{"blob" if by_map else "prob:0": values.reshape(1, 6, 1, 1)})
    (tmp_path / "names.toml").write_text('[names]\nblob = "prob"\n')
    words = ["--map", str(tmp_path / "names.toml")] if by_map else []
    assert main(["compare", str(tmp_path / "a.npz"), str(tmp_path / "b.npz"), *words]) == 0
    assert by_map or "axes of one element added or removed: 1: prob" in capsys.readouterr().out


@pytest.mark.parametrize("model", [True, False])
def test_axes_of_one_element_are_no_difference_in_plain_arrays(digits, tmp_path, capsys, model):
    """So it is in a vendor's dump of a profile (PROFILES.md, rule 3), and it is said."""
    values = np.random.default_rng(1).random((1, 10), np.float32)
    for name, shape in (("a", (1, 10)), ("b", (1, 10, 1, 1))):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "prob.npy", values.reshape(shape))
    words = ["-m", str(digits / "digits_quant.onnx"), "--outputs-only"] if model else []
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b"), *words]) == 0
    assert "axes of one element added or removed: 1: prob" in capsys.readouterr().out
    np.save(tmp_path / "b" / "prob.npy", values.reshape(2, 5))
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b"), *words]) != 0
