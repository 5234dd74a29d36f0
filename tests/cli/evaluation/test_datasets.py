"""Evaluation sets: directories in BEIR's layout, JSON Lines, and invalid sets."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from app.cli.evaluation.datasets import (
    CorpusLine,
    DatasetError,
    EvaluationDataset,
    ExcerptReference,
    read_dataset,
    read_lines,
)


def lines(path: Path, *objects: Any) -> Path:
    path.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in objects))
    return path


def test_read_dataset_directory_has_queries_and_judgements(tmp_path: Path) -> None:
    history = [{"role": "user", "content": "Who swims?"}]
    lines(
        tmp_path / "queries.jsonl",
        {"id": 1, "text": "a b", "metadata": {}},
        {"id": "2", "text": "and then?", "history": history},
        {"id": "3", "text": "nobody knows"},
        {"id": "4", "text": "judged, but nothing answers it"},
    )
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n1\td 1\t2\n1\td2\t0\n4\td2\t0\n9\td9\t1\n\n")
    lines(tmp_path / "references.jsonl", {"query": "2", "document": "d2", "start": 3, "end": 9, "text": "whale"})
    lines(tmp_path / "corpus.jsonl", {"id": "d2", "text": "a whale"})
    found = read_dataset(tmp_path)
    assert (found.skipped_count, found.corpus) == (2, tmp_path / "corpus.jsonl")
    first, second = found.queries
    assert (first.id, first.search_body, first.grades) == ("1", {"query": "a b"}, {"d 1": 2, "d2": 0})
    assert second.search_body == {"messages": [*history, {"role": "user", "content": "and then?"}]}
    assert second.references[0].span == (3, 9)
    assert (first.documents, second.documents) == ({"d 1", "d2"}, {"d2"})


def test_read_dataset_beir_directory_has_splits(tmp_path: Path) -> None:
    lines(tmp_path / "queries.jsonl", {"_id": 1, "text": "a"}, {"_id": "2", "text": "b"}, {"_id": "3", "text": "c"})
    lines(tmp_path / "corpus.jsonl", {"_id": "d", "title": "", "text": "t", "metadata": {}}, {"_id": 7, "text": "u"})
    (tmp_path / "qrels").mkdir()
    for split, judged in (("train", "1\td\t1\n"), ("dev", "2\td\t2\n")):
        (tmp_path / "qrels" / f"{split}.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)
    assert [line.id for line in read_lines(tmp_path / "corpus.jsonl", CorpusLine)] == ["d", "7"]
    with pytest.raises(DatasetError, match=r"qrels/test.tsv: no such file; available for --split: dev, train$"):
        read_dataset(tmp_path)
    assert [query.id for query in read_dataset(tmp_path, split="dev").queries] == ["2"]
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n3\td\t1\n")
    assert [query.id for query in read_dataset(tmp_path).queries] == ["3"]
    (tmp_path / "qrels.tsv").write_text("1\td\t1\n")
    assert [query.id for query in read_dataset(tmp_path).queries] == ["1"]
    assert [query.id for query in read_dataset(tmp_path, split="test").queries] == ["3"]


def test_read_dataset_unusable_split_is_refused(tmp_path: Path) -> None:
    path = lines(tmp_path / "queries.jsonl", {"_id": "q", "text": "a", "relevant": ["d"]})
    (tmp_path / "qrels.tsv").write_text("q\td\t1\n")
    with pytest.raises(DatasetError, match=r"qrels/dev.tsv: no such file; available for --split: none$"):
        read_dataset(tmp_path, split="dev")
    for place, judgements in ((path, None), (tmp_path, tmp_path / "qrels.tsv")):
        with pytest.raises(DatasetError, match="--split chooses among"):
            read_dataset(place, judgements=judgements, split="dev")
    assert read_dataset(path).queries[0].id == "q"


def test_read_lines_two_different_ids_are_refused(tmp_path: Path) -> None:
    path = lines(tmp_path / "c.jsonl", {"id": 1, "_id": "1", "text": "t"}, {"id": None, "_id": "2", "text": "t"})
    assert [line.id for line in read_lines(path, CorpusLine)] == ["1", "2"]
    lines(path, {"_id": "a", "text": "t"}, {"id": "a", "_id": "b", "text": "t", "relevant": ["d"]})
    said = f"{path} line 2: the line: id and _id are different: a and b"
    with pytest.raises(DatasetError, match=re.escape(said)):
        list(read_lines(path, CorpusLine))
    with pytest.raises(DatasetError, match=re.escape(said)):
        read_dataset(path)


def test_read_dataset_json_lines_has_queries(tmp_path: Path) -> None:
    asked = [{"role": "customer", "content": "Who swims?"}]
    path = lines(
        tmp_path / "q.jsonl",
        {"id": "a", "text": "one\u2028line", "relevant": ["d1", 2]},
        {"id": "b", "messages": asked, "relevant": {"d1": 3}, "references": [{"document": "d1", "text": "fish"}]},
        {"id": "c", "text": "judged elsewhere"},
    )
    (tmp_path / "trec.txt").write_text("c 0 d7 1\n")
    found = read_dataset(path, judgements=tmp_path / "trec.txt")
    assert [query.grades for query in found.queries] == [{"d1": 1, "2": 1}, {"d1": 3}, {"d7": 1}]
    assert [query.search_body for query in found.queries[:2]] == [{"query": "one\u2028line"}, {"messages": asked}]
    assert found.queries[1].references == (ExcerptReference(document="d1", text="fish"),)
    assert isinstance(found, EvaluationDataset)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"id": "a", "text": "x"}', "no query has a judgement"),
        (b"", "no query has a judgement"),
        (b'{"id": "a", "relevant": ["d"]}', "query a: give text or messages"),
        (b'\n{"id": "a", "text": ["x"], "relevant": ["d"]}', "line 2: text: "),
        (b'{"text": "x", "relevant": ["d"]}', "line 1: id: Field required"),
        (b'{"id": "a", "text": "x", "relevant": ["d"]}\n' * 2, "the query id a occurs twice"),
        (b'{"id": "a", "text": "x", "references": [{"document": "d"}]}', "give start and end, or text"),
        (b'{"id": "a", "text": "x", "references": [{"document": "d", "start": 5, "end": 5}]}', "start must be before"),
        (b'{"id": "a", "text": "x", "references": [{"document": "d", "start": 5}]}', "line 1: references.0.span"),
        (b"[1]", "line 1: the line: "),
        (b"not json", "line 1: not JSON"),
        (b"[" * 100_000, "line 1: not JSON"),
        (b'{"id": "\xff"}', "is not UTF-8"),
        (b'{"id": "a\\ud800", "text": "x", "relevant": ["d"]}', "line 1: not JSON"),
        (b'{"id": "a", "text": "x", "relevant": ["d\\udfff"]}', "line 1: not JSON"),
        (b'{"id": "a", "text": "x", "relevant": {"d": 1, "e": 1000001}}', "query a: a grade is not between -1,000,000"),
        (
            b'{"id": "a", "text": "x", "relevant": {"d": 1, "e": -1000001}}',
            "query a: a grade is not between -1,000,000",
        ),
    ],
    ids=range(17),
)
def test_read_dataset_invalid_line_names_file_and_line(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "q.jsonl"
    path.write_bytes(content)
    with pytest.raises(DatasetError) as caught:
        read_dataset(path)
    assert str(path) in caught.value.message
    assert said in caught.value.message


@pytest.mark.parametrize("content", ["query\td\tone\nq\td\ttwo\n", "q d 1\nq d\n", "q d 1\nq d 0.5\n"])
def test_read_dataset_invalid_judgements_are_refused(tmp_path: Path, content: str) -> None:
    queries = lines(tmp_path / "q.jsonl", {"id": "q", "text": "x"})
    judgements = tmp_path / "qrels"
    judgements.write_text(content)
    with pytest.raises(DatasetError, match="line 2: not a query, a document and an integer"):
        read_dataset(queries, judgements=judgements)
    for first in ("q d 0.5\n", "q d -1.0\n", "q d\t\n", "q d 1 2 3\n", "q\td\tone\n", "q d\n"):  # without a heading
        judgements.write_text(first + "q d 1\n")
        with pytest.raises(DatasetError, match="line 1: not a query, a document and an integer"):
            read_dataset(queries, judgements=judgements)
    judgements.write_text("q d 99999999999999999999")
    with pytest.raises(DatasetError, match="query q: a grade is not between"):
        read_dataset(queries, judgements=judgements)
    with pytest.raises(DatasetError, match="No such file"):
        read_dataset(queries, judgements=tmp_path / "nowhere")


@pytest.mark.parametrize(
    "content",
    [
        "q\td\t 2\n",
        "q\t0\td\t2 \r\n",
        "query id document id grade\nq d 2\n",
        "query\tdocument\t grade\tof whom\tsince\nq\td\t2\n",
    ],
)
def test_read_dataset_grades_with_spaces_are_read(tmp_path: Path, content: str) -> None:
    queries = lines(tmp_path / "q.jsonl", {"id": "q", "text": "x"})
    judgements = tmp_path / "qrels"
    judgements.write_bytes(content.encode())
    assert read_dataset(queries, judgements=judgements).queries[0].grades == {"d": 2}
