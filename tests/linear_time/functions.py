"""Every function that reads an untrusted text outside of a parser process, as a function of the text alone.

``FUNCTIONS`` names them by module, and ``EXCUSED`` the modules that use patterns or Unicode tables on other input.
A test compares both with the existing modules, so that a new module has to be in one of them.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

from fastapi import Request

from app.answering.citations import CitedSourceNumbers
from app.answering.context_window import select_within_budget
from app.answering.lexical_overlap import compute_overlap_ratios
from app.answering.prompt_messages import build_answer_messages, build_citation_messages
from app.answering.reasoning_filter import strip_reasoning
from app.answering.types import AnswerSource
from app.api.dify.conditions import build_condition_filter
from app.api.http import idempotency, problems
from app.api.http.body_hash import BodyHasher
from app.api.http.json_limits import JsonLimit, JsonValueCounter
from app.api.http.middleware import _STREAMED_PATHS, _VALID_REQUEST_ID
from app.api.http.request_models import RequestModel, Text
from app.api.http.streaming_body import parse_content_type
from app.api.mcp.titled_documents import _URI_PATTERN
from app.api.openai.filters import ComparisonFilter, translate_filter
from app.api.v1.schemas import WebAddress
from app.documents import table_heads
from app.documents.content.offsets import create_utf16_converter
from app.documents.types import ProvidedChunk
from app.documents.upload.multipart import clean_filename
from app.documents.upload.provided_chunks import decode_chunks, encode_chunks
from app.documents.upload.text_detection import sniff_text_type
from app.documents.upload.text_formats import guess_text_type
from app.filters import check_metadata, compile_filter
from app.filters.metadata import build_filter_metadata
from app.filters.predicates import ends_with
from app.filters.values import parse_instant
from app.graph.extraction.extractor import ChunkText, extract_mentions
from app.graph.extraction.names import normalize_name, split_words
from app.graph.extraction.query import query_names, select_query_names
from app.graph.extraction.titles import list_source_names, read_title
from app.http_sources.allowlist import _ODD, _PLAIN
from app.http_sources.response import parse_response
from app.http_sources.templates import render_template
from app.http_sources.types import HttpSource, ResponsePaths, SourceQuery
from app.http_sources.validation import _NAME, _VALUE
from app.inference.chat.structured_output import parse_structured_output
from app.inference.embedding import EmbeddingIdentity
from app.inference.embedding.e5_file import PieceVocabulary
from app.inference.embedding.e5_tokenizer import E5Tokenizer
from app.inference.embedding.text_tokenizer import LibraryTokenizer, load_tokenizer
from app.inference.embedding.token_estimate import estimate_tokens
from app.ingestion.chunkers import CHUNKERS, ChunkSizes, ChunkTools
from app.ingestion.embedding_text import contextualize_chunks
from app.ingestion.injection_flags import detect_prompt_injection
from app.ingestion.parsers.toolkit.links import strip_addresses
from app.ingestion.parsers.toolkit.text_cleanup import clean_code, clean_line, clean_text
from app.ingestion.preview.parse_quality import compute_garbled_ratio
from app.ingestion.preview.service import take_first_blocks
from app.ingestion.provided_chunks import read_provided_chunks
from app.ingestion.tree import add_sentences, build_tree
from app.ingestion.types import Block, BlockKind, ChunkDraft, ParsedDocument
from app.knowledge_bases.vector_stores import slugify_title
from app.lexical.analyzers import get_analyzer
from app.lexical.filename_words import list_filename_words
from app.lexical.index_folding import fold_for_index
from app.lexical.languages import (
    build_lexical_entries,
    check_term_limit,
    remove_stop_words,
    resolve_document_language,
    tokenize_query,
)
from app.lexical.numbers import list_number_terms, list_spaced_numbers
from app.lexical.sentences import find_sentence_spans, strip_range
from app.lexical.text_language import identify_language
from app.lexical.word_patterns import is_camel, split_bigrams
from app.object_store import content_disposition
from app.retrieval.conversation import build_conversation_queries
from app.retrieval.fusion.merge_sources import get_normalized_text
from app.retrieval.repeated_texts import RepeatedTexts
from app.retrieval.transformers.prompt_format import create_user_message, select_recent_turns
from app.retrieval.transformers.transformer import normalize_queries
from app.retrieval.types import Message
from app.sql_views.types import build_default_view_name
from app.tenants.types import has_key_format
from app.text_normalization import fold_text, normalize_text
from app.transfer.archive_format import ChunkRecord, NodeRecord, parse_record, read_lines
from app.transfer.types import ArchiveDamaged
from app.warnings import is_warning_code
from app.webhooks import address_policy
from tests.ingestion.chunkers.chunk_texts import embed
from tests.ingestion.documents import quarters
from tests.retrieval.hits import hit

Function = Callable[[str], object]
_INDEX = UUID(int=7)
_MODEL = EmbeddingIdentity("model", 2, "fp32", "", "")


def _tree(text: str, kind: BlockKind) -> object:
    tree = build_tree(ParsedDocument([Block(kind, text, level=1 if kind is BlockKind.HEADING else 0)] * 2))
    add_sentences(tree)
    return tree


def _chunker(name: str) -> Function:
    def cut(text: str) -> object:
        spec = CHUNKERS[name]
        parts = [Block(kind, text) for kind in _CUT_KINDS]
        tree = build_tree(ParsedDocument(parts))
        if spec.needs_sentences:
            add_sentences(tree)
        return spec.chunk(tree, ChunkSizes(64, 8), spec.options(), ChunkTools(quarters, embed, 256))

    return cut


def _table(text: str) -> str:
    rows = "\n".join(f"| {line} |  |" for line in text.replace("|", " ").splitlines())
    return f"A caption\n| name | value |\n| --- | --- |\n{rows}\n{text}"


def _cut_table(text: str) -> object:
    tree = build_tree(ParsedDocument([Block(BlockKind.TABLE, _table(text))]))
    spec = CHUNKERS["headered"]
    return spec.chunk(tree, ChunkSizes(64, 8), spec.options(), ChunkTools(quarters, embed, 256))


def _find_heads(text: str) -> None:
    table_heads.find_table_head(text, 0, len(text))
    table_heads.find_head_at(_table(text), len(text))
    table_heads.find_row_start(text, len(text) // 2, len(text))
    table_heads.is_label_row(text, text)
    if (head := table_heads.find_table_head(_table(text), 0, len(text))) is not None:
        table_heads.list_head_variants(_table(text), head)


_CUT_KINDS = (BlockKind.PARAGRAPH, BlockKind.TABLE, BlockKind.CODE, BlockKind.LIST_ITEM)


def _provided_chunks(text: str) -> object:
    titles = (text[:64],)
    body = encode_chunks([ProvidedChunk("word " + text, {"a": text}, titles)], model=_MODEL, excluded_keys=()).encode(
        "utf-8", "replace"
    )
    decode_chunks(body, model=_MODEL)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "original"
        path.write_bytes(body)
        return read_provided_chunks(path, text[:500], _MODEL, ChunkTools(quarters, embed, 1 << 30))


def _passages(text: str) -> object:
    drafts = [ChunkDraft(text, 0, len(text), section_titles=(text, text[:500]))]
    return contextualize_chunks(text, drafts, count_tokens=quarters, max_tokens=8)


def _stream(text: str) -> AsyncIterator[str]:
    async def pieces() -> AsyncIterator[str]:
        for start in range(0, len(text), 8):
            yield text[start : start + 8]

    return pieces()


def _answer_without_thoughts(text: str) -> object:
    async def read() -> list[str]:
        return [piece async for piece in strip_reasoning(_stream(text))]

    return asyncio.run(read())


def _request(text: str) -> Request:
    value = f"multipart/form-data; {text}".encode("latin-1", "replace").replace(b"\n", b" ")
    return Request({"type": "http", "headers": [(b"content-type", value)]})


def _count_json(text: str) -> object:
    count = JsonValueCounter(JsonLimit(1 << 40, 1 << 40))
    data = text.encode("utf-8", "replace")
    for start in range(0, len(data), 65_536):
        count.update(data[start : start + 65_536])
    return count


def _digest(text: str) -> bytes:
    digest = BodyHasher("multipart/form-data; boundary=-----")
    data = text.encode("utf-8", "replace")
    for start in range(0, len(data), 65_536):
        digest.update(data[start : start + 65_536])
    return digest.digest()


class _Bodied(RequestModel):
    text: Text = ""
    address: WebAddress | None = None


class _Answered(RequestModel):
    text: str


def _body(text: str) -> object:
    return _Bodied.model_validate_json(json.dumps({"text": text}))


def _address(text: str) -> object:
    # The address is short, so that cleaning the whole text does not take longer than the function under test.
    plain = "".join(filter(str.isprintable, text[:4_000])).replace(" ", "")
    return _Bodied.model_validate({"address": f"https://a{plain[:2_000]}/"})


_SOURCE = HttpSource("https://a.b/c", ResponsePaths("items", "text", "title", "url", "score"))


def _reply(text: str) -> object:
    item = {"text": text, "title": text, "url": f"http://{text}", "score": 1}
    content = json.dumps({"items": [item, {**item, "url": text}]}).encode()
    return parse_response(content, _SOURCE, max_results=10, detect_flags=detect_prompt_injection)


def _extract(text: str, language: str | None) -> object:
    chunk = ChunkText(text, text, text, (text,), {"a": text}, (text,), language)
    return extract_mentions(chunk, metadata_keys=["a"])


def _records(text: str) -> None:
    node = {"kind": "section", "level": 1, "start": 0, "end": 1, "title": text}
    line = json.dumps(node).encode() + b"\n"
    chunk = {"start": 0, "end": 1, "tokens": 1, "sections": [text], "metadata": {"a": text[:8000]}}
    with suppress(ArchiveDamaged):  # because of long titles
        for place, one in read_lines(BytesIO(line * 2), "nodes.jsonl", max_lines=10):
            parse_record(NodeRecord, one, place)
    with suppress(ArchiveDamaged):
        parse_record(ChunkRecord, json.dumps(chunk).encode(), "chunks.jsonl")


def _validation_errors(text: str) -> object:
    errors = [{"loc": ("body", text, f"function-after[{text}]"), "msg": f"Value error, {text}"}]
    return problems.format_validation_errors(errors)


def _filters(text: str) -> object:
    word = f"\\{text[:100]}a"
    return [compile_filter({word: one}) for one in (text[:1000], [text[:1000]], {"contains": text[:250]})]


def _metadata(text: str) -> object:
    checked = check_metadata({text[:1000]: text[:12_000], "a": [text[:1000]]})
    return build_filter_metadata(checked, reserved={})


def _answer_prompt(text: str) -> object:
    source = AnswerSource(1, hit(text, 0.5))
    select_within_budget([source], max_tokens=1 << 30)
    return build_answer_messages(
        text, [source], [Message("user", text)], None, custom_prompt=text
    ), build_citation_messages(text, text, [source])


def _entries(text: str) -> object:
    half = len(text) // 2
    return build_lexical_entries([text[:half], text[half:]], language="english", index_id=_INDEX, avgdl=50.0)


@cache
def _model_tokenizer() -> LibraryTokenizer:
    """Return the tokenizer of the bundled model."""
    return load_tokenizer(Path("models/bge-small-en-v1.5/tokenizer.json"))


@cache
def _unigram_tokenizer() -> E5Tokenizer:
    """Return a tokenizer with long pieces of one letter, which compete everywhere in a long word."""
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *("x" * length for length in range(1, 17)), "\u2581", "the", "字"]
    return E5Tokenizer(PieceVocabulary([*pieces, "<mask>"], [-1.0 - 0.1 * number for number in range(len(pieces) + 1)]))


def _patterns(*patterns: "object") -> Function:
    def match(text: str) -> object:
        data = text.encode("utf-8", "replace")
        found = []
        for pattern in patterns:
            subject = data if isinstance(pattern.pattern, bytes) else text  # type: ignore[attr-defined]
            found.append((pattern.fullmatch(subject), len(pattern.findall(subject))))  # type: ignore[attr-defined]
        return found

    return match


OTHER_TEXT = "The passage that an earlier search returned has some ten words."


def _find_repeat(contents: Sequence[str], text: str) -> bool:
    texts = RepeatedTexts.from_messages([Message("tool", content) for content in contents])
    return texts is not None and texts.contains(text)


FUNCTIONS: Mapping[str, Mapping[str, Function]] = {
    "app.answering.citations": {
        "UsedSources": lambda text: CitedSourceNumbers.model_validate({"numbers": [f"{text}1"]})
    },
    "app.answering.context_window": {"to_answer": _answer_prompt},
    "app.answering.lexical_overlap": {
        "shares": lambda text: compute_overlap_ratios(text, [text], languages=["english", "german"])
    },
    "app.answering.reasoning_filter": {"without_thoughts": _answer_without_thoughts},
    "app.api.http.request_models": {"Text": _body},
    "app.api.http.body_hash": {
        "BodyHasher": _digest,
        "header": lambda text: BodyHasher(f"multipart/form-data; {text}"),
    },
    "app.api.dify.conditions": {
        "build_condition_filter": lambda text: [
            build_condition_filter([text], operator, text) for operator in ("in", "=", "before", "contains")
        ]
    },
    "app.api.http.idempotency": {
        "answers": lambda text: (
            idempotency._find_object_ids(text.encode("utf-8", "replace")),
            idempotency._find_withholding_error(text.encode("utf-8", "replace")),
            idempotency._KEY_PATTERN.fullmatch(text),
        )
    },
    "app.api.http.json_limits": {"JsonValueCounter": _count_json},
    "app.api.mcp.titled_documents": {"addresses": _patterns(_URI_PATTERN)},
    "app.api.http.middleware": {"requests": _patterns(_VALID_REQUEST_ID, _STREAMED_PATHS)},
    "app.api.openai.filters": {
        "translate_filter": lambda text: translate_filter(
            ComparisonFilter.model_validate({"type": "eq", "key": text, "value": text})
        )
    },
    "app.api.http.problems": {"format_validation_errors": _validation_errors},
    "app.api.http.streaming_body": {"parse_content_type": lambda text: parse_content_type(_request(text))},
    "app.api.v1.schemas": {"WebAddress": _address},
    "app.text_normalization": {"normalize_text": normalize_text, "fold_text": fold_text},
    "app.separate_accents": {"normalize_text": lambda text: normalize_text(text.replace("a", " ¨a´"))},
    "app.documents.upload.provided_chunks": {"encode_chunks": _provided_chunks},
    "app.documents.table_heads": {"find_table_head": _find_heads},
    "app.documents.content.offsets": {"create_utf16_converter": create_utf16_converter},
    "app.documents.upload.text_detection": {
        "sniff_text_type": lambda text: [
            sniff_text_type(text.encode("utf-8", "replace"), filename=name, declared=text, is_complete=whole)
            for name, whole in (("a", True), ("a", False), ("a.txt", True), (f"a.{text}", True))
        ]
    },
    "app.documents.upload.text_formats": {"guess_text_type": guess_text_type},
    "app.documents.upload.multipart": {"clean_filename": clean_filename},
    "app.filters.metadata": {"check_metadata": _metadata},
    "app.filters.predicates": {"ends_with": lambda text: ends_with(["a", text], text)},
    "app.filters.values": {"instant": parse_instant, "compile_filter": _filters},
    "app.graph.extraction.capital_names": {"english": lambda text: _extract(text, "english")},
    "app.graph.extraction.run_names": {"french": lambda text: _extract(text, "french")},
    "app.graph.extraction.german_names": {"german": lambda text: _extract(text, "german")},
    "app.graph.extraction.identifiers": {"russian": lambda text: _extract(text, "russian")},
    "app.graph.extraction.quoted_names": {"quoted": lambda text: _extract("«" + text.replace("a", "“"), "english")},
    "app.graph.extraction.uncased_names": {"japanese": lambda text: _extract(text.replace("a", "カ・"), "japanese")},
    "app.graph.extraction.extractor": {"extract_mentions": lambda text: _extract(text, None)},
    "app.graph.extraction.names": {"normalize_name": normalize_name, "split_words": split_words},
    "app.graph.extraction.titles": {"read_title": lambda text: (read_title(text), list_source_names(text))},
    "app.graph.extraction.query": {
        "select_query_names": lambda text: (query_names(text), select_query_names(text, {text}))
    },
    "app.http_sources.validation": {"headers": _patterns(_NAME, _VALUE)},
    "app.http_sources.allowlist": {"addresses": _patterns(_PLAIN, _ODD)},
    "app.http_sources.response": {"read_reply": _reply},
    "app.http_sources.templates": {
        "filled": lambda text: [
            render_template({"a": text}, SourceQuery("q", 5)),
            render_template({"a": "{query}"}, SourceQuery(text, 5)),
        ]
    },
    "app.inference.embedding.token_estimate": {"estimate_tokens": estimate_tokens},
    "app.inference.embedding.text_tokenizer": {"count_tokens": lambda text: _model_tokenizer().count_tokens([text])},
    "app.inference.embedding.e5_tokenizer": {
        "count_tokens": lambda text: _unigram_tokenizer().count_tokens([text]),
        "encode": lambda text: _unigram_tokenizer().encode(text, 512),
    },
    "app.inference.chat.structured_output": {
        "parse_structured_output": lambda text: parse_structured_output(f'{text} {{"text": "a"}}', _Answered)
    },
    "app.ingestion.chunkers.toolkit.splitter": {name: _chunker(name) for name in CHUNKERS},
    "app.ingestion.chunkers.toolkit.table_parts": {"find_table_rows": _cut_table},
    "app.ingestion.injection_flags": {"detect_prompt_injection": detect_prompt_injection},
    "app.ingestion.parsers.toolkit.links": {"strip_addresses": lambda text: strip_addresses(f"{text}[a](https://b.c)")},
    "app.ingestion.parsers.toolkit.text_cleanup": {
        "clean": lambda text: (clean_text(text), clean_line(text), clean_code(text))
    },
    "app.lexical.filename_words": {"list_filename_words": list_filename_words},
    "app.ingestion.embedding_text": {"contextualize_chunks": _passages},
    "app.ingestion.preview.service": {
        "take_first_blocks": lambda text: take_first_blocks([Block(BlockKind.CODE, text)] * 3, 200_000)
    },
    "app.ingestion.preview.parse_quality": {"compute_garbled_ratio": lambda text: compute_garbled_ratio([text])},
    "app.lexical.sentences": {
        "find_sentence_spans": lambda text: list(find_sentence_spans(text, 0, len(text))),
        "strip_range": lambda text: strip_range(text, 0, len(text)),
    },
    "app.ingestion.tree": {kind.value: lambda text, kind=kind: _tree(text, kind) for kind in BlockKind},  # type: ignore[misc]
    "app.knowledge_bases.vector_stores": {"slugify_title": slugify_title},
    "app.lexical.analyzer": {
        language: lambda text, language=language: get_analyzer(language).tokenize_document(text)  # type: ignore[misc]
        for language in ("english", "german", "japanese", "arabic", "hindi")
    },
    "app.lexical.first_version": {"tokenize": lambda text: get_analyzer(version=1).tokenize(text)},
    "app.lexical.index_folding": {"fold_for_index": fold_for_index},
    "app.lexical.numbers": {"list_spaced_numbers": list_spaced_numbers, "list_number_terms": list_number_terms},
    "app.lexical.word_patterns": {"is_camel": is_camel, "split_bigrams": split_bigrams},
    "app.lexical.detection": {"document_language": lambda text: resolve_document_language("auto", text)},
    "app.lexical.text_language": {"identify_language": identify_language},
    "app.lexical.languages": {
        "query_tokens": lambda text: tokenize_query(["english", "german", "french"], text),
        "meaningful": lambda text: remove_stop_words("english", text),
        "require_few_terms": lambda text: check_term_limit([text], setting="english", document_text=text),
    },
    "app.lexical.weights": {"lexical_entries": _entries},
    "app.object_store.content_disposition": {
        "format_content_disposition": lambda text: content_disposition.format_content_disposition(text, inline=False),
        "sanitize_media_type": content_disposition.sanitize_media_type,
    },
    "app.sql_views.types": {"build_default_view_name": build_default_view_name},
    "app.retrieval.conversation": {
        "conversation_queries": lambda text: build_conversation_queries([Message("user", text)] * 3)
    },
    "app.retrieval.repeated_texts": {
        "repeated_texts": lambda text: _find_repeat([text, OTHER_TEXT], text),
        "repeated_texts_in_short_messages": lambda text: _find_repeat([text[:40], *text.split()], text),
    },
    "app.retrieval.fusion.merge_sources": {"words_of": lambda text: get_normalized_text(hit(text, 0.5))},
    "app.retrieval.transformers.transformer": {"tidied": lambda text: normalize_queries([text])},
    "app.retrieval.transformers.prompt_format": {
        "given": lambda text: create_user_message({"text": text}),
        "CitedSourceNumbers": lambda text: select_recent_turns([Message("user", text)] * 3),
    },
    "app.tenants.types": {"has_key_format": has_key_format},
    "app.transfer.archive_format": {"parse_record": _records},
    "app.warnings": {"is_warning_code": is_warning_code},
    "app.webhooks.address_policy": {
        "addresses": _patterns(address_policy._VISIBLE_URL, address_policy._AMBIGUOUS_CHARACTERS)
    },
}

_SERVICE = "It reads what the operator or the service itself has written."
_SHORT = "It looks at a name, a number or a code of a bounded length."
EXCUSED: Mapping[str, str] = {
    "app.cli.client.archive": _SERVICE,
    "app.cli.evaluation.measures": "The command runs on the caller's own machine, on the caller's own evaluation set.",
    "app.cli.evaluation.datasets": "The command runs on the caller's own machine, on the caller's own evaluation set.",
    "app.cli.runtime_state": _SERVICE,
    "app.api.v1.search.external_search": "It looks at one address of at most 2,000 characters.",
    "app.api.v1.search.search_queries": "It looks at the first bytes of an image.",
    "app.db.foreign_collections": _SHORT,
    "app.db.page_counts": _SERVICE,
    "app.db.statements": _SERVICE,
    "app.graph.entity_ids": "It looks at an id of twelve characters.",
    "app.documents.upload.file_signatures": "It matches one member's name, of which it reads at most a few bytes.",
    "app.documents.upload.notebooks": "It looks at the first and the last 64 KiB of a file.",
    "app.documents.upload.open_document": "It looks at the first 64 KiB of a member.",
    "app.documents.upload.pdf_signature": "It looks at the first 8,192 and the last 2,048 bytes of a file.",
    "app.graph.extraction.letters": "It lists the capital letters of Unicode.",
    "app.graph.extraction.plugin_extractor": _SHORT,
    "app.graph.serializers": _SHORT,
    "app.inference.embedding.openai_errors": _SHORT,
    "app.section_notes.extraction": "It looks at the first 4,000 characters of a chunk.",
    "app.settings.pgvector_sources": _SERVICE,
    "app.source_kinds.agent_search": _SHORT,
    "app.source_kinds.types": _SHORT,
    "app.inference.openai_client": _SHORT,
    "app.inference.rerank.http_reranker": _SHORT,
    "app.ingestion.chunkers.registry": _SERVICE,
    "app.ingestion.parsers.registry": _SERVICE,
    "app.logging": _SERVICE,
    "app.object_store": _SERVICE,
    "app.plugins": _SERVICE,
    "app.sql_views.passwords": "app.api.http.idempotency runs it on stored responses.",
    "app.api.api_docs.document": _SERVICE,
    "app.settings": _SERVICE,
    "app.settings.api_server": _SERVICE,
    "app.settings.parser": _SERVICE,
    "app.settings.settings_group": _SERVICE,
    "app.settings.http_sources": _SERVICE,
    "app.settings.identity": _SERVICE,
    "app.tenants.auth.jwks": "It reads what the operator's identity provider has written.",
    "app.webhooks.sender": _SHORT,
}
