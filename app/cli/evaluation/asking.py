"""Ask a running service every query under a setting, several at a time, and keep what measures need of the answers."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from carrel_client import ApiError, Client

from app.cli.connection import read_json
from app.cli.evaluation.excerpts import Passage, Texts
from app.cli.evaluation.sets import Query
from app.errors import InvalidInput

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")
EXTERNAL_ID = "external_id"
BY_FIELD = ("source", "title")
METADATA = "metadata."
# What a search is asked by. `queries` would be searched beside every question, the others give way to it unseen.
QUESTION = ("query", "queries", "messages")
# As long as the service allows: what is measured is what it finds, not how soon.
SECONDS = 60


class BadSetting(InvalidInput):
    """A setting is NAME={…}, with the body of a search request."""

    code = "bad_setting"


class BadNaming(InvalidInput):
    """--documents is external_id, source, title, or metadata. and a key."""

    code = "bad_naming"


@dataclass(frozen=True, slots=True)
class Setting:
    """A named way to search: what is sent beside the question."""

    name: str
    body: Mapping[str, Any]

    @property
    def knowledge_bases(self) -> list[str]:
        """Where it searches."""
        return list(self.body["knowledge_bases"])


@dataclass(frozen=True, slots=True)
class Answer:
    """Documents, each at its best passage, and the first passages; or why there is no answer."""

    documents: tuple[str, ...] = ()
    passages: tuple[Passage, ...] = ()
    warnings: tuple[str, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Naming:
    """How a found document is called in the judgements; ``by_id`` for names that a search does not tell."""

    kind: str
    by_id: Mapping[str, str]

    def name(self, document: Mapping[str, Any]) -> str:
        """The judgements' name, or its id, which no judgement has."""
        if self.kind in BY_FIELD:
            name = document[self.kind]
        elif self.kind.startswith(METADATA):
            name = _reached(document["metadata"], self.kind.removeprefix(METADATA))
        else:
            name = self.by_id.get(document["id"])
        return document["id"] if name is None else str(name)


@dataclass(frozen=True, slots=True)
class StoredTexts:
    """What is stored of found documents, each asked for once."""

    client: Client
    known: dict[str, str] = field(default_factory=dict)

    def of(self, result: Mapping[str, Any]) -> str:
        """Empty where it cannot be read: another version is live by now, or it is shared by the operator."""
        kb, document, root = result["knowledge_base"], result["document"]["id"], result["node_path"][0]
        if root not in self.known:
            try:
                found = self.client.get("knowledge-bases", kb, "documents", document, "nodes", root)
                self.known[root] = found["text"]
            except ApiError:
                self.known[root] = ""
        return self.known[root]


def check_naming(kind: str) -> str:
    """Raises BadNaming for what a document has not."""
    if kind not in (EXTERNAL_ID, *BY_FIELD) and not (kind.startswith(METADATA) and kind != METADATA):
        raise BadNaming
    return kind


def parse_setting(text: str, *, kb: str, top_k: int) -> Setting:
    """NAME={…}; what it does not say is searched in ``kb`` for ``top_k`` passages. Raises BadSetting."""
    name, _, given = text.partition("=")
    try:
        body = read_json(given)
    except (ValueError, RecursionError) as exc:
        raise BadSetting(f"--setting {name}: not NAME=JSON") from exc
    if not name or not isinstance(body, dict):
        raise BadSetting
    for key in QUESTION:
        if key in body:
            raise BadSetting(f"--setting {name}: {key} is not set here; the queries of the set are what is asked")
    merged = {"knowledge_bases": [kb], "top_k": top_k, "timeout_seconds": SECONDS, **body}
    names = merged["knowledge_bases"]
    if not isinstance(names, list) or not all(isinstance(one, str) for one in names):
        raise BadSetting(f"--setting {name}: knowledge_bases is a list of names")
    return Setting(name, merged)


def find_documents(
    client: Client, knowledge_bases: Iterable[str], external_ids: Iterable[str], *, at_once: int
) -> Iterator[tuple[str, list[str]]]:
    """The ids of the searchable documents under each external id; an empty list where there is none."""
    named = list(knowledge_bases)

    def find(external_id: str) -> tuple[str, list[str]]:
        asked = {"external_id": external_id, "limit": 200}
        pages = [client.get("knowledge-bases", kb, "documents", params=asked) for kb in named]
        live = (document for page in pages for document in page["items"] if document["live_version"] is not None)
        return external_id, [document["id"] for document in live]

    yield from side_by_side(find, list(external_ids), at_once=at_once)


def ask_all(
    client: Client,
    queries: Sequence[Query],
    setting: Setting,
    naming: Naming,
    *,
    texts: Texts,
    passages: int,
    at_once: int,
) -> Iterator[tuple[str, Answer]]:
    """The answer to each query, in their order; a refused one has its problem instead. Raises ConnectionFailed.

    Passages that their document has more than once in ``texts`` come with what is stored of it.
    """
    stored = StoredTexts(client)

    def passage(name: str, result: Mapping[str, Any]) -> Passage:
        several = texts.has_several(name, result["text"])
        return Passage(name, result["text"], result["start"], stored.of(result) if several else "")

    def ask(query: Query) -> tuple[str, Answer]:
        try:
            reply = client.post("search", body={**setting.body, **query.question})
        except ApiError as exc:
            return query.id, Answer(problem=str(exc))
        names = [naming.name(result["document"]) for result in reply["results"]]
        first = zip(names[:passages], reply["results"], strict=False) if query.references else ()
        return query.id, Answer(
            documents=tuple(dict.fromkeys(names)),
            passages=tuple(passage(name, result) for name, result in first),
            warnings=tuple(reply["warnings"]),
        )

    yield from side_by_side(ask, queries, at_once=at_once)


def side_by_side(work: Callable[[ItemT], ResultT], items: Sequence[ItemT], *, at_once: int) -> Iterator[ResultT]:
    """Results in the items' order; after the first error, what has not begun is not begun."""
    with ThreadPoolExecutor(at_once) as pool:
        yield from pool.map(work, items)


def _reached(metadata: Any, path: str) -> Any:
    for key in path.split("."):
        metadata = metadata.get(key) if isinstance(metadata, dict) else None
    return metadata
