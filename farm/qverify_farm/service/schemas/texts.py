"""The types of texts and numbers in requests. Each has a maximum size, and none permits characters that a database or a page
cannot represent."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header, Path, Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from qverify_farm.service.tokens import NAME
from qverify_farm.work.file_cache import MAX_NAME_BYTES


def plain(text: str) -> str:
    """Returns the text. Raises ValueError if it has control characters or line ends."""
    if not text.isprintable():
        raise ValueError("wanted text without control characters and line ends")
    return text


def file_name(text: str) -> str:
    """Returns the name or path of a file. Raises ValueError if a part is too long for a file system."""
    if any(len(part.encode()) > MAX_NAME_BYTES for part in text.split("/")):
        raise ValueError(f"wanted names of at most {MAX_NAME_BYTES} bytes")
    return text


ID = r"^[0-9a-f]{32}$"
SHA256 = r"^[0-9a-f]{64}$"

Id = Annotated[str, Field(pattern=ID, description="32 hexadecimal digits")]
Sha256 = Annotated[str, Field(pattern=SHA256, description="SHA-256, 64 hexadecimal digits")]
Name = Annotated[str, Field(pattern=NAME, description="letters, digits and . _ + -, at most 64")]
Title = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(plain)]
Text = Annotated[str, Field(max_length=500), AfterValidator(plain)]
FilePath = Annotated[str, Field(min_length=1, max_length=400), AfterValidator(plain)]
InputsText = Annotated[str, Field(max_length=100_000), AfterValidator(plain)]
FiniteNumber = Annotated[float, Field(allow_inf_nan=False, ge=-1e12, le=1e12)]
BoundedInt = Annotated[int, Field(ge=-(1 << 53), le=1 << 53)]
OptionText = Annotated[str, Field(max_length=2000), AfterValidator(plain)]
SingleValue = bool | BoundedInt | FiniteNumber | OptionText
OptionValue = (
    SingleValue
    | Annotated[list[SingleValue], Field(max_length=1000)]
    | Annotated[dict[Text, SingleValue], Field(max_length=100)]
)

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=r"^[!-~]{8,200}$",
        description="a random text of 8 to 200 visible ASCII characters: a submission that is sent again with the same key and "
        "body is answered with the run that was made first, as long as the run is kept; with another body it is 422",
    ),
]
IdPath = Annotated[str, Path(pattern=ID)]
Sha256Path = Annotated[str, Path(pattern=SHA256)]
NamePath = Annotated[str, Path(pattern=NAME)]
TitleQuery = Annotated[str, Query(max_length=500), AfterValidator(plain)]
FileNameQuery = Annotated[str, Query(max_length=500), AfterValidator(plain), AfterValidator(file_name)]
RequiredQuery = Annotated[str, Query(min_length=1, max_length=500), AfterValidator(plain)]
Limit = Annotated[int, Query(ge=1, le=1000, description="largest number of rows")]
Offset = Annotated[int, Query(ge=0, le=10_000_000, description="number of rows to skip")]


class RequestBody(BaseModel):
    """The base of all request bodies. An unknown field is an error."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)
