"""``make bench NAME=graph-quality``: measure what the strategy graph_rag adds to hybrid, over the HTTP API.

``CARREL_EVAL_DATA`` names the directory of evaluation sets. The arguments select sets. Each set is uploaded once. It is
searched by hybrid, and by graph_rag with the graph weights 0.5, 0.8 and 1.0. The tables have the differences to hybrid
with paired 95 % intervals. ``--ablation`` adds searches with other options, and graphs without titles and without names
by their capitals. The API cannot express the last two: ``graph_ablation`` replaces rows in the benchmark's database.

A passage of chroma-dev is judged by its excerpts. R@K is the recall of their characters in K passages, and all@5 the
share of questions with all of them. nDCG@10 divides the new share of the characters at a rank by the logarithm of the
rank.
"""

import argparse
import asyncio
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import httpx2

from app.cli.evaluation.measures import ScoreByQuery
from app.evaluations.bootstrap_ci import Bootstrap
from app.ids import decode_id
from benchmarks.evaluation_sets import JsonObject, MeasuredSet, read_set, run_queries
from benchmarks.graph_ablation import GraphReplacement, GraphSources
from benchmarks.local_model_runs import format_head, join_row
from harness.processes import RunningService, exit_on_sigterm, running_service

MULTI_HOP_SETS = ("musique-dev", "hotpot-dev")
EXCERPT_SET = "chroma-dev"
SETS = (*MULTI_HOP_SETS, "scifact", "mtrag-un", EXCERPT_SET)
MEASURES = ("R@5", "R@10", "all@5", "nDCG@10")
DOCUMENT_MEASURES = {"R@5": "recall@5", "R@10": "recall@10", "all@5": "all@5", "nDCG@10": "ndcg@10"}
# Number of passages of a search. Ten documents of scifact may have more than ten passages.
TOP_K = 30
HYBRID = "hybrid"
WEIGHTS = (0.5, 0.8, 1.0)
DEFAULT_WEIGHT = 0.8
_AT_DEFAULT_WEIGHT: Mapping[str, JsonObject] = {
    "keep first 2": {"keep_first": 2},
    "keep first 3": {"keep_first": 3},
    "hub cut 0.005": {"max_entity_share": 0.005},
    "seeds 1": {"seeds": 1},
    "query weight 0": {"query_weight": 0.0},
}
# Options of the ablation. Its graph weight is 1.0 on the multi-hop sets, and the default elsewhere.
ABLATION: Mapping[str, JsonObject] = {
    "one hop": {"max_hops": 1},
    "three hops": {"max_hops": 3},
    **{f"seeds {count}": {"seeds": count} for count in (1, 2, 5)},
    **{f"hub cut {share:g}": {"max_entity_share": share} for share in (0.005, 0.01, 0.05, 0.2)},
    "query weight 0": {"query_weight": 0.0},
    "keep first 0": {"keep_first": 0},
    "weight 0.65": {"graph_weight": 0.65},
    **{f"weight 0.8, {name}": {"graph_weight": 0.8, **options} for name, options in _AT_DEFAULT_WEIGHT.items()},
}
# Minimum recall@5 at the weight 1.0, minimum share of this gain at the default weight, and maximum losses elsewhere.
MIN_RECALL = {"musique-dev": 0.70, "hotpot-dev": 0.92}
MIN_SHARE_OF_GAIN = 0.5
MAX_LOSS = {"R@5": 0.005, "nDCG@10": 0.01}
Scores = Mapping[str, ScoreByQuery]


@dataclass(frozen=True, slots=True)
class LoadedSet:
    """Evaluation set in a knowledge base of the running service, with the ids of its documents."""

    measured: MeasuredSet
    kb: str
    ids: dict[str, str]

    @property
    def ablation_weight(self) -> float:
        """Graph weight of the ablation."""
        return 1.0 if self.measured.name in MULTI_HOP_SETS else DEFAULT_WEIGHT

    def search(self, client: httpx2.Client, options: JsonObject | None) -> Scores:
        """Return the scores of each question by measure.

        Args:
            client: Client of the service.
            options: Options of graph_rag; None searches with hybrid.
        """
        strategy = {"strategy": HYBRID} if options is None else {"strategy": "graph_rag", "strategy_options": options}
        run = list(run_queries(client, self.kb, self.measured.queries, self.ids, {"top_k": TOP_K, **strategy}))
        if self.measured.name == EXCERPT_SET:
            return score_excerpt_run(self.measured, run)
        return {name: self.measured.score(measure, run) for name, measure in DOCUMENT_MEASURES.items()}


def score_excerpt_run(measured: MeasuredSet, run: Sequence[JsonObject]) -> Scores:
    """Return the scores of excerpts by the names of the document measures."""
    recall = [measured.score(f"excerpt_recall@{cutoff}", run) for cutoff in range(1, 11)]
    return {
        "R@5": recall[4],
        "R@10": recall[9],
        "all@5": {query: float(value > 1 - 1e-9) for query, value in recall[4].items()},
        "nDCG@10": {query: _compute_discounted_gain([at[query] for at in recall]) for query in recall[0]},
    }


def _compute_discounted_gain(recall: Sequence[float]) -> float:
    """Return the sum of the gains of recall at each rank, divided by the logarithm of the rank."""
    gains = [value - before for value, before in zip(recall, (0.0, *recall), strict=False)]
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))


def measure_set(service: RunningService, measured: MeasuredSet, *, ablation: bool) -> Iterator[tuple[str, Scores]]:
    """Upload a set, and yield the scores of each search by its name. The first search is hybrid."""
    with service.create_client() as client:
        loaded = LoadedSet(measured, measured.name, measured.upload(client, measured.name, {}))
        yield HYBRID, loaded.search(client, None)
        for weight in WEIGHTS:
            yield f"graph {weight:g}", loaded.search(client, {"graph_weight": weight})
        if not ablation:
            return
        for name, options in ABLATION.items():
            yield name, loaded.search(client, {"graph_weight": loaded.ablation_weight, **options})
        replacement = create_replacement(service, client, loaded.kb)
        for sources in (GraphSources.NO_TITLES, GraphSources.NO_CAPITALS):
            asyncio.run(replacement.replace_graph(sources))
            yield sources, loaded.search(client, {"graph_weight": loaded.ablation_weight})


def create_replacement(service: RunningService, client: httpx2.Client, kb: str) -> GraphReplacement:
    """Return the replacement of a knowledge base's graph."""
    me, stored = client.get("/v1/me").json(), client.get(f"/v1/knowledge-bases/{kb}").json()
    tenant_id, kb_id = decode_id("ten", me["tenant"]["id"]), decode_id("kb", stored["id"])
    assert tenant_id is not None
    assert kb_id is not None
    return GraphReplacement(service.database_url, tenant_id, kb_id, stored["language"])


def format_row(name: str, scores: Scores, baseline: Scores) -> str:
    """Return the table row of a search, with its differences to the baseline."""
    figures = [f"{100 * mean(scores[measure].values()):.1f}" for measure in MEASURES]
    if scores is baseline:
        return join_row([name, *figures, "", ""])
    return join_row([name, *figures, *(format_gain(scores[name], baseline[name]) for name in ("R@5", "nDCG@10"))])


def format_gain(scores: ScoreByQuery, baseline: ScoreByQuery) -> str:
    """Return a difference in points with its paired 95 % interval."""
    interval = Bootstrap().compute_difference(scores, baseline).interval
    return f"{100 * interval.mean:+.1f} [{100 * interval.low:+.1f}, {100 * interval.high:+.1f}]"


def list_missed_targets(name: str, means: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return a sentence for each target that a set misses.

    Args:
        name: Name of the set.
        means: Means of the measures by search.
    """
    hybrid, default, pure = (means[key] for key in (HYBRID, f"graph {DEFAULT_WEIGHT:g}", "graph 1"))
    missed = []
    if name in MIN_RECALL:
        if pure["R@5"] < MIN_RECALL[name]:
            missed.append(f"{name}: R@5 {100 * pure['R@5']:.1f} at weight 1, target {100 * MIN_RECALL[name]:.0f}")
        if default["R@5"] - hybrid["R@5"] < MIN_SHARE_OF_GAIN * (pure["R@5"] - hybrid["R@5"]):
            missed.append(f"{name}: less than half of the gain in R@5 at weight {DEFAULT_WEIGHT:g}")
        return missed
    for measure, loss in MAX_LOSS.items():
        if default[measure] < hybrid[measure] - loss - 1e-9:
            points = 100 * (default[measure] - hybrid[measure])
            missed.append(f"{name}: {measure} {points:+.1f} at weight {DEFAULT_WEIGHT:g}, target {-100 * loss:+.1f}")
    return missed


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Quality of graph_rag against hybrid on the evaluation sets")
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"one of {', '.join(SETS)} (default: all)")
    parser.add_argument("--ablation", action="store_true", help="measure other options and graphs too")
    provided = parser.parse_args(arguments)
    sets = provided.sets or SETS
    data = os.environ.get("CARREL_EVAL_DATA")
    missing = [name for name in sets if name not in SETS or not data or not (Path(data) / name).is_dir()]
    if not data or missing:
        sys.stderr.write(f"CARREL_EVAL_DATA does not name a directory with {', '.join(missing)}\n")
        return 2
    missed = []
    with running_service(None) as service:
        for name in sets:
            missed += print_set(service, read_set(Path(data), name), ablation=provided.ablation)
    print("", *(f"missed: {sentence}" for sentence in missed), sep="\n")
    return int(bool(missed))


def print_set(service: RunningService, measured: MeasuredSet, *, ablation: bool) -> list[str]:
    """Measure a set and print its table. Return the missed targets."""
    print(f"\n{measured.name}, {len(measured.queries)} questions\n")
    print(format_head(["search", *MEASURES, "gain in R@5", "gain in nDCG@10"]), flush=True)
    means: dict[str, dict[str, float]] = {}
    baseline: Scores | None = None
    for name, scores in measure_set(service, measured, ablation=ablation):
        baseline = scores if baseline is None else baseline
        print(format_row(name, scores, baseline), flush=True)
        means[name] = {measure: mean(scores[measure].values()) for measure in MEASURES}
    return list_missed_targets(measured.name, means)


if __name__ == "__main__":
    exit_on_sigterm()
    sys.exit(main(sys.argv[1:]))
