"""Prepared inputs as files: makes them from pictures, shows and checks them (INPUTS.md sections 4 and 5)."""

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
from qverify.extras import import_extra
from qverify.files import json_of, read_regular, write_bytes, write_text
from qverify.inputs import buffers, reading
from qverify.inputs.colour import PRESETS
from qverify.inputs.description import Description
from qverify.inputs.description_keys import describe_differences, describe_unverified, make_fitting_key, make_values_key
from qverify.inputs.description_tables import parse_description
from qverify.printable import printable
from qverify.session.inputs.file_lists import is_list, lines

SCHEMA = "qverify.inputs/1"
OURS = re.compile(r"\d{4,9}\.bin")
MOST_MANIFEST = 1 << 26


def sources(path: str) -> list[str]:
    """Returns the files of a folder (sorted), the files listed in a .txt (relative to it), or the file itself."""
    if os.path.isdir(path):
        files = sorted(os.path.join(path, n) for n in os.listdir(path) if not n.startswith("."))
        return [p for p in files if not os.path.isdir(p)]
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
    """Writes NNNN.bin for every picture, then manifest.json. Returns the pictures that failed (source, why), which are
    left out. Raises UsageError where all failed."""
    if any(os.path.realpath(os.path.dirname(p) or ".") == os.path.realpath(folder) for p in paths):
        raise UsageError(f"-o {folder}: the pictures themselves are in it; name another folder")
    output, failed = _OutputFolder(folder), list[dict[str, str]]()
    for at, path in enumerate(paths):
        try:
            output.add(reading.read_bytes(path, wanted, name), os.path.basename(path))
        except QVerifyError as error:
            failed.append({"source": printable(os.path.basename(path)), "why": " ".join(str(error).split())})
        if tell is not None:
            tell(at + 1, len(paths))
    if not output.files:
        raise UsageError(f"nothing could be prepared: {failed[0]['why'] if failed else 'no pictures given'}")
    output.finish()
    _write_manifest(folder, name, wanted, output.files, failed)
    return failed


def random(wanted: Description, folder: str, name: str, seed: int, count: int) -> None:
    """Writes `count` files from one PCG64 stream, and their manifest."""
    generator, output = np.random.Generator(np.random.PCG64(seed)), _OutputFolder(folder)
    for at in range(count):
        output.add(buffers.random_bytes(wanted, generator), f"random, seed {seed}, number {at}")
    output.finish()
    _write_manifest(folder, name, wanted, output.files, [])


class _OutputFolder:
    """Writes NNNN.bin files, each hashed while it is written. Removes an older manifest first, so that an interrupted
    run is not taken for complete."""

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
        """Removes files of the previous manifest that this one does not list."""
        for file in self._before - {row["file"] for row in self.files}:
            Path(self.folder, file).unlink(missing_ok=True)


def _own_files(folder: str) -> set[str]:
    """Returns the files that a manifest in the folder lists, or an empty set."""
    try:
        return {row["file"] for row in manifest(folder)[1]}
    except BadFileError:
        return set()


def _write_manifest(
    folder: str, name: str, wanted: Description, files: list[dict[str, str]], failed: list[dict[str, str]]
) -> None:
    content = {
        "schema": SCHEMA,
        "qverify": __version__,
        "name": name,
        "description": flat(wanted),
        "unverified": describe_unverified(wanted),
        **_layout(wanted),
        "files": files,
        "failed": failed,
    }
    write_text(json.dumps(content, indent=1) + "\n", os.path.join(folder, "manifest.json"))


def _layout(wanted: Description) -> dict[str, Any]:
    """Returns what a manifest says of the buffer for people and other tools; it follows from the description."""
    planes = [asdict(p) | {"strides_bytes": p.strides_bytes} for p in wanted.planes]
    return {"planes": planes, "size_bytes": wanted.size_bytes}


def flat(wanted: Description) -> dict[str, Any]:
    """Returns the description as a table for parse_description()."""
    table = asdict(wanted)
    colour = table.pop("colour")
    table["mode"] = colour["mode"]
    if colour["mode"] not in PRESETS:
        table |= {"range": colour["range"], "siting": colour["siting"], "colour_rounding": colour["rounding"]}
    return {k: v for k, v in table.items() if v is not None and v != ""}


def manifest(folder: str) -> tuple[Description, list[dict[str, str]], dict[str, Any]]:
    """Returns description, rows of the files, and the whole content of manifest.json. Raises BadFileError for any other
    file."""
    path = os.path.join(folder, "manifest.json")
    if not os.path.lexists(path):
        raise BadFileError(f"{path}: No such file or directory; wanted a folder of qverify inputs prepare")
    try:
        content = json_of(read_regular(path, MOST_MANIFEST, follow=True), path)
        if not isinstance(content, dict) or content.get("schema") != SCHEMA:
            raise BadFileError(f"{path}: not a manifest of {SCHEMA}")
        files = [{k: printable(str(row[k])) for k in ("file", "source", "sha256")} for row in content["files"]]
        if strange := [row["file"] for row in files if not OURS.fullmatch(row["file"])]:
            raise BadFileError(f"{path}: file {strange[0]!r}, wanted names like 0000.bin")
        content["failed"] = [{k: printable(str(row[k])) for k in ("source", "why")} for row in content["failed"]]
        stated = parse_description(content["description"], path)
        for key, wanted in json.loads(json.dumps(_layout(stated))).items():
            if content[key] != wanted:
                raise BadFileError(
                    f"{path}: its {key} {printable(str(content[key]))[:60]} do not follow from its description"
                )
        return stated, files, content
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadFileError(f"{path}: not a manifest of {SCHEMA}: {error}") from error


def contents(folder: str) -> Iterator[tuple[dict[str, str], bytes, str]]:
    """Yields row, bytes, and what is wrong with them ("" when nothing is), for each file."""
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
    """Returns why these bytes cannot be the buffer of this description; "" where they can."""
    if len(data) != wanted.size_bytes:
        more = "more than " if len(data) > wanted.size_bytes else ""
        return f"{more}{min(len(data), wanted.size_bytes)} bytes, wanted {reading.describe_sizes(wanted)}"
    if not buffers.padding_is_zero(data, wanted):
        return "its padding is not zero"
    values = buffers.unpack(data, wanted)
    if any(v.dtype.kind == "f" and not np.isfinite(v).all() for v in values):
        return "it contains NaN or infinite values"
    if wanted.format == "raw_s16" and any((v == -32768).any() for v in values):
        return "it contains -32768, which raw_s16 does not allow"
    return ""


def checked(path: str, wanted: Description | None) -> Iterator[tuple[str, str]]:
    """Yields each file and what is wrong with it ("" when nothing is). A folder is checked against its manifest, and
    that against `wanted`."""
    if os.path.isdir(path):
        stated, files, _ = manifest(path)
        differing = [] if wanted is None else describe_differences(_key(stated), _key(wanted))
        for row, _, wrong in contents(path):
            yield os.path.join(path, row["file"]), f"its manifest says {'; '.join(differing)}" if differing else wrong
        listed = {row["file"] for row in files}
        for name in sorted(n for n in os.listdir(path) if OURS.fullmatch(n) and n not in listed):
            yield os.path.join(path, name), "not in the manifest"
        return
    if wanted is None:
        raise UsageError(f"{path}: its format is not known; give -m MODEL, --description FILE or --format")
    yield path, wrong_bytes(read_regular(path, wanted.size_bytes + 1, follow=True), wanted)


def _key(wanted: Description) -> dict[str, Any]:
    return {**make_values_key(wanted), "train": wanted.train, **make_fitting_key(wanted)}


def show(path: str, output: str, wanted: Description | None = None) -> list[dict[str, Any]]:
    """Writes a viewable PNG of every file. Returns a row for each with the statistics of its planes. path: a folder of
    prepare(), or one file of bytes that `wanted` describes."""
    os.makedirs(output, exist_ok=True)
    if os.path.isdir(path):
        described_, _, _ = manifest(path)
        return [_shown(row, data, wrong, described_, output) for row, data, wrong in contents(path)]
    if wanted is None:
        raise UsageError(f"{path}: its format is not known; give -m MODEL, --description FILE or --format")
    data = read_regular(path, wanted.size_bytes + 1, follow=True)
    name = printable(os.path.basename(path))
    return [_shown({"file": name, "source": "captured"}, data, wrong_bytes(data, wanted), wanted, output)]


def _shown(row: dict[str, str], data: bytes, wrong: str, wanted: Description, output: str) -> dict[str, Any]:
    images = import_extra("PIL.Image", "a picture to look at")
    result: dict[str, Any] = {"file": row["file"], "source": row["source"], "wrong": wrong}
    if len(data) != wanted.size_bytes:
        return result
    image = buffers.make_picture(data, wanted)
    target = os.path.join(output, os.path.splitext(os.path.basename(row["file"]))[0] + ".png")
    part = f"{target}.part"
    images.fromarray(np.ascontiguousarray(image[..., 0] if image.shape[-1] == 1 else image)).save(part, format="PNG")
    os.replace(part, target)
    return result | {"png": target} | _statistics(data, wanted)


def _statistics(data: bytes, wanted: Description) -> dict[str, str]:
    texts = {}
    for plane, values in zip(wanted.planes, buffers.unpack(data, wanted), strict=True):
        low, high, mean = values.min(), values.max(), values.mean(dtype=np.float64)
        texts[plane.name] = f"{low:g}..{high:g}, mean {mean:.3f}"
    valid = sum(int(np.prod(p.shape)) * np.dtype(p.dtype).itemsize for p in wanted.planes)
    return texts | {"padding": f"{len(data) - valid} of {len(data)} bytes"}
