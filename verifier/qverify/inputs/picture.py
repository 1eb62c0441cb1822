"""Reads a picture file as full-range 8-bit RGB (or gray) of the wanted size: INPUTS.md steps 1 and 2."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.errors import UsageError
from qverify.inputs.description import Description

Array = npt.NDArray[Any]
ORIENTATION = 0x0112  # of EXIF; 1 is upright
MOST_PIXELS = 1 << 26
KINDS = ("JPEG", "PNG", "BMP", "WEBP", "TIFF", "PPM", "GIF", "MPO")
ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".gif")
NEED = "pictures need Pillow and OpenCV; pip install 'qverify[images]'"


def read(path: str, gray: bool = False) -> Array:
    """Returns uint8 (H, W, 3), or (H, W, 1) for gray, with EXIF rotation applied. Raises UsageError for a file that is
    not a picture, is cut short or too large."""
    try:
        from PIL import Image
    except ImportError:
        raise UsageError(f"{path}: {NEED}") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # our own message describes a faulty file
            with Image.open(path, formats=KINDS) as picture:
                return _pixels(path, picture, gray)
    except UsageError:
        raise
    except Exception as error:  # decoders raise many types
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UsageError(f"{path}: not a readable picture: {reason}") from error


def _pixels(path: str, picture: Any, gray: bool) -> Array:
    from PIL import ImageOps

    if picture.width * picture.height > MOST_PIXELS:
        raise UsageError(f"{path}: {picture.width}x{picture.height} pixels; at most {MOST_PIXELS} are read")
    coding = str(picture.tile[0][3]) if picture.tile else ""  # gone once the pixels are read
    turned = picture.getexif().get(ORIENTATION, 1) != 1
    if ";16" in coding or picture.mode.startswith("I;16"):
        if turned:
            raise UsageError(f"{path}: a 16-bit picture with an EXIF rotation; rotate its pixels first")
        return _sixteen(path, picture, gray)
    if picture.mode in ("I", "F"):
        raise UsageError(f"{path}: 32-bit values are not a picture; give .npy, or 8 or 16 bits per channel")
    whole = ImageOps.exif_transpose(picture) if turned else picture
    mode = "L" if gray else "RGB"
    pixels = np.asarray(whole if whole.mode == mode else whole.convert(mode))
    return pixels[..., None] if pixels.ndim == 2 else pixels


def _sixteen(path: str, picture: Any, gray: bool) -> Array:
    """Converts 16 bits per channel to 8: 65535 becomes 255, rounded half up; alpha is dropped. Reads colours with
    OpenCV, because Pillow keeps only their high bytes."""
    from PIL import Image

    if picture.mode.startswith("I"):
        small = _eight(np.asarray(picture))
    else:
        import cv2

        image = cv2.imread(path, cv2.IMREAD_UNCHANGED)
        if image is None or image.dtype != np.uint16:
            raise UsageError(f"{path}: not a readable 16-bit picture")
        small = _eight(image if image.ndim == 2 else image[..., 2::-1])
    if small.ndim == 2:
        return small[..., None] if gray else np.repeat(small[..., None], 3, axis=-1)
    return np.asarray(Image.fromarray(small).convert("L"))[..., None] if gray else np.ascontiguousarray(small)


def _eight(values: Array) -> Array:
    return ((values.astype(np.int64) + 128) // 257).clip(0, 255).astype(np.uint8)


def fitted(pixels: Array, wanted: Description) -> Array:
    """Returns pixels (height, width, channels) of the description's frame: uint8, or float32 if it resizes in
    float32."""
    width, height = wanted.frame
    if wanted.roi is not None and wanted.source is None:
        pixels = _cut(pixels, wanted.roi)
    if wanted.fit == "crop":
        return _resized(_cropped(pixels, width, height), width, height, wanted)
    if wanted.fit == "stretch":
        return _resized(pixels, width, height, wanted)
    ratio = min(width / pixels.shape[1], height / pixels.shape[0])
    inner = max(1, round(pixels.shape[1] * ratio)), max(1, round(pixels.shape[0] * ratio))
    small = _resized(pixels, *inner, wanted)
    whole = np.full((height, width, pixels.shape[2]), wanted.fill, small.dtype)
    centred = wanted.fit == "letterbox"
    top, left = ((height - inner[1]) // 2, (width - inner[0]) // 2) if centred else (0, 0)
    whole[top : top + inner[1], left : left + inner[0]] = small
    return whole


def _cut(pixels: Array, roi: tuple[int, int, int, int]) -> Array:
    left, top, width, height = roi
    if left + width > pixels.shape[1] or top + height > pixels.shape[0]:
        raise UsageError(
            f"roi {left},{top},{width},{height} is not inside the picture of {pixels.shape[1]}x{pixels.shape[0]}"
        )
    return pixels[top : top + height, left : left + width]


def _cropped(pixels: Array, width: int, height: int) -> Array:
    """Returns the largest centred part with the aspect ratio width:height; offsets are rounded down."""
    rows, columns = pixels.shape[:2]
    if columns * height > rows * width:
        columns = max(1, rows * width // height)
    else:
        rows = max(1, columns * height // width)
    top, left = (pixels.shape[0] - rows) // 2, (pixels.shape[1] - columns) // 2
    return pixels[top : top + rows, left : left + columns]


def _resized(pixels: Array, width: int, height: int, wanted: Description) -> Array:
    real = wanted.resize_dtype == "float32"
    if pixels.shape[:2] == (height, width):
        return pixels.astype(np.float32) if real else pixels
    resize = _by_cv2 if wanted.library == "cv2" else _by_pillow
    resized = resize(pixels, width, height, wanted.interpolation, real)
    return resized if resized.ndim == 3 else resized[..., None]


def _by_cv2(pixels: Array, width: int, height: int, interpolation: str, real: bool) -> Array:
    try:
        import cv2
    except ImportError:
        raise UsageError(NEED) from None
    how = {"nearest": cv2.INTER_NEAREST, "linear": cv2.INTER_LINEAR, "cubic": cv2.INTER_CUBIC, "area": cv2.INTER_AREA}
    source = np.ascontiguousarray(pixels.astype(np.float32) if real else pixels)
    return np.asarray(cv2.resize(source, (width, height), interpolation=how[interpolation]))


def _by_pillow(pixels: Array, width: int, height: int, interpolation: str, real: bool) -> Array:
    from PIL import Image

    how = {
        "nearest": Image.Resampling.NEAREST,
        "linear": Image.Resampling.BILINEAR,
        "cubic": Image.Resampling.BICUBIC,
        "area": Image.Resampling.BOX,
    }[interpolation]
    if not real:
        flat = pixels[..., 0] if pixels.shape[2] == 1 else pixels
        return np.asarray(Image.fromarray(flat).resize((width, height), how))
    planes = [Image.fromarray(p.astype(np.float32)).resize((width, height), how) for p in np.moveaxis(pixels, -1, 0)]
    return np.stack([np.asarray(p) for p in planes], axis=-1)
