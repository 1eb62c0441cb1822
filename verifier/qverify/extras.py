"""Libraries that qverify needs for some inputs only: each belongs to an extra of pyproject.toml, which a message names."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from qverify.errors import MissingExtraError

EXTRAS = {  # by the module's first word: its name in messages, the extra that installs it
    "PIL": ("Pillow", "images"),
    "cv2": ("OpenCV", "images"),
    "ai_edge_litert": ("LiteRT", "litert"),
    "flatbuffers": ("flatbuffers", "litert"),  # LiteRT brings it
    "pandas": ("pandas", "frames"),
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
    """Returns the module `module` of a library of EXTRAS. what: what needs it, the beginning of the message, such as
    "photo.jpg: a picture". Raises MissingExtraError, one line with the command that installs the library, where it is
    not installed, or with the reason where it cannot be loaded."""
    top = module.partition(".")[0]
    library, extra = EXTRAS[top]
    install = f"pip install 'qverify[{extra}]'"
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name in (top, module):
            raise MissingExtraError(f"{what} needs {library}; {install}") from None
        raise MissingExtraError(f"{what} needs {library}, which lacks {error.name}; {install}") from None
    except ImportError as error:  # a shared library of the system that it needs
        reason = " ".join(str(error).split())
        raise MissingExtraError(f"{what} needs {library}, which cannot be loaded: {reason}") from None
