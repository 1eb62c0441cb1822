"""Arrays that a caller gives as inputs: written as files, which the commands read, and named as what they are in every
message and report."""

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

NUMBERS = "biuf"  # kinds of dtypes
ARRAY = "an array"  # the source of an input that was no file
OTHER_TYPE = re.compile(r": (\w+)\[.*\] for input .*, wanted (\w+)\[[^\]]*\]")


class Given:
    """What -i takes. files: the caller's, or those of arrays. paths: of arrays; none where the caller gave files."""

    def __init__(self, files: Any, paths: Iterable[str] = ()):
        self.files, self._paths = files, tuple(paths)

    @property
    def arrays(self) -> bool:
        """Whether the files are those of arrays, and gone at the end."""
        return bool(self._paths)

    def name(self, text: str) -> str:
        """Returns the text with ARRAY in place of the arrays' files."""
        for path in self._paths:
            text = text.replace(path, ARRAY)
        return text


@contextmanager
def files_of(inputs: Any) -> Iterator[Given]:
    """Yields what -i takes: arrays are written as files, which are gone at the end, and errors name the arrays.
    UsageError for what is neither array nor path, or a mapping of both."""
    alone = isinstance(inputs, np.ndarray)
    named = inputs if isinstance(inputs, Mapping) else {}
    arrays = {"": inputs} if alone else {n: v for n, v in named.items() if isinstance(v, np.ndarray)}
    _check(inputs, arrays)
    if not arrays:
        yield Given(inputs)
        return
    with tempfile.TemporaryDirectory(prefix="qverify-") as folder:
        paths = {n: str(Path(folder) / f"{at}.npy") for at, n in enumerate(arrays)}
        for name, value in arrays.items():
            np.save(paths[name], np.asarray(value), allow_pickle=False)
        given = Given(paths[""] if alone else paths, paths.values())
        try:
            yield given
        except QVerifyError as error:
            error.args = tuple(given.name(_said(str(arg), paths)) for arg in error.args)
            raise


def _said(said: str, paths: Mapping[str, str]) -> str:
    """Returns the message as it is said of arrays: one with a name that is no input's is no missing file, and one of
    another type can be converted."""
    for name, path in paths.items():
        said = said.replace(
            f"-i {name}:{path}: no such file, and no input of this name", f"inputs: {name!r} is no input"
        )
        types = OTHER_TYPE.fullmatch(said.removeprefix(path))
        if types is not None and types[1] != types[2]:
            said += f"; convert it with array.astype('{types[2]}')"
    return said


def _check(inputs: Any, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Raises UsageError for inputs that are neither arrays of numbers nor paths."""
    if isinstance(inputs, Mapping):
        if not all(isinstance(name, str) and name for name in inputs):
            raise UsageError("inputs: wanted a mapping whose keys are names of the model's inputs")
        if not inputs:
            raise UsageError("inputs: got an empty mapping; None gives random inputs")
        if 0 < len(arrays) < len(inputs):
            raise UsageError("inputs: got arrays and files, wanted the one or the other")
    for one in inputs.values() if isinstance(inputs, Mapping) else inputs if isinstance(inputs, (list, tuple)) else ():
        if isinstance(one, (list, tuple, np.generic)) or (isinstance(one, np.ndarray) and not arrays):
            raise UsageError(f"inputs: got a {type(one).__name__} within, wanted paths, or arrays by input name")
    for name, value in arrays.items():
        where = f"inputs[{name!r}]" if name else "inputs"
        if value.dtype.hasobject:
            raise UsageError(f"{where}: got an array of Python objects, wanted numbers")
        if value.dtype.kind not in NUMBERS:
            raise UsageError(f"{where}: got an array of {value.dtype}, wanted numbers")
        if isinstance(value, np.ma.MaskedArray):
            raise UsageError(f"{where}: got a masked array, wanted one of plain numbers, such as array.filled(0)")
