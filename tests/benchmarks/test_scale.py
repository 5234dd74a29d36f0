"""Rows of ``make bench NAME=scale`` equal the rows of ingestion, and its chart holds every point."""

import asyncio
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from pgvector import SparseVector

from app.embedded_postgres import EmbeddedPostgres
from app.lexical.analyzers import get_analyzer
from app.lexical.weights import build_entries, compute_term_key
from app.settings import load_settings
from benchmarks.scale import ScaleOptions, ScaleRun
from benchmarks.scale_corpus import MEAN_WORDS, SyntheticCorpus, build_share_metadata
from benchmarks.scale_curve import Curve, CurvePanel, render_svg
from benchmarks.scale_database import BareSql, ScaleDatabase
from benchmarks.scale_measures import FILTER_CASES, to_unit_vectors
from harness.embedding_endpoint import DIMENSIONS
from harness.loader import LoadBatch, Loader, TermTable, build_lexical_rows
from harness.processes import embedding_endpoint

TEXTS = ["anchor basket anchor", "basket candle", "eagle eagle eagle feather anchor"]
CHUNKS = 400
SVG = "{http://www.w3.org/2000/svg}"


def test_scale_bench_lexical_rows_equal_ingestion() -> None:
    tokens = [get_analyzer("english").tokenize(text) for text in TEXTS]
    table = TermTable.from_terms(term for each in tokens for term in each)
    numbers = np.array([table.numbers[term] for each in tokens for term in each])
    batch = LoadBatch(TEXTS, np.zeros((3, 4), np.float16), numbers, np.array([len(each) for each in tokens]))
    keys = np.array([compute_term_key(int(each), 7) for each in table.ids], np.int32)
    made = build_lexical_rows(batch, table, keys, avgdl=3.5)
    for number, entry in enumerate(build_entries(tokens, salt=7, avgdl=3.5)):
        stored = SparseVector.from_binary(made.terms[number].to_binary())
        assert stored.indices() == entry.term_ids
        assert stored.values() == pytest.approx(entry.weights, rel=1e-6)
        assert made.keys[number] == entry.keys
    assert made.counts.sum() == sum(len(set(each)) for each in tokens)


def test_scale_bench_filled_knowledge_base_is_searched_completely(
    postgres_server: EmbeddedPostgres, tmp_path: Path
) -> None:
    made = SyntheticCorpus(seed=3)
    batches = list(made.generate_batches(CHUNKS, seed=3))
    questions = made.generate_questions(3)

    async def run(url: str) -> None:
        settings = load_settings(
            server={"CARREL_DATA_DIR": tmp_path},
            embedding={
                "CARREL_EMBEDDING_BASE_URL": url,
                "CARREL_EMBEDDING_MODEL": "directions",
                "CARREL_EMBEDDING_DIMENSIONS": DIMENSIONS,
            },
        )
        async with ScaleDatabase.open(postgres_server, "scale_test", settings) as database:
            shelf = await database.create_tenant("scale")
            async with Loader.open(database.superuser_url) as loader, loader.without_secondary_indexes():
                assert (
                    await loader.fill_index(shelf.index, batches, made.terms, build_share_metadata, avgdl=MEAN_WORDS)
                    == CHUNKS
                )
            assert await database.maintain(shelf.index, threshold=CHUNKS + 1) == "exact"
            bench = ScaleRun(
                ScaleOptions(seed=3, query_count=3, crowd_chunks=CHUNKS, docs_folder=None, real_corpus=None),
                postgres_server,
                settings,
            )
            await bench.show_complete(shelf, questions[:1], CHUNKS)
            matrix = to_unit_vectors(np.concatenate([batch.vectors for batch in batches]))
            assert await bench.show_recall(shelf, matrix, questions, FILTER_CASES) == 1
            assert (bench.missed, bench.exit_code) == ([], 0)
            # A wrong count and wrong vectors stand for a search that finds too little.
            await bench.show_complete(shelf, questions[:1], CHUNKS + 1)
            assert await bench.show_recall(shelf, matrix[::-1], questions, FILTER_CASES[:2]) < 0.98
            assert ([each.partition(" ")[0] for each in bench.missed], bench.exit_code) == (
                ["top_k", *["recall@10"] * 2],
                1,
            )
            for question in questions:
                words = set(question.text.split())
                there = sum(bool(words & set(text.split())) for batch in batches for text in batch.texts)
                found = await shelf.search(question, strategy="lexical", top_k=CHUNKS)
                assert len(found.hits) == there
            async with BareSql.open(database.urls.app) as bare:
                for lane in ("both", "dense", "lexical"):
                    assert await bare.run(shelf.index, questions[0], retriever=lane) > 0

    with embedding_endpoint() as url:
        asyncio.run(run(url))


def test_scale_bench_chart_contains_every_point() -> None:
    points = [(1000.0, 2.5), (10_000.0, 4.0), (1_000_000.0, 90.0)]
    drawn = ElementTree.fromstring(render_svg([CurvePanel("Latency", [Curve("one", points), Curve("two", points)])]))
    assert [each.text for each in drawn.iter(f"{SVG}title")][:3] == [
        "one, 1k chunks: 2.5",
        "one, 10k chunks: 4",
        "one, 1M chunks: 90",
    ]
    circles = [(float(each.attrib["cx"]), float(each.attrib["cy"])) for each in drawn.iter(f"{SVG}circle")]
    assert len(circles) == 6
    assert all(left[0] < right[0] and left[1] > right[1] for left, right in pairwise(circles[:3]))
