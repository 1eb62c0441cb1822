"""Prepared inputs as files: made from pictures, shown, checked (INPUTS.md sections 4 and 5)."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from qverify import __version__
from qverify.arithmetic.workers import submit
from qverify.errors import BadFileError, QVerifyError, UsageError
from qverify.inputs import buffers, picture, reading
from qverify.inputs.colour import UNVERIFIED
from qverify.inputs.description import Description, described
from qverify.renderers.json_file import write_bytes, write_text

SCHEMA = "qverify.inputs/1"
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


def prepare(
    paths: list[str],
    wanted: Description,
    folder: str,
    name: str = "input",
    tell: Callable[[int, int], None] | None = None,
) -> dict[str, str]:
    """NNNN.bin for every picture, then manifest.json, which comes last. Pictures that fail are left out and given back
    with the reason; the others are made all the same. UsageError when none could be made."""
    made, failed = _Folder(folder), dict[str, str]()
    for at, path in enumerate(paths):
        try:
            made.add(reading.bytes_of(path, wanted, name), os.path.basename(path))
        except QVerifyError as error:
            failed[path] = str(error)
        if tell is not None:
            tell(at + 1, len(paths))
    if not made.files:
        raise UsageError(f"nothing could be prepared: {next(iter(failed.values()), 'no pictures there')}")
    _write_manifest(folder, name, wanted, made.files, failed)
    return failed


def random(wanted: Description, folder: str, name: str, seed: int, count: int) -> None:
    """count files of one PCG64 stream, and their manifest."""
    generator, made = np.random.Generator(np.random.PCG64(seed)), _Folder(folder)
    for at in range(count):
        made.add(buffers.random_bytes(wanted, generator), f"random, seed {seed}, number {at}")
    _write_manifest(folder, name, wanted, made.files, {})


class _Folder:
    """NNNN.bin files, each hashed while it is written. An older manifest goes first: without it nothing is complete."""

    def __init__(self, folder: str):
        self.folder, self.files = folder, list[dict[str, str]]()
        try:
            os.makedirs(folder, exist_ok=True)
            Path(folder, "manifest.json").unlink(missing_ok=True)
        except OSError as error:
            raise UsageError(f"{folder}: cannot be written: {error.strerror}") from error

    def add(self, data: bytes, source: str) -> None:
        file = f"{len(self.files):04d}.bin"
        mark = submit(lambda: hashlib.sha256(data).hexdigest())
        write_bytes(data, os.path.join(self.folder, file))
        self.files.append({"file": file, "source": source, "sha256": mark.result()})


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
    if len(data) == buffers.size_bytes(wanted) and hashlib.sha256(data).hexdigest() != row["sha256"]:
        return "its SHA-256 is not the manifest's"
    return wrong_bytes(data, wanted)


def wrong_bytes(data: bytes, wanted: Description) -> str:
    """Why these cannot be the buffer of this description; "" where they can."""
    if len(data) != buffers.size_bytes(wanted):
        return f"{len(data)} bytes, wanted {buffers.size_bytes(wanted)}"
    if not buffers.padding_is_zero(data, wanted):
        return "its padding is not zero"
    values = buffers.stored(data, wanted)
    if any(v.dtype.kind == "f" and not np.isfinite(v).all() for v in values):
        return "it holds NaN or infinite values"
    if wanted.format == "raw_s16" and any((v == -32768).any() for v in values):
        return "it holds -32768, which raw_s16 does not"
    return ""


def checked(path: str, wanted: Description | None) -> Iterator[tuple[str, str]]:
    """File, and what is wrong with it. A folder also against its manifest, and that against `wanted`."""
    if os.path.isdir(path):
        said = manifest(path)[0]
        other = "" if wanted is None else _another(said, wanted)
        for row, _, wrong in contents(path):
            yield os.path.join(path, row["file"]), other or wrong
        return
    if wanted is None:
        raise UsageError(f"{path}: nothing says what its bytes are; give -m MODEL, --description FILE or --format")
    with open(path, "rb") as file:
        yield path, wrong_bytes(file.read(buffers.size_bytes(wanted) + 1), wanted)


def _another(said: Description, wanted: Description) -> str:
    """How a manifest's buffer is not the wanted one."""
    if said.format != wanted.format:
        return f"its manifest says {said.format}, wanted {wanted.format}"
    if buffers.planes(said) != buffers.planes(wanted) or buffers.size_bytes(said) != buffers.size_bytes(wanted):
        return f"its manifest lays out {_laid(said)}, wanted {_laid(wanted)}"
    return ""


def _laid(wanted: Description) -> str:
    parts = ", ".join(f"{p.name} {list(p.shape)} as {list(p.aligned_shape)}" for p in buffers.planes(wanted))
    return f"{parts} in {buffers.size_bytes(wanted)} bytes"


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
