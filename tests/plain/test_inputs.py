"""Pictures to bytes: OpenCV and Pillow are the oracles, never our own code."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image
from qverify.cli.main import main
from qverify.errors import UsageError
from qverify.inputs import buffers, encoding, picture, resize
from qverify.inputs.arrays import read_array_file
from qverify.inputs.colour import MODES, PRESETS, Colour
from qverify.inputs.description import Description
from qverify.inputs.description_tables import parse_description
from qverify.inputs.formats import FORMATS, LEGAL, YUV420

from tests.conftest import MODELS

PHOTOS = sorted((MODELS / "inputs" / "images").glob("*.jpg"))


def noise(height: int, width: int, channels: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.Generator(np.random.PCG64(seed)).integers(0, 256, (height, width, channels), np.uint8)


def pictures() -> list[np.ndarray]:
    """Noise of odd aspect ratios, flat colours, and the real photos where they are."""
    found = [
        noise(2, 2),
        noise(36, 50),
        noise(720, 1280),
        np.full((4, 6, 3), 255, np.uint8),
        np.zeros((2, 8, 3), np.uint8),
    ]
    for path in PHOTOS[:6]:
        with Image.open(path) as photo:
            pixels = np.asarray(photo.convert("RGB"))
        found.append(pixels[: pixels.shape[0] // 2 * 2, : pixels.shape[1] // 2 * 2])
    return found


@pytest.mark.parametrize("at", range(len(pictures())))
def test_opencv_mode_is_opencv_byte_for_byte(at: int) -> None:
    rgb = pictures()[at]
    height, width = rgb.shape[:2]
    i420 = cv2.cvtColor(rgb, cv2.COLOR_RGB2YUV_I420)
    yv12 = cv2.cvtColor(rgb, cv2.COLOR_RGB2YUV_YV12)
    size = (width, height)
    assert encoding.encode_fitted(rgb, Description("i420", size)) == i420.tobytes()
    quarter = height * width // 4
    y, v, u = np.split(yv12.reshape(-1), [height * width, height * width + quarter])
    assert encoding.encode_fitted(rgb, Description("nv12", size)) == y.tobytes() + np.stack([u, v], -1).tobytes()
    assert encoding.encode_fitted(rgb, Description("nv21", size)) == y.tobytes() + np.stack([v, u], -1).tobytes()
    yuv = cv2.cvtColor(rgb, cv2.COLOR_RGB2YUV)
    assert encoding.encode_fitted(rgb, Description("yuv444", size)) == yuv.tobytes()
    less = (yuv.astype(np.int16) - 128).astype(np.int8)
    assert encoding.encode_fitted(rgb, Description("yuv444_128", size)) == less.tobytes()
    assert encoding.encode_fitted(rgb, Description("bgra", size)) == cv2.cvtColor(rgb, cv2.COLOR_RGB2BGRA).tobytes()
    chw = cv2.cvtColor(rgb, cv2.COLOR_RGB2BGR).transpose(2, 0, 1)
    assert encoding.encode_fitted(rgb, Description("bgr", size, layout="NCHW")) == chw.tobytes()


@pytest.mark.parametrize(
    ("mode", "red", "white"),
    [
        ("opencv", (82, 90, 240), (235, 128, 128)),
        ("sigmastar", (54, 99, 255), (255, 128, 128)),
        ("horizon", (76, 84, 255), (255, 128, 128)),
    ],
)
def test_the_published_vectors(mode: str, red: tuple[int, ...], white: tuple[int, ...]) -> None:
    for rgb, wanted in (((255, 0, 0), red), ((255, 255, 255), white)):
        planes = Colour.preset(mode).yuv420(np.full((2, 2, 3), rgb, np.uint8))
        assert tuple(int(p.flat[0]) for p in planes) == wanted


@pytest.mark.parametrize("range_", ["full", "limited"])
@pytest.mark.parametrize("mode", ["bt601", "bt709"])
def test_matrices_against_exact_fractions(mode: str, range_: str) -> None:
    """ITU-R BT.601 and BT.709 in rational arithmetic; a float64 result may round another way only at exact halves."""
    from fractions import Fraction

    kr, kb = (
        (Fraction(299, 1000), Fraction(114, 1000)) if mode == "bt601" else (Fraction(2126, 10000), Fraction(722, 10000))
    )
    rgb = noise(8, 8, seed=3)
    ours = Colour(mode, range_).yuv444(rgb)
    for i in range(8):
        for j in range(8):
            r, g, b = (Fraction(int(x)) for x in rgb[i, j])
            y = kr * r + (1 - kr - kb) * g + kb * b
            exact = [y, (b - y) / (2 * (1 - kb)), (r - y) / (2 * (1 - kr))]
            if range_ == "limited":
                exact = [exact[0] * 219 / 255 + 16, exact[1] * 224 / 255 + 128, exact[2] * 224 / 255 + 128]
            else:
                exact = [exact[0], exact[1] + 128, exact[2] + 128]
            for k in range(3):
                assert abs(Fraction(int(ours[i, j, k])) - min(max(exact[k], 0), 255)) <= Fraction(1, 2)


def test_the_mean_of_chroma_is_of_four_pixels() -> None:
    rgb = np.zeros((2, 2, 3), np.uint8)
    rgb[0, 0] = (0, 0, 200)
    mean, corner = (Colour("bt601", "full", siting).yuv420(rgb)[1][0, 0] for siting in ("mean", "top-left"))
    assert mean == 128 + 25 and corner == 128 + 100  # B - Y = 0.886 B; halved by 1.772


@pytest.mark.parametrize("interpolation", ["nearest", "linear", "cubic", "area"])
def test_resizes_are_the_librarys_own(interpolation: str) -> None:
    rgb = noise(37, 53)
    flag = getattr(cv2, f"INTER_{interpolation.upper()}")
    wanted = Description("rgb", (24, 30), interpolation=interpolation)
    assert np.array_equal(resize.fit_picture(rgb, wanted), cv2.resize(rgb, (24, 30), interpolation=flag))
    how = {"linear": Image.Resampling.BILINEAR, "area": Image.Resampling.BOX, "cubic": Image.Resampling.BICUBIC}
    pillow = Description("rgb", (24, 30), interpolation=interpolation, library="pillow")
    oracle = Image.fromarray(rgb).resize((24, 30), how.get(interpolation, Image.Resampling.NEAREST))
    assert np.array_equal(resize.fit_picture(rgb, pillow), np.asarray(oracle))
    real = Description("featuremap", (24, 30), interpolation=interpolation, resize_dtype="float32")
    assert np.array_equal(
        resize.fit_picture(rgb, real), cv2.resize(rgb.astype(np.float32), (24, 30), interpolation=flag)
    )


def test_crop_and_letterbox() -> None:
    rgb = noise(40, 80)
    crop = resize.fit_picture(rgb, Description("rgb", (20, 20), fit="crop"))
    assert np.array_equal(crop, cv2.resize(rgb[:, 20:60], (20, 20), interpolation=cv2.INTER_LINEAR))
    box = resize.fit_picture(rgb, Description("rgb", (20, 20), fit="letterbox", fill=114))
    assert (box[:5] == 114).all() and (box[15:] == 114).all()
    assert np.array_equal(box[5:15], cv2.resize(rgb, (20, 10), interpolation=cv2.INTER_LINEAR))


def test_alignments_of_the_vendors_worked_examples() -> None:
    """NV12 of 220x220 at 32: y stride 224; an NCHW int16 of 212 at 16 elements: strides 448, 100352 where H is aligned, too."""
    y, uv = Description("nv12", (220, 220), width_align=32).planes
    assert y.shape == (220, 220) and y.strides_bytes == (224, 1) and y.size_bytes == 49280
    assert uv.shape == (110, 110, 2) and uv.strides_bytes == (224, 2, 1) and uv.size_bytes == 24640
    (data,) = Description("raw_s16", (212, 212), layout="NCHW", width_align=32, height_align=32).planes
    assert data.strides_bytes == (100352, 448, 2) and data.size_bytes == 301056
    assert Description("gray", (315, 100), buffer_align=64).size_bytes == 31552


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_every_format_comes_back(format_: str, layout: str) -> None:
    """Stored, found again valid element by valid element, padding zero; shown as the picture, as near as chroma allows."""
    smooth = cv2.resize(noise(4, 4, 1 if format_.startswith("gray") else 3, 5), (24, 16), interpolation=cv2.INTER_CUBIC)
    smooth = (smooth if smooth.ndim == 3 else smooth[..., None]) // 3 + 80  # far from where chroma is clipped
    wanted = Description(
        format_, (24, 16), layout=layout, width_align=10, height_align=6, innermost_align=8, buffer_align=100
    )
    data = encoding.encode_fitted(smooth, wanted)
    assert len(data) == wanted.size_bytes and len(data) % 100 == 0
    assert buffers.padding_is_zero(data, wanted)
    shown = buffers.make_picture(data, wanted)
    limit = 0 if format_ not in YUV420 and not format_.startswith("yuv") else 3 if format_.startswith("yuv") else 60
    assert np.abs(shown.astype(int) - smooth).max() <= limit
    broken = bytearray(data)
    broken[-1] ^= 1
    assert not buffers.padding_is_zero(bytes(broken), wanted)


def test_roundings_of_raw_s16() -> None:
    pixels = np.array([[[0, 1, 2], [3, 4, 5]]], np.uint8)
    for rounding, wanted in (
        ("truncate", [0, 0, 1, 1, 2, 2]),
        ("half-even", [0, 0, 1, 2, 2, 2]),
        ("half-away", [0, 1, 1, 2, 2, 3]),
    ):
        one = Description("raw_s16", (2, 1), scale=(0.5,), rounding=rounding, quantize=(1.0, 0))
        assert np.frombuffer(encoding.encode_fitted(pixels, one), "<i2").tolist() == wanted
    big = Description("raw_s16", (2, 1), scale=(1e6,), quantize=(1.0, 0))
    assert np.frombuffer(encoding.encode_fitted(pixels, big), "<i2").max() == 32767


def test_pictures_of_every_kind(tmp_path: Path) -> None:
    rgb = noise(6, 10)
    Image.fromarray(rgb).save(tmp_path / "a.png")
    assert np.array_equal(picture.read(str(tmp_path / "a.png")), rgb)
    Image.fromarray(np.dstack([rgb, noise(6, 10, 1)])).save(tmp_path / "alpha.png")
    assert np.array_equal(picture.read(str(tmp_path / "alpha.png")), rgb)
    gray = noise(6, 10, 1)[..., 0]
    Image.fromarray(gray).save(tmp_path / "gray.png")
    assert np.array_equal(picture.read(str(tmp_path / "gray.png")), np.dstack([gray] * 3))
    sixteen = np.arange(60, dtype=np.uint16).reshape(6, 10) * 1092
    Image.fromarray(sixteen).save(tmp_path / "sixteen.png")
    wanted = np.floor(sixteen / 257 + 0.5).astype(np.uint8)
    assert np.array_equal(picture.read(str(tmp_path / "sixteen.png"), gray=True)[..., 0], wanted)
    Image.fromarray(rgb).convert("CMYK").save(tmp_path / "cmyk.jpg", quality=100)
    with Image.open(tmp_path / "cmyk.jpg") as seen:
        oracle = np.asarray(seen.convert("RGB"))
    assert np.array_equal(picture.read(str(tmp_path / "cmyk.jpg")), oracle)
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees
    Image.fromarray(rgb).save(tmp_path / "turned.png", exif=exif)
    assert np.array_equal(picture.read(str(tmp_path / "turned.png")), np.rot90(rgb, -1))
    Image.fromarray(rgb).save(tmp_path / "two.mpo", save_all=True, append_images=[Image.fromarray(rgb)])
    assert picture.read(str(tmp_path / "two.mpo")).shape == (6, 10, 3)


@pytest.mark.parametrize("content", [b"", b"hello\n", b"broken" * 99])
def test_a_file_that_is_no_picture_says_which_pictures_are_read(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.jpg").write_bytes(content)
    with pytest.raises(UsageError, match=r"a\.jpg: not a picture; wanted JPEG, PNG, BMP, WEBP, TIFF, PPM or GIF$"):
        picture.read(str(tmp_path / "a.jpg"))


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"format": "nv12", "size": "225x160"}, "both sides must be even"),
        ({"format": "nv13", "size": "224x160"}, "wanted one of nv12"),
        ({"format": "gray", "size": "2x2", "train": "rgb"}, r"possible \(train: formats\)"),
        ({"format": "rgb"}, "size is missing"),
        ({"format": "rgb", "size": "224"}, "WIDTHxHEIGHT"),
        ({"format": "rgb", "size": "0x5"}, "wanted 1x1"),
        ({"format": "rgb", "size": "2x2", "mean": "1,2"}, "wanted one number, or 3"),
        ({"format": "rgb", "size": "2x2", "zork": 1}, "unknown key 'zork'"),
        ({"format": "rgb", "size": "2x2", "mode": "opencv", "range": "full"}, "has its own"),
        ({"format": "rgb", "size": "2x2", "mean": "fast"}, "could not convert"),
        ({"format": "rgb", "size": "2x2", "width_align": 0}, "wanted 1 to"),
        ({"format": "raw_s16", "size": "2x2", "quantize": [0, 0]}, "scale above 0"),
    ],
)
def test_a_description_that_cannot_be_is_said(table: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_description(table, "options")


def test_the_legal_pairs_are_the_vendors() -> None:
    """Rows of training format, columns nv12 yuv444 rgb bgr gray featuremap, Y or N."""
    rows = {"yuv444": "YYNNNN", "rgb": "YYYYNY", "bgr": "YYYYNY", "gray": "NNNNYY", "featuremap": "NNNNNY"}
    for train, row in rows.items():
        for format_, mark in zip(("nv12", "yuv444", "rgb", "bgr", "gray", "featuremap"), row, strict=True):
            assert (format_ in LEGAL[train]) == (mark == "Y"), (train, format_)


def test_prepare_show_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").mkdir()
    for i in range(3):
        Image.fromarray(noise(20, 30, seed=i)).save(tmp_path / "in" / f"{i}.png")
    (tmp_path / "in" / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0nothing")
    (tmp_path / "in" / "notes.md").write_text("no picture")
    out = tmp_path / "out"
    words = ["inputs", "prepare", str(tmp_path / "in"), "--format", "nv12", "--size", "16x8", "-o", str(out)]
    assert main([*words, "--width-align", "32"]) == 2  # two are no pictures; the others are there all the same
    printed = capsys.readouterr()
    assert "3 of 5 prepared" in printed.out and len(printed.err.strip().splitlines()) == 2
    held = json.loads((out / "manifest.json").read_text())
    assert (
        held["size_bytes"] == 32 * 12
        and len(held["files"]) == 3
        and [row["source"] for row in held["failed"]] == ["broken.jpg", "notes.md"]
    )
    rgb = cv2.resize(noise(20, 30, seed=0), (16, 8), interpolation=cv2.INTER_LINEAR)
    luma = cv2.cvtColor(rgb, cv2.COLOR_RGB2YUV_I420)[:8]
    assert np.array_equal(np.frombuffer((out / "0000.bin").read_bytes(), np.uint8)[:256].reshape(8, 32)[:, :16], luma)
    assert main(["inputs", "check", str(out)]) == 0
    assert main(["inputs", "show", str(out)]) == 0
    with Image.open(out / "shown" / "0002.png") as seen:
        assert seen.size == (16, 8)
    data = bytearray((out / "0001.bin").read_bytes())
    data[20] ^= 1
    (out / "0001.bin").write_bytes(data)
    (out / "0002.bin").write_bytes(b"")
    assert main(["inputs", "check", str(out)]) == 2
    printed = capsys.readouterr()
    assert "SHA-256 is not the manifest's" in printed.err and "0 bytes, wanted 384" in printed.err
    assert main(["inputs", "show", str(out)]) == 2


@pytest.mark.parametrize("change", [{"planes": []}, {"size_bytes": 1}, {"size_bytes": None}])
def test_a_manifest_states_the_buffer_of_its_description(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, object]
) -> None:
    Image.fromarray(noise(20, 30)).save(tmp_path / "a.png")
    out = tmp_path / "out"
    assert main(["inputs", "prepare", str(tmp_path / "a.png"), "--format", "rgb", "--size", "8x8", "-o", str(out)]) == 0
    stated = json.loads((out / "manifest.json").read_text())
    (out / "manifest.json").write_text(json.dumps({**stated, **change}))
    assert main(["inputs", "check", str(out)]) == 2
    assert "do not follow from its description" in capsys.readouterr().err


def test_an_npz_of_one_array_under_another_name_is_refused(tmp_path: Path) -> None:
    values = np.arange(6, dtype=np.float32)
    np.savez(tmp_path / "other.npz", other=values)
    np.savez(tmp_path / "unnamed.npz", values)
    with pytest.raises(UsageError, match="contains other; none is called 'image'"):
        read_array_file(str(tmp_path / "other.npz"), "image")
    assert np.array_equal(read_array_file(str(tmp_path / "unnamed.npz"), "image"), values)
    assert np.array_equal(read_array_file(str(tmp_path / "other.npz")), values)


def test_descriptions_in_toml_and_what_is_wrong_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Image.fromarray(noise(20, 30)).save(tmp_path / "a.png")
    toml = tmp_path / "inputs.toml"
    toml.write_text(
        '[inputs.data]\nformat = "featuremap"\nsize = [8, 4]\ntrain = "bgr"\nlayout = "NCHW"\nmean = [1, 2, 3]\nscale = 0.5\n'
    )
    words = ["inputs", "prepare", str(tmp_path / "a.png"), "--description", str(toml), "-o"]
    assert main([*words, str(tmp_path / "one")]) == 0
    got = np.frombuffer((tmp_path / "one" / "0000.bin").read_bytes(), "<f4").reshape(3, 4, 8)
    bgr = cv2.resize(noise(20, 30), (8, 4), interpolation=cv2.INTER_LINEAR)[..., ::-1].astype(np.float32)
    assert np.array_equal(got, ((bgr - np.float32([1, 2, 3])) * np.float32(0.5)).transpose(2, 0, 1))
    assert main([*words, str(tmp_path / "two"), "--layout", "NHWC"]) == 0  # an option wins
    for name, text, wanted in (("other", None, "no input 'other'"), (None, "[inputs", "inputs.toml")):
        if text is not None:
            toml.write_text(text)
        assert main([*words, str(tmp_path / "x"), *(["--name", name] if name else [])]) == 2
        error = capsys.readouterr().err
        assert wanted in error and len(error.strip().splitlines()) == 1


def test_all_modes_have_a_row_in_the_document() -> None:
    text = (Path(__file__).parents[2] / "verifier" / "INPUTS.md").read_text()
    assert all(f"`{mode}`" in text for mode in MODES) and set(PRESETS) < set(MODES)
