"""Reads a picture file as full-range 8-bit RGB or gray (INPUTS.md step 1)."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.errors import UsageError
from qverify.extras import import_extra

Array = npt.NDArray[Any]
ORIENTATION = 0x0112  # EXIF tag; its value 1 is upright
MAX_PIXELS = 1 << 26
KINDS = ("JPEG", "PNG", "BMP", "WEBP", "TIFF", "PPM", "GIF")  # an MPO is opened as a JPEG
ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".gif")


def read(path: str, gray: bool = False) -> Array:
    """Returns the pixels as uint8 (H, W, 3), or (H, W, 1) if `gray` is set, with EXIF rotation applied. Raises
    UsageError for a file that is not a picture, is truncated, or is too large."""
    images = import_extra("PIL.Image", f"{path}: a picture")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the messages below describe a faulty file
            with images.open(path, formats=KINDS) as picture:
                return _read_pixels(path, picture, gray)
    except UsageError:
        raise
    except images.UnidentifiedImageError as error:
        raise UsageError(f"{path}: not a picture; wanted {', '.join(KINDS[:-1])} or {KINDS[-1]}") from error
    except Exception as error:  # decoders raise many types
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UsageError(f"{path}: not a readable picture: {reason}") from error


def _read_pixels(path: str, picture: Any, gray: bool) -> Array:
    if picture.width * picture.height > MAX_PIXELS:
        raise UsageError(f"{path}: {picture.width}x{picture.height} pixels; at most {MAX_PIXELS} are read")
    coding = str(picture.tile[0][3]) if picture.tile else ""  # Pillow deletes it when the pixels are read
    turned = picture.getexif().get(ORIENTATION, 1) != 1
    if ";16" in coding or picture.mode.startswith("I;16"):
        if turned:
            raise UsageError(f"{path}: a 16-bit picture with an EXIF rotation; rotate its pixels first")
        return _read_16_bits(path, picture, gray)
    if picture.mode in ("I", "F"):
        raise UsageError(f"{path}: 32-bit values are not a picture; give .npy, or 8 or 16 bits per channel")
    whole = import_extra("PIL.ImageOps", path).exif_transpose(picture) if turned else picture
    mode = "L" if gray else "RGB"
    pixels = np.asarray(whole if whole.mode == mode else whole.convert(mode))
    return pixels[..., None] if pixels.ndim == 2 else pixels


def _read_16_bits(path: str, picture: Any, gray: bool) -> Array:
    """Returns the pixels of a picture with 16 bits per channel, converted to 8 bits without alpha. Colours are read
    with OpenCV, because Pillow keeps only their high bytes."""
    if picture.mode.startswith("I"):
        small = _convert_to_8_bits(np.asarray(picture))
    else:
        cv2 = import_extra("cv2", f"{path}: a picture of 16 bits per channel")
        image = cv2.imread(path, cv2.IMREAD_UNCHANGED)
        if image is None or image.dtype != np.uint16:
            raise UsageError(f"{path}: not a readable 16-bit picture")
        small = _convert_to_8_bits(image if image.ndim == 2 else image[..., 2::-1])
    if small.ndim == 2:
        return small[..., None] if gray else np.repeat(small[..., None], 3, axis=-1)
    return convert_to_gray(small)[..., None] if gray else np.ascontiguousarray(small)


def convert_to_gray(rgb: Array) -> Array:
    """Converts uint8 RGB (H, W, 3) to gray (H, W), as Pillow does."""
    picture = import_extra("PIL.Image", "a gray picture").fromarray(np.ascontiguousarray(rgb))
    return np.asarray(picture.convert("L"))


def _convert_to_8_bits(values: Array) -> Array:
    """Returns 16-bit values divided by 257, so that 65535 becomes 255, rounded half up."""
    return ((values.astype(np.int64) + 128) // 257).clip(0, 255).astype(np.uint8)
