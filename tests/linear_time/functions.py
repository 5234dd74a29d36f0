"""Every function that reads a text of a stranger's outside of a parser process, as one that takes the text alone.

``FUNCTIONS`` names them by module, and ``EXCUSED`` the modules that use patterns or Unicode tables on something else.
A test compares both with the modules there are, so a new one has to be in one of them.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from functools import cache
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

from fastapi import Request
from tokenizers import Tokenizer

from app.answering.citations import UsedSources
from app.answering.context import fitting
from app.answering.overlap import shares
from app.answering.prompt import to_answer, to_cite
from app.answering.thoughts import without_thoughts
from app.answering.types import Source
from app.api import idempotency, problems
from app.api.bodies import Body, Text
from app.api.body_digest import BodyDigest
from app.api.dify.conditions import condition_filter
from app.api.json_limits import JsonCount, JsonLimit
from app.api.mcp.documents import _ADDRESS
from app.api.middleware import _SANE_ID, _STREAMED
from app.api.openai.filters import Comparison, filter_of
from app.api.streamed import content_type
from app.api.v1.schemas import WebAddress
from app.characters import normalize_characters
from app.documents.given_chunks import decode_chunks, encode_chunks
from app.documents.offsets import utf16_offsets
from app.documents.text_sniffing import kind_of_text
from app.documents.text_types import type_of_text
from app.documents.types import GivenChunk
from app.documents.uploads import clean_filename
from app.filters import check_metadata, compile_filter
from app.filters.metadata import filterable_metadata
from app.filters.predicates import ends_with
from app.filters.values import instant
from app.http_sources.checking import _NAME, _VALUE
from app.http_sources.gate import _ODD, _PLAIN
from app.http_sources.reading import read_reply
from app.http_sources.templates import filled
from app.http_sources.types import Asked, HttpSource, ResponsePaths
from app.inference.embedding import EmbeddingIdentity
from app.inference.embedding.estimating import estimate
from app.inference.embedding.minilm import _encodable, _tokenizer
from app.inference.structured import read_answer
from app.ingestion.chunkers import CHUNKERS, ChunkSizes, ChunkTools
from app.ingestion.flags import suspicions
from app.ingestion.given_chunks import given_passages
from app.ingestion.parsers.cleaning import clean_code, clean_line, clean_text
from app.ingestion.passages import passage_texts
from app.ingestion.preview import first_blocks
from app.ingestion.quality import garbled_ratio
from app.ingestion.sentences import sentence_spans, stripped
from app.ingestion.tree import add_sentences, build_tree
from app.ingestion.types import Block, BlockKind, ChunkDraft, ParsedDocument
from app.knowledge_bases.stores import plain_name
from app.lexical.analyser import analyser_for
from app.lexical.languages import (
    document_language,
    lexical_entries,
    meaningful,
    query_tokens,
    require_few_terms,
)
from app.object_store import disposition
from app.publications.types import collection_of
from app.retrieval.rewriting import conversation_queries
from app.retrieval.sources import words_of
from app.retrieval.transformers.context import tidied
from app.retrieval.transformers.prompting import conversation, given
from app.retrieval.types import Message
from app.tenants.types import looks_like_key
from app.transfer.records import ChunkRecord, NodeRecord, read_lines, read_record
from app.transfer.types import ArchiveDamaged
from app.webhooks import addresses
from tests.ingestion.chunkers.cutting import embed
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
        if spec.sentences:
            add_sentences(tree)
        return spec.chunk(tree, ChunkSizes(64, 8), spec.options(), ChunkTools(quarters, embed, 256))

    return cut


_CUT_KINDS = (BlockKind.PARAGRAPH, BlockKind.TABLE, BlockKind.CODE, BlockKind.LIST_ITEM)


def _given_chunks(text: str) -> object:
    titles = (text[:64],)
    body = encode_chunks([GivenChunk("word " + text, {"a": text}, titles)], model=_MODEL, without=()).encode(
        "utf-8", "replace"
    )
    decode_chunks(body, model=_MODEL)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "original"
        path.write_bytes(body)
        return given_passages(path, text[:500], _MODEL, ChunkTools(quarters, embed, 1 << 30))


def _passages(text: str) -> object:
    drafts = [ChunkDraft(text, 0, len(text), section_titles=(text, text[:500]))]
    return passage_texts(text, drafts, count_tokens=quarters, limit=8)


def _stream(text: str) -> AsyncIterator[str]:
    async def pieces() -> AsyncIterator[str]:
        for start in range(0, len(text), 8):
            yield text[start : start + 8]

    return pieces()


def _answer_without_thoughts(text: str) -> object:
    async def read() -> list[str]:
        return [piece async for piece in without_thoughts(_stream(text))]

    return asyncio.run(read())


def _request(text: str) -> Request:
    value = f"multipart/form-data; {text}".encode("latin-1", "replace").replace(b"\n", b" ")
    return Request({"type": "http", "headers": [(b"content-type", value)]})


def _count_json(text: str) -> object:
    count = JsonCount(JsonLimit(1 << 40, 1 << 40))
    data = text.encode("utf-8", "replace")
    for start in range(0, len(data), 65_536):
        count.feed(data[start : start + 65_536])
    return count


def _digest(text: str) -> bytes:
    digest = BodyDigest("multipart/form-data; boundary=-----")
    data = text.encode("utf-8", "replace")
    for start in range(0, len(data), 65_536):
        digest.feed(data[start : start + 65_536])
    return digest.digest()


class _Bodied(Body):
    text: Text = ""
    address: WebAddress | None = None


class _Answered(Body):
    text: str


def _body(text: str) -> object:
    return _Bodied.model_validate_json(json.dumps({"text": text}))


def _address(text: str) -> object:
    plain = "".join(filter(str.isprintable, text)).replace(" ", "")
    return _Bodied.model_validate({"address": f"https://a{plain[:2000]}/"})


_SOURCE = HttpSource("https://a.b/c", ResponsePaths("items", "text", "title", "url", "score"))


def _reply(text: str) -> object:
    item = {"text": text, "title": text, "url": f"http://{text}", "score": 1}
    content = json.dumps({"items": [item, {**item, "url": text}]}).encode()
    return read_reply(content, _SOURCE, most=10, flags=suspicions)


def _records(text: str) -> None:
    node = {"kind": "section", "level": 1, "start": 0, "end": 1, "title": text}
    line = json.dumps(node).encode() + b"\n"
    chunk = {"start": 0, "end": 1, "tokens": 1, "sections": [text], "metadata": {"a": text[:8000]}}
    with suppress(ArchiveDamaged):  # of long titles
        for place, one in read_lines(BytesIO(line * 2), "nodes.jsonl", most=10):
            read_record(NodeRecord, one, place)
    with suppress(ArchiveDamaged):
        read_record(ChunkRecord, json.dumps(chunk).encode(), "chunks.jsonl")


def _told(text: str) -> object:
    errors = [{"loc": ("body", text, f"function-after[{text}]"), "msg": f"Value error, {text}"}]
    return problems.faults(errors)


def _filters(text: str) -> object:
    word = f"\\{text[:100]}a"
    return [compile_filter({word: one}) for one in (text[:1000], [text[:1000]], {"contains": text[:250]})]


def _metadata(text: str) -> object:
    checked = check_metadata({text[:1000]: text[:12_000], "a": [text[:1000]]})
    return filterable_metadata(checked, reserved={})


def _asked(text: str) -> object:
    source = Source(1, hit(text, 0.5))
    fitting([source], most_tokens=1 << 30)
    return to_answer(text, [source], [Message("user", text)], None, own=text), to_cite(text, text, [source])


def _entries(text: str) -> object:
    half = len(text) // 2
    return lexical_entries([text[:half], text[half:]], language="english", index_id=_INDEX, avgdl=50.0)


@cache
def _model_tokenizer() -> Tokenizer:
    """The tokenizer of the model that comes with the service."""
    return _tokenizer(Path("models/all-MiniLM-L6-v2/tokenizer.json"))


def _patterns(*patterns: "object") -> Function:
    def match(text: str) -> object:
        data = text.encode("utf-8", "replace")
        found = []
        for pattern in patterns:
            subject = data if isinstance(pattern.pattern, bytes) else text  # type: ignore[attr-defined]
            found.append((pattern.fullmatch(subject), len(pattern.findall(subject))))  # type: ignore[attr-defined]
        return found

    return match


FUNCTIONS: Mapping[str, Mapping[str, Function]] = {
    "app.answering.citations": {"UsedSources": lambda text: UsedSources.model_validate({"numbers": [f"{text}1"]})},
    "app.answering.context": {"to_answer": _asked},
    "app.answering.overlap": {"shares": lambda text: shares(text, [text], languages=["english", "german"])},
    "app.answering.thoughts": {"without_thoughts": _answer_without_thoughts},
    "app.api.bodies": {"Text": _body},
    "app.api.body_digest": {"BodyDigest": _digest, "header": lambda text: BodyDigest(f"multipart/form-data; {text}")},
    "app.api.dify.conditions": {
        "condition_filter": lambda text: [
            condition_filter([text], operator, text) for operator in ("in", "=", "before", "contains")
        ]
    },
    "app.api.idempotency": {
        "answers": lambda text: (
            idempotency._subjects(text.encode("utf-8", "replace")),
            idempotency._reason_to_withhold(text.encode("utf-8", "replace")),
            idempotency._KEY.fullmatch(text),
        )
    },
    "app.api.json_limits": {"JsonCount": _count_json},
    "app.api.mcp.documents": {"addresses": _patterns(_ADDRESS)},
    "app.api.middleware": {"requests": _patterns(_SANE_ID, _STREAMED)},
    "app.api.openai.filters": {
        "filter_of": lambda text: filter_of(Comparison.model_validate({"type": "eq", "key": text, "value": text}))
    },
    "app.api.problems": {"faults": _told},
    "app.api.streamed": {"content_type": lambda text: content_type(_request(text))},
    "app.api.v1.schemas": {"WebAddress": _address},
    "app.characters": {"normalize_characters": normalize_characters},
    "app.documents.given_chunks": {"encode_chunks": _given_chunks},
    "app.documents.offsets": {"utf16_offsets": utf16_offsets},
    "app.documents.text_sniffing": {
        "kind_of_text": lambda text: [
            kind_of_text(text.encode("utf-8", "replace"), filename=name, declared=text, whole=whole)
            for name, whole in (("a", True), ("a", False), ("a.txt", True), (f"a.{text}", True))
        ]
    },
    "app.documents.text_types": {"type_of_text": type_of_text},
    "app.documents.uploads": {"clean_filename": clean_filename},
    "app.filters.metadata": {"check_metadata": _metadata},
    "app.filters.predicates": {"ends_with": lambda text: ends_with(["a", text], text)},
    "app.filters.values": {"instant": instant, "compile_filter": _filters},
    "app.http_sources.checking": {"headers": _patterns(_NAME, _VALUE)},
    "app.http_sources.gate": {"addresses": _patterns(_PLAIN, _ODD)},
    "app.http_sources.reading": {"read_reply": _reply},
    "app.http_sources.templates": {
        "filled": lambda text: [filled({"a": text}, Asked("q", 5)), filled({"a": "{query}"}, Asked(text, 5))]
    },
    "app.inference.embedding.estimating": {"estimate": estimate},
    "app.inference.embedding.minilm": {
        "count_tokens": lambda text: _model_tokenizer().encode_batch_fast([_encodable(text)], add_special_tokens=False)
    },
    "app.inference.structured": {"read_answer": lambda text: read_answer(f'{text} {{"text": "a"}}', _Answered)},
    "app.ingestion.chunkers.splitting": {name: _chunker(name) for name in CHUNKERS},
    "app.ingestion.flags": {"suspicions": suspicions},
    "app.ingestion.parsers.cleaning": {"clean": lambda text: (clean_text(text), clean_line(text), clean_code(text))},
    "app.ingestion.passages": {"passage_texts": _passages},
    "app.ingestion.preview": {"first_blocks": lambda text: first_blocks([Block(BlockKind.CODE, text)] * 3, 200_000)},
    "app.ingestion.quality": {"garbled_ratio": lambda text: garbled_ratio([text])},
    "app.ingestion.sentences": {
        "sentence_spans": lambda text: list(sentence_spans(text, 0, len(text))),
        "stripped": lambda text: stripped(text, 0, len(text)),
    },
    "app.ingestion.tree": {kind.value: lambda text, kind=kind: _tree(text, kind) for kind in BlockKind},  # type: ignore[misc]
    "app.knowledge_bases.stores": {"plain_name": plain_name},
    "app.lexical.analyser": {
        language: lambda text, language=language: analyser_for(language).tokens(text)  # type: ignore[misc]
        for language in ("english", "german", "japanese", "arabic", "hindi")
    },
    "app.lexical.detection": {"document_language": lambda text: document_language("auto", text)},
    "app.lexical.languages": {
        "query_tokens": lambda text: query_tokens(["english", "german", "french"], text),
        "meaningful": lambda text: meaningful("english", text),
        "require_few_terms": lambda text: require_few_terms([text], setting="english", whole=text),
    },
    "app.lexical.weights": {"lexical_entries": _entries},
    "app.object_store.disposition": {
        "content_disposition": lambda text: disposition.content_disposition(text, inline=False),
        "safe_media_type": disposition.safe_media_type,
    },
    "app.publications.types": {"collection_of": collection_of},
    "app.retrieval.rewriting": {"conversation_queries": lambda text: conversation_queries([Message("user", text)] * 3)},
    "app.retrieval.sources": {"words_of": lambda text: words_of(hit(text, 0.5))},
    "app.retrieval.transformers.context": {"tidied": lambda text: tidied([text])},
    "app.retrieval.transformers.prompting": {
        "given": lambda text: given({"text": text}),
        "conversation": lambda text: conversation([Message("user", text)] * 3),
    },
    "app.tenants.types": {"looks_like_key": looks_like_key},
    "app.transfer.records": {"read_record": _records},
    "app.webhooks.addresses": {"addresses": _patterns(addresses._PLAIN, addresses._ODD)},
}

_SERVICE = "It reads what the operator or the service itself has written."
_SHORT = "It looks at a name, a number or a code of a bounded length."
EXCUSED: Mapping[str, str] = {
    "app.cli.client.archive": _SERVICE,
    "app.cli.evaluation.measures": "The command runs on the caller's own machine, on the caller's own evaluation set.",
    "app.cli.evaluation.sets": "The command runs on the caller's own machine, on the caller's own evaluation set.",
    "app.cli.runtime": _SERVICE,
    "app.db.statements": _SERVICE,
    "app.documents.sniffing": "It matches one member's name, of which it reads at most a few bytes.",
    "app.inference.embedding.openai_errors": _SHORT,
    "app.inference.openai_client": _SHORT,
    "app.inference.rerank.endpoint": _SHORT,
    "app.ingestion.chunkers.installed": _SERVICE,
    "app.ingestion.parsers.installed": _SERVICE,
    "app.logging": _SERVICE,
    "app.object_store": _SERVICE,
    "app.plugins": _SERVICE,
    "app.publications.passwords": "It is part of the answers that are kept: app.api.idempotency runs it.",
    "app.settings": _SERVICE,
    "app.settings.group": _SERVICE,
    "app.settings.http_sources": _SERVICE,
    "app.settings.identity": _SERVICE,
    "app.tenants.signing_keys": "It reads what the operator's identity provider has written.",
    "app.webhooks.sending": _SHORT,
}
