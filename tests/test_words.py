"""The text of the repository and of the OpenAPI document follows the style guide: docstrings, messages and pages."""

from collections.abc import Iterator
from typing import Any

from harness.running_service import Service
from scripts.check_words import Text, check_files, find_faults, list_files


def test_check_files_whole_repository_has_no_faults() -> None:
    paths = list_files()
    assert len(paths) > 500
    assert check_files(paths) == []


def list_descriptions(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Yield the summaries and descriptions of an OpenAPI document, each with its place."""
    if isinstance(value, dict):
        for name, part in value.items():
            if name in ("summary", "description", "title") and isinstance(part, str):
                yield f"{place}/{name}", part
            elif name not in ("example", "examples", "default"):
                yield from list_descriptions(part, f"{place}/{name}")
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from list_descriptions(part, f"{place}/{number}")


def test_openapi_document_has_no_faults(service: Service) -> None:
    document = service.create_client().get("/openapi.json").raise_for_status().json()
    texts = list(list_descriptions(document, ""))
    assert len(texts) > 1000
    faults = [(place, fault) for place, text in texts for fault in find_faults(Text("openapi", 0, "message", text))]
    assert faults == []
