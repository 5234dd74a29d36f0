"""Evaluation sets: queries with the documents, or the excerpts, that answer them."""

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from app.cli.connection import read_json
from app.errors import InvalidInput

ModelT = TypeVar("ModelT", bound=BaseModel)


# trec_eval keeps a count for each grade up to the greatest: one like a time would take all memory. Far below zero it
# takes none at all.
MOST_GRADE = 1_000_000
_WHOLE = re.compile(r"[+-]?[0-9]{1,20}")
# The one that BEIR itself measures where nobody says.
_SPLIT = "test"


class SetError(InvalidInput):
    """The evaluation set cannot be read."""

    code = "bad_evaluation_set"


class _Line(BaseModel):
    """Sets carry many fields that are of no use here; ids are often written as numbers."""

    model_config = ConfigDict(coerce_numbers_to_str=True, frozen=True)


def _range(value: tuple[int, int] | None) -> tuple[int, int] | None:
    if value is not None and not 0 <= value[0] < value[1]:
        raise ValueError("start must be before end")
    return value


class Reference(_Line):
    """An excerpt that answers a query: a range of its document's characters, or its words."""

    document: str
    span: Annotated[tuple[int, int] | None, AfterValidator(_range)] = None
    text: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _pair(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("start") is not None and "span" not in value:
            return {**value, "span": (value["start"], value.get("end"))}
        return value

    @model_validator(mode="after")
    def _says_what(self) -> "Reference":
        if self.span is None and not (self.text or "").strip():
            raise ValueError("start and end, or text, is needed")
        return self


class _ReferenceLine(Reference):
    query: str


class _NamedLine(_Line):
    """BEIR's own files write ``_id``; what carries another ``id`` beside it does not say which one judgements mean."""

    id: str

    @model_validator(mode="before")
    @classmethod
    def _either(cls, value: Any) -> Any:
        given = [value[key] for key in ("id", "_id") if value.get(key) is not None] if isinstance(value, dict) else []
        if len(set(map(str, given))) > 1:
            raise ValueError(f"id and _id are different: {given[0]} and {given[1]}")
        return {**value, "id": given[0]} if given else value


class _QueryLine(_NamedLine):
    text: str | None = None
    messages: list[dict[str, str]] | None = None
    history: list[dict[str, str]] = Field(default_factory=list)
    relevant: list[str] | dict[str, int] = Field(default_factory=dict)
    references: list[Reference] = Field(default_factory=list)

    def question(self) -> dict[str, Any]:
        """What a search is asked: a conversation where there is one, else the words alone."""
        if self.messages is not None:
            return {"messages": self.messages}
        if self.text is None:
            raise ValueError("text or messages is needed")
        if not self.history:
            return {"query": self.text}
        return {"messages": [*self.history, {"role": "user", "content": self.text}]}

    def grades(self) -> dict[str, int]:
        """The judged documents; those of a list are relevant."""
        return self.relevant if isinstance(self.relevant, dict) else dict.fromkeys(self.relevant, 1)


class CorpusLine(_NamedLine):
    """A document of the set."""

    title: str | None = None
    text: str
    metadata: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """A question with what answers it: grades by document (above 0 is relevant), excerpts."""

    id: str
    question: Mapping[str, Any]
    grades: Mapping[str, int]
    references: tuple[Reference, ...]

    @property
    def is_judged(self) -> bool:
        """Whether any document answers it."""
        return any(grade > 0 for grade in self.grades.values())

    @property
    def documents(self) -> set[str]:
        """Every document that its judgements name."""
        return {*self.grades, *(reference.document for reference in self.references)}


@dataclass(frozen=True, slots=True)
class EvaluationSet:
    """The queries that something answers, how many were left out for nothing does, and the corpus, if it is there."""

    queries: tuple[Query, ...]
    left_out: int
    corpus: Path | None


def read_set(
    place: Path,
    *,
    judgements: Path | None = None,
    references: Path | None = None,
    corpus: Path | None = None,
    split: str | None = None,
) -> EvaluationSet:
    """A directory in BEIR's layout or a file of queries. Raises SetError, with file and line."""
    if split is not None and (judgements is not None or not place.is_dir()):
        raise SetError(f"{place}: --split chooses among the qrels/*.tsv of a directory, and not beside --judgements")
    if place.is_dir():
        judgements = judgements or _judgements_in(place, split)
        references = references or _existing(place / "references.jsonl")
        corpus = corpus or _existing(place / "corpus.jsonl")
        place = place / "queries.jsonl"
    asked = _read_queries(place)
    grades = _read_judgements(judgements, asked) if judgements else {}
    excerpts: dict[str, list[Reference]] = {}
    for reference in read_lines(references, _ReferenceLine) if references else ():
        excerpts.setdefault(reference.query, []).append(reference)
    found = [_query(place, line, grades.get(name, {}), excerpts.get(name, ())) for name, line in asked.items()]
    kept = tuple(query for query in found if query.is_judged or query.references)
    if not kept:
        raise SetError(f"{place}: no query has a judgement; name a file of them with --judgements")
    return EvaluationSet(kept, len(found) - len(kept), corpus)


def read_lines(path: Path, model: type[ModelT]) -> Iterator[ModelT]:
    """The objects of a JSON Lines file, one at a time. Raises SetError."""
    for number, line in _lines(path):
        if line.strip():
            try:
                yield model.model_validate(read_json(line))
            except ValidationError as exc:
                first = exc.errors(include_url=False, include_input=False)[0]
                place = ".".join(map(str, first["loc"])) or "the line"
                raise SetError(f"{path} line {number}: {place}: {first['msg'].removeprefix('Value error, ')}") from None
            except (ValueError, RecursionError) as exc:
                raise SetError(f"{path} line {number}: not JSON") from exc


def _read_queries(path: Path) -> dict[str, _QueryLine]:
    found: dict[str, _QueryLine] = {}
    for line in read_lines(path, _QueryLine):
        if line.id in found:
            raise SetError(f"{path}: the query id {line.id} comes twice")
        found[line.id] = line
    return found


def _query(path: Path, line: _QueryLine, grades: Mapping[str, int], excerpts: Iterable[Reference]) -> Query:
    """What its own line says, and what the other files say of it."""
    try:
        question = line.question()
    except ValueError as exc:
        raise SetError(f"{path}: query {line.id}: {exc}") from exc
    judged = {**line.grades(), **grades}
    if max(map(abs, judged.values()), default=0) > MOST_GRADE:
        raise SetError(f"{path}: query {line.id}: a grade is beyond {MOST_GRADE:,} or -{MOST_GRADE:,}")
    return Query(line.id, question, judged, (*line.references, *excerpts))


def _judgements_in(place: Path, split: str | None) -> Path | None:
    """A directory's ``qrels.tsv``, else BEIR's ``qrels/test.tsv``; no other split is taken unasked."""
    plain, splits = place / "qrels.tsv", place / "qrels"
    if split is None and plain.exists():
        return plain
    chosen = splits / f"{_SPLIT if split is None else split}.tsv"
    there = ", ".join(sorted(path.stem for path in splits.glob("*.tsv")))
    if not chosen.exists() and (there or split is not None):
        raise SetError(f"{chosen}: no such file; there for --split: {there or 'none'}")
    return _existing(chosen)


def _read_judgements(path: Path, queries: Container[str]) -> dict[str, dict[str, int]]:
    """Query, document and grade in a line, as BEIR writes them, or with trec_eval's second column of four.

    The first line may be a heading: it ends in a word, and begins with no query of the set. So no judgement of one is
    ever taken for a heading, and what is said of a query that is not in the set does not matter.
    """
    grades: dict[str, dict[str, int]] = {}
    for number, line in _lines(path):
        fields = line.rstrip("\r\n").split("\t") if "\t" in line else line.split()
        if not any(fields):
            continue
        grade = fields[-1].strip()
        if len(fields) in (3, 4) and _WHOLE.fullmatch(grade):
            grades.setdefault(fields[0], {})[fields[-2]] = int(grade)
        elif number > 1 or grade[:1] in "+-.0123456789" or fields[0] in queries:  # an empty end is no word, too
            raise SetError(f"{path} line {number}: not a query, a document and a whole number")
    return grades


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Cut at line feeds alone: texts may hold other characters that Python takes for the end of a line."""
    try:
        with path.open(encoding="utf-8-sig", newline="\n") as file:
            yield from enumerate(file, 1)
    except UnicodeDecodeError as exc:
        raise SetError(f"{path}: not UTF-8") from exc
    except OSError as exc:
        raise SetError(f"{path}: {exc.strerror}") from exc


def _existing(path: Path) -> Path | None:
    return path if path.exists() else None
