"""-i to one array per model input: .bin .npy .npz and images, sizes and dtypes checked."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.errors import UsageError
from qverify.model_bin.graph import Graph
from qverify.tensors.prepared import PreparedInput, PreparedInputs
from qverify.tensors.spec import TensorSpec

Array = npt.NDArray[Any]


def prepare(graph: Graph, text: str) -> PreparedInputs:
    """`a.bin,b.npy`, `name1:a.npy,name2:b.bin`, or one .npz. UsageError names what does not fit and what would."""
    specs = [graph.spec(n) for n in graph.inputs]
    parts = [p for p in text.split(",") if p]
    if len(parts) == 1 and parts[0].endswith(".npz"):
        return _from_npz(specs, parts[0])
    for part in parts:
        if ":" in part and _named(part, graph.inputs) is None and not os.path.exists(part):
            raise UsageError(
                f"-i {part}: no such file, and no input of that name; the model's inputs are {list(graph.inputs)}"
            )
    named = dict(pair for p in parts if (pair := _named(p, graph.inputs)) is not None)
    if named and len(named) != len(parts):
        raise UsageError(
            f"-i: {len(parts)} inputs, but only {len(named)} different names; the model's inputs are {list(graph.inputs)}"
        )
    if not named and len(parts) == len(specs):
        named = {s.name: p for s, p in zip(specs, parts, strict=True)}
    missing = [n for n in graph.inputs if n not in named]
    if missing or len(named) != len(specs):
        raise UsageError(
            f"-i: {len(parts)} files for {len(specs)} model inputs {list(graph.inputs)}; missing {missing}"
        )
    return PreparedInputs(tuple(PreparedInput(s, _bytes(s, named[s.name]), named[s.name]) for s in specs))


def _named(part: str, names: tuple[str, ...]) -> tuple[str, str] | None:
    """("serving:0", "a.npy") of `serving:0:a.npy`; the longest name counts."""
    fitting = [n for n in names if part.startswith(f"{n}:")]
    return (name := max(fitting, key=len), part[len(name) + 1 :]) if fitting else None


def _from_npz(specs: list[TensorSpec], path: str) -> PreparedInputs:
    try:
        with np.load(path, allow_pickle=False) as held:
            missing = [s.name for s in specs if s.name not in held]
            if missing:
                raise UsageError(f"{path}: holds {list(held)}, the model's inputs {missing} are not among them")
            arrays = {s.name: held[s.name] for s in specs}
    except (OSError, ValueError, EOFError, KeyError) as error:
        raise UsageError(f"{path}: not a readable .npz: {error}") from error
    return PreparedInputs(
        tuple(PreparedInput(s, s.aligned_bytes(_fitting(s, arrays[s.name], path)), path) for s in specs)
    )


def _bytes(spec: TensorSpec, path: str) -> bytes:
    if not os.path.isfile(path):
        raise UsageError(f"{path}: no such file for input {spec.name!r}")
    ending = os.path.splitext(path)[1].lower()
    if ending == ".npy":
        try:
            array = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise UsageError(f"{path}: not a readable .npy: {error}") from error
        return spec.aligned_bytes(_fitting(spec, array, path))
    if ending in (".png", ".jpg", ".jpeg"):
        return spec.aligned_bytes(_fitting(spec, _image(spec, path), path))
    with open(path, "rb") as file:
        data = file.read(spec.size_bytes + 1)
    if len(data) == spec.size_bytes:
        _fitting(spec, spec.valid_view(data), path)
        return data
    if len(data) == spec.valid_bytes:
        valid = np.frombuffer(data, spec.numpy_dtype).reshape(spec.shape)
        return spec.aligned_bytes(_fitting(spec, valid, path))
    raise UsageError(
        f"{path}: {os.path.getsize(path)} bytes for input {spec.name!r}, wanted {spec.size_bytes} ({spec.dtype}{list(spec.shape)})"
    )


def _fitting(spec: TensorSpec, array: Array, path: str) -> Array:
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    if array.shape != spec.shape or array.dtype != spec.numpy_dtype:
        raise UsageError(
            f"{path}: {array.dtype}{list(array.shape)} for input {spec.name!r}, wanted {spec.dtype}{list(spec.shape)}"
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise UsageError(f"{path}: holds NaN or infinite values for input {spec.name!r}")
    return array


def _image(spec: TensorSpec, path: str) -> Array:
    """An image of exactly the input's size, 0..255, NCHW; no resize and no normalization."""
    if spec.dtype not in ("uint8", "float32") or len(spec.shape) != 4:
        raise UsageError(
            f"{path}: an image is 0..255 in NCHW, input {spec.name!r} is {spec.dtype}{list(spec.shape)}; give .npy or .bin"
        )
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise UsageError(f"{path}: images need Pillow; pip install 'qverify[images]', or give .npy or .bin") from None
    try:
        with Image.open(path) as picture:
            pixels = np.asarray(picture.convert("L" if spec.shape[1] == 1 else "RGB"))
    except (OSError, UnidentifiedImageError, IndexError) as error:
        raise UsageError(f"{path}: not a readable image: {error}") from error
    planes = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
    return np.ascontiguousarray(planes[None]).astype(spec.dtype)
