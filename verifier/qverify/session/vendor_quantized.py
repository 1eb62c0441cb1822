"""A float ONNX and the files in which a vendor's toolkit states how it quantized it (--quantization)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from qverify.engines import RunnerChoice, option
from qverify.errors import UsageError
from qverify.files import read_regular
from qverify.vendor_quantization import Quantized, write_quantized

WHERE = "--quantization"
MAX_BYTES = 1 << 31
KEY = "quantization"  # of an engine that runs the toolkit's own files


def quantize_as_vendor(path: str, data: bytes, files: Sequence[str]) -> Quantized:
    """Returns the quantized ONNX that these files and the float ONNX give. Raises BadFileError, UsageError."""
    contents = dict[str, bytes]()
    for file in files:
        name = os.path.basename(file)
        if name in contents:
            raise UsageError(f"{WHERE} {file}: two files are named {name}")
        contents[name] = read_regular(file, MAX_BYTES, follow=True)
    return write_quantized(data, contents)


def with_toolkit_files(choice: RunnerChoice, files: Sequence[str]) -> RunnerChoice:
    """Returns the choice of an engine on this host, with the file of --quantization as its option if the engine has such an
    option, the user gave none, and the toolkit's other files lie beside it."""
    if KEY not in choice.page.OPTIONS or option(choice.options, KEY) or len(files) != 1:
        return choice
    path = os.path.abspath(files[0])
    beside: tuple[str, ...] = getattr(choice.page, "BESIDE", ())
    stem = next((path.removesuffix(ending) for ending in beside if path.endswith(ending)), "")
    if not stem or not all(os.path.isfile(stem + ending) for ending in beside):
        return choice
    return replace(choice, options={**choice.options, KEY: (path,)})
