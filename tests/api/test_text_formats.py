"""Texts in a JSON body: every text format of the parsers, by its media type."""

import json

import pytest

from app.documents.upload.text_formats import EXTENSIONS
from harness.running_service import Tenant
from tests.api.breakable_service import BreakableService
from tests.api.problems import assert_problem

DOCUMENTS = "/v1/knowledge-bases/default/documents"
NOTEBOOK = json.dumps(
    {"cells": [{"cell_type": "markdown", "metadata": {}, "source": ["A heron waits."]}], "metadata": {}, "nbformat": 4,
     "nbformat_minor": 5}
)  # fmt: skip
TEXTS = {
    "application/json": '{"bird": "A heron waits."}',
    "application/xml": "<birds><bird>A heron waits.</bird></birds>",
    "application/rtf": "{\\rtf1\\ansi A heron waits.}",
    "application/x-ipynb+json": NOTEBOOK,
    "text/csv": "bird,text\nheron,A heron waits.\n",
    "message/rfc822": "From: a@example.com\nTo: b@example.com\nSubject: Birds\n\nA heron waits.\n",
}


@pytest.fixture(scope="module")
def tenant(fragile: BreakableService) -> Tenant:
    return fragile.service.create_tenant("formats")


@pytest.mark.capability("doc-text-types")
@pytest.mark.parametrize("media_type", sorted({*EXTENSIONS, *TEXTS}))
def test_text_of_each_media_type_is_parsed_as_that_type(tenant: Tenant, media_type: str) -> None:
    text = TEXTS.get(media_type, "A heron waits.")
    document = tenant.add_text(text, media_type=media_type, external_id=media_type)
    assert (document["status"], document["media_type"]) == ("ready", media_type), document["error"]
    chunks = tenant.admin.get(f"{DOCUMENTS}/{document['id']}/chunks").json()["items"]
    assert any("heron" in chunk["text"] for chunk in chunks)
    assert "rtf1" not in chunks[0]["text"]


def test_text_media_type_may_be_an_alias_or_have_parameters(tenant: Tenant) -> None:
    for sent, stored in (
        ("text/x-markdown", "text/markdown"), ("application/xhtml+xml", "text/html"), ("Text/CSV", "text/csv"),
        ("text/html; charset=utf-8", "text/html"), ("application/x-yaml", "application/yaml"),
        ("application/javascript", "text/javascript"),
    ):  # fmt: skip
        document = tenant.add_text("<p>A kite, soars</p>", media_type=sent, external_id=f"alias {sent}")
        assert document["media_type"] == stored, sent


@pytest.mark.parametrize("media_type", ["application/pdf", "image/png", "text/unknown", "x", "", "audio/mpeg", " "])
def test_text_of_other_media_type_is_422(tenant: Tenant, media_type: str) -> None:
    for path in (DOCUMENTS, "/v1/preview"):
        problem = assert_problem(tenant.admin.post(path, json={"text": "A text.", "media_type": media_type}), 422)
        assert problem["errors"][0]["loc"] == ["body", "media_type"]


def test_preview_reads_text_of_media_type(tenant: Tenant) -> None:
    body = {"text": "bird,legs\nheron,2\n", "media_type": "text/csv"}
    found = tenant.admin.post("/v1/preview", json=body).json()
    assert found["media_type"] == "text/csv"
    assert found["quality"]["tables"] + len(found["chunks"]) > 0
