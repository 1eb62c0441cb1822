"""Writes arrays that a caller passes as inputs to temporary files, which the commands read. Messages and reports call
them `an array` instead of naming the files."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.errors import QVerifyError, UsageError

NUMBER_KINDS = "biuf"  # kinds of numpy dtypes: bool, signed and unsigned integers, floats
ARRAY = "an array"  # the source of an input that was passed as an array
WRONG_DTYPE = re.compile(r": (\w+)\[.*\] for input .*, wanted (\w+)\[[^\]]*\]")  # error about an input of another dtype


class InputFiles:
    """The value for -i. files: the caller's value, or the temporary files of the caller's arrays."""

    def __init__(self, files: Any, array_paths: Iterable[str] = ()):
        """array_paths: the temporary files of arrays, () if the caller passed files."""
        self.files, self._array_paths = files, tuple(array_paths)

    @property
    def are_arrays(self) -> bool:
        """Whether the caller passed arrays, so that the files are temporary."""
        return bool(self._array_paths)

    def hide_paths(self, text: str) -> str:
        """Returns the text with ARRAY in place of the paths of temporary files."""
        for path in self._array_paths:
            text = text.replace(path, ARRAY)
        return text


@contextmanager
def input_files(inputs: Any) -> Iterator[InputFiles]:
    """Yields the value for -i. Arrays are written to temporary files, which are removed at the end; errors raised in
    the `with` block do not name these files. Raises UsageError for inputs that are neither arrays nor paths, or
    both."""
    is_single = isinstance(inputs, np.ndarray)
    by_name = inputs if isinstance(inputs, Mapping) else {}
    arrays = {"": inputs} if is_single else {n: v for n, v in by_name.items() if isinstance(v, np.ndarray)}
    _check(inputs, arrays)
    if not arrays:
        yield InputFiles(inputs)
        return
    with tempfile.TemporaryDirectory(prefix="qverify-") as folder:
        paths = {n: str(Path(folder) / f"{at}.npy") for at, n in enumerate(arrays)}
        for name, value in arrays.items():
            np.save(paths[name], np.asarray(value), allow_pickle=False)
        files = InputFiles(paths[""] if is_single else paths, paths.values())
        try:
            yield files
        except QVerifyError as error:
            error.args = tuple(files.hide_paths(_reword(str(arg), paths)) for arg in error.args)
            raise


def _reword(message: str, paths: Mapping[str, str]) -> str:
    """Returns an error message about the temporary files reworded for arrays: an unknown input name is not a missing
    file, and an array of another dtype can be converted. paths: the temporary files, by input name."""
    for name, path in paths.items():
        message = message.replace(
            f"-i {name}:{path}: no such file, and no input of this name", f"inputs: {name!r} is no input"
        )
        types = WRONG_DTYPE.fullmatch(message.removeprefix(path))
        if types is not None and types[1] != types[2]:
            message += f"; convert it with array.astype('{types[2]}')"
    return message


def _check(inputs: Any, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Raises UsageError for inputs that are neither arrays of numbers nor paths."""
    if isinstance(inputs, Mapping):
        if not all(isinstance(name, str) and name for name in inputs):
            raise UsageError("inputs: wanted a mapping whose keys are names of the model's inputs")
        if not inputs:
            raise UsageError("inputs: got an empty mapping; None gives random inputs")
        if 0 < len(arrays) < len(inputs):
            raise UsageError("inputs: got arrays and files, wanted the one or the other")
    elements = inputs.values() if isinstance(inputs, Mapping) else inputs if isinstance(inputs, (list, tuple)) else ()
    for element in elements:
        if isinstance(element, (list, tuple, np.generic)) or (isinstance(element, np.ndarray) and not arrays):
            raise UsageError(f"inputs: got a {type(element).__name__} within, wanted paths, or arrays by input name")
    for name, value in arrays.items():
        where = f"inputs[{name!r}]" if name else "inputs"
        if value.dtype.hasobject:
            raise UsageError(f"{where}: got an array of Python objects, wanted numbers")
        if value.dtype.kind not in NUMBER_KINDS:
            raise UsageError(f"{where}: got an array of {value.dtype}, wanted numbers")
        if isinstance(value, np.ma.MaskedArray):
            raise UsageError(f"{where}: got a masked array, wanted one of plain numbers, such as array.filled(0)")
