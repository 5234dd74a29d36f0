"""Schemas of search results."""

from typing import Any

from pydantic import BaseModel, Field

from app.api.http import example_values
from app.api.http.include_schemas import IncludedOut
from app.api.http.locator_schema import LocatorOut
from app.api.http.warning_schema import WarningOut
from app.api.v1.documents.images import ImageOut
from app.api.v1.schemas import SourceEnd, SourceStart, Time
from app.api.v1.search.explanation_schemas import AutoThresholdOut, ExplanationOut
from app.api.v1.search.graph_schemas import GraphOut
from app.retrieval.explain import DegradableStep
from app.retrieval.types import RetrieverName


class ResultDocumentOut(BaseModel):
    """Document of a result. A result of an HTTP source has no document id; its address is in ``source_uri``."""

    id: str | None = Field(
        description="Id of the document; null for a result of an HTTP source.", examples=[example_values.DOCUMENT_ID]
    )
    source: str = Field(description="Name of the document, usually the file name.", examples=["handbook.pdf"])
    title: str | None = Field(
        description="Title that the uploader gave, else the title in the file, else the name of the document; null for "
        "a result without any of them.",
        examples=["Staff handbook"],
    )
    source_uri: str | None = Field(
        description="Address of the source that the uploader gave; null without one.",
        examples=["https://intranet.example.com/handbook.pdf"],
    )
    source_created_at: Time | None = Field(
        description="Time at which the source was created, as the uploader gave it, in UTC; null without one.",
        examples=["2026-01-15T00:00:00.000Z"],
    )
    metadata: dict[str, Any] = Field(
        description="Metadata of the document, without that of the chunk.", examples=[{"department": "hr"}]
    )


class ScoresOut(BaseModel):
    """Scores of a chunk from each retriever and after fusion. With several queries, each score is the best score of any
    query.
    """

    dense: float | None = Field(
        description="Cosine similarity, from -1 to 1; null if the dense retriever did not return the chunk.",
        examples=[0.71],
    )
    lexical: float | None = Field(
        description="BM25 score, 0 or more; null if the lexical retriever did not return the chunk.", examples=[8.42]
    )
    fused: float | None = Field(
        description="Score after fusion of the retrievers; null if the strategy does not fuse.", examples=[0.83]
    )


class RetrieverRankOut(BaseModel):
    """Rank of a chunk in the results of one retriever for one query."""

    query: int = Field(
        description="Index of the query, from 0, among the queries of the knowledge base. Vectors and images count "
        "too, although `queries` of the response leaves them out.",
        examples=[0],
    )
    retriever: RetrieverName = Field(description="Retriever that returned the chunk.", examples=["dense"])
    rank: int = Field(description="Rank in the results of the retriever, from 1.", examples=[2])
    score: float = Field(
        description="Score of the retriever: cosine similarity for `dense`, BM25 for `lexical`.", examples=[0.71]
    )


class DuplicateOut(BaseModel):
    """Chunk with the same text as a result, which the result represents."""

    document_id: str = Field(description="Id of the document of the chunk.", examples=[example_values.DOCUMENT_ID])
    chunk_id: str = Field(description="Id of the chunk.", examples=[example_values.CHUNK_ID])
    chunk_index: int = Field(description="Index of the chunk in its document, from 0.", examples=[3])
    source: str = Field(description="Name of the document, usually the file name.", examples=["handbook-2025.pdf"])


class SearchResultOut(IncludedOut):
    """Result of a search: a chunk, or its expanded text, with scores and citation.

    A result of an HTTP source is not stored: its knowledge base has the kind ``http``. Then ``chunk_id``, the id of the
    document and ``similarity`` are null, and the text is the only chunk.
    """

    score: float = Field(
        description="Score that orders the results; higher is better. Its scale depends on the strategy, and on the "
        "reranker if `rerank` is set. Do not compare it between searches.",
        examples=[0.83],
    )
    scores: ScoresOut = Field(description="Scores of the retrievers and after fusion.")
    similarity: float | None = Field(
        description="Highest cosine similarity of the chunk with any of the queries, from -1 to 1. `score_threshold` "
        "compares with it. Null if no query was embedded.",
        examples=[0.71],
    )
    text: str = Field(
        description="Text of the chunk, or the expanded text if `expand` is set.",
        examples=["Parents may take up to 14 months of parental leave."],
    )
    table_head: str | None = Field(
        description="Head of a table that the text repeats, because it begins inside the table. `text` begins with "
        "`table_head` and a line break, which are not in the range `start` to `end`. Null without a repeated head.",
        examples=["| Part | Price EUR |\n| --- | --- |"],
    )
    start: int = Field(
        description="Offset of the first character of `text` in the stored text of the document, in code points.",
        examples=[5120],
    )
    end: int = Field(
        description="Offset behind the last character of `text` in the stored text, in code points.", examples=[5171]
    )
    source_start: SourceStart = None
    source_end: SourceEnd = None
    chunk_start: int = Field(
        description="Offset of the first character of the chunk in the stored text, in code points. Equal to `start` "
        "without expansion.",
        examples=[5120],
    )
    chunk_end: int = Field(
        description="Offset behind the last character of the chunk in the stored text, in code points.",
        examples=[5171],
    )
    chunk_id: str | None = Field(
        description="Id of the chunk; null for a result of an HTTP source.", examples=[example_values.CHUNK_ID]
    )
    chunk_index: int = Field(description="Index of the chunk in its document, from 0.", examples=[3])
    total_chunks: int = Field(description="Number of chunks of the document.", examples=[40])
    document: ResultDocumentOut = Field(description="Document of the chunk.")
    knowledge_base: str = Field(
        description="Name of the knowledge base of the chunk.", examples=[example_values.KNOWLEDGE_BASE_NAME]
    )
    page: int | None = Field(
        description="First page of the text, from 1; null if the format has no pages.", examples=[4]
    )
    page_end: int | None = Field(
        description="Last page of the text, from 1; null if the format has no pages.", examples=[4]
    )
    slide: int | None = Field(
        description="Slide of the chunk, from 1; null if the format has no slides.", examples=[None]
    )
    section_titles: list[str] = Field(
        description="Headings above the chunk, outermost first.", examples=[["Leave", "Parental leave"]]
    )
    node_path: list[str] = Field(
        description="Ids of the nodes from the root of the document tree to the node of the chunk; empty for a result "
        "of an HTTP source.",
        examples=[[example_values.NODE_ID]],
    )
    image: ImageOut | None = Field(
        description="Image that the chunk describes; null if the chunk is text of the document.", examples=[None]
    )
    metadata: dict[str, Any] = Field(
        description="Metadata of the document and of the chunk together.", examples=[{"department": "hr"}]
    )
    flags: list[str] = Field(
        description="Kinds of suspected prompt injection in the text: `instructions`, `chat_markup`, `hidden_text`. "
        "Empty if nothing is suspected.",
        examples=[[]],
    )
    citation: str = Field(
        description="Citation for people: name of the document or address of the web page, with page, slide or rows.",
        examples=["handbook.pdf, p. 4"],
    )
    locator: LocatorOut = Field(
        description="Place of the text in its file.", examples=[{"page": 4, "page_end": 4, "section_path": ["Leave"]}]
    )
    duplicates: list[DuplicateOut] | None = Field(
        None,
        description="Chunks of the knowledge base with the same text among the candidates of the search, at most 100. "
        "Only present if the request sets `collapse`.",
        exclude_if=lambda duplicates: duplicates is None,
    )
    duplicate_count: int | None = Field(
        None,
        description="Number of such chunks, also if `duplicates` does not name all. Only present if the request sets "
        "`collapse`.",
        examples=[2],
        exclude_if=lambda count: count is None,
    )
    vector: list[float] | None = Field(
        None,
        description="Stored vector of the chunk, of unit length. Only present if the request sets `return_vectors`.",
        examples=[[0.0271, -0.0814, 0.0562]],
        exclude_if=lambda vector: vector is None,
    )
    ranks: list[RetrieverRankOut] | None = Field(
        None,
        description="Ranks of the chunk in the results of each retriever. Only present if the request sets `explain`.",
        exclude_if=lambda ranks: ranks is None,
    )
    path_names: list[str] | None = Field(
        None,
        description="Names on the way by which the strategy `graph_rag` reached the chunk. Only present with `explain` "
        "or `subgraph`, and if the walk reached it.",
        examples=[["Stephen Warbeck"]],
        exclude_if=lambda names: names is None,
    )


class DegradedStepOut(BaseModel):
    """Step that the search left out, in whole or in part."""

    step: DegradableStep = Field(description="Step that was left out.", examples=["rerank"])
    reason: str = Field(
        description="Stable word for the reason, such as `timeout` or `no_time`, or an error code.",
        examples=["timeout"],
    )


class SearchOut(BaseModel):
    """Results of a search, with the queries, the strategy and the steps that were left out."""

    results: list[SearchResultOut] = Field(
        description="Results, best first, at most `top_k`. Equal scores are ordered by document id and chunk index."
    )
    queries: list[str] = Field(
        description="Texts that the search ran with, after all transformers. Vectors and images have no text.",
        examples=[["How many days of parental leave are there?"]],
    )
    strategy: str = Field(
        description="Strategy of the search; `mixed` if knowledge bases used several, which `explain` shows.",
        examples=["hybrid"],
    )
    degraded: list[DegradedStepOut] = Field(
        description="Steps that were left out because of the deadline or because a model or a database did not answer.",
        examples=[[]],
    )
    warnings: list[WarningOut] = Field(
        description="Warnings: a part of the search was left out or done in another way.", examples=[[]]
    )
    graph: GraphOut | None = Field(
        None,
        description="Part of the entity graph that connects the results. Only present for the strategy `graph_rag` "
        "with `subgraph`.",
        exclude_if=lambda graph: graph is None,
    )
    auto_thresholds: list[AutoThresholdOut] | None = Field(
        None,
        description="Thresholds that were used. Only present if `score_threshold` is `auto`.",
        exclude_if=lambda thresholds: thresholds is None,
    )
    timings_ms: dict[str, float] = Field(
        description="Duration of each step and of the whole search (`total`), in milliseconds.",
        examples=[{"embed": 4.1, "retrieve": 6.8, "total": 12.3}],
    )
    explain: ExplanationOut | None = Field(
        None,
        description="Explanation of the search. Only present if the request sets `explain`.",
        exclude_if=lambda explain: explain is None,
    )
