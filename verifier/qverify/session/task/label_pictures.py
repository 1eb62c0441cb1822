"""Labels that are arrays: a folder with a picture or an .npy for each frame."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.errors import QVerifyError, TaskError
from qverify.extras import import_extra
from qverify.inputs.arrays import read_array_file
from qverify.plural import count
from qverify.printable import printable

ENDINGS = (".png", ".npy", ".bmp", ".tif", ".tiff", ".jpg", ".jpeg")
MAX_PIXELS = 1 << 26


def find_label_files(folder: str, frames: list[str]) -> tuple[list[str], int]:
    """Returns the path of each frame's label, the file of the folder that has the frame's name but for the ending, and of how
    many frames the folder has labels. Raises TaskError for a folder that is none, and frames with no file or several."""
    if not os.path.isdir(folder):
        raise TaskError(
            f"--labels {printable(folder)}: wanted a folder with a .png or .npy for each frame, named as the frame"
        )
    by_stem: dict[str, list[str]] = {}
    for name in sorted(os.listdir(folder)):
        stem, ending = os.path.splitext(name)
        if ending.lower() in ENDINGS:
            by_stem.setdefault(stem, []).append(os.path.join(folder, name))
    paths, lacking = [], []
    for frame in frames:
        found = by_stem.get(stem_of(frame), [])
        if len(found) > 1:
            raise TaskError(
                f"--labels {printable(folder)}: {len(found)} files for frame {printable(frame)}; wanted one"
            )
        if not found:
            lacking.append(frame)
        paths += found
    if lacking:
        raise TaskError(
            f"--labels {printable(folder)}: no file for {printable(lacking[0])} and {count(len(lacking), 'frame')} in all; "
            f"wanted {printable(stem_of(lacking[0]))}.png or .npy"
        )
    return paths, len(by_stem)


def stem_of(frame: str) -> str:
    """Returns a frame's name without folder and ending."""
    return os.path.splitext(os.path.basename(frame))[0]


def read_label_array(path: str, is_mask: bool) -> npt.NDArray[Any]:
    """Returns the array of a label: an .npy as it is, a picture as stored: (H, W) of a mask (an indexed one its indices),
    else (H, W) or (H, W, 3). Raises TaskError for a file that cannot be read or is too large."""
    try:
        value = np.asarray(read_array_file(path, "")) if path.lower().endswith(".npy") else _read_picture(path, is_mask)
    except (OSError, ValueError, QVerifyError) as error:
        raise TaskError(f"--labels {printable(path)}: {printable(str(error))}") from error
    if not value.size or value.size > 4 * MAX_PIXELS:
        raise TaskError(f"--labels {printable(path)}: {value.size} elements; wanted 1 to {4 * MAX_PIXELS}")
    return value


def _read_picture(path: str, is_mask: bool) -> npt.NDArray[Any]:
    pillow = import_extra("PIL.Image", f"{os.path.basename(path)}: a picture")
    with pillow.open(path) as picture:
        if picture.width * picture.height > MAX_PIXELS:
            raise ValueError(f"{picture.width}x{picture.height} pixels; at most {MAX_PIXELS} are read")
        if is_mask and picture.mode not in ("P", "L", "I", "I;16", "1"):
            raise ValueError(f"a picture of mode {picture.mode}; wanted the class of each pixel: indexed or gray")
        if not is_mask and picture.mode not in ("L", "RGB"):
            picture = picture.convert("RGB")
        return np.asarray(picture)
