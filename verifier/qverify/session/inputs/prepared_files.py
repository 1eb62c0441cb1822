"""Writes prepared inputs to files, checks them, and shows them as pictures (INPUTS.md sections 4 and 5)."""

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
from qverify.files import parse_json, read_regular, write_bytes, write_text
from qverify.inputs import buffers, reading
from qverify.inputs.colour import PRESETS
from qverify.inputs.description import Description
from qverify.inputs.description_keys import describe_differences, describe_unverified, make_fitting_key, make_values_key
from qverify.inputs.description_tables import parse_description
from qverify.printable import printable
from qverify.session.inputs.file_lists import is_list, lines

SCHEMA = "qverify.inputs/1"
FILE_NAME = re.compile(r"\d{4,9}\.bin")  # of a prepared input
MAX_MANIFEST_BYTES = 1 << 26


def list_files(path: str) -> list[str]:
    """Returns the paths of the files in a folder (sorted), of the files listed in a .txt, or of the file itself. Raises
    UsageError if there is no such file or folder."""
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
    description: Description,
    folder: str,
    name: str = "input",
    progress: Callable[[int, int], None] | None = None,
) -> list[dict[str, str]]:
    """Writes NNNN.bin for every picture, then manifest.json. Returns (source, why) of each picture that could not be
    prepared and is left out. progress: receives how many pictures are done, and of how many. Raises UsageError if none
    could be prepared."""
    if any(os.path.realpath(os.path.dirname(p) or ".") == os.path.realpath(folder) for p in paths):
        raise UsageError(f"-o {folder}: the pictures themselves are in it; name another folder")
    output, failed = _OutputFolder(folder), list[dict[str, str]]()
    for at, path in enumerate(paths):
        try:
            output.add(reading.read_bytes(path, description, name), os.path.basename(path))
        except QVerifyError as error:
            failed.append({"source": printable(os.path.basename(path)), "why": " ".join(str(error).split())})
        if progress is not None:
            progress(at + 1, len(paths))
    if not output.files:
        raise UsageError(f"nothing could be prepared: {failed[0]['why'] if failed else 'no pictures given'}")
    output.finish()
    _write_manifest(folder, name, description, output.files, failed)
    return failed


def random(description: Description, folder: str, name: str, seed: int, count: int) -> None:
    """Writes `count` files of random bytes from one PCG64 stream, and their manifest."""
    generator, output = np.random.Generator(np.random.PCG64(seed)), _OutputFolder(folder)
    for at in range(count):
        output.add(buffers.random_bytes(description, generator), f"random, seed {seed}, number {at}")
    output.finish()
    _write_manifest(folder, name, description, output.files, [])


class _OutputFolder:
    """Writes NNNN.bin files to a folder. An older manifest is removed first, so that the folder of an interrupted run
    does not look complete. files: a row of the manifest for each file."""

    def __init__(self, folder: str):
        self.folder, self.files = folder, list[dict[str, str]]()
        try:
            os.makedirs(folder, exist_ok=True)
            self._old_files = _list_manifest_files(folder)
            Path(folder, "manifest.json").unlink(missing_ok=True)
        except OSError as error:
            raise UsageError(f"{folder}: cannot be written: {error.strerror}") from error

    def add(self, data: bytes, source: str) -> None:
        """Writes the next file, and hashes it in a worker thread meanwhile."""
        file = f"{len(self.files):04d}.bin"
        sha256 = submit(lambda: hashlib.sha256(data).hexdigest())
        write_bytes(data, os.path.join(self.folder, file))
        self.files.append({"file": file, "source": source, "sha256": sha256.result()})

    def finish(self) -> None:
        """Removes the files of the older manifest that were not written again."""
        for file in self._old_files - {row["file"] for row in self.files}:
            Path(self.folder, file).unlink(missing_ok=True)


def _list_manifest_files(folder: str) -> set[str]:
    """Returns the names of the files in the folder's manifest; an empty set without a readable manifest."""
    try:
        return {row["file"] for row in read_manifest(folder)[1]}
    except BadFileError:
        return set()


def _write_manifest(
    folder: str, name: str, description: Description, files: list[dict[str, str]], failed: list[dict[str, str]]
) -> None:
    content = {
        "schema": SCHEMA,
        "qverify": __version__,
        "name": name,
        "description": to_table(description),
        "unverified": describe_unverified(description),
        **_layout(description),
        "files": files,
        "failed": failed,
    }
    write_text(json.dumps(content, indent=1) + "\n", os.path.join(folder, "manifest.json"))


def _layout(description: Description) -> dict[str, Any]:
    """Returns the layout of the buffer for the manifest. It follows from the description, and is stated for people and
    other tools."""
    planes = [asdict(p) | {"strides_bytes": p.strides_bytes} for p in description.planes]
    return {"planes": planes, "size_bytes": description.size_bytes}


def to_table(description: Description) -> dict[str, Any]:
    """Returns the description as a flat table of keys and values, which parse_description() reads."""
    table = asdict(description)
    colour = table.pop("colour")
    table["mode"] = colour["mode"]
    if colour["mode"] not in PRESETS:
        table |= {"range": colour["range"], "siting": colour["siting"], "colour_rounding": colour["rounding"]}
    return {k: v for k, v in table.items() if v is not None and v != ""}


def read_manifest(folder: str) -> tuple[Description, list[dict[str, str]], dict[str, Any]]:
    """Returns the description, the rows of the files, and the whole content of manifest.json. Raises BadFileError if
    the file is missing, is not a manifest, or contradicts itself."""
    path = os.path.join(folder, "manifest.json")
    if not os.path.lexists(path):
        raise BadFileError(f"{path}: No such file or directory; wanted a folder of qverify inputs prepare")
    try:
        content = parse_json(read_regular(path, MAX_MANIFEST_BYTES, follow=True), path)
        if not isinstance(content, dict) or content.get("schema") != SCHEMA:
            raise BadFileError(f"{path}: not a manifest of {SCHEMA}")
        files = [{k: printable(str(row[k])) for k in ("file", "source", "sha256")} for row in content["files"]]
        if wrong_names := [row["file"] for row in files if not FILE_NAME.fullmatch(row["file"])]:
            raise BadFileError(f"{path}: file {wrong_names[0]!r}, wanted names like 0000.bin")
        content["failed"] = [{k: printable(str(row[k])) for k in ("source", "why")} for row in content["failed"]]
        stated = parse_description(content["description"], path)
        for key, expected in json.loads(json.dumps(_layout(stated))).items():
            if content[key] != expected:
                raise BadFileError(
                    f"{path}: its {key} {printable(str(content[key]))[:60]} do not follow from its description"
                )
        return stated, files, content
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadFileError(f"{path}: not a manifest of {SCHEMA}: {error}") from error


def read_files(folder: str) -> Iterator[tuple[dict[str, str], bytes, str]]:
    """Yields, for each file of the manifest, its row, its bytes, and what is wrong with them ("" if nothing is)."""
    description, files, _ = read_manifest(folder)
    for row in files:
        path = os.path.join(folder, row["file"])
        try:
            data = read_regular(path, description.size_bytes + 1)
        except BadFileError as error:
            yield row, b"", str(error).removeprefix(f"{path}: ")
            continue
        yield row, data, _find_fault_by_manifest(data, row, description)


def _find_fault_by_manifest(data: bytes, row: dict[str, str], description: Description) -> str:
    """Returns why these bytes are not those of the manifest's row; "" if they are."""
    if len(data) == description.size_bytes and hashlib.sha256(data).hexdigest() != row["sha256"]:
        return "its SHA-256 is not the manifest's"
    return find_fault(data, description)


def find_fault(data: bytes, description: Description) -> str:
    """Returns why these bytes cannot be a buffer of this description; "" if they can."""
    if len(data) != description.size_bytes:
        more = "more than " if len(data) > description.size_bytes else ""
        return f"{more}{min(len(data), description.size_bytes)} bytes, wanted {reading.describe_sizes(description)}"
    if not buffers.padding_is_zero(data, description):
        return "its padding is not zero"
    values = buffers.unpack(data, description)
    if any(v.dtype.kind == "f" and not np.isfinite(v).all() for v in values):
        return "it contains NaN or infinite values"
    if description.format == "raw_s16" and any((v == -32768).any() for v in values):
        return "it contains -32768, which raw_s16 does not allow"
    return ""


def check_files(path: str, description: Description | None) -> Iterator[tuple[str, str]]:
    """Yields the path of each file and what is wrong with it ("" if nothing is). The files of a folder are checked
    against its manifest, and the manifest against `description`; a single file is checked against `description`."""
    if os.path.isdir(path):
        stated, files, _ = read_manifest(path)
        differing = (
            [] if description is None else describe_differences(_comparison_key(stated), _comparison_key(description))
        )
        for row, _, wrong in read_files(path):
            yield os.path.join(path, row["file"]), f"its manifest says {'; '.join(differing)}" if differing else wrong
        listed = {row["file"] for row in files}
        for name in sorted(n for n in os.listdir(path) if FILE_NAME.fullmatch(n) and n not in listed):
            yield os.path.join(path, name), "not in the manifest"
        return
    if description is None:
        raise UsageError(f"{path}: its format is not known; give -m MODEL, --description FILE or --format")
    yield path, find_fault(read_regular(path, description.size_bytes + 1, follow=True), description)


def _comparison_key(description: Description) -> dict[str, Any]:
    """Returns the values in which two descriptions of the same input must agree."""
    return {**make_values_key(description), "train": description.train, **make_fitting_key(description)}


def show(path: str, output: str, description: Description | None = None) -> list[dict[str, Any]]:
    """Writes a PNG of every file to the folder `output`. Returns a row for each file with its PNG, what is wrong with
    it, and statistics of its planes. path: a folder of prepare(), or one file of bytes that `description` describes."""
    os.makedirs(output, exist_ok=True)
    if os.path.isdir(path):
        stated, _, _ = read_manifest(path)
        return [_show_file(row, data, wrong, stated, output) for row, data, wrong in read_files(path)]
    if description is None:
        raise UsageError(f"{path}: its format is not known; give -m MODEL, --description FILE or --format")
    data = read_regular(path, description.size_bytes + 1, follow=True)
    name = printable(os.path.basename(path))
    return [_show_file({"file": name, "source": "captured"}, data, find_fault(data, description), description, output)]


def _show_file(row: dict[str, str], data: bytes, wrong: str, description: Description, output: str) -> dict[str, Any]:
    images = import_extra("PIL.Image", "a picture to look at")
    result: dict[str, Any] = {"file": row["file"], "source": row["source"], "wrong": wrong}
    if len(data) != description.size_bytes:
        return result
    image = buffers.make_picture(data, description)
    target = os.path.join(output, os.path.splitext(os.path.basename(row["file"]))[0] + ".png")
    temporary = f"{target}.part"
    pixels = np.ascontiguousarray(image[..., 0] if image.shape[-1] == 1 else image)
    images.fromarray(pixels).save(temporary, format="PNG")
    os.replace(temporary, target)
    return result | {"png": target} | _statistics(data, description)


def _statistics(data: bytes, description: Description) -> dict[str, str]:
    texts = {}
    for plane, values in zip(description.planes, buffers.unpack(data, description), strict=True):
        low, high, mean = values.min(), values.max(), values.mean(dtype=np.float64)
        texts[plane.name] = f"{low:g}..{high:g}, mean {mean:.3f}"
    valid = sum(int(np.prod(p.shape)) * np.dtype(p.dtype).itemsize for p in description.planes)
    return texts | {"padding": f"{len(data) - valid} of {len(data)} bytes"}
