"""Imports of optional libraries. Each belongs to an extra of pyproject.toml, which the error names if it is missing."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from qverify.errors import MissingExtraError

EXTRAS = {  # top-level module: (name of the library in messages, extra that installs it)
    "PIL": ("Pillow", "images"),
    "cv2": ("OpenCV", "images"),
    "ai_edge_litert": ("LiteRT", "litert"),
    "flatbuffers": ("flatbuffers", "litert"),  # a dependency of LiteRT
    "pandas": ("pandas", "frames"),
    "pycocotools": ("pycocotools", "tasks"),
    "skimage": ("scikit-image", "tasks"),
    "jiwer": ("jiwer", "tasks"),
    "distributed": ("Dask distributed", "farm"),
    "sqlalchemy": ("SQLAlchemy", "farm"),
    "alembic": ("Alembic", "farm"),
    "fsspec": ("fsspec", "farm"),
    "fastapi": ("FastAPI", "service"),
    "uvicorn": ("uvicorn", "service"),
    "jinja2": ("Jinja2", "service"),
    "multipart": ("python-multipart", "service"),
    "prometheus_client": ("prometheus-client", "service"),
    "httpx": ("httpx", "service"),
}


def import_extra(module: str, what: str) -> ModuleType:
    """Imports and returns a module of a library in EXTRAS. what: the thing that needs it, such as "photo.jpg: a
    picture", with which the error begins. Raises MissingExtraError if the library is not installed (with the command
    that installs it) or cannot be loaded (with the reason)."""
    top = module.partition(".")[0]
    library, extra = EXTRAS[top]
    install = f"pip install 'qverify[{extra}]'"
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name in (top, module):
            raise MissingExtraError(f"{what} needs {library}; {install}") from None
        raise MissingExtraError(f"{what} needs {library}, which lacks {error.name}; {install}") from None
    except ImportError as error:  # for example, a shared library of the system is missing
        reason = " ".join(str(error).split())
        raise MissingExtraError(f"{what} needs {library}, which cannot be loaded: {reason}") from None


def import_farm(module: str, what: str) -> ModuleType:
    """Imports and returns a module of the farm, a higher layer, which is loaded by name and only where it is used. what: as for
    missing_extra. Raises MissingExtraError if one of its libraries is not installed."""
    try:
        return import_module(f"qverify_farm.{module}")
    except ModuleNotFoundError as error:
        raise missing_extra(what, error) or error from None


def missing_extra(what: str, error: ModuleNotFoundError) -> MissingExtraError | None:
    """Returns the error for the user, which names the extra to install, if the module that was not found is a library of
    EXTRAS; None for any other. what: the thing that needs it."""
    library = EXTRAS.get((error.name or "").partition(".")[0])
    if library is None:
        return None
    return MissingExtraError(f"{what} needs {library[0]}: pip install 'qverify[{library[1]}]'")
