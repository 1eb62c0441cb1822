"""A float ONNX and the files in which a vendor's toolkit states how it quantized it (--quantization)."""

from __future__ import annotations

import os
from collections.abc import Sequence

from qverify.errors import UsageError
from qverify.files import read_regular
from qverify.vendor_quantization import Quantized, write_quantized

WHERE = "--quantization"
MAX_BYTES = 1 << 31


def quantize_as_vendor(path: str, data: bytes, files: Sequence[str]) -> Quantized:
    """Returns the quantized ONNX that these files and the float ONNX give. Raises BadFileError, UsageError."""
    contents = dict[str, bytes]()
    for file in files:
        name = os.path.basename(file)
        if name in contents:
            raise UsageError(f"{WHERE} {file}: two files are named {name}")
        contents[name] = read_regular(file, MAX_BYTES, follow=True)
    return write_quantized(data, contents)
