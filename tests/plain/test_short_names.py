"""Short names: a dump's X is the model's X_QuantizeLinear_Output wherever its shape, type, scale or axes are looked up, and the
integers of a final output are that output under either name."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main

ENDING = "_QuantizeLinear_Output"


@pytest.fixture
def host(digits: Path, tmp_path: Path) -> tuple[str, Path, dict[str, np.ndarray]]:
    """The quantized example, a dump of its reference, and the arrays of the dump by name."""
    quant, folder = str(digits / "digits_quant.onnx"), tmp_path / "host"
    np.save(tmp_path / "x.npy", np.random.default_rng(0).random((1, 1, 8, 8), np.float32))
    words = ["-m", quant, "--side", "reference", "-i", str(tmp_path / "x.npy"), "-o", str(folder)]
    assert main(["infer", *words]) == 0
    return quant, folder, {p.stem: np.load(p) for p in folder.glob("*.npy")}


def raws(path: Path, arrays: dict[str, np.ndarray], quant: str, nhwc: bool) -> Path:
    """A folder as qnn-net-run writes it: real values, no shapes."""
    from qverify.session.models import open_models

    (path / "Result_0").mkdir(parents=True)
    graph = open_models([quant]).graph
    for name, value in arrays.items():
        real = graph.spec(name).dequantized(value).astype(np.float32)
        real = real.transpose(0, 2, 3, 1) if real.ndim == 4 and nhwc else real
        (path / "Result_0" / f"{name.removesuffix(ENDING)}.raw").write_bytes(real.tobytes())
    return path


def traces(path: Path, arrays: dict[str, np.ndarray]) -> Path:
    """A folder of TIDL's traces of all integers, under short names."""
    path.mkdir()
    lines = []
    stored = {n.removesuffix(ENDING): v for n, v in arrays.items() if n.endswith(ENDING)}
    for at, (name, value) in enumerate(stored.items()):
        n, c, h, w = value.shape if value.ndim == 4 else (1, 1, 1, value.size)
        (path / f"tidl_trace{at:04}_{n:05}_{c:05}_{w:05}x{h:05}.y").write_bytes(value.tobytes())
        lines.append(f"{at} {at} {name}\n")
    (path / "net.layer_info.txt").write_text("".join(lines))
    return path


def described(path: Path, arrays: dict[str, np.ndarray], names: dict[str, str], extra: str = "") -> Path:
    """A folder with dump.toml that states type and shape. names: other names of tensors."""
    path.mkdir()
    rows = []
    for at, (name, value) in enumerate(arrays.items()):
        (path / f"{at}.bin").write_bytes(np.ascontiguousarray(value).tobytes())
        stated = f'dtype = "{value.dtype.name}"\nshape = {list(value.shape)}\n'
        stated += extra if value.ndim == 4 else ""
        rows.append(f'[[tensor]]\nname = "{names.get(name, name)}"\nfile = "{at}.bin"\n{stated}')
    (path / "dump.toml").write_text("\n".join(rows))
    return path


def stored_only(arrays):
    return {n: v for n, v in arrays.items() if n.endswith(ENDING)}


def test_raw_files_without_shapes_are_read_by_the_tensor_that_their_name_means(host, tmp_path, capsys):
    quant, folder, arrays = host
    inner = {n: v for n, v in stored_only(arrays).items() if not n.startswith("prob")}
    dump = raws(tmp_path / "output", {**inner, "prob": arrays["prob"]}, quant, False)
    assert main(["compare", str(folder), str(dump), "-m", quant]) == 0
    printed = capsys.readouterr().out
    assert f"{len(arrays)} of {len(arrays)} tensors" in printed and "inside a node or not at all" not in printed


def test_integers_that_state_no_type_take_it_from_the_tensor_that_their_name_means(host, tmp_path, capsys):
    quant, folder, arrays = host
    dump = traces(tmp_path / "evm", arrays)
    assert main(["compare", str(folder), str(dump), "-m", quant]) == 0
    printed = capsys.readouterr().out
    assert f"{len(arrays)} of {len(arrays)} tensors" in printed  # prob itself follows from its integers
    assert "of prob the dump gives the integers" in printed
    wrong = next(dump.glob("tidl_trace*.y"))
    wrong.write_bytes(bytes([wrong.read_bytes()[0] ^ 64]) + wrong.read_bytes()[1:])
    assert main(["compare", str(folder), str(dump), "-m", quant]) == 1


def test_the_form_of_real_values_and_the_integers_are_one_tensor_of_the_model_in_two_traces(host, tmp_path, capsys):
    from qverify.session.models import open_models

    quant, _, arrays = host
    paths = [traces(tmp_path / side, arrays) for side in ("pc", "evm")]
    for path in paths:
        for file in list(path.glob("*.y")):
            name = (path / "net.layer_info.txt").read_text().splitlines()[int(file.name[10:14])].split()[2]
            spec = open_models([quant]).graph.spec(name + ENDING)
            codes = np.frombuffer(file.read_bytes(), spec.numpy_dtype).reshape(spec.shape)
            real = spec.dequantized(codes).astype(np.float32)
            (path / file.name.replace(".y", "_float.bin")).write_bytes(real.tobytes())
    assert main(["compare", *map(str, paths), "-m", quant]) == 0


@pytest.mark.parametrize("mapped", [False, True])
def test_the_declared_layout_counts_under_a_short_and_under_a_mapped_name(host, tmp_path, capsys, mapped):
    quant, folder, arrays = host
    held = {n: v.transpose(0, 2, 3, 1) if v.ndim == 4 else v for n, v in stored_only(arrays).items()}
    names = {n: f"blob_{at}" if mapped else n.removesuffix(ENDING) for at, n in enumerate(held)}
    dump = described(tmp_path / "dump", held, names, 'layout = "NHWC"\n')
    words = ["compare", str(folder), str(dump), "-m", quant]
    if mapped:
        table = tmp_path / "names.toml"
        assert main([*words, "--map", str(table)]) == 2 and "a draft is there now" in capsys.readouterr().err
        assert '# "blob_1" = ' in table.read_text()
        table.write_text("[names]\n" + "".join(f'"{b}" = "{a}"\n' for a, b in names.items()))
        words += ["--map", str(table)]
    assert main(words) == 0
    assert f"{len(arrays)} of {len(arrays)} tensors" in capsys.readouterr().out


def test_a_map_of_raw_files_gives_them_shape_type_and_scale(host, tmp_path, capsys):
    quant, folder, arrays = host
    dump, names = tmp_path / "raw", {n: f"layer{at}" for at, n in enumerate(stored_only(arrays))}
    traces(dump, arrays)
    text = (dump / "net.layer_info.txt").read_text()
    for name, written in names.items():
        text = text.replace(f" {name.removesuffix(ENDING)}\n", f" {written}\n")
    (dump / "net.layer_info.txt").write_text(text)
    table = tmp_path / "names.toml"
    assert main(["compare", str(folder), str(dump), "-m", quant, "--map", str(table)]) == 2
    assert "a draft is there now" in capsys.readouterr().err
    table.write_text("[names]\n" + "".join(f'"{b}" = "{a}"\n' for a, b in names.items()))
    assert main(["compare", str(folder), str(dump), "-m", quant, "--map", str(table)]) == 0


@pytest.mark.parametrize("job", ["main", "compare"])
@pytest.mark.parametrize("scale", [True, False])
def test_integers_under_the_name_of_the_real_output_are_its_integers(host, tmp_path, capsys, job, scale):
    """They were recomputed as if they were the real values, and the last node was blamed for it."""
    from qverify.session.models import open_models

    quant, folder, arrays = host
    spec = open_models([quant]).graph.spec("prob" + ENDING)
    dump = described(tmp_path / "dump", stored_only(arrays), {"prob" + ENDING: "prob"})
    text = (dump / "dump.toml").read_text()
    if scale:
        at = text.index('name = "prob"')
        end = text.find("\n[[tensor]]", at)
        stated = f"scale = {spec.scale[0]!r}\nzero_point = {spec.zero_point[0]}\n"
        text = text + stated if end < 0 else text[:end] + stated + text[end:]
        (dump / "dump.toml").write_text(text)
    given = str(tmp_path / "x.npy")
    words = {
        "main": ["-m", f"{quant},{dump}", "-i", given, "-r", "True"],
        "compare": ["compare", str(folder), str(dump), "-m", quant],
    }[job]
    assert main(words) == 0, capsys.readouterr().out
    relu = next(n for n in stored_only(arrays) if n.startswith("relu1"))
    file = dump / f"{list(stored_only(arrays)).index(relu)}.bin"
    file.write_bytes(bytes([file.read_bytes()[0] ^ 1]) + file.read_bytes()[1:])
    capsys.readouterr()
    assert main(words) == 1
    printed = capsys.readouterr().out
    assert relu in printed.partition("blame: ")[2].splitlines()[0]
    assert "prob" not in printed.partition("blame: ")[2].splitlines()[0]


def test_both_forms_of_an_output_that_contradict_each_other_are_missing(host, tmp_path, capsys):
    quant, folder, arrays = host
    both = {**stored_only(arrays), "prob": arrays["prob" + ENDING] ^ 1}
    dump = described(tmp_path / "dump", both, {})
    assert main(["compare", str(folder), str(dump), "-m", quant]) != 0
    assert "contradict each other" in capsys.readouterr().out


def test_a_wrong_real_output_beside_its_integers_still_fails(host, tmp_path, capsys):
    quant, folder, _ = host
    wrong = shutil.copytree(folder, tmp_path / "wrong")
    values = np.load(wrong / "prob.npy")
    values.flat[0] += 0.25
    np.save(wrong / "prob.npy", values)
    assert main(["compare", str(folder), str(wrong), "-m", quant]) == 1


def test_a_dump_in_nhwc_accuses_no_convolution_and_is_read_by_the_stated_layout(host, tmp_path, capsys):
    """Raw files state no shape: the order of the axes explains the difference, so it is said, and no node is blamed."""
    quant, folder, arrays = host
    inner = {n: v for n, v in stored_only(arrays).items() if not n.startswith("prob")}
    dump = raws(tmp_path / "output", {**inner, "prob": arrays["prob"]}, quant, True)
    words = ["compare", str(folder), str(dump), "-m", quant]
    assert main(words) == 1
    printed = capsys.readouterr().out
    assert "NCHW stored as NHWC" in printed and "--layout NHWC" in printed and "blame:" not in printed
    assert main([*words, "--layout", "NHWC"]) == 0
    assert "NHWC to NCHW: " in capsys.readouterr().out
    main_job = ["-m", f"{quant},{dump}", "-i", str(tmp_path / "x.npy"), "-r", "True"]
    assert main([*main_job, "--layout", "NHWC"]) == 0
    file = next((dump / "Result_0").glob("relu2.raw"))  # a right layout hides no wrong node
    values = np.frombuffer(file.read_bytes(), np.float32).copy()
    step = np.diff(np.unique(values))
    values[5] += step[step > 0].min() * 9
    file.write_bytes(values.tobytes())
    assert main([*words, "--layout", "NHWC"]) == 1
    assert "relu2" in capsys.readouterr().out.partition("blame: ")[2].splitlines()[0]


def test_one_array_that_is_written_nhwc_is_found_and_its_node_not_blamed(host, tmp_path, capsys):
    quant, folder, _ = host
    wrong = shutil.copytree(folder, tmp_path / "wrong")
    file = next(wrong.glob("relu1*.npy"))
    values = np.load(file)
    np.save(file, np.ascontiguousarray(values.transpose(0, 2, 3, 1)).reshape(values.shape))
    assert main(["compare", str(folder), str(wrong), "-m", quant]) == 1
    printed = capsys.readouterr().out
    assert "relu1" in printed.partition("found: ")[2].splitlines()[0]
    assert "blame:" not in printed and "cause: the values are right, and written in another order" in printed


def test_a_layout_that_no_array_has_is_refused_in_one_line(host, capsys):
    quant, folder, _ = host
    assert main(["compare", str(folder), str(folder), "-m", quant, "--layout", "NHWC"]) == 2
    error = capsys.readouterr().err
    assert "has no array of four axes that is NCHW on the other side" in error and error.count("\n") == 1


def channels_last(path, arrays):
    np.savez(path, **{n: v.transpose(0, 2, 3, 1) if v.ndim == 4 else v for n, v in arrays.items()})
    return str(path)


def test_arrays_in_nhwc_accuse_no_node_and_pass_by_the_stated_layout(host, tmp_path, capsys):
    """relu1 is [1, 8, 8, 8], whose sizes show no order: that of the others is its."""
    quant, folder, arrays = host
    dump = channels_last(tmp_path / "board.npz", arrays)
    words = ["compare", str(folder), dump, "-m", quant]
    assert main(words) == 3
    printed = capsys.readouterr().out
    assert "read from NHWC to NCHW" in printed and "the elements are right" in printed and "blame:" not in printed
    assert main([*words, "--layout", "NHWC"]) == 0
    assert main([*words, "--layout", "NCHW"]) == 2
    assert main(["compare", str(folder), dump, "--layout", "NHWC"]) == 0  # the other side shows what they are moved to


@pytest.mark.parametrize("words", [[], ["--layout", "NHWC"]])
def test_a_wrong_node_of_arrays_in_nhwc_is_the_only_one_that_is_blamed(host, tmp_path, capsys, words):
    quant, folder, arrays = host
    name = next(n for n in arrays if n.startswith("relu2"))
    wrong = arrays[name].copy()
    wrong[0, 3] ^= 16
    dump = channels_last(tmp_path / "board.npz", {**arrays, name: wrong})
    assert main(["compare", str(folder), dump, "-m", quant, *words]) == 1
    blame = capsys.readouterr().out.partition("blame: ")[2].splitlines()[0]
    assert "relu2" in blame and "relu1" not in blame and "pool1" not in blame


def test_identify_reads_short_names_maps_and_types_as_compare_does(host, tmp_path, capsys):
    quant, _, arrays = host
    dump = traces(tmp_path / "evm", arrays)
    assert main(["identify", str(dump), "-m", quant, "-i", str(tmp_path / "x.npy")]) in (0, 3)
    printed = capsys.readouterr().out
    assert "conv" in printed and "paired by a rewritten name" in printed
    info = shutil.move(dump / "net.layer_info.txt", tmp_path / "net.layer_info.txt")
    words = ["identify", str(dump), "-m", quant, "-i", str(tmp_path / "x.npy")]
    assert main(words) == 2  # tensors are numbered without it
    assert main([*words, "--layer-info", str(Path(info).parent)]) in (0, 3)
    assert main(["identify", "-b", "local", "-o", str(tmp_path / "a.toml"), "--layout", "NHWC"]) == 2
    assert "--layout is of no use for a board" in capsys.readouterr().err


def test_one_missing_tensor_does_not_hide_the_rounding_that_gives_all_others(host, tmp_path, capsys):
    quant, folder, _ = host
    model, up = str(tmp_path / "up.bin"), tmp_path / "up"
    assert main(["compile", quant, "-o", model, "--rounding", "mul8"]) == 0
    given = str(tmp_path / "x.npy")
    assert main(["infer", "-m", model, "-o", str(up), "--side", "simulator", "-i", given]) == 0
    arrays = {p.stem: np.load(p) for p in up.glob("*.npy")}
    dump = described(tmp_path / "dump", {n: v for n, v in stored_only(arrays).items() if "image" not in n}, {})
    assert main(["compare", str(folder), str(dump), "-m", quant]) == 1
    printed = capsys.readouterr().out
    assert "cause: other_rounding" in printed and "rounding mul8" in printed and "blame:" not in printed
    file = dump / f"{[n for n in stored_only(arrays) if 'image' not in n].index('logits' + ENDING)}.bin"
    file.write_bytes(bytes([file.read_bytes()[0] ^ 32]) + file.read_bytes()[1:])
    assert main(["compare", str(folder), str(dump), "-m", quant]) == 1
    printed = capsys.readouterr().out
    assert "cause: node" in printed and "blame: B at logits" in printed
