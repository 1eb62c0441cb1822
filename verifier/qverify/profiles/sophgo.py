"""Sophgo CV18xx: the .npz that model_runner writes on the board (-o, --dump-all-tensors), or tpu-mlir on the host."""

from __future__ import annotations

from qverify.errors import BadFileError
from qverify.vendor_files.array_files import HeldArray, npz
from qverify.vendor_files.untrusted_files import UntrustedFile, UntrustedFolder
from qverify.vendor_files.vendor_dump import ReadingOptions, VendorDump, VendorTensor

WANTED = "the .npz of model_runner"
CHECKED = "read as the source of model_runner writes it; no output of a board was at hand to check with"


def recognised(folder: UntrustedFolder) -> bool:
    """Never: it looks like any other .npz."""
    return False


def read(folder: UntrustedFolder, asked: ReadingOptions) -> VendorDump:
    """Names are true. The scale of a quantized tensor is not in the file: -m has it."""
    return VendorDump("sophgo", [_tensor(array) for array in npz(_file(folder))])


def _file(folder: UntrustedFolder) -> UntrustedFile:
    if folder.is_file:
        return folder.only()
    found = [name for name in folder.names() if name.endswith(".npz")]
    if len(found) != 1:
        raise BadFileError(f"{folder.path}: {len(found)} .npz files; wanted {WANTED}")
    return folder.file(found[0])


def _tensor(array: HeldArray) -> VendorTensor:
    """uint16 is what becomes of BF16, too; n,1,1,x what becomes of a padded tensor of n frames."""
    dtypes: tuple[str, ...] = (array.dtype,)
    if array.dtype == "uint16":
        dtypes = ("bfloat16",) if array.name.endswith(("_bf16", ".bf16")) else ("uint16", "bfloat16")
    flat = len(array.shape) == 4 and array.shape[1:3] == (1, 1)
    return VendorTensor(array.name, array.where, dtypes, array.size_bytes, array.read, array.shape, flat=flat)
