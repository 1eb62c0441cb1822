"""Prepared inputs as files: made from pictures, shown, checked (INPUTS.md sections 4 and 5)."""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify import __version__
from qverify.errors import BadFileError, QVerifyError, UsageError
from qverify.inputs import buffers, picture
from qverify.inputs.colour import UNVERIFIED
from qverify.inputs.description import Description, described
from qverify.renderers.json_file import write_bytes, write_text

Array = npt.NDArray[Any]
SCHEMA = "qverify.inputs/1"
PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
MOST_MANIFEST = 1 << 26


def sources(path: str) -> list[str]:
    """The pictures of a folder (sorted), the lines of a .txt (paths relative to it), or the file itself."""
    if os.path.isdir(path):
        found = sorted(os.path.join(path, n) for n in os.listdir(path) if not n.startswith("."))
        return [p for p in found if os.path.isfile(p)]
    if path.endswith(".txt"):
        try:
            lines = Path(path).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{path}: not a readable list: {error}") from error
        named = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
        return [os.path.join(os.path.dirname(path), name) for name in named]
    if not os.path.isfile(path):
        raise UsageError(f"{path}: no such file or folder")
    return [path]


def from_toml(path: str, name: str | None) -> dict[str, Any]:
    """The table [inputs.NAME]; the only one when no name is given."""
    try:
        held = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path}: {error}") from error
    tables = held.get("inputs")
    if not isinstance(tables, dict) or not all(isinstance(t, dict) for t in tables.values()):
        raise UsageError(f"{path}: wanted tables [inputs.NAME]")
    if name is None and len(tables) == 1:
        return dict(next(iter(tables.values())))
    if name not in tables:
        raise UsageError(f"{path}: no input {name!r}; it describes {', '.join(tables)}")
    return dict(tables[name])


def prepare(
    paths: list[str],
    wanted: Description,
    folder: str,
    name: str = "input",
    tell: Callable[[int, int], None] | None = None,
) -> dict[str, str]:
    """NNNN.bin for every picture, then manifest.json, which comes last. Pictures that fail are left out and given back
    with the reason; the others are made all the same. UsageError when none could be made."""
    os.makedirs(folder, exist_ok=True)
    files: list[dict[str, str]] = []
    failed: dict[str, str] = {}
    for at, path in enumerate(paths):
        try:
            data = _bytes(path, wanted)
        except QVerifyError as error:
            failed[path] = str(error)
            continue
        finally:
            if tell is not None:
                tell(at + 1, len(paths))
        file = f"{len(files):04d}.bin"
        write_bytes(data, os.path.join(folder, file))
        row = {"file": file, "source": os.path.basename(path), "sha256": hashlib.sha256(data).hexdigest()}
        files.append(row)
    if not files:
        raise UsageError(f"nothing could be prepared: {next(iter(failed.values()), 'no pictures there')}")
    _write_manifest(folder, name, wanted, files, failed)
    return failed


def _bytes(path: str, wanted: Description) -> bytes:
    ending = os.path.splitext(path)[1].lower()
    if ending == ".npy":
        return _array(path, wanted)
    if ending == ".bin":
        with open(path, "rb") as file:
            data = file.read(buffers.size_bytes(wanted) + 1)
        try:
            buffers.stored(data, wanted)
        except UsageError as error:
            raise UsageError(f"{path}: {os.path.getsize(path)} bytes: {error}") from error
        return data
    return buffers.encoded(picture.fitted(picture.read(path, wanted.gray), wanted), wanted)


def _array(path: str, wanted: Description) -> bytes:
    return buffers.encoded(picture.fitted(array_pixels(path, wanted), wanted), wanted)


def array_pixels(path: str, wanted: Description) -> Array:
    """uint8 (H, W, 3) or (H, W) of a .npy: pixels, as a picture's."""
    try:
        pixels = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError, OverflowError, MemoryError) as error:
        raise UsageError(f"{path}: not a readable .npy: {error}") from error
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    channels = 1 if wanted.gray else 3
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != channels or not pixels.size:
        got = f"{pixels.dtype}{list(pixels.shape)}"
        raise UsageError(f"{path}: {got}, wanted uint8 pixels of (height, width, {channels})")
    return np.asarray(pixels)


def _write_manifest(
    folder: str, name: str, wanted: Description, files: list[dict[str, str]], failed: dict[str, str]
) -> None:
    layout = [asdict(p) | {"strides_bytes": p.strides_bytes} for p in buffers.planes(wanted)]
    held = {
        "schema": SCHEMA,
        "qverify": __version__,
        "name": name,
        "description": flat(wanted),
        "unverified": wanted.colour.mode in UNVERIFIED,
        "planes": layout,
        "size_bytes": buffers.size_bytes(wanted),
        "files": files,
        "failed": {os.path.basename(p): why for p, why in failed.items()},
    }
    write_text(json.dumps(held, indent=1) + "\n", os.path.join(folder, "manifest.json"))


def flat(wanted: Description) -> dict[str, Any]:
    """As described() takes it."""
    held = asdict(wanted)
    colour = held.pop("colour")
    held["mode"] = colour["mode"]
    if colour["mode"] not in ("opencv", *UNVERIFIED):
        held |= {"range": colour["range"], "siting": colour["siting"], "colour_rounding": colour["rounding"]}
    return {k: v for k, v in held.items() if v is not None and v != ""}


def manifest(folder: str) -> tuple[Description, list[dict[str, str]], dict[str, Any]]:
    """Description, files, and the whole of manifest.json. BadFileError for what is none."""
    path = os.path.join(folder, "manifest.json")
    try:
        with open(path, encoding="utf-8") as file:
            held = json.loads(file.read(MOST_MANIFEST))
        if not isinstance(held, dict) or held.get("schema") != SCHEMA:
            raise BadFileError(f"{path}: not a manifest of {SCHEMA}")
        files = [{k: str(row[k]) for k in ("file", "source", "sha256")} for row in held["files"]]
        return described(held["description"], path), files, held
    except OSError as error:
        raise BadFileError(f"{path}: {error.strerror}; wanted a folder of qverify inputs prepare") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadFileError(f"{path}: not a manifest of {SCHEMA}: {error}") from error


def contents(folder: str) -> Iterator[tuple[dict[str, str], bytes, str]]:
    """Row, bytes, and what is wrong with them ("" when nothing is), file by file."""
    wanted, files, _ = manifest(folder)
    for row in files:
        path = os.path.join(folder, os.path.basename(row["file"]))
        try:
            with open(path, "rb") as file:
                data = file.read(buffers.size_bytes(wanted) + 1)
        except OSError as error:
            yield row, b"", error.strerror or str(error)
            continue
        yield row, data, _wrong(data, row, wanted)


def _wrong(data: bytes, row: dict[str, str], wanted: Description) -> str:
    if len(data) != buffers.size_bytes(wanted):
        return f"{len(data)} bytes, wanted {buffers.size_bytes(wanted)}"
    if hashlib.sha256(data).hexdigest() != row["sha256"]:
        return "its SHA-256 is not the manifest's"
    return "" if buffers.padding_is_zero(data, wanted) else "its padding is not zero"


def show(folder: str, output: str) -> list[dict[str, Any]]:
    """A PNG of every file, as a person would see it, and the statistics of its planes."""
    try:
        from PIL import Image
    except ImportError:
        raise UsageError(picture.NEED) from None
    wanted, _, _ = manifest(folder)
    os.makedirs(output, exist_ok=True)
    rows = []
    for row, data, wrong in contents(folder):
        if wrong and len(data) != buffers.size_bytes(wanted):
            rows.append({"file": row["file"], "source": row["source"], "wrong": wrong})
            continue
        image = buffers.shown(data, wanted)
        target = os.path.join(output, os.path.splitext(row["file"])[0] + ".png")
        part = f"{target}.part"
        Image.fromarray(np.ascontiguousarray(image[..., 0] if image.shape[-1] == 1 else image)).save(part, format="PNG")
        os.replace(part, target)
        rows.append(
            {"file": row["file"], "source": row["source"], "wrong": wrong, "png": target} | _statistics(data, wanted)
        )
    return rows


def _statistics(data: bytes, wanted: Description) -> dict[str, str]:
    found = {}
    for plane, values in zip(buffers.planes(wanted), buffers.stored(data, wanted), strict=True):
        low, high, mean = values.min(), values.max(), values.mean(dtype=np.float64)
        found[plane.name] = f"{low:g}..{high:g}, mean {mean:.3f}"
    valid = sum(int(np.prod(p.shape)) * np.dtype(p.dtype).itemsize for p in buffers.planes(wanted))
    return found | {"padding": f"{len(data) - valid} of {len(data)} bytes"}
