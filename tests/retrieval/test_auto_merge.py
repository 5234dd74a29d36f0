"""Auto-merging: passages that cover most of a section are replaced by it, as in a plain model, on a real document."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from app.retrieval.expansion.auto_merge import Span, find_largest_parents
from app.retrieval.repository import ParentSpans
from harness.running_service import Service, Tenant
from tests.api.problems import assert_problem

SAMPLES = Path(__file__).parents[2] / "samples"
KB = "/v1/knowledge-bases/small"
QUERIES = ("cancellation of rentals", "who may drive?")
A, B = UUID(int=1), UUID(int=2)
# A document of two sections with three passages each, and the passages of each section.
PASSAGES: list[Span] = [(start, start + 8) for start in range(0, 60, 10)]
FIRST, SECOND, WHOLE = (0, 28), (30, 58), (0, 58)


@pytest.mark.capability("expand-merge")
@pytest.mark.parametrize(
    ("share", "hits", "chosen"),
    [
        (0.5, [0], {}),
        (0.5, [0, 1], {0: FIRST, 1: FIRST}),
        (0.5, [0, 3], {}),
        (0.5, [0, 1, 3], {0: WHOLE, 1: WHOLE, 3: WHOLE}),
        (0.6, [0, 1, 3], {0: FIRST, 1: FIRST}),
        (1.0, [0, 1, 3, 4, 5], {3: SECOND, 4: SECOND, 5: SECOND}),
        (1.0, [5, 4, 3, 2, 1, 0], dict.fromkeys(range(6), WHOLE)),
        (0.01, [4], {4: WHOLE}),
    ],
)
def test_find_largest_parents_chooses_largest_covered_section(
    share: float, hits: list[int], chosen: dict[int, Span]
) -> None:
    parts = {place: [SECOND if number > 2 else FIRST, WHOLE] for place, number in enumerate(hits)}
    found = ParentSpans(parts, {A: PASSAGES})
    made = find_largest_parents([(A, PASSAGES[number]) for number in hits], found, min_share=share)
    assert {hits[place]: part for place, part in made.items()} == chosen


def test_find_largest_parents_counts_documents_separately() -> None:
    hits = [(A, PASSAGES[0]), (B, PASSAGES[1]), (B, PASSAGES[2])]
    found = ParentSpans({place: [FIRST] for place in range(3)}, {A: PASSAGES, B: PASSAGES})
    assert find_largest_parents(hits, found, min_share=0.5) == {1: FIRST, 2: FIRST}


def test_find_largest_parents_without_section_returns_nothing() -> None:
    assert find_largest_parents([(A, PASSAGES[0])], ParentSpans({}, {A: PASSAGES}), min_share=0.5) == {}


@pytest.fixture(scope="module")
def handbook(service: Service) -> Tenant:
    """A manual of many pages in small passages, and two other texts."""
    tenant = service.create_tenant("handbook")
    kb = {"name": "small", "chunking": {"strategy": "headered", "max_tokens": 40, "overlap_tokens": 0}}
    tenant.admin.post("/v1/knowledge-bases", json=kb).raise_for_status()
    assert tenant.upload(SAMPLES / "handbook.pdf", kb="small")["status"] == "ready"
    tenant.add_text("The cancellation of a rental is another thing.", kb="small")
    tenant.add_text("\n\n".join(f"Line {number} tells who may drive the car." for number in range(20)), kb="small")
    return tenant


def search(tenant: Tenant, query: str, **body: Any) -> list[dict[str, Any]]:
    reply = tenant.admin.post(f"{KB}/search", json={"query": query, "strategy": "dense", **body})
    assert reply.status_code == 200, reply.text
    results: list[dict[str, Any]] = reply.json()["results"]
    return results


def all_nodes(tenant: Tenant, document: str) -> list[Span]:
    tree = tenant.admin.get(f"{KB}/documents/{document}/tree", params={"depth": 12}).json()
    waiting, found = [tree["root"]], []
    while waiting:
        node = waiting.pop()
        found.append((node["start"], node["end"]))
        waiting += node["children"]
    return found


def all_passages(tenant: Tenant, document: str) -> list[Span]:
    page = tenant.admin.get(f"{KB}/documents/{document}/chunks", params={"limit": 200}).json()
    assert page["next_cursor"] is None
    return [(item["start"], item["end"]) for item in page["items"]]


def holds(part: Span, span: Span) -> bool:
    return part[0] <= span[0] and span[1] <= part[1]


class Model:
    """Model of the expected results, from a plain search, the documents' trees and their passages."""

    def __init__(self, tenant: Tenant, ranking: list[dict[str, Any]]) -> None:
        self.hits = [(hit["document"]["id"], (hit["start"], hit["end"]), hit["score"]) for hit in ranking]
        documents = sorted({document for document, _, _ in self.hits})
        self.nodes = {document: all_nodes(tenant, document) for document in documents}
        self.passages = {document: all_passages(tenant, document) for document in documents}

    def expected(self, *, top_k: int, share: float, most: int) -> list[tuple[str, Span, float]]:
        best = self.hits[:top_k]
        results: list[tuple[str, Span, float]] = []
        wide: list[tuple[str, Span]] = []
        for number, (document, span, score) in enumerate(self.hits):
            if len(results) == top_k:
                break
            if any(document == other and holds(part, span) for other, part in wide):
                continue
            fitting = [
                node
                for node in self.nodes[document]
                if holds(node, span)
                and span[1] - span[0] < node[1] - node[0] <= most
                and sum(other == document and holds(node, hit) for other, hit, _ in best)
                / sum(holds(node, passage) for passage in self.passages[document])
                >= share
            ]
            if fitting and number < top_k:
                part = max(fitting, key=lambda node: node[1] - node[0])
                wide.append((document, part))
                span = part
            results.append((document, span, score))
        return results


@pytest.mark.parametrize("query", QUERIES)
def test_auto_merge_results_equal_plain_model(handbook: Tenant, query: str) -> None:
    model = Model(handbook, search(handbook, query, top_k=100))
    merged = 0
    for top_k in (1, 3, 10, 30):
        for share in (0.25, 0.5, 1.0):
            for most in (300, 8000):
                options = {"merge": share, "max_characters": most}
                results = search(handbook, query, top_k=top_k, expand="parent", expand_options=options)
                found = [(hit["document"]["id"], (hit["start"], hit["end"]), hit["score"]) for hit in results]
                assert found == model.expected(top_k=top_k, share=share, most=most), (top_k, share, most)
                merged += sum(hit["end"] - hit["start"] > hit["chunk_end"] - hit["chunk_start"] for hit in results)
    assert merged > 10


@pytest.mark.capability("expand-merge-best")
def test_auto_merged_hit_has_section_text_and_best_passage(handbook: Tenant) -> None:
    plain = search(handbook, "who may drive the car?", top_k=20)
    merged = search(handbook, "who may drive the car?", top_k=20, expand="parent", expand_options={"merge": 0.5})
    whole = next(result for result in merged if result["text"].startswith("Line 0"))
    assert whole["text"].endswith("Line 19 tells who may drive the car.")
    lines = [result for result in plain if result["text"].startswith("Line")]
    same = ("score", "similarity", "chunk_id", "chunk_index", "chunk_start", "chunk_end", "citation", "scores")
    assert {name: whole[name] for name in same} == {name: lines[0][name] for name in same}
    assert len(merged) == 20
    assert sum(result["text"].startswith("Line") for result in merged) == 1


def test_auto_merged_section_of_several_knowledge_bases_appears_once(handbook: Tenant) -> None:
    """The knowledge bases have different chunks, so that only the sections are equal."""
    kb = {"name": "smaller", "chunking": {"strategy": "headered", "max_tokens": 24, "overlap_tokens": 0}}
    handbook.admin.post("/v1/knowledge-bases", json=kb).raise_for_status()
    assert handbook.upload(SAMPLES / "handbook.pdf", kb="smaller")["status"] == "ready"
    body = {"query": QUERIES[0], "strategy": "dense", "knowledge_bases": ["small", "smaller"]}
    for top_k in range(2, 8):
        asked = {**body, "top_k": top_k, "expand": "parent", "expand_options": {"merge": 0.01}}
        results = handbook.admin.post("/v1/search", json=asked).json()["results"]
        texts = {" ".join(result["text"].split()) for result in results}
        assert len(texts) == len(results) == top_k


def test_expand_parent_without_merge_share_always_expands(handbook: Tenant) -> None:
    always = search(handbook, "insurance", top_k=5, expand="parent")
    assert search(handbook, "insurance", top_k=5, expand="parent", expand_options={"merge": None}) == always


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"expand": "parent", "expand_options": {"merge": 0}}, "invalid"),
        ({"expand": "parent", "expand_options": {"merge": 1.01}}, "invalid"),
        ({"expand": "section", "expand_options": {"merge": 0.5}}, "invalid"),
        ({"expand_options": {"merge": 0.5}}, "invalid"),
    ],
    ids=str,
)
def test_auto_merge_invalid_share_is_422_with_location(handbook: Tenant, body: dict[str, Any], code: str) -> None:
    reply = handbook.admin.post(f"{KB}/search", json={"query": "insurance", **body})
    assert assert_problem(reply, 422, code)["errors"][0]["loc"] == ["body", "expand_options", "merge"]
