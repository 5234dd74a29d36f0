"""``make bench NAME=query-rewrites``: measure query rewriting on conversations, with and without a chat model.

``CARREL_EVAL_DATA`` names the directory of evaluation sets. The chat model is a protocol server that replies to each
conversation with its query from ``rewrites/mtrag-un.json``. These queries were written from the conversations alone.
The service, its embedded model and the data are real. The file lists the conversations whose last message depends on
the earlier ones; it was made before the first measurement.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from app.cli.evaluation import corpus_upload
from app.cli.evaluation.datasets import EvaluationQuery, read_dataset
from app.cli.evaluation.measures import parse_measure, score_documents
from app.cli.evaluation.runner import QueryResult
from app.evaluations.bootstrap_ci import Bootstrap
from benchmarks.evaluation_sets import run_queries, upload
from harness.processes import exit_on_sigterm, running_service
from harness.protocol_servers.chat import ChatServer, ReceivedTextRequest

SET_NAME, TOP_K = "mtrag-un", 100
MEASURE = parse_measure("ndcg@10")
REWRITES = Path(__file__).parent / "rewrites" / f"{SET_NAME}.json"
VARIANTS: Mapping[str, dict[str, Any]] = {
    "without a model": {"transformers": []},
    "rewritten": {"transformers": ["reformulate"]},
    "rewritten, with the last message as a second query": {"transformers": ["reformulate", "multi_query"]},
}


def create_rewriter(queries: Sequence[EvaluationQuery], rewrites: Mapping[str, str]) -> ChatServer:
    """Create a chat server that selects the rewrite by the last message of a conversation."""
    requested = {query.search_body["messages"][-1]["content"].strip(): rewrites[query.id] for query in queries}
    if len(requested) < len(queries):
        raise ValueError("two conversations have the same last message; remove one from the rewrites")

    def reply_as_rewriter(talk: ReceivedTextRequest) -> str:
        reported = json.loads(talk.last_message)
        if "question" in reported:
            return json.dumps({"query": requested[reported["question"]]})
        return json.dumps(
            {"texts": [question for question, rewrite in requested.items() if rewrite == reported["query"]]}
        )

    server = ChatServer()
    server.reply = reply_as_rewriter
    return server


def main() -> int:
    data = Path(os.environ.get("CARREL_EVAL_DATA", "")) / SET_NAME
    if not data.is_dir():
        sys.stderr.write(f"Set CARREL_EVAL_DATA to a directory with {SET_NAME}.\n")
        return 2
    rewrites: dict[str, str] = json.loads(REWRITES.read_text())
    queries = [query for query in read_dataset(data).queries if query.id in rewrites and query.is_judged]
    corpus = corpus_upload.read_corpus(data / "corpus.jsonl")
    with create_rewriter(queries, rewrites) as server:
        models = {"CARREL_CHAT_BASE_URL": server.base_url, "CARREL_CHAT_MODEL": "rewriter"}
        with running_service(None, settings=models) as service, service.create_client() as client:
            ids = upload(client, SET_NAME, corpus, {})
            print(f"{SET_NAME}: {len(queries)} conversations with a dependent last message, {len(corpus)} documents")
            first: Mapping[str, float] = {}
            for way, body in VARIANTS.items():
                server.reset()
                result = compute_scores(
                    queries, list(run_queries(client, SET_NAME, queries, ids, {"top_k": TOP_K, **body}))
                )
                first = first or result
                gains = [result[query.id] - first[query.id] for query in queries]
                print(
                    f"{way}: {MEASURE.label} {mean(result.values()):.4f}, {format_gain(gains)}; "
                    f"{len(server.text_requests)} calls of the chat model"
                )
    return 0


def compute_scores(queries: Sequence[EvaluationQuery], run: Sequence[dict[str, Any]]) -> Mapping[str, float]:
    """Compute the score of each conversation."""
    answers = {
        line["query"]: QueryResult(documents=tuple(dict.fromkeys(result["document"] for result in line["results"])))
        for line in run
    }
    return score_documents([MEASURE], queries, answers)[MEASURE.label]


def format_gain(gains: Sequence[float]) -> str:
    """Format the mean gain with its 95 % interval and the numbers of better and worse conversations."""
    interval = Bootstrap().compute_interval(list(gains))
    better, worse = sum(item > 0 for item in gains), sum(item < 0 for item in gains)
    shown = f"{mean(gains):+.4f} ({interval.low:+.4f} to {interval.high:+.4f})"
    return f"gain {shown}, {better} better, {worse} worse"


if __name__ == "__main__":
    exit_on_sigterm()
    sys.exit(main())
