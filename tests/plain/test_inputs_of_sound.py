"""A .wav or an array is prepared as the samples that the description states, or refused in one line."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main

SAMPLES = np.arange(-25, 25, dtype="<i2")
SCALE = 0.25
REAL = f'format = "raw_f32"\ntrain = "gray"\nsize = "50x1"\nscale = {SCALE}\n'


def sound(path: Path, data: bytes, width: int = 2, channels: int = 1) -> None:
    with wave.open(str(path), "wb") as file:
        file.setparams((channels, width, 16000, 0, "NONE", ""))
        file.writeframes(data)


def prepare(folder: Path, name: str, description: str) -> int:
    (folder / "d.toml").write_text(f"[inputs.x]\n{description}")
    return main(["inputs", "prepare", str(folder / name), "-o", f"{folder}/out", "--description", f"{folder}/d.toml"])


def prepared(folder: Path, name: str, description: str) -> np.ndarray:
    assert prepare(folder, name, description) == 0
    return np.frombuffer((folder / "out" / "0000.bin").read_bytes(), np.float32)


def test_samples_of_the_right_number_are_kept(tmp_path: Path) -> None:
    sound(tmp_path / "a.wav", SAMPLES.tobytes())
    assert np.array_equal(prepared(tmp_path, "a.wav", REAL), SAMPLES * np.float32(SCALE))


def test_crop_takes_the_first_samples(tmp_path: Path) -> None:
    sound(tmp_path / "a.wav", SAMPLES.tobytes())
    made = prepared(tmp_path, "a.wav", REAL.replace("50x1", "30x1") + 'fit = "crop"\n')
    assert np.array_equal(made, SAMPLES[:30] * np.float32(SCALE))


def test_letterbox_adds_zeros_at_the_end(tmp_path: Path) -> None:
    sound(tmp_path / "a.wav", SAMPLES.tobytes())
    made = prepared(tmp_path, "a.wav", REAL.replace("50x1", "64x1") + 'fit = "letterbox"\n')
    assert np.array_equal(made, np.pad(SAMPLES * np.float32(SCALE), (0, 14)))


@pytest.mark.parametrize(
    ("size", "fit", "said"),
    [
        ("30x1", "stretch", "50 samples, wanted 30; fit = crop takes the first, letterbox adds zeros"),
        ("30x1", "letterbox", "50 samples, wanted 30"),
        ("64x1", "crop", "50 samples, wanted 64"),
        ("25x2", "stretch", "size 25x2; wanted 1 (train gray: 1) and a size of SAMPLESx1 for sound"),
    ],
)
def test_samples_that_do_not_fit(
    size: str, fit: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sound(tmp_path / "a.wav", SAMPLES.tobytes())
    assert prepare(tmp_path, "a.wav", REAL.replace("50x1", size) + f'fit = "{fit}"\n') == 2
    assert f"a.wav: {said}" in capsys.readouterr().err


def test_files_that_are_no_such_sound(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = SAMPLES.tobytes()
    sound(tmp_path / "a.wav", data)
    whole = (tmp_path / "a.wav").read_bytes()
    sound(tmp_path / "bytes.wav", data[:50], width=1)
    sound(tmp_path / "stereo.wav", data, channels=2)
    sound(tmp_path / "silent.wav", b"")
    (tmp_path / "cut.wav").write_bytes(whole[:-7])
    (tmp_path / "head.wav").write_bytes(whole[:30])
    (tmp_path / "text.wav").write_bytes(b"no sound at all, but a text")
    for name, said in (
        ("bytes", "8-bit samples, wanted 16-bit PCM"),
        ("stereo", "2 channels; wanted 1 (train gray: 1) and a size of SAMPLESx1 for sound"),
        ("silent", "0 samples; wanted 1 to "),
        ("cut", "cut short: 93 bytes of samples, wanted 100"),
        ("head", "not a readable .wav: it is cut short"),
        ("text", "not a readable .wav: file does not start with RIFF id"),
    ):
        assert prepare(tmp_path, f"{name}.wav", REAL) == 2
        line = capsys.readouterr().err
        assert f"{name}.wav: {said}" in line and line.count("\n") == 1, name


QUANTIZED = 'format = "featuremap"\ntrain = "gray"\nsize = "4x2"\nquantize = [0.5, 3]\n'


def test_floats_are_quantized_if_the_buffer_has_integers(tmp_path: Path) -> None:
    values = np.float32([[0, 0.5, 1, -1], [0.26, 0.24, 100, -100]])[..., None]
    np.save(tmp_path / "x.npy", values)
    assert prepare(tmp_path, "x.npy", QUANTIZED) == 0
    made = np.frombuffer((tmp_path / "out" / "0000.bin").read_bytes(), np.int8)
    assert made.reshape(2, 4).tolist() == [[3, 4, 5, 1], [4, 3, 127, -128]]


REAL_4_BY_2 = 'format = "featuremap"\ntrain = "gray"\nsize = "4x2"\nwidth_align = 8\n'


def test_raw_bytes_without_padding_are_padded(tmp_path: Path) -> None:
    values = np.arange(8, dtype=np.float32).reshape(2, 4)
    (tmp_path / "x.bin").write_bytes(values.tobytes())
    assert np.array_equal(prepared(tmp_path, "x.bin", REAL_4_BY_2).reshape(2, 8), np.pad(values, ((0, 0), (0, 4))))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_none_are_refused(value: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = np.zeros((2, 4, 1), np.float32)
    values[1, 2] = value
    np.save(tmp_path / "x.npy", values)
    (tmp_path / "x.bin").write_bytes(values.tobytes())
    for name in ("x.npy", "x.bin"):
        assert prepare(tmp_path, name, REAL_4_BY_2) == 2
        assert f"{name}: contains NaN or infinite values" in capsys.readouterr().err


def test_arrays_and_bytes_of_another_size_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 5, 1), np.float32))
    assert prepare(tmp_path, "x.npy", REAL_4_BY_2) == 2
    wanted = "float32[2, 5, 1], wanted uint8 pixels of (height, width, 1), or float32[2, 4, 1] as stored (NHWC)"
    assert wanted in capsys.readouterr().err
    (tmp_path / "x.bin").write_bytes(bytes(33))
    assert prepare(tmp_path, "x.bin", REAL_4_BY_2) == 2
    assert "33 bytes, wanted 64 (aligned) or 32 (valid elements alone) for featuremap 4x2" in capsys.readouterr().err
