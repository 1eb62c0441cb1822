"""Polygraphy (TensorRT, onnxruntime): the JSON that `polygraphy run --save-outputs` writes. It holds the outputs of each
runner and iteration as .npy files in base64. Names are those of the ONNX."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from qverify.errors import BadFileError, UsageError
from qverify.files import parse_json
from qverify.plural import count
from qverify.printable import printable
from qverify.vendor_files.array_files import StoredArray, npy_in_memory
from qverify.vendor_files.untrusted_files import MAX_FILES, UntrustedFile, UntrustedFolder
from qverify.vendor_files.vendor_dump import ReadingOptions, VendorDump, VendorTensor

WANTED = "the JSON of polygraphy run --save-outputs"
CHECKED = "reads what polygraphy 0.53.6 writes with onnxruntime; not checked against output of TensorRT"
MAX_FILE_BYTES, HEAD_BYTES = 1 << 30, 1 << 12
CLASS, RESULTS, ARRAY = "polygraphy_class", "RunResults", "ndarray"
MAX_SHOWN = 3


def recognised(folder: UntrustedFolder) -> bool:
    """Returns True for a JSON file that begins with a list of runs, as only this tool writes it."""
    if not folder.is_file:
        return False
    file = folder.only()
    head = b"".join(file.read(0, min(file.size_bytes, HEAD_BYTES)).split())
    return head.startswith(b'{"lst":[[') or head.startswith(b'{"polygraphy_class":"RunResults"')


def read(folder: UntrustedFolder, options: ReadingOptions) -> VendorDump:
    """Reads the outputs of one runner and iteration. options.side: name of the runner, or its beginning, if there are
    several. options.frame: number of the iteration."""
    file = _file(folder)
    content = parse_json(file.whole(MAX_FILE_BYTES), file.path)
    runs = content.get("lst") if isinstance(content, dict) and content.get(CLASS) == RESULTS else None
    if not isinstance(runs, list) or not all(_is_run(run) for run in runs):
        raise BadFileError(f"{file.path}: no {RESULTS} of polygraphy; wanted {WANTED}")
    name, iterations = _choose(runs, options.side, file.path)
    if options.frame >= len(iterations):
        raise BadFileError(
            f"{file.path}: {count(len(iterations), 'iteration')} of {name}; --frame {options.frame} asked for"
        )
    outputs = iterations[options.frame].get("outputs")
    if not isinstance(outputs, dict) or len(outputs) > MAX_FILES:
        raise BadFileError(f"{file.path}: no outputs of {name} at iteration {options.frame}")
    arrays = [_array(file.path, tensor, value) for tensor, value in outputs.items()]
    dump = VendorDump("polygraphy", [_tensor(array) for array in arrays])
    dump.notes.append(f"polygraphy: the outputs of {name}, iteration {options.frame}")
    return dump


def _file(folder: UntrustedFolder) -> UntrustedFile:
    if folder.is_file:
        return folder.only()
    names = [name for name in folder.names() if name.endswith(".json")]
    if len(names) != 1:
        raise BadFileError(f"{folder.path}: {count(len(names), '.json file')}; wanted {WANTED}")
    return folder.file(names[0])


def _is_run(run: Any) -> bool:
    """Returns whether this is a runner's name with its iterations."""
    is_pair = isinstance(run, list) and len(run) == 2 and isinstance(run[0], str) and isinstance(run[1], list)
    return is_pair and all(isinstance(iteration, dict) for iteration in run[1])


def _choose(runs: list[Any], side: str, where: str) -> tuple[str, list[dict[str, Any]]]:
    """Returns the name and the iterations of the runner that was asked for, or of the only one. Raises UsageError if
    none or several fit."""
    fitting = [run for run in runs if run[0] == side] or [run for run in runs if run[0].startswith(side)]
    if len(fitting) == 1:
        return printable(fitting[0][0])[:100], fitting[0][1]
    names = ", ".join(printable(run[0])[:60] for run in runs[:MAX_SHOWN]) or "none"
    more = f" and {len(runs) - MAX_SHOWN} more" if len(runs) > MAX_SHOWN else ""
    raise UsageError(f"{where}: {count(len(runs), 'runner')} ({names}{more}); say which with --side NAME")


def _array(where: str, name: str, value: Any) -> StoredArray:
    """Returns the array of an output. Raises BadFileError if it is none that numpy saved."""
    where = f"{where}: {printable(name)[:100]!r}"
    array = value.get("values") if isinstance(value, dict) else None
    kind = array.get(CLASS) if isinstance(array, dict) else None
    text = array.get("array") if isinstance(array, dict) and kind == ARRAY else None
    if not isinstance(text, str):
        shown = f"a {printable(kind)[:40]}" if isinstance(kind, str) else "no array"
        raise BadFileError(f"{where}: {shown}; wanted an {ARRAY} (a Tensor of torch is not read: save numpy arrays)")
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadFileError(f"{where}: not base64: {' '.join(str(error).split())[:100]}") from error
    return npy_in_memory(data, name, where)


def _tensor(array: StoredArray) -> VendorTensor:
    return VendorTensor(array.name, array.where, (array.dtype,), array.size_bytes, array.read, array.shape)
