"""The formats of input bytes: their names, the training formats that a chip can convert them to, and limits of
sizes."""

from __future__ import annotations

YUV420 = ("nv12", "nv21", "i420")
BYTES = ("yuv444", "rgb", "bgr", "rgba", "bgra", "gray")
SIGNED = ("yuv444_128", "rgb_128", "bgr_128", "gray_128")  # each byte minus 128, as int8
REAL = ("featuremap", "raw_f32", "raw_s16")
FORMATS = (*YUV420, *BYTES, *SIGNED, *REAL)
TRAINING = ("rgb", "bgr", "gray", "yuv444", "featuremap")
INTEGER_RANGES = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767)}
# By training format, the formats that a chip converts to it (vendors call them input_type_train and input_type_rt).
LEGAL = {
    "yuv444": ("nv12", "nv21", "i420", "yuv444", "yuv444_128"),
    **dict.fromkeys(
        ("rgb", "bgr"),
        (*YUV420, "yuv444", "yuv444_128", "rgb", "bgr", "rgba", "bgra", "rgb_128", "bgr_128", *REAL),
    ),
    "gray": ("gray", "gray_128", *REAL),
    "featuremap": REAL,
}
FITS = ("stretch", "crop", "letterbox", "letterbox-top-left")
LIBRARIES = ("cv2", "pillow")
INTERPOLATIONS = ("nearest", "linear", "cubic", "area")
LAYOUTS = ("NHWC", "NCHW")
MAX_NUMBER = 2.0**60  # of mean and scale
MAX_SIDE = 1 << 15  # pixels
MAX_SAMPLES = 1 << 26  # of a sound
MAX_BYTES = (1 << 31) - 1  # of a buffer
