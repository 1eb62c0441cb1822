"""Sophgo CV18xx: the .npz that model_runner writes on the board (-o, --dump-all-tensors), or tpu-mlir on the host."""

from __future__ import annotations

from qverify.errors import BadFileError
from qverify.plural import count
from qverify.vendor_files.array_files import StoredArray, npz
from qverify.vendor_files.untrusted_files import UntrustedFile, UntrustedFolder
from qverify.vendor_files.vendor_dump import ReadingOptions, VendorDump, VendorTensor

WANTED = "the .npz of model_runner"
CHECKED = "reads what the source of model_runner writes; not checked against output of a board"


def recognised(folder: UntrustedFolder) -> bool:
    """Returns False, since its dumps look like any other .npz."""
    return False


def read(folder: UntrustedFolder, options: ReadingOptions) -> VendorDump:
    """Reads the dump; names are unchanged. The file does not contain the scales of quantized tensors, which only -m
    states."""
    return VendorDump("sophgo", [_tensor(array) for array in npz(_file(folder))])


def _file(folder: UntrustedFolder) -> UntrustedFile:
    if folder.is_file:
        return folder.only()
    archives = [name for name in folder.names() if name.endswith(".npz")]
    if len(archives) != 1:
        raise BadFileError(f"{folder.path}: {count(len(archives), '.npz file')}; wanted {WANTED}")
    return folder.file(archives[0])


def _tensor(array: StoredArray) -> VendorTensor:
    """Returns the tensor. The tool stores BF16 as uint16, and a padded tensor of n frames with the shape n,1,1,x."""
    dtypes: tuple[str, ...] = (array.dtype,)
    if array.dtype == "uint16":
        dtypes = ("bfloat16",) if array.name.endswith(("_bf16", ".bf16")) else ("uint16", "bfloat16")
    flat = len(array.shape) == 4 and array.shape[1:3] == (1, 1)
    return VendorTensor(array.name, array.where, dtypes, array.size_bytes, array.read, array.shape, flat=flat)
