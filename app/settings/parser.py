"""Settings of the parser processes: limits of one file, and OCR languages."""

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, field_validator
from pydantic_settings import NoDecode

from app.settings.settings_group import SettingsGroup, env_field, make_absolute


class ParserSettings(SettingsGroup):
    """Parsers: limits of the sandboxed processes that read untrusted files, and their OCR languages."""

    processes: int = env_field(
        "PARSER_PROCESSES",
        0,
        ge=0,
        le=64,
        unit="processes",
        description="Number of parser processes of each worker. 0 means one for each processor core.",
        read_by="worker",
    )
    max_memory_mb: int = env_field(
        "PARSER_MAX_MEMORY_MB",
        1500,
        ge=256,
        unit="MB",
        description="Maximum memory of each parser process.",
        read_by="API and worker",
    )
    cpu_timeout_seconds: int = env_field(
        "PARSER_CPU_TIMEOUT_SECONDS",
        120,
        ge=1,
        unit="seconds",
        description="Maximum processor time for one file. A preview has a lower limit.",
        read_by="API and worker",
    )
    timeout_seconds: int = env_field(
        "PARSER_TIMEOUT_SECONDS",
        180,
        ge=1,
        unit="seconds",
        description="Maximum elapsed time for one file. A preview has a lower limit.",
        read_by="API and worker",
    )
    max_pages: int = env_field(
        "PARSER_MAX_PAGES",
        5000,
        ge=1,
        unit="pages",
        description="Maximum number of pages or slides of one file.",
        read_by="API and worker",
    )
    max_characters: int = env_field(
        "PARSER_MAX_CHARACTERS",
        20_000_000,
        ge=1000,
        unit="characters",
        description="Maximum length of the text of one file.",
        read_by="API and worker",
    )
    ocr_languages: Annotated[tuple[str, ...], NoDecode] = env_field(
        "OCR_LANGUAGES",
        ("eng",),
        description="Languages of text in images and scans, as Tesseract's codes separated by commas. "
        "Tesseract tries them in this order.",
        examples=["eng,deu,chi_sim"],
        read_by="API and worker",
    )
    tessdata_dir: Annotated[Path, AfterValidator(make_absolute)] | None = env_field(
        "TESSDATA_DIR",
        None,
        further_alias="TESSDATA_PREFIX",  # Tesseract's own variable
        description="Directory of Tesseract's language data (eng.traineddata and others). If it is not set, "
        "TESSDATA_PREFIX is used, else the directories of common packages.",
        read_by="API and worker",
    )

    @field_validator("ocr_languages", mode="before")
    @classmethod
    def _parse_languages(cls, value: Any) -> Any:
        """Return each language once, in the configured order; Tesseract tries the first one first."""
        if not isinstance(value, str):
            return value
        names = [name.strip() for name in value.replace("+", ",").split(",")]
        if not all(re.fullmatch("[a-z_]{3,}", name) for name in names):
            raise ValueError("takes Tesseract's language codes separated by commas, such as eng or eng,chi_sim")
        return tuple(dict.fromkeys(names))
