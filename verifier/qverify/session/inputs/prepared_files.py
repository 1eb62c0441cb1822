"""Prepared inputs as files: made from pictures, shown, checked (INPUTS.md sections 4 and 5)."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from qverify import __version__
from qverify.arithmetic.workers import submit
from qverify.errors import BadFileError, QVerifyError, UsageError
from qverify.files import json_of, read_regular, write_bytes, write_text
from qverify.inputs import buffers, picture, reading
from qverify.inputs.colour import PRESETS
from qverify.inputs.description import Description
from qverify.inputs.description_keys import differences, fitting_key, unverified, values_key
from qverify.inputs.description_tables import described
from qverify.printable import printable
from qverify.session.inputs.file_lists import is_list, lines

SCHEMA = "qverify.inputs/1"
OURS = re.compile(r"\d{4,9}\.bin")
MOST_MANIFEST = 1 << 26


def sources(path: str) -> list[str]:
    """The files of a folder (sorted), the lines of a .txt (paths relative to it), or the file itself."""
    if os.path.isdir(path):
        found = sorted(os.path.join(path, n) for n in os.listdir(path) if not n.startswith("."))
        return [p for p in found if not os.path.isdir(p)]
    if is_list(path):
        return [os.path.join(os.path.dirname(path), name) for name in lines(path)]
    if not os.path.isfile(path):
        raise UsageError(f"{path}: no such file or folder")
    return [path]


def prepare(
    paths: list[str],
    wanted: Description,
    folder: str,
    name: str = "input",
    tell: Callable[[int, int], None] | None = None,
) -> list[dict[str, str]]:
    """NNNN.bin for every picture, then manifest.json, which comes last. Pictures that fail are left out and given back
    (source, why); the others are made all the same. UsageError when none could be made."""
    if any(os.path.realpath(os.path.dirname(p) or ".") == os.path.realpath(folder) for p in paths):
        raise UsageError(f"-o {folder}: the pictures themselves are there; name another folder")
    made, failed = _OutputFolder(folder), list[dict[str, str]]()
    for at, path in enumerate(paths):
        try:
            made.add(reading.bytes_of(path, wanted, name), os.path.basename(path))
        except QVerifyError as error:
            failed.append({"source": printable(os.path.basename(path)), "why": " ".join(str(error).split())})
        if tell is not None:
            tell(at + 1, len(paths))
    if not made.files:
        raise UsageError(f"nothing could be prepared: {failed[0]['why'] if failed else 'no pictures there'}")
    made.finish()
    _write_manifest(folder, name, wanted, made.files, failed)
    return failed


def random(wanted: Description, folder: str, name: str, seed: int, count: int) -> None:
    """count files of one PCG64 stream, and their manifest."""
    generator, made = np.random.Generator(np.random.PCG64(seed)), _OutputFolder(folder)
    for at in range(count):
        made.add(buffers.random_bytes(wanted, generator), f"random, seed {seed}, number {at}")
    made.finish()
    _write_manifest(folder, name, wanted, made.files, [])


class _OutputFolder:
    """NNNN.bin files, each hashed while it is written. An older manifest goes first: without it nothing is complete."""

    def __init__(self, folder: str):
        self.folder, self.files = folder, list[dict[str, str]]()
        try:
            os.makedirs(folder, exist_ok=True)
            self._before = _own_files(folder)
            Path(folder, "manifest.json").unlink(missing_ok=True)
        except OSError as error:
            raise UsageError(f"{folder}: cannot be written: {error.strerror}") from error

    def add(self, data: bytes, source: str) -> None:
        file = f"{len(self.files):04d}.bin"
        mark = submit(lambda: hashlib.sha256(data).hexdigest())
        write_bytes(data, os.path.join(self.folder, file))
        self.files.append({"file": file, "source": source, "sha256": mark.result()})

    def finish(self) -> None:
        """Files of the manifest before that this one does not list are removed."""
        for file in self._before - {row["file"] for row in self.files}:
            Path(self.folder, file).unlink(missing_ok=True)


def _own_files(folder: str) -> set[str]:
    """What a manifest of ours says it wrote there."""
    try:
        return {row["file"] for row in manifest(folder)[1]}
    except BadFileError:
        return set()


def _write_manifest(
    folder: str, name: str, wanted: Description, files: list[dict[str, str]], failed: list[dict[str, str]]
) -> None:
    layout = [asdict(p) | {"strides_bytes": p.strides_bytes} for p in wanted.planes]
    held = {
        "schema": SCHEMA,
        "qverify": __version__,
        "name": name,
        "description": flat(wanted),
        "unverified": unverified(wanted),
        "planes": layout,
        "size_bytes": wanted.size_bytes,
        "files": files,
        "failed": failed,
    }
    write_text(json.dumps(held, indent=1) + "\n", os.path.join(folder, "manifest.json"))


def flat(wanted: Description) -> dict[str, Any]:
    """As described() takes it."""
    held = asdict(wanted)
    colour = held.pop("colour")
    held["mode"] = colour["mode"]
    if colour["mode"] not in PRESETS:
        held |= {"range": colour["range"], "siting": colour["siting"], "colour_rounding": colour["rounding"]}
    return {k: v for k, v in held.items() if v is not None and v != ""}


def manifest(folder: str) -> tuple[Description, list[dict[str, str]], dict[str, Any]]:
    """Description, files, and the whole of manifest.json. BadFileError for what is none."""
    path = os.path.join(folder, "manifest.json")
    if not os.path.lexists(path):
        raise BadFileError(f"{path}: No such file or directory; wanted a folder of qverify inputs prepare")
    try:
        held = json_of(read_regular(path, MOST_MANIFEST, follow=True), path)
        if not isinstance(held, dict) or held.get("schema") != SCHEMA:
            raise BadFileError(f"{path}: not a manifest of {SCHEMA}")
        files = [{k: printable(str(row[k])) for k in ("file", "source", "sha256")} for row in held["files"]]
        if strange := [row["file"] for row in files if not OURS.fullmatch(row["file"])]:
            raise BadFileError(f"{path}: file {strange[0]!r}, wanted names like 0000.bin")
        held["failed"] = [{k: printable(str(row[k])) for k in ("source", "why")} for row in held["failed"]]
        return described(held["description"], path), files, held
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadFileError(f"{path}: not a manifest of {SCHEMA}: {error}") from error


def contents(folder: str) -> Iterator[tuple[dict[str, str], bytes, str]]:
    """Row, bytes, and what is wrong with them ("" when nothing is), file by file."""
    wanted, files, _ = manifest(folder)
    for row in files:
        path = os.path.join(folder, row["file"])
        try:
            data = read_regular(path, wanted.size_bytes + 1)
        except BadFileError as error:
            yield row, b"", str(error).removeprefix(f"{path}: ")
            continue
        yield row, data, _wrong(data, row, wanted)


def _wrong(data: bytes, row: dict[str, str], wanted: Description) -> str:
    if len(data) == wanted.size_bytes and hashlib.sha256(data).hexdigest() != row["sha256"]:
        return "its SHA-256 is not the manifest's"
    return wrong_bytes(data, wanted)


def wrong_bytes(data: bytes, wanted: Description) -> str:
    """Why these cannot be the buffer of this description; "" where they can."""
    if len(data) != wanted.size_bytes:
        more = "more than " if len(data) > wanted.size_bytes else ""
        return f"{more}{min(len(data), wanted.size_bytes)} bytes, wanted {reading.wanted_sizes(wanted)}"
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
        said, files, _ = manifest(path)
        other = [] if wanted is None else differences(_key(said), _key(wanted))
        for row, _, wrong in contents(path):
            yield os.path.join(path, row["file"]), f"its manifest says {'; '.join(other)}" if other else wrong
        listed = {row["file"] for row in files}
        for name in sorted(n for n in os.listdir(path) if OURS.fullmatch(n) and n not in listed):
            yield os.path.join(path, name), "not in the manifest"
        return
    if wanted is None:
        raise UsageError(f"{path}: nothing says what its bytes are; give -m MODEL, --description FILE or --format")
    yield path, wrong_bytes(read_regular(path, wanted.size_bytes + 1, follow=True), wanted)


def _key(wanted: Description) -> dict[str, Any]:
    return {**values_key(wanted), "train": wanted.train, **fitting_key(wanted)}


def show(path: str, output: str, wanted: Description | None = None) -> list[dict[str, Any]]:
    """A PNG of every file, as a person would see it, and the statistics of its planes. path: a folder of prepare(), or one
    file of bytes that `wanted` describes."""
    os.makedirs(output, exist_ok=True)
    if os.path.isdir(path):
        described_, _, _ = manifest(path)
        return [_shown(row, data, wrong, described_, output) for row, data, wrong in contents(path)]
    if wanted is None:
        raise UsageError(f"{path}: nothing says what its bytes are; give -m MODEL, --description FILE or --format")
    data = read_regular(path, wanted.size_bytes + 1, follow=True)
    name = printable(os.path.basename(path))
    return [_shown({"file": name, "source": "captured"}, data, wrong_bytes(data, wanted), wanted, output)]


def _shown(row: dict[str, str], data: bytes, wrong: str, wanted: Description, output: str) -> dict[str, Any]:
    try:
        from PIL import Image
    except ImportError:
        raise UsageError(picture.NEED) from None
    held: dict[str, Any] = {"file": row["file"], "source": row["source"], "wrong": wrong}
    if len(data) != wanted.size_bytes:
        return held
    image = buffers.shown(data, wanted)
    target = os.path.join(output, os.path.splitext(os.path.basename(row["file"]))[0] + ".png")
    part = f"{target}.part"
    Image.fromarray(np.ascontiguousarray(image[..., 0] if image.shape[-1] == 1 else image)).save(part, format="PNG")
    os.replace(part, target)
    return held | {"png": target} | _statistics(data, wanted)


def _statistics(data: bytes, wanted: Description) -> dict[str, str]:
    found = {}
    for plane, values in zip(wanted.planes, buffers.stored(data, wanted), strict=True):
        low, high, mean = values.min(), values.max(), values.mean(dtype=np.float64)
        found[plane.name] = f"{low:g}..{high:g}, mean {mean:.3f}"
    valid = sum(int(np.prod(p.shape)) * np.dtype(p.dtype).itemsize for p in wanted.planes)
    return found | {"padding": f"{len(data) - valid} of {len(data)} bytes"}
