"""Evaluation sets: queries with the documents or the excerpts that answer them."""

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from app.cli.endpoint import parse_json
from app.errors import InvalidInputError

ModelT = TypeVar("ModelT", bound=BaseModel)


# trec_eval allocates a counter for each grade up to the highest grade, so a very high grade would use all memory.
# trec_eval does not accept grades far below zero.
MAX_GRADE = 1_000_000
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
# The split that BEIR measures by default.
_DEFAULT_SPLIT = "test"


class DatasetError(InvalidInputError):
    """The evaluation set cannot be read."""

    code = "invalid_evaluation_set"


class _DatasetLine(BaseModel):
    """Line of an evaluation set. Unknown fields are ignored, and ids may be numbers."""

    model_config = ConfigDict(coerce_numbers_to_str=True, frozen=True)


def _check_range(value: tuple[int, int] | None) -> tuple[int, int] | None:
    if value is not None and not 0 <= value[0] < value[1]:
        raise ValueError("start must be before end, and not negative")
    return value


class ExcerptReference(_DatasetLine):
    """Excerpt that answers a query: a range of the document's characters (``span``), or the words (``text``)."""

    document: str
    span: Annotated[tuple[int, int] | None, AfterValidator(_check_range)] = None
    text: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _read_span(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("start") is not None and "span" not in value:
            return {**value, "span": (value["start"], value.get("end"))}
        return value

    @model_validator(mode="after")
    def _require_location(self) -> "ExcerptReference":
        if self.span is None and not (self.text or "").strip():
            raise ValueError("give start and end, or text")
        return self


class _ReferenceLine(ExcerptReference):
    query: str


class _IdentifiedLine(_DatasetLine):
    """Line with an id, which BEIR calls ``_id``. A line with two different ids is ambiguous."""

    id: str

    @model_validator(mode="before")
    @classmethod
    def _read_id(cls, value: Any) -> Any:
        ids = [value[key] for key in ("id", "_id") if value.get(key) is not None] if isinstance(value, dict) else []
        if len(set(map(str, ids))) > 1:
            raise ValueError(f"id and _id are different: {ids[0]} and {ids[1]}")
        return {**value, "id": ids[0]} if ids else value


class _QueryLine(_IdentifiedLine):
    text: str | None = None
    messages: list[dict[str, str]] | None = None
    history: list[dict[str, str]] = Field(default_factory=list)
    relevant: list[str] | dict[str, int] = Field(default_factory=dict)
    references: list[ExcerptReference] = Field(default_factory=list)

    def to_search_body(self) -> dict[str, Any]:
        """Return the request body of a search: the conversation if there is one, else the query."""
        if self.messages is not None:
            return {"messages": self.messages}
        if self.text is None:
            raise ValueError("give text or messages")
        if not self.history:
            return {"query": self.text}
        return {"messages": [*self.history, {"role": "user", "content": self.text}]}

    def get_grades(self) -> dict[str, int]:
        """Return the grades of the judged documents; documents in a list have the grade 1."""
        return self.relevant if isinstance(self.relevant, dict) else dict.fromkeys(self.relevant, 1)


class CorpusLine(_IdentifiedLine):
    """Document of the corpus."""

    title: str | None = None
    text: str
    metadata: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class EvaluationQuery:
    """Query with its answers: grades by document (above 0 is relevant), and excerpts."""

    id: str
    search_body: Mapping[str, Any]
    grades: Mapping[str, int]
    references: tuple[ExcerptReference, ...]

    @property
    def is_judged(self) -> bool:
        """Whether any document is relevant for the query."""
        return any(grade > 0 for grade in self.grades.values())

    @property
    def documents(self) -> set[str]:
        """Names of all documents in the judgements and excerpts of the query."""
        return {*self.grades, *(reference.document for reference in self.references)}


@dataclass(frozen=True, slots=True)
class EvaluationDataset:
    """Evaluation set: queries with an answer, number of skipped queries without an answer, and optional corpus file."""

    queries: tuple[EvaluationQuery, ...]
    skipped_count: int
    corpus: Path | None


def read_dataset(
    path: Path,
    *,
    judgements: Path | None = None,
    references: Path | None = None,
    corpus: Path | None = None,
    split: str | None = None,
) -> EvaluationDataset:
    """Read an evaluation set.

    Args:
        path: Directory in the layout of BEIR, or JSON Lines file of queries.
        judgements: File of judgements. Default for a directory: ``qrels.tsv``, else ``qrels/test.tsv``.
        references: File of excerpts. Default for a directory: ``references.jsonl``, if it exists.
        corpus: File of documents. Default for a directory: ``corpus.jsonl``, if it exists.
        split: Name of a file in the directory ``qrels``, without its suffix.

    Returns:
        The evaluation set.

    Raises:
        DatasetError: A file is missing or wrong; the message names file and line.
    """
    if split is not None and (judgements is not None or not path.is_dir()):
        raise DatasetError(f"{path}: --split chooses among the qrels/*.tsv of a directory, without --judgements")
    if path.is_dir():
        judgements = judgements or _find_judgements(path, split)
        references = references or _find_existing(path / "references.jsonl")
        corpus = corpus or _find_existing(path / "corpus.jsonl")
        path = path / "queries.jsonl"
    lines = _read_queries(path)
    grades = _read_judgements(judgements, lines) if judgements else {}
    excerpts: dict[str, list[ExcerptReference]] = {}
    for reference in read_lines(references, _ReferenceLine) if references else ():
        excerpts.setdefault(reference.query, []).append(reference)
    all_queries = [
        _build_query(path, line, grades.get(name, {}), excerpts.get(name, ())) for name, line in lines.items()
    ]
    queries = tuple(query for query in all_queries if query.is_judged or query.references)
    if not queries:
        raise DatasetError(f"{path}: no query has a judgement; give a file of judgements with --judgements")
    return EvaluationDataset(queries, len(all_queries) - len(queries), corpus)


def read_lines(path: Path, model: type[ModelT]) -> Iterator[ModelT]:
    """Yield the objects of a JSON Lines file.

    Args:
        path: The file.
        model: Class of the objects.

    Raises:
        DatasetError: A line is wrong; the message names file and line.
    """
    for number, line in _iterate_lines(path):
        if line.strip():
            try:
                yield model.model_validate(parse_json(line))
            except ValidationError as exc:
                first = exc.errors(include_url=False, include_input=False)[0]
                location = ".".join(map(str, first["loc"])) or "the line"
                raise DatasetError(
                    f"{path} line {number}: {location}: {first['msg'].removeprefix('Value error, ')}"
                ) from None
            except (ValueError, RecursionError) as exc:
                raise DatasetError(f"{path} line {number}: not JSON") from exc


def _read_queries(path: Path) -> dict[str, _QueryLine]:
    lines: dict[str, _QueryLine] = {}
    for line in read_lines(path, _QueryLine):
        if line.id in lines:
            raise DatasetError(f"{path}: the query id {line.id} occurs twice")
        lines[line.id] = line
    return lines


def _build_query(
    path: Path, line: _QueryLine, grades: Mapping[str, int], excerpts: Iterable[ExcerptReference]
) -> EvaluationQuery:
    """Build a query from its line, its judgements and its excerpts."""
    try:
        search_body = line.to_search_body()
    except ValueError as exc:
        raise DatasetError(f"{path}: query {line.id}: {exc}") from exc
    merged_grades = {**line.get_grades(), **grades}
    if max(map(abs, merged_grades.values()), default=0) > MAX_GRADE:
        raise DatasetError(f"{path}: query {line.id}: a grade is not between -{MAX_GRADE:,} and {MAX_GRADE:,}")
    return EvaluationQuery(line.id, search_body, merged_grades, (*line.references, *excerpts))


def _find_judgements(directory: Path, split: str | None) -> Path | None:
    """Return ``qrels.tsv`` of a directory, else BEIR's ``qrels/test.tsv``; never another split."""
    default_path, splits_dir = directory / "qrels.tsv", directory / "qrels"
    if split is None and default_path.exists():
        return default_path
    chosen = splits_dir / f"{_DEFAULT_SPLIT if split is None else split}.tsv"
    available = ", ".join(sorted(path.stem for path in splits_dir.glob("*.tsv")))
    if not chosen.exists() and (available or split is not None):
        raise DatasetError(f"{chosen}: no such file; available for --split: {available or 'none'}")
    return _find_existing(chosen)


def _read_judgements(path: Path, queries: Container[str]) -> dict[str, dict[str, int]]:
    """Return the grades by query and document.

    Each line has three columns (query, document, grade), as in BEIR, or four columns, as in trec_eval. The first line
    may be a heading. A line counts as a heading if its last column is a word and its first column is no query of the
    set. No judgement is therefore mistaken for a heading.
    """
    grades: dict[str, dict[str, int]] = {}
    for number, line in _iterate_lines(path):
        fields = line.rstrip("\r\n").split("\t") if "\t" in line else line.split()
        if not any(fields):
            continue
        grade = fields[-1].strip()
        if len(fields) in (3, 4) and _INTEGER.fullmatch(grade):
            grades.setdefault(fields[0], {})[fields[-2]] = int(grade)
        elif (
            number > 1 or grade[:1] in "+-.0123456789" or fields[0] in queries
        ):  # an empty last column is not a heading
            raise DatasetError(f"{path} line {number}: not a query, a document and an integer")
    return grades


def _iterate_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield numbered lines. Only line feeds separate lines: texts may contain other line ends of Python."""
    try:
        with path.open(encoding="utf-8-sig", newline="\n") as file:
            yield from enumerate(file, 1)
    except UnicodeDecodeError as exc:
        raise DatasetError(f"{path}: the file is not UTF-8") from exc
    except OSError as exc:
        raise DatasetError(f"{path}: {exc.strerror}") from exc


def _find_existing(path: Path) -> Path | None:
    return path if path.exists() else None
