"""Warnings: a stable code, and one sentence about a part of the work that was left out or changed."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

MAX_CODE_CHARACTERS = 64
_CODE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


class WarningCode(StrEnum):
    """All warning codes of the service with their meanings. ``docs/reference/errors.md`` lists them."""

    meaning: str

    def __new__(cls, code: str, meaning: str) -> Self:
        member = str.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    # Documents and previews: parsing.
    ANIMATION_FRAMES_NOT_READ = "animation_frames_not_read", "Only the first frame of an animated image was read."
    ANNOTATIONS_NOT_READ = "annotations_not_read", "Damaged annotations of a PDF file were not read."
    ATTACHMENTS_NOT_READ = "attachments_not_read", "The attachments of a mail or a PDF file were not read."
    ENCODED_DATA_LEFT_OUT = "encoded_data_left_out", "Base64 data inside of a text was left out."
    CHAPTERS_NOT_READ = "chapters_not_read", "Damaged chapters of an e-book were not read."
    CHARACTERS_REPLACED = "characters_replaced", "Bytes that are invalid in the file's encoding became U+FFFD."
    COMMENTS_NOT_READ = "comments_not_read", "Comments in the file were not read."
    CONTENTS_ENTRIES_REMOVED = (
        "contents_entries_removed",
        "Entries of a table of contents were left out, because the text has their headings.",
    )
    CONTROLS_NOT_READ = "controls_not_read", "Form controls that keep their value outside of the text were not read."
    DAMAGED_PAGES_NOT_READ = "damaged_pages_not_read", "Damaged pages were not read."
    DAMAGED_PARTS_NOT_READ = "damaged_parts_not_read", "Damaged parts of an Office file were not read."
    DAMAGED_SHEETS_NOT_READ = "damaged_sheets_not_read", "Damaged sheets of a workbook were not read."
    EMBEDDED_DOCUMENTS_NOT_READ = (
        "embedded_documents_not_read",
        "Documents that are embedded in an Office file were not read.",
    )
    ENCODING_GUESSED = "encoding_guessed", "The encoding is a guess, and the message has its confidence."
    ENCODING_UNKNOWN = "encoding_unknown", "The `encoding` of the upload is unknown, so the encoding was detected."
    ENCRYPTED_PARTS_NOT_READ = "encrypted_parts_not_read", "Encrypted parts of a mail were not read."
    EQUATIONS_NOT_READ = "equations_not_read", "Equations that are embedded objects of an old format were not read."
    EXTERNAL_LINKS_NOT_READ = (
        "external_links_not_read",
        "Links of a workbook to cells of other workbooks were not read.",
    )
    FILE_REPAIRED = "file_repaired", "The file is damaged, and only its readable parts were read."
    FONTS_NOT_READABLE = "fonts_not_readable", "The fonts of some pages have no mapping to characters."
    FORMULAS_WITHOUT_VALUES = "formulas_without_values", "Formulas of a workbook have no stored value."
    HIDDEN_LAYERS_NOT_READ = "hidden_layers_not_read", "Layers of a PDF file that are off were not read."
    HIDDEN_SHEETS_NOT_READ = "hidden_sheets_not_read", "Hidden sheets of a workbook were not read."
    HIDDEN_SLIDES_READ = "hidden_slides_read", "Slides that a show hides were read."
    HIDDEN_TEXT_NOT_READ = "hidden_text_not_read", "Words that the file hides were not read."
    IMAGES_NOT_READ = "images_not_read", "Images in the file were not read."
    INCLUDED_FILES_NOT_READ = "included_files_not_read", "Files that a document includes were not read."
    LINES_NOT_READ = "lines_not_read", "Damaged lines of a JSON Lines file were not read."
    MEDIA_NOT_READ = "media_not_read", "Videos, sounds and embedded pages were not read."
    NUL_CHARACTERS_REMOVED = "nul_characters_removed", "NUL characters were removed from the text."
    NUMBER_FORMATS_NOT_READ = "number_formats_not_read", "Numbers of a workbook are shown without their formats."
    OCR_LANGUAGES_MISSING = "ocr_languages_missing", "OCR data of some configured languages is not installed."
    OCR_PAGES_NOT_READ = "ocr_pages_not_read", "Pages that need OCR were not read, and the message says why."
    OTHER_SHEETS_NOT_READ = (
        "other_sheets_not_read",
        "Macro sheets, dialog sheets or chart sheets of a workbook were not read.",
    )
    OUTPUTS_NOT_READ = "outputs_not_read", "Outputs of a notebook that only programs show were not read."
    PAGES_WITHOUT_TEXT = "pages_without_text", "OCR found no text on some pages."
    PIVOT_CACHES_NOT_READ = "pivot_caches_not_read", "The stored source data of pivot tables was not read."
    PLUGIN_WARNING = "plugin_warning", "A plugin gave a warning without a code."
    PROMPTS_NOT_READ = "prompts_not_read", "Prompts in empty form fields were not read."
    REPEATED_LINES_REMOVED = "repeated_lines_removed", "Headers or footers that are equal on the pages were left out."
    SHAPES_NOT_READ = "shapes_not_read", "Damaged or unknown shapes of slides were not read."
    SLIDES_PARTLY_READ = "slides_partly_read", "Damaged slides were read in part."
    STRUCK_TEXT_NOT_READ = "struck_text_not_read", "Words that are struck through were not read."
    SYMBOLS_NOT_READ = "symbols_not_read", "Characters of symbol fonts without an equivalent in Unicode were not read."
    WORDS_LEFT_OUT = "words_left_out", "More than a tenth of the words of a file were left out."
    XFA_FORMS_NOT_READ = "xfa_forms_not_read", "XFA forms of a PDF file were not read."

    # Documents and previews: titles, images and embedding.
    CHUNK_SIZES_REDUCED = "chunk_sizes_reduced", "Requested chunk sizes were above what the embedding model reads."
    CHUNKS_DELETED = "chunks_deleted", "The chunks of the document were deleted, until the document is reindexed."
    CHUNKS_NOT_EMBEDDED = (
        "chunks_not_embedded",
        "The embedding model refused some chunks; only the lexical retriever finds them.",
    )
    ENTITIES_NOT_EXTRACTED = (
        "entities_not_extracted",
        "The extractor of a plugin failed, is missing, did not run in an import, or returned invalid entities.",
    )
    ENRICHMENT_ITEMS_DROPPED = (
        "enrichment_items_dropped",
        "Entities and relations of the chat model were dropped, because the text does not have them.",
    )
    ENRICHMENT_SECTIONS_SKIPPED = (
        "enrichment_sections_skipped",
        "The chat model gave no valid reply about some sections.",
    )
    HEADINGS_SHORTENED = "headings_shortened", "Headings were too long; the rest of each became a paragraph."
    IMAGES_NOT_DESCRIBED = "images_not_described", "The vision model did not describe some images."
    IMAGES_NOT_EMBEDDED = (
        "images_not_embedded",
        "The embedding model refused some images; only the lexical retriever finds them.",
    )
    PROCESSING_POSTPONED = "processing_postponed", "The document waits, and the message says why."
    SECTION_TITLES_OMITTED = "section_titles_omitted", "Chunks repeat only their innermost section titles."
    TABLE_HEADS_OMITTED = "table_heads_omitted", "Parts of tables do not repeat the column names of their table."
    TITLE_SHORTENED = "title_shortened", "The title was too long; its rest became a paragraph."

    # Documents, previews and searches.
    LANGUAGE_NOT_SUPPORTED = (
        "language_not_supported",
        "The embedding model reads only English, and the document or the query is in another language.",
    )

    # Searches and lists of entities.
    GRAPH_MISSING = "graph_missing", "A search index has no entity graph; enable the graph and reindex it."

    # Lists.
    COUNT_UNAVAILABLE = "count_unavailable", "The items were not counted, because counting took too long."
    # Searches: queries and their vectors.
    EMBEDDING_QUOTA_EXCEEDED = "embedding_quota_exceeded", "The day's embedding tokens are used up."
    EMBEDDING_UNAVAILABLE = "embedding_unavailable", "The embedding model did not embed the queries in time."
    EXTRA_QUERIES_SKIPPED = "extra_queries_skipped", "No time was left for the queries that transformers added."
    IMAGE_QUERIES_SKIPPED = "image_queries_skipped", "The strategy or the embedding model takes no images."
    QUERY_DIMENSIONS_MISMATCH = (
        "query_dimensions_mismatch",
        "A given query vector does not have the dimensions of an index.",
    )
    QUERY_NOT_EMBEDDED = (
        "query_not_embedded",
        "The embedding model refused a query; only the lexical retriever used it.",
    )
    QUERY_TERMS_MISSING = "query_terms_missing", "The queries have no words to look for."
    QUERY_TERMS_TRUNCATED = "query_terms_truncated", "The queries have too many words; the last of each were used."
    QUERY_TRUNCATED = "query_truncated", "A query is too long; its last characters were used."
    QUESTION_MISSING = "question_missing", "The messages hold no question, so nothing was searched."
    TEXTLESS_QUERIES_SKIPPED = "textless_queries_skipped", "The strategy searches by words, and a query has none."

    # Searches: strategies and transformers.
    CHAT_MODEL_NOT_CONFIGURED = "chat_model_not_configured", "A transformer needs a chat model, and none is configured."
    CHAT_MODEL_SKIPPED = "chat_model_skipped", "No time was left to ask the chat model of a transformer."
    CHAT_MODEL_UNAVAILABLE = "chat_model_unavailable", "The chat model did not answer a transformer."
    QUERY_LIMIT_REACHED = "query_limit_reached", "A transformer made fewer queries, because their number is limited."
    REWRITE_LIMIT_REACHED = (
        "rewrite_limit_reached",
        "The transformers of some knowledge bases did not run, because their number in one search is limited.",
    )
    GRAPH_NOTHING_TO_WALK = (
        "graph_nothing_to_walk",
        "No entity leads from the query or the best results to other chunks, so the results are those of hybrid.",
    )
    GRAPH_SERIALIZER_FAILED = (
        "graph_serializer_failed",
        "The serializer of the graph failed or took too long; the results have no text of the graph.",
    )
    GRAPH_SKIPPED = "graph_skipped", "The walk in the graph failed or took too long; the results are those of hybrid."
    GRAPH_TEXT_OMITTED = (
        "graph_text_omitted",
        "A text of the graph was left out: the knowledge bases name several serializers, or an answer has no room.",
    )
    GRAPH_WALK_CUT = "graph_walk_cut", "The walk in the graph left out entities of little weight."
    REWRITE_PROMPT_MISSING = (
        "rewrite_prompt_missing",
        "`prompt_rewrite` changed nothing, because the search has no single `rewrite_prompt`.",
    )
    STRATEGY_FAILED = "strategy_failed", "A plugin's strategy failed, and the default strategy searched."
    STRATEGY_OPTIONS_IGNORED = (
        "strategy_options_ignored",
        "The stored options are no longer valid for the strategy, so its defaults were used.",
    )
    STRATEGY_UNAVAILABLE = "strategy_unavailable", "The stored strategy is not installed; the default searched."
    TRANSFORMER_FAILED = "transformer_failed", "A plugin's transformer failed and was skipped."
    TRANSFORMER_SKIPPED = "transformer_skipped", "A transformer needs a first search, which was not ready in time."
    TRANSFORMER_UNAVAILABLE = "transformer_unavailable", "A stored transformer is not installed and was skipped."
    TRANSLATION_SKIPPED = "translation_skipped", "The searched documents are not in one language."

    # Searches: knowledge bases, routing and HTTP sources.
    ANALYZER_MISMATCH = "analyzer_mismatch", "Another analyzer made the words of an index; reindex it."
    EMBEDDING_MODEL_MISMATCH = "embedding_model_mismatch", "No configured embedding model fits an index; reindex it."
    HTTP_SOURCE_LIMIT_REACHED = "http_source_limit_reached", "The search names more HTTP sources than it may query."
    HTTP_SOURCE_NEEDS_TEXT = "http_source_needs_text", "An HTTP source takes only text, and the queries have none."
    HTTP_SOURCE_NOT_FILTERABLE = "http_source_not_filterable", "A filter excludes HTTP sources."
    HTTP_SOURCE_UNAVAILABLE = "http_source_unavailable", "An HTTP source did not answer."
    KNOWLEDGE_BASE_LIMIT_REACHED = "knowledge_base_limit_reached", "Only some of the knowledge bases were searched."
    KNOWLEDGE_BASES_SKIPPED = "knowledge_bases_skipped", "Some knowledge bases could not be searched; the others were."
    ROUTING_LIMIT_REACHED = "routing_limit_reached", "Routing considered only some of the knowledge bases."
    ROUTING_SKIPPED = "routing_skipped", "Routing was not possible, so all knowledge bases were searched."
    STORED_DOCUMENTS_SKIPPED = "stored_documents_skipped", "Only HTTP sources answered; documents were not searched."

    # Searches: results.
    INCLUDE_SKIPPED = "include_skipped", "An include of the request was not loaded in time."
    RERANKER_NOT_CONFIGURED = "reranker_not_configured", "No reranker is configured, so the order did not change."
    RERANKER_UNAVAILABLE = "reranker_unavailable", "The reranker did not answer, so the order did not change."
    RERANKING_NEEDS_TEXT = "reranking_needs_text", "No query has text, so the order did not change."
    RERANKING_SKIPPED = "reranking_skipped", "No time was left to rerank, so the order did not change."
    RESULTS_MAY_BE_INCOMPLETE = "results_may_be_incomplete", "More results may exist beyond the candidate limit."
    RETRIEVER_UNAVAILABLE = "retriever_unavailable", "One of the retrievers did not answer."
    THRESHOLD_NOT_APPLIED = (
        "threshold_not_applied",
        "Results without a similarity were not compared with `score_threshold`.",
    )
    THRESHOLD_NOT_CALIBRATED = (
        "threshold_not_calibrated",
        "The embedding model has no calibrated threshold, so `score_threshold` `auto` was not applied.",
    )
    VECTORS_NOT_RETURNED = "vectors_not_returned", "`return_vectors` found no vectors, because a retriever failed."

    # Answers.
    AGENT_NOT_BOUND = "agent_not_bound", "The agent has no binding, so no settings of an agent apply."
    ANSWER_PROMPTS_NOT_USED = (
        "answer_prompts_not_used",
        "Several knowledge bases were searched, so the `answer_prompt` of each was not used.",
    )
    ANSWER_TRUNCATED = "answer_truncated", "The answer reached `CARREL_ANSWER_MAX_TOKENS`."
    CITATIONS_BY_OVERLAP = (
        "citations_by_overlap",
        "The chat model named no sources; citations were made from shared words.",
    )
    SESSION_NOT_SEARCHED = (
        "session_not_searched",
        "The binding of the agent does not open the chat `session_id`, so its documents were not searched.",
    )
    SOURCES_NOT_COMPRESSED = "sources_not_compressed", "The chat model did not shorten some of the sources."

    # Evaluations.
    EVALUATION_DEPTH_LIMITED = (
        "evaluation_depth_limited",
        "A setting requests fewer results than a measure looks at, so its figures are too low.",
    )
    EVALUATION_SEARCHES_FAILED = "evaluation_searches_failed", "Searches of an evaluation failed, and count as 0."
    EVALUATION_SEARCHES_WARNED = "evaluation_searches_warned", "Searches of an evaluation gave a warning."
    GOLDEN_RELEVANCE_MISSING = (
        "golden_relevance_missing",
        "Relevant documents or chunks of a golden set are missing, and were left out.",
    )

    # SQL views.
    EMBEDDED_MODEL = "embedded_model", "Only a platform with the local model can embed queries for the view."
    NO_TLS = "no_tls", "Connections to the view may be unencrypted."
    PROVIDER_ASSUMED = "provider_assumed", "The provider of the embedding model is a guess."
    QUERY_PREFIX = "query_prefix", "The platform must put a prefix before each query."


@dataclass(frozen=True, slots=True)
class ServiceWarning:
    """A warning.

    Attributes:
        code: Stable code, for programs.
        message: One sentence, for users.
        count: Number of things that the warning is about, such as attachments or words; None if they were not counted.
    """

    code: str
    message: str
    count: int | None = None

    def to_json(self) -> dict[str, str | int]:
        """Return the warning as the API shows it and as the database stores it."""
        fields: dict[str, str | int] = {"code": str(self.code), "message": self.message}
        return fields if self.count is None else {**fields, "count": self.count}


def is_warning_code(code: object) -> bool:
    """Return whether a value has the form of a warning code; plugins may define codes too."""
    return isinstance(code, str) and len(code) <= MAX_CODE_CHARACTERS and _CODE.fullmatch(code) is not None


def normalize_warning(warning: ServiceWarning | str) -> ServiceWarning:
    """Return the warning of a plugin as an object. A plain text or a malformed code becomes `plugin_warning`."""
    if isinstance(warning, str):
        return ServiceWarning(WarningCode.PLUGIN_WARNING, warning)
    return warning if is_warning_code(warning.code) else ServiceWarning(WarningCode.PLUGIN_WARNING, warning.message)


def parse_stored_warnings(stored: Any) -> list[ServiceWarning]:
    """Return the warnings in a JSON column; entries that are not warnings are skipped."""
    return list(_iter_stored_warnings(stored))


def _iter_stored_warnings(stored: Any) -> Iterator[ServiceWarning]:
    for entry in stored if isinstance(stored, list) else ():
        if isinstance(entry, str):
            yield normalize_warning(entry)
        elif isinstance(entry, dict) and is_warning_code(entry.get("code")) and isinstance(entry.get("message"), str):
            count = entry.get("count")
            yield ServiceWarning(entry["code"], entry["message"], count if isinstance(count, int) else None)
