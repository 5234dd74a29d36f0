"""Faults of an evaluation set that are found before the first request."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from app.cli import app
from app.cli.evaluation.runner import DocumentNaming


@pytest.mark.parametrize("excerpt", [{"start": 0, "end": 99_999}, {"text": "They fly"}])
def test_evaluate_excerpt_missing_in_corpus_is_refused_before_requests(tmp_path: Path, excerpt: dict[str, Any]) -> None:
    corpus = {"id": "birds", "text": "Herons stand on one leg."}
    asked = {"id": "q", "text": "On one leg", "references": [{"document": "birds", **excerpt}]}
    for name, line in (("corpus", corpus), ("queries", asked)):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(line))
    nobody = ["--kb", "animals", "--url", "http://127.0.0.1:9", "--key", "k"]
    done = CliRunner().invoke(app, ["evaluate", str(tmp_path), *nobody])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("carrel: a reference ")
    assert "document birds" in done.stderr


@pytest.mark.parametrize("kind", ["title", "metadata.doi.short"])
def test_document_naming_without_name_uses_id(kind: str) -> None:
    """Otherwise all of these would be one document, and the documents after them would rank too high."""
    naming = DocumentNaming(kind, {})
    named: dict[str, Any] = {"id": "doc_1", "title": "a", "metadata": {"doi": {"short": "a"}}}
    nameless: list[dict[str, Any]] = [
        {"id": "doc_2", "title": None, "metadata": {"doi": 7}},
        {"id": "doc_3", "title": None, "metadata": {}},
    ]
    assert [naming.get_name(one) for one in (named, *nameless)] == ["a", "doc_2", "doc_3"]
