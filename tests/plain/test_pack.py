"""A bundle packed, run by its own script, carried back and judged; and everything that must never pass on the way."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main
from qverify_agents.binaries import host_architecture, runtime_path

SHELLS = [s for s in (["dash"], ["bash", "--posix"], ["busybox", "sh"]) if shutil.which(s[0])] or [["sh"]]


@pytest.fixture
def bundle(digits: Path, tmp_path: Path) -> Path:
    out = tmp_path / "a bundle"
    words = ["pack", "-m", str(digits / "digits_quant.onnx"), "-o", str(out), "--arch", host_architecture()]
    assert main(words) == 0
    return out


def run_sh(bundle: Path, *words: str, shell: tuple[str, ...] = ("sh",), **environment: str):
    return subprocess.run(
        [*shell, str(bundle / "run.sh"), *words],
        capture_output=True,
        text=True,
        timeout=60,
        cwd="/",
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize("shell", SHELLS, ids=lambda s: s[0])
def test_packed_run_and_judged(bundle, capsys, shell):
    done = run_sh(bundle, shell=tuple(shell))
    assert (done.returncode, done.stderr) == (0, "")
    assert main(["replay", str(bundle), "-r"]) == 0
    shown = capsys.readouterr().out
    assert "Sim and Arm result Strict check PASSED" in shown and "ref ~ sim, ref ~ board: 8 of 8 tensors" in shown
    assert "sim ~ board: 8 of 8 tensors" in shown


def test_digests_only_into_another_folder_carried_as_a_tar(bundle, tmp_path, capsys):
    assert run_sh(bundle, "--digests-only", str(tmp_path / "out")).returncode == 0
    assert len([p for p in (tmp_path / "out").iterdir() if p.suffix == ".bin"]) == 1
    for name, mode in (("d.tar", "w"), ("d.tgz", "w:gz")):
        with tarfile.open(tmp_path / name, mode) as tar:
            tar.add(tmp_path / "out", "out")
        assert main(["replay", str(bundle), "--dump", str(tmp_path / name), "-r"]) == 0
        assert capsys.readouterr().out.count("8 of 8 tensors") == 3


def test_a_faulty_board_is_blamed_from_its_dump(bundle, capsys):
    """The runtime in the bundle is a faulty one; the script's hashes are those of it."""
    good, bad = runtime_path(host_architecture()), runtime_path(host_architecture(), faulty=True)
    import hashlib

    script = (bundle / "run.sh").read_text()
    hashes = [hashlib.sha256(p.read_bytes()).hexdigest() for p in (good, bad)]
    (bundle / "run.sh").write_text(script.replace(*hashes))
    shutil.copy(bad, bundle / "bin" / good.name)
    assert run_sh(bundle, QVRT_FAULT="bitflip@relu2_QuantizeLinear_Output").returncode == 0
    assert main(["replay", str(bundle), "-r"]) == 1
    assert "blame: board at relu2_QuantizeLinear_Output" in capsys.readouterr().out


def test_a_tarball_is_the_same_bytes_again_and_unpacks_to_the_bundle(bundle, digits, tmp_path):
    for name in ("one.tar.gz", "two.tar.gz"):
        folder = tmp_path / name.partition(".")[0]
        folder.mkdir()
        words = ["pack", "-m", str(digits / "digits_quant.onnx"), "-o", str(folder / "b.tar.gz"), "--arch", "aarch64"]
        assert main(words) == 0
    one, two = (tmp_path / n / "b.tar.gz" for n in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()
    with tarfile.open(one) as tar:
        assert all(m.name.startswith("b/") and m.mtime == 0 for m in tar.getmembers())
    subprocess.run(["tar", "xzf", str(one), "-C", str(tmp_path)], check=True, timeout=60)
    assert os.access(tmp_path / "b" / "run.sh", os.X_OK) and (tmp_path / "b" / "bin" / "qvrt-aarch64").is_file()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda d: (d / "about.txt").unlink(), "not complete"),
        (lambda d: (d / "digests.txt").unlink(), "not complete"),
        (lambda d: (d / "about.txt").write_text("qverify.dump/9\n"), "not that of a qverify.dump/1"),
        (lambda d: change(d / "about.txt", "model=", "model=0"), "another model"),
        (lambda d: change(d / "about.txt", "input=", "input=0"), "other inputs"),
        (lambda d: (d / "digests.txt").write_text(""), "not printed by the board"),
        (lambda d: change(d / "about.txt", "model=", "model=0\nmodel="), "says 'model' twice"),
        (lambda d: change(d / "about.txt", "digests_only=0", "digests_only=1\ndigests_only=0"), "digests_only' twice"),
        (lambda d: more(d, lambda first: "0" * 16 + first[16:]), "twice, "),
        (lambda d: more(d, lambda first: first), "twice, "),
        (
            lambda d: more(d, lambda first: f"{'0' * 16} image 1"),
            "'image', which is not a compared tensor of this model",
        ),
        (lambda d: shutil.copy(d / NODE_3, d / "node_3_other.bin"), "are two files of one tensor"),
        (lambda d: shutil.copy(d / NODE_3, d / "node_99_other.bin"), "belongs to no compared tensor of this model"),
        (lambda d: flip(next(d.glob("node_*_prob.bin"))), "do not match the digest"),
        (lambda d: shorten(d / "node_3_relu2_QuantizeLinear_Output.bin"), "255 bytes, wanted 256"),
        (lambda d: flip(d / "node_3_relu2_QuantizeLinear_Output.bin"), "do not match the digest"),
        (lambda d: flip(d / "model_infer_output_0_prob.bin"), "do not match the digest"),
        (lambda d: (d / "model_infer_output_0_prob.bin").unlink(), "its file is not in the dump"),
        (lambda d: (d / "node_3_relu2_QuantizeLinear_Output.bin").unlink(), "its file is not in the dump"),
    ],
    ids=[
        "no-about",
        "no-digests",
        "schema",
        "model",
        "inputs",
        "empty",
        "model-twice",
        "key-twice",
        "two-digests",
        "line-twice",
        "not-of-the-model",
        "two-files",
        "file-of-no-node",
        "second-file-of-a-final",
        "short",
        "flipped",
        "final",
        "no-final",
        "no-node",
    ],
)
def test_a_dump_that_is_not_whole_never_passes(bundle, capsys, spoil, said):
    assert run_sh(bundle).returncode == 0
    spoil(bundle / "dump")
    assert main(["replay", str(bundle), "-r"]) == 3
    shown = capsys.readouterr().out
    assert said in shown and "Sim and Arm result Strict check PASSED" not in shown


NODE_3 = "node_3_relu2_QuantizeLinear_Output.bin"


def more(dump: Path, made: Callable[[str], str]) -> None:
    """A line before all others, made of the first."""
    path = dump / "digests.txt"
    path.write_text(made(path.read_text().splitlines()[0]) + "\n" + path.read_text())


def change(path: Path, before: str, after: str) -> None:
    path.write_text(path.read_text().replace(before, after))


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[5] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("name", ["model.bin", "inputs/0000.bin", "host/quant.onnx", "bin"])
def test_a_bundle_that_was_changed_is_refused_on_both_sides(bundle, capsys, name):
    path = bundle / "bin" / f"qvrt-{host_architecture()}" if name == "bin" else bundle / name
    path.write_bytes(path.read_bytes() + b"\0")
    done = run_sh(bundle)
    if name == "host/quant.onnx":
        assert done.returncode == 0
    else:
        assert done.returncode == 3 and "not what was packed" in done.stderr
        assert not (bundle / "dump" / "about.txt").exists()
    if name != "bin":
        assert main(["replay", str(bundle)]) == 2
        assert "is not what was packed" in capsys.readouterr().err


def test_a_tar_with_two_dumps_and_a_pipe_are_refused(bundle, tmp_path, capsys):
    assert run_sh(bundle).returncode == 0
    with tarfile.open(tmp_path / "two.tar", "w") as tar:
        tar.add(bundle / "dump", "one")
        tar.add(bundle / "dump", "two")
    assert main(["replay", str(bundle), "--dump", str(tmp_path / "two.tar")]) == 2
    assert "twice" in capsys.readouterr().err
    (bundle / "manifest.json").unlink()
    os.mkfifo(bundle / "manifest.json")
    assert main(["replay", str(bundle)]) == 2
    assert "not a regular file" in capsys.readouterr().err


def test_no_line_of_a_manifest_becomes_a_verdict(bundle, capsys):
    assert run_sh(bundle).returncode == 0
    held = json.loads((bundle / "manifest.json").read_text())
    held["inputs"][0]["source"] = "x\nSim and Arm result Strict check FORGED\n\x1b[2J"
    (bundle / "manifest.json").write_text(json.dumps(held))
    assert main(["replay", str(bundle)]) == 0
    printed = capsys.readouterr().out
    assert "\nSim and Arm result Strict check FORGED" not in printed and "\x1b" not in printed


def test_what_stands_in_the_way_is_said(bundle, digits, tmp_path, capsys):
    done = run_sh(bundle, QVERIFY_MACHINE="vax")
    assert done.returncode == 3 and "no runtime for machine 'vax'" in done.stderr
    assert run_sh(bundle, "--zork").returncode == 2
    done = run_sh(bundle, "/proc/qv")
    assert done.returncode == 3 and "cannot make the folder" in done.stderr
    model = str(digits / "digits_quant.onnx")
    for words, said in (
        (["pack", "-m", model, "-o", str(bundle)], "exists already"),
        (["pack", "-m", model, "-o", str(tmp_path / "x"), "--arch", "vax"], "known machines"),
        (["replay", str(tmp_path)], "the one that qverify pack made"),
        (["replay", str(bundle), "--dump", model], "neither a folder nor a tar"),
    ):
        assert main(words) == 2
        error = capsys.readouterr().err
        assert said in error and len(error.strip().splitlines()) == 1
    (bundle / "manifest.json").write_text(json.dumps({"schema": "qverify.bundle/1", "files": 3}))
    assert main(["replay", str(bundle)]) == 2


def test_a_noexec_medium_is_passed_over(bundle, tmp_path):
    """On such a medium, for example a FAT stick, nothing can be executed."""
    program = bundle / "bin" / f"qvrt-{host_architecture()}"
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "noexec", "tmpfs", "/mnt"]).returncode:
        program.chmod(0o644)
        assert run_sh(bundle).returncode == 0
        return
    try:
        shutil.copytree(bundle, "/mnt/bundle")
        assert run_sh(Path("/mnt/bundle"), str(tmp_path / "out")).returncode == 0
        assert not [p.name for p in (tmp_path / "out").iterdir() if p.name.startswith(".qvrt")]
    finally:
        subprocess.run(["umount", "/mnt"], check=True)


def test_two_dumps_compared(bundle, tmp_path, capsys):
    for name in ("one", "two"):
        assert run_sh(bundle, str(tmp_path / name)).returncode == 0
    words = ["compare", str(tmp_path / "one"), str(tmp_path / "two"), "-m", str(bundle / "model.bin")]
    assert main(words) == 0
    source = ["-m", str(bundle / "host" / "quant.onnx")]
    assert main(["infer", "--side", "simulator", *source, "-o", str(tmp_path / "npy")]) == 0
    capsys.readouterr()
    assert main(["compare", str(tmp_path / "npy"), str(tmp_path / "two"), "-m", str(bundle / "model.bin")]) == 0
    assert "8 of 8 tensors" in capsys.readouterr().out
    path = next((tmp_path / "two").glob("node_1_*"))
    data = np.frombuffer(path.read_bytes(), np.uint8).copy()
    data[0] ^= 64
    path.write_bytes(data.tobytes())
    assert main(words) == 3  # its digest no longer holds: nothing is known of it


def test_plan_counts_what_a_run_then_takes(digits, tmp_path, capsys):
    model = str(digits / "digits_quant.onnx")
    assert main(["plan", "-m", model, "-b", "local", "-b", "serial:///dev/null?baud=9600", "--json", "-"]) == 0
    local, serial = json.loads(capsys.readouterr().out)
    store = tmp_path / "store"
    for state in ("first_bytes", "cached_bytes"):
        words = ["-m", model, "--spot-seed", "0"]
        assert main([*words, "-b", f"local?store={store}", "--json", str(tmp_path / "r.json")]) == 0
        link = json.loads((tmp_path / "r.json").read_text())["link"]
        assert abs(link["bytes_sent"] + link["bytes_received"] - local[state]) <= 8  # HELLO's numbers
    assert serial["agent_bytes"] > runtime_path("aarch64").stat().st_size * 4 / 3
    assert serial["first_s"] > serial["first_bytes"] / 960 and serial["cached_bytes"] < 1200
    assert serial["assumed"] == "9600 baud, aarch64" and serial["architecture"] == "aarch64"
    assert main(["plan", "-m", model, "--arch", "vax"]) == 2
    assert main(["plan", "-m", model, "-b", "tag=none"]) == 2
