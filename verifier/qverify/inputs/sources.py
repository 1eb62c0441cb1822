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
from qverify.inputs import buffers
from qverify.inputs.described_inputs import DescribedInput, described_inputs, description_for_tensor, layout_of
from qverify.inputs.description import Description
from qverify.inputs.description_keys import describe_differences, make_normalization_key, make_values_key
from qverify.inputs.draft import draft_description
from qverify.inputs.formats import BYTES, SIGNED, YUV420
from qverify.inputs.random_inputs import STATE, first_state, quantization_of, random_inputs
from qverify.model_bin.graph import Graph
from qverify.plural import count
from qverify.tensors.prepared import PreparedInput, PreparedInputs
from qverify.tensors.spec import TensorSpec

Array = npt.NDArray[Any]
Tables = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class InputRequest:
    """A request for inputs.

    Attributes:
        files: the text of -i, or paths by input name ("" for the only input), or None for random inputs.
        seed: seed of random inputs.
        tables: descriptions by input name, "" for every input.
        prepared: manifest entries by path, against which the files are checked.
        source: source of the inputs as reports name it, or "" if it is the files.
        words: the command-line options from which the tables come.
        loop: [state] and [steps] of the description as read, by these names, and its path as `path`; {} without them.
        outputs: tables [outputs.NAME] of the description, by output: roles of its channels.
        decoder: its table [decoder].
    """

    files: str | Mapping[str, str] | None = None
    seed: int = 0
    tables: Tables = field(default_factory=dict)
    prepared: Mapping[str, ManifestEntry] = field(default_factory=dict)
    source: str = ""
    words: tuple[str, ...] = ()
    loop: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)
    decoder: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """The entry of a manifest for one file."""

    description: Description
    sha256: str


def prepared_inputs(graph: Graph, request: InputRequest) -> PreparedInputs:
    """Returns the inputs, which are random or from files. Raises UsageError if a file does not fit."""
    if request.files is None:
        input_requirements(graph, request.tables)  # a description that does not fit is refused here, too
        return random_inputs(graph, request.seed)
    prepared = prepare(graph, request.files, request.tables, request.prepared)
    if not request.source:
        return prepared
    return PreparedInputs(tuple(replace(i, source=request.source) for i in prepared.inputs))


def prepare(
    graph: Graph,
    files: str | Mapping[str, str],
    tables: Tables | None = None,
    stated: Mapping[str, ManifestEntry] | None = None,
) -> PreparedInputs:
    """Returns the inputs in the files. Raises UsageError that states what does not fit, and what would.

    Args:
        graph: the compiled model.
        files: `a.bin,b.npy`, `name1:a.npy,name2:b.jpg`, or one .npz; or paths by input name.
        tables: descriptions by input name, "" for all. Inputs that model.bin describes need none.
        stated: manifest entries by path, against which the files are checked.
    """
    specs, requirements = [graph.spec(n) for n in graph.inputs], input_requirements(graph, tables or {})
    paths = assign_files(specs, requirements, files)
    for name, path in paths.items():
        if stated and path in stated:
            requirements[name].check(path, stated[path])
    return PreparedInputs(tuple(requirements[s.name].prepared(paths.get(s.name, "")) for s in specs))


def assign_files(
    specs: list[TensorSpec], requirements: Mapping[str, InputRequirement], files: str | Mapping[str, str]
) -> dict[str, str]:
    """Returns the file of each input that takes one, by the input's name. files: as for prepare(). Raises UsageError for files
    that belong to no input, and inputs without one."""
    from qverify.tensors.file_names import file_stems

    needed = [s for s in specs if requirements[s.name].fixed is None]
    by_name = {alias: s.name for s in needed for alias in (s.name, requirements[s.name].called)}
    if not isinstance(files, str):
        stems = file_stems(s.name for s in needed)  # the names of the files in a folder of one frame
        return _assign_by_name(files, needed, {**{stem: n for n, stem in stems.items()}, **by_name})
    parts = [p for p in files.split(",") if p]
    alone = len(parts) == 1 and parts[0].endswith(".npz")
    return {s.name: parts[0] for s in needed} if alone else _assign_parts(parts, needed, by_name)


def _assign_by_name(files: Mapping[str, str], specs: list[TensorSpec], by_name: dict[str, str]) -> dict[str, str]:
    """Returns the file of each graph input. files: paths by input name, "" for the only input. by_name: graph inputs by
    all of their names."""
    if "" in files and len(specs) == 1:
        return {specs[0].name: files[""]}
    unknown = [n for n in files if n not in by_name]
    missing = [s.name for s in specs if s.name not in {by_name.get(n) for n in files}]
    if unknown or missing:
        raise UsageError(
            f"-i: {', '.join(files) or 'a folder'} for the model inputs {', '.join(dict.fromkeys(by_name))}; "
            f"missing {', '.join(missing) or 'none'}: give NAME:FOLDER for each"
        )
    return {by_name[n]: path for n, path in files.items()}


def _assign_parts(parts: list[str], specs: list[TensorSpec], by_name: dict[str, str]) -> dict[str, str]:
    """Returns the file of each graph input. parts: the parts of -i. by_name: as in _assign_by_name()."""
    names = list(dict.fromkeys(by_name))
    for part in parts:
        if ":" in part and _split_name(part, names) is None and not os.path.exists(part):
            raise UsageError(f"-i {part}: no such file, and no input of this name; the model's inputs are {names}")
    pairs = [pair for p in parts if (pair := _split_name(p, names)) is not None]
    assigned = {by_name[name]: path for name, path in pairs}
    if pairs and len(assigned) != len(parts):
        raise UsageError(
            f"-i: {count(len(parts), 'input')}, but only {count(len(assigned), 'different name')}; the model's inputs are {names}"
        )
    if not assigned and len(parts) == len(specs):
        assigned = {s.name: p for s, p in zip(specs, parts, strict=True)}
    missing = [s.name for s in specs if s.name not in assigned]
    if missing or len(assigned) != len(specs):
        several_files = "; for a frame of each, give their folder, or a list of them (.txt)"
        more = several_files if len(specs) == 1 else f"; missing {missing}"
        raise UsageError(f"-i: {count(len(parts), 'file')} for {count(len(specs), 'model input')} {names}{more}")
    return assigned


def _split_name(part: str, names: list[str]) -> tuple[str, str] | None:
    """Splits `serving:0:a.npy` after the longest known name into ("serving:0", "a.npy"). Returns None if the part does
    not start with a known name."""
    fitting = [n for n in names if part.startswith(f"{n}:")]
    return (name := max(fitting, key=len), part[len(name) + 1 :]) if fitting else None


@dataclass(frozen=True, slots=True)
class InputRequirement:
    """The requirement that one graph input has of its bytes.

    Attributes:
        spec: spec of the graph input.
        called: the network's name for it.
        description: the description, or None if the spec is sufficient.
        fed: whether the graph input takes the description's buffer itself.
        fixed: the aligned bytes of an input that comes from no file, an ROI or the first state of a variable, or None.
        source: what they are, for reports.
        draft: draft of a description (inputs.draft) if model.bin has none, else "".
    """

    spec: TensorSpec
    called: str
    description: Description | None = None
    fed: bool = False
    fixed: bytes | None = None
    draft: str = ""
    source: str = ""

    def prepared(self, path: str) -> PreparedInput:
        """Returns the prepared input from a file. Raises UsageError if the file does not fit."""
        if self.fixed is not None:
            return PreparedInput(self.spec, self.fixed, self.source)
        try:
            return PreparedInput(self.spec, self.read_bytes(path), path, is_bgr=self._is_bgr)
        except UndescribedError as error:
            raise UndescribedError(str(error), self.called, self.draft) from error

    @property
    def _is_bgr(self) -> bool:
        """Whether three channels of the input are blue, green and red: those of the training, or of the buffer that is fed."""
        wanted = self.description
        if wanted is None:
            return False
        return (
            wanted.format.startswith("bgr")
            if self.fed and wanted.format in (*BYTES, *SIGNED)
            else wanted.train == "bgr"
        )

    def check(self, path: str, stated: ManifestEntry) -> None:
        """Raises UsageError if the file does not match its manifest, or was prepared for another kind of input."""
        data = read_regular(path, stated.description.size_bytes + 1, follow=True)
        if hashlib.sha256(data).hexdigest() != stated.sha256:
            raise UsageError(f"{path}: its SHA-256 is not the manifest's; prepare it again")
        if self.description is not None:
            differences = describe_differences(make_values_key(stated.description), make_values_key(self.description))
            if differences:
                raise UsageError(f"{path}: prepared as {'; '.join(differences)} for input {self.called!r}")

    def read_bytes(self, path: str) -> bytes:
        """Returns the aligned bytes from a file. Raises UsageError if the file does not fit."""
        from qverify.inputs import reading

        if self.description is None:
            return _read_without_description(self.spec, path, self.called)
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
        if self.description.channels == 1 and elements.size == self.spec.elements:  # all layouts are the same
            array = elements.reshape(self.spec.shape)
        elif len(values) == 1 and self.description.layout != (layout := layout_of(self.spec)) and layout:
            array = np.moveaxis(elements, -1, 0)[None] if layout == "NCHW" else np.moveaxis(elements, 0, -1)[None]
        return self.spec.aligned_bytes(check_array(self.spec, _narrow(array, self.spec), path))


def _narrow(array: Array, spec: TensorSpec) -> Array:
    """Returns float32 values that a description made as the input's float16; others as they are."""
    with np.errstate(over="ignore"):
        return array.astype(np.float16) if array.dtype == np.float32 and spec.dtype == "float16" else array


def input_requirements(graph: Graph, tables: Tables) -> dict[str, InputRequirement]:
    """Returns the requirement of each graph input. Raises UsageError for a description of an unknown input, and for one
    that changes the bytes that model.bin takes."""
    described, requirements = described_inputs(graph), {}
    input_names = {*graph.inputs, *(d.name for d in described.values()), ""}
    if unknown := [n for n in tables if n not in input_names]:
        raise UsageError(f"description of input {unknown[0]!r}: no such input; there are {sorted(input_names - {''})}")
    rois = {d.roi for d in described.values()}
    for name in (n for n in graph.inputs if n not in rois):
        spec, in_model = graph.spec(name), described.get(name)
        called = in_model.name if in_model else name
        given = {**tables.get("", {}), **tables.get(name, {}), **tables.get(called, {})}
        raw = in_model is not None and in_model.description is not None and not spec.quantized
        if in_model is None:
            wanted = description_for_tensor(given, spec) if "format" in given else None
            if wanted is not None and wanted.format in YUV420:
                raise UsageError(
                    f"input {name!r} is {spec.dtype}{list(spec.shape)} and does not take {wanted.format}; compile with --input {name}={wanted.format}"
                )
            if given and wanted is None:
                raise UsageError(
                    f"input {name!r}: {', '.join(given)} do not describe its bytes: a format is missing; give --description"
                )
        else:
            wanted = description_for_tensor({**in_model.table, **given}, spec) if given else in_model.description
            _check_same_buffer(in_model, wanted)
        draft = "" if in_model is not None else draft_description(called, spec, quantization_of(graph, name))
        requirements[name] = InputRequirement(spec, called, wanted, raw, first_state(graph, name), draft, STATE)
    for in_model in described.values():
        if in_model.roi is not None:
            roi = _choose_roi(requirements[in_model.tensor].description)
            requirements[in_model.roi] = InputRequirement(
                graph.spec(in_model.roi),
                f"{in_model.name}.roi",
                fixed=np.array(roi, "<i4").tobytes(),
                source=f"roi {','.join(map(str, roi))}",
            )
    return requirements


def _choose_roi(wanted: Description | None) -> tuple[int, ...]:
    """Returns the ROI in a resizer's frames, or the whole frame if none is given."""
    assert wanted is not None
    width, height = wanted.frame
    left, top, wide, high = wanted.roi or (0, 0, width, height)
    if left + wide > width or top + high > height:
        raise UsageError(f"roi {left},{top},{wide},{high} is not inside the frame of {width}x{height}")
    return left, top, wide, high


def _check_same_buffer(in_model: DescribedInput, wanted: Description | None) -> None:
    """Raises UsageError if a description changes the bytes for which the nodes of model.bin were compiled."""
    if in_model.description is None or wanted is None:
        return
    before, now = ({**make_values_key(d), **make_normalization_key(d)} for d in (in_model.description, wanted))
    if differences := describe_differences(now, before):
        raise UsageError(
            f"input {in_model.name!r}: {'; '.join(differences)} in model.bin; to change it, qverify compile --input"
        )


def _read_without_description(spec: TensorSpec, path: str, name: str) -> bytes:
    """Returns the aligned bytes of a file whose elements are those of the tensor."""
    from qverify.inputs import arrays, picture
    from qverify.inputs.fit_hints import hint_for_file, hint_for_missing_file

    if not os.path.isfile(path):
        raise UsageError(f"{path}: no such file for input {spec.name!r}{hint_for_missing_file(path)}")
    ending = os.path.splitext(path)[1].lower()
    if ending in (".npy", ".npz"):
        return spec.aligned_bytes(check_array(spec, arrays.read_array_file(path, name), path))
    if ending == ".wav":
        raise UsageError(f"{path}: sound needs a description of input {spec.name!r} (format, size); give --description")
    if ending in picture.ENDINGS:
        return spec.aligned_bytes(check_array(spec, _read_picture(spec, path), path))
    data = read_regular(path, spec.size_bytes + 1, follow=True)
    if len(data) == spec.size_bytes:
        check_array(spec, spec.valid_view(data), path)
        return data
    if len(data) == spec.valid_bytes:
        valid = np.frombuffer(data, spec.numpy_dtype).reshape(spec.shape)
        return spec.aligned_bytes(check_array(spec, valid, path))
    text = f"{path}: {os.path.getsize(path)} bytes for input {spec.name!r}, wanted {_describe_sizes(spec)} ({spec.dtype}{list(spec.shape)})"
    if len(data) == spec.elements and layout_of(spec):
        more = "save them as .npy, uint8 (height, width, channels), and give --description FILE"
        raise UndescribedError(f"{text}; one byte for each element: 8-bit pixels? Then {more}")
    raise UsageError(text + hint_for_file(path))


def _describe_sizes(spec: TensorSpec) -> str:
    """Returns the possible sizes of a file of raw bytes as text, for a message."""
    if spec.size_bytes == spec.valid_bytes:
        return str(spec.size_bytes)
    return f"{spec.size_bytes} (aligned) or {spec.valid_bytes} (valid elements alone)"


def check_array(spec: TensorSpec, array: Array, path: str) -> Array:
    """Returns the array in little-endian byte order. Raises UsageError if it does not fit the tensor."""
    from qverify.inputs.fit_hints import hint_for_array

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


def _read_picture(spec: TensorSpec, path: str) -> Array:
    """Returns the pixels of a picture that has exactly the input's size, 0..255 in NCHW, without resize or
    normalization. Raises UndescribedError for a picture of another size, and if the input does not take such pixels."""
    from qverify.inputs import picture

    layout = layout_of(spec)
    if spec.dtype not in ("uint8", "float32", "float16") or layout != "NCHW":
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
