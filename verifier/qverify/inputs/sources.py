"""Reads the files of -i: pictures, .npy, .npz, .wav and raw bytes, each checked against its tensor or description."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.errors import UndescribedError, UsageError
from qverify.files import read_regular
from qverify.inputs import arrays, buffers, picture, reading
from qverify.inputs.described_inputs import DescribedInput, described_inputs, description_for_tensor, layout_of
from qverify.inputs.description import Description
from qverify.inputs.description_keys import describe_differences, make_normalization_key, make_values_key
from qverify.inputs.draft import draft_description
from qverify.inputs.fit_hints import hint_for_array, hint_for_file, hint_for_missing_file
from qverify.inputs.formats import YUV420
from qverify.inputs.random_inputs import quantization_of, random_inputs
from qverify.model_bin.graph import Graph
from qverify.plural import count
from qverify.tensors.prepared import PreparedInput, PreparedInputs
from qverify.tensors.spec import TensorSpec

Array = npt.NDArray[Any]
Tables = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class InputRequest:
    """Where inputs come from. files: the text of -i, or paths by input name ("" for the only one); None for random
    inputs. seed: of random inputs. tables: descriptions by input name, "" for every input. prepared: manifest entries
    by path, against which the files are checked. source: what reports name, where that is not the files. words: the
    options of a command line that gave the tables."""

    files: str | Mapping[str, str] | None = None
    seed: int = 0
    tables: Tables = field(default_factory=dict)
    prepared: Mapping[str, ManifestEntry] = field(default_factory=dict)
    source: str = ""
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """A manifest's entry for one file."""

    description: Description
    sha256: str


def prepared_inputs(graph: Graph, request: InputRequest) -> PreparedInputs:
    """Returns the inputs, random or from files. Raises UsageError where a file does not fit."""
    if request.files is None:
        return random_inputs(graph, request.seed)
    prepared = prepare(graph, request.files, request.tables, request.prepared)
    if not request.source:
        return prepared
    return PreparedInputs(tuple(replace(one, source=request.source) for one in prepared.inputs))


def prepare(
    graph: Graph,
    files: str | Mapping[str, str],
    tables: Tables | None = None,
    stated: Mapping[str, ManifestEntry] | None = None,
) -> PreparedInputs:
    """Returns the inputs from `a.bin,b.npy`, `name1:a.npy,name2:b.jpg`, or one .npz. tables: descriptions by input
    name, "" for all; inputs that model.bin describes need none. Raises UsageError, which says what does not fit and
    what would."""
    specs, wanted = [graph.spec(n) for n in graph.inputs], input_requirements(graph, tables or {})
    needed = [s for s in specs if wanted[s.name].fixed is None]
    by_name = {alias: s.name for s in needed for alias in (s.name, wanted[s.name].called)}
    if not isinstance(files, str):
        paths = _by_name(files, needed, by_name)
    else:
        parts = [p for p in files.split(",") if p]
        alone = len(parts) == 1 and parts[0].endswith(".npz")
        paths = {s.name: parts[0] for s in needed} if alone else _assigned(parts, needed, by_name)
    for name, path in paths.items():
        if stated and path in stated:
            wanted[name].check(path, stated[path])
    return PreparedInputs(tuple(wanted[s.name].prepared(paths.get(s.name, "")) for s in specs))


def _by_name(files: Mapping[str, str], specs: list[TensorSpec], called: dict[str, str]) -> dict[str, str]:
    """Returns the file of each graph input. files: by input name, "" for the only input."""
    if "" in files and len(specs) == 1:
        return {specs[0].name: files[""]}
    unknown = [n for n in files if n not in called]
    missing = [s.name for s in specs if s.name not in {called.get(n) for n in files}]
    if unknown or missing:
        raise UsageError(
            f"-i: {', '.join(files) or 'a folder'} for the model inputs {', '.join(dict.fromkeys(called))}; "
            f"missing {', '.join(missing) or 'none'}: give NAME:FOLDER for each"
        )
    return {called[n]: path for n, path in files.items()}


def _assigned(parts: list[str], specs: list[TensorSpec], called: dict[str, str]) -> dict[str, str]:
    """Returns the file of each graph input. parts: those of -i."""
    names = list(dict.fromkeys(called))
    for part in parts:
        if ":" in part and _named(part, names) is None and not os.path.exists(part):
            raise UsageError(f"-i {part}: no such file, and no input of this name; the model's inputs are {names}")
    pairs = [pair for p in parts if (pair := _named(p, names)) is not None]
    named = {called[name]: path for name, path in pairs}
    if pairs and len(named) != len(parts):
        raise UsageError(
            f"-i: {count(len(parts), 'input')}, but only {count(len(named), 'different name')}; the model's inputs are {names}"
        )
    if not named and len(parts) == len(specs):
        named = {s.name: p for s, p in zip(specs, parts, strict=True)}
    missing = [s.name for s in specs if s.name not in named]
    if missing or len(named) != len(specs):
        several = "; for a frame of each, give their folder, or a list of them (.txt)"
        more = several if len(specs) == 1 else f"; missing {missing}"
        raise UsageError(f"-i: {count(len(parts), 'file')} for {count(len(specs), 'model input')} {names}{more}")
    return named


def _named(part: str, names: list[str]) -> tuple[str, str] | None:
    """Splits `serving:0:a.npy` into ("serving:0", "a.npy") at the longest known name; None without one."""
    fitting = [n for n in names if part.startswith(f"{n}:")]
    return (name := max(fitting, key=len), part[len(name) + 1 :]) if fitting else None


@dataclass(frozen=True, slots=True)
class InputRequirement:
    """What one graph input requires. called: the network's own name of it. description: None where its tensor is
    enough. fed: the graph input takes the description's buffer itself. fixed: an ROI, which comes from no file. draft: of
    a description (inputs.draft), where model.bin has none."""

    spec: TensorSpec
    called: str
    description: Description | None = None
    fed: bool = False
    fixed: tuple[int, ...] | None = None
    draft: str = ""

    def prepared(self, path: str) -> PreparedInput:
        """Returns the prepared input from a file. Raises UsageError where it does not fit."""
        if self.fixed is not None:
            return PreparedInput(
                self.spec, np.array(self.fixed, "<i4").tobytes(), f"roi {','.join(map(str, self.fixed))}"
            )
        try:
            return PreparedInput(self.spec, self.read_bytes(path), path)
        except UndescribedError as error:
            raise UndescribedError(str(error), self.called, self.draft) from error

    def check(self, path: str, stated: ManifestEntry) -> None:
        """Raises UsageError where the file does not match its manifest, or was prepared for another kind of input."""
        data = read_regular(path, stated.description.size_bytes + 1, follow=True)
        if hashlib.sha256(data).hexdigest() != stated.sha256:
            raise UsageError(f"{path}: its SHA-256 is not the manifest's; prepare it again")
        if self.description is not None:
            other = describe_differences(make_values_key(stated.description), make_values_key(self.description))
            if other:
                raise UsageError(f"{path}: prepared as {'; '.join(other)} for input {self.called!r}")

    def read_bytes(self, path: str) -> bytes:
        """Returns the aligned bytes of a file. Raises UsageError where it does not fit."""
        if self.description is None:
            return _bytes(self.spec, path, self.called)
        data = reading.read_bytes(path, self.description, self.called)
        if self.fed:
            return data
        values = buffers.unpack(data, self.description)
        elements = values[0] if len(values) == 1 else np.zeros(0, np.uint8)
        array = (
            elements[None]
            if elements.size == self.spec.elements and elements.ndim == len(self.spec.shape) - 1
            else elements
        )
        if (
            self.description.channels == 1 and elements.size == self.spec.elements
        ):  # with one channel, all layouts are the same
            array = elements.reshape(self.spec.shape)
        elif len(values) == 1 and self.description.layout != (layout := layout_of(self.spec)) and layout:
            array = np.moveaxis(elements, -1, 0)[None] if layout == "NCHW" else np.moveaxis(elements, 0, -1)[None]
        return self.spec.aligned_bytes(_fitting(self.spec, array, path))


def input_requirements(graph: Graph, tables: Tables) -> dict[str, InputRequirement]:
    """Returns the requirement of each graph input. Raises UsageError for a description of an unknown input, or one that
    changes the bytes that model.bin takes."""
    described, requirements = described_inputs(graph), {}
    known = {*graph.inputs, *(f.name for f in described.values()), ""}
    if strange := [n for n in tables if n not in known]:
        raise UsageError(f"description of input {strange[0]!r}: no such input; there are {sorted(known - {''})}")
    rois = {f.roi for f in described.values()}
    for name in (n for n in graph.inputs if n not in rois):
        spec, one = graph.spec(name), described.get(name)
        more = {**tables.get("", {}), **tables.get(name, {}), **tables.get(one.name if one else name, {})}
        raw = one is not None and one.description is not None and not spec.quantized
        if one is None:
            wanted = description_for_tensor(more, spec) if "format" in more else None
            if wanted is not None and wanted.format in YUV420:
                raise UsageError(
                    f"input {name!r} is {spec.dtype}{list(spec.shape)} and does not take {wanted.format}; compile with --input {name}={wanted.format}"
                )
            if more and wanted is None:
                raise UsageError(
                    f"input {name!r}: {', '.join(more)} do not describe its bytes: a format is missing; give --description"
                )
        else:
            wanted = description_for_tensor({**one.table, **more}, spec) if more else one.description
            _check_same_buffer(one, wanted)
        called = one.name if one else name
        draft = "" if one is not None else draft_description(called, spec, quantization_of(graph, name))
        requirements[name] = InputRequirement(spec, called, wanted, raw, draft=draft)
    for one in described.values():
        if one.roi is not None:
            requirements[one.roi] = InputRequirement(
                graph.spec(one.roi), f"{one.name}.roi", fixed=_part(requirements[one.tensor].description)
            )
    return requirements


def _part(wanted: Description | None) -> tuple[int, ...]:
    """Returns the ROI of a resizer's frames; the whole frame where none is given."""
    assert wanted is not None
    width, height = wanted.frame
    left, top, wide, high = wanted.roi or (0, 0, width, height)
    if left + wide > width or top + high > height:
        raise UsageError(f"roi {left},{top},{wide},{high} is not inside the frame of {width}x{height}")
    return left, top, wide, high


def _check_same_buffer(one: DescribedInput, wanted: Description | None) -> None:
    """Raises UsageError where a description changes the bytes that the nodes of model.bin were compiled for."""
    if one.description is None or wanted is None:
        return
    before, now = ({**make_values_key(d), **make_normalization_key(d)} for d in (one.description, wanted))
    if other := describe_differences(now, before):
        raise UsageError(f"input {one.name!r}: {'; '.join(other)} in model.bin; to change it, qverify compile --input")


def _bytes(spec: TensorSpec, path: str, name: str) -> bytes:
    if not os.path.isfile(path):
        raise UsageError(f"{path}: no such file for input {spec.name!r}{hint_for_missing_file(path)}")
    ending = os.path.splitext(path)[1].lower()
    if ending in (".npy", ".npz"):
        return spec.aligned_bytes(_fitting(spec, arrays.read_array_file(path, name), path))
    if ending == ".wav":
        raise UsageError(f"{path}: sound needs a description of input {spec.name!r} (format, size); give --description")
    if ending in picture.ENDINGS:
        return spec.aligned_bytes(_fitting(spec, _image(spec, path), path))
    data = read_regular(path, spec.size_bytes + 1, follow=True)
    if len(data) == spec.size_bytes:
        _fitting(spec, spec.valid_view(data), path)
        return data
    if len(data) == spec.valid_bytes:
        valid = np.frombuffer(data, spec.numpy_dtype).reshape(spec.shape)
        return spec.aligned_bytes(_fitting(spec, valid, path))
    text = f"{path}: {os.path.getsize(path)} bytes for input {spec.name!r}, wanted {_sizes(spec)} ({spec.dtype}{list(spec.shape)})"
    if len(data) == spec.elements and layout_of(spec):
        more = "save them as .npy, uint8 (height, width, channels), and give --description FILE"
        raise UndescribedError(f"{text}; one byte for each element: 8-bit pixels? Then {more}")
    raise UsageError(text + hint_for_file(path))


def _sizes(spec: TensorSpec) -> str:
    if spec.size_bytes == spec.valid_bytes:
        return str(spec.size_bytes)
    return f"{spec.size_bytes} (aligned) or {spec.valid_bytes} (valid elements alone)"


def _fitting(spec: TensorSpec, array: Array, path: str) -> Array:
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    if array.shape != spec.shape or array.dtype != spec.numpy_dtype:
        text = (
            f"{path}: {array.dtype}{list(array.shape)} for input {spec.name!r}, wanted {spec.dtype}{list(spec.shape)}"
        )
        if array.dtype == np.uint8 and spec.dtype != "uint8" and array.ndim > 1:
            raise UndescribedError(f"{text}; for pixels, uint8 (height, width, channels), give --description FILE")
        raise UsageError(text + hint_for_array(array, spec))
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise UsageError(f"{path}: contains NaN or infinite values for input {spec.name!r}")
    if spec.dtype == "bool" and (largest := int(array.view(np.uint8).max(initial=0))) > 1:
        raise UsageError(f"{path}: a byte of {largest} for input {spec.name!r}, wanted 0 or 1 (bool)")
    return array


def _image(spec: TensorSpec, path: str) -> Array:
    """Returns an image of exactly the input's size, 0..255, NCHW, without resize or normalization. Raises
    UndescribedError for another size, and where the input takes no such image."""
    layout = layout_of(spec)
    if spec.dtype not in ("uint8", "float32") or layout != "NCHW":
        more = "--description FILE, .npy or .bin" if layout else ".npy or .bin"
        raise UndescribedError(
            f"{path}: an image is 0..255 in NCHW, input {spec.name!r} is {spec.dtype}{list(spec.shape)}; give {more}"
        )
    pixels = picture.read(path, gray=spec.shape[1] == 1)
    if pixels.shape[:2] != spec.shape[2:]:
        size, wanted = (f"{s[1]}x{s[0]}" for s in (pixels.shape, spec.shape[2:]))
        raise UndescribedError(
            f"{path}: a picture of {size} for input {spec.name!r} of {wanted}; how to resize and normalize it is not known: "
            "give --description FILE"
        )
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)[None]).astype(spec.dtype)
