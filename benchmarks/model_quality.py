"""Quality of the local models side by side, and quality by the size of a chunk at equal returned text."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean

from tokenizers import Tokenizer

from app.cli.evaluation.measures import ScoreByQuery
from app.evaluations.bootstrap_ci import Bootstrap
from app.inference.embedding.local_models import DEFAULT_MODEL
from benchmarks.evaluation_sets import FILINGS, TOP_K, JsonObject, MeasuredSet, read_set, run_queries
from benchmarks.local_model_runs import find_directory, format_head, join_row, service_with_model
from harness.processes import RunningService

MODEL_MEASURES = {"scifact": "ndcg@10", "chroma-dev": "excerpt_recall@5", "mtrag-un": "ndcg@10", FILINGS: "recall@5"}
# Measures over everything that is returned within a budget.
BUDGET_MEASURES = dict.fromkeys(MODEL_MEASURES, "recall@100") | {"chroma-dev": "excerpt_recall@100"}
CHUNK_SIZE_SETS = ("chroma-dev", FILINGS)
BUDGETS = (850, 1700)
BUDGET_TOP_K = 100
# A document counts as returned if at least this share of one passage is returned. Excerpts and figures count exactly.
MIN_PASSAGE_SHARE = {"scifact": 0.5, "mtrag-un": 0.5}


@dataclass(frozen=True, slots=True)
class SizeResult:
    """Scores with one chunk size: number of chunks, mean tokens of a passage, and scores by budget."""

    chunk_count: int
    passage_tokens: float
    scores: Mapping[int, ScoreByQuery] = field(default_factory=dict)


def compare_models(data: Path, sets: Sequence[str], models: Sequence[str], scores_file: Path | None) -> str:
    """Measure all models on all sets, and return a table with the differences to the first model.

    Args:
        data: Directory of the evaluation sets.
        sets: Names of the sets.
        models: Names of local models.
        scores_file: JSON file with the scores by set, model and question, or None. Its scores are not measured again,
            and new scores are added to it.
    """
    existing = json.loads(scores_file.read_text()) if scores_file is not None and scores_file.exists() else {}
    scores: dict[str, dict[str, ScoreByQuery]] = {name: existing.get(name, {}) for name in sets}
    for model in models:
        missing = [read_set(data, name) for name in sets if model not in scores[name]]
        if not missing:
            continue
        with service_with_model(model) as service:
            for each in missing:
                scores[each.name][model] = measure_model(service, each)
                print(f"{model}, {each.name}: {mean(scores[each.name][model].values()):.4f}", flush=True)
                if scores_file is not None:
                    scores_file.write_text(json.dumps({**existing, **scores}))
    chosen = {name: {model: by_model[model] for model in models} for name, by_model in scores.items()}
    return "\n".join([format_head(["set", "measure", "questions", *models]), *format_model_rows(chosen)])


def measure_model(service: RunningService, evaluation_set: MeasuredSet) -> ScoreByQuery:
    """Upload a set, ask all questions with the default search, and return the score of each question."""
    name = evaluation_set.name
    with service.create_client() as client:
        ids = evaluation_set.upload(client, name, {})
        run = list(run_queries(client, name, evaluation_set.queries, ids, {"top_k": TOP_K[name]}))
    return evaluation_set.score(MODEL_MEASURES[name], run)


def format_model_rows(scores: Mapping[str, Mapping[str, ScoreByQuery]]) -> Iterator[str]:
    """Yield a row for each set, from scores by set, model and question."""
    for name, by_model in scores.items():
        baseline = next(iter(by_model.values()))
        cells = [format_score(each, None if each is baseline else baseline) for each in by_model.values()]
        yield join_row([name, MODEL_MEASURES[name], str(len(baseline)), *cells])


def format_score(scores: ScoreByQuery, baseline: ScoreByQuery | None) -> str:
    """Format the mean of scores, and the paired difference to a baseline with its 95 % interval."""
    if baseline is None:
        return f"{mean(scores.values()):.3f}"
    change = Bootstrap().compute_difference(scores, baseline).interval
    return f"{mean(scores.values()):.3f} ({change.mean:+.3f}, {change.low:+.3f} to {change.high:+.3f})"


def compare_chunk_sizes(data: Path, sets: Sequence[str], models: Sequence[str], sizes: Sequence[int]) -> str:
    """Measure all chunk sizes at equal returned text, and return a table with the differences to the first size.

    Args:
        data: Directory of the evaluation sets.
        sets: Names of the sets.
        models: Names of local models.
        sizes: Sizes of a chunk in tokens.
    """
    tokenizer = load_budget_tokenizer()
    evaluation_sets = [read_set(data, name) for name in sets]
    head = ["model", "set", "measure", "`max_tokens`", "chunks", "tokens of a passage"]
    rows = [format_head([*head, *(f"at {budget:,} tokens" for budget in BUDGETS)])]
    for model in models:
        with service_with_model(model) as service:
            for each in evaluation_sets:
                by_size = {size: measure_size(service, each, size, tokenizer) for size in sizes}
                lines = list(format_size_rows(model, each.name, by_size))
                print("\n".join(lines), flush=True)
                rows += lines
    return "\n".join(rows)


def measure_size(service: RunningService, evaluation_set: MeasuredSet, size: int, tokenizer: Tokenizer) -> SizeResult:
    """Upload a set with one chunk size, ask all questions, and score the text within each budget."""
    name, kb = evaluation_set.name, f"{evaluation_set.name}-{size}"
    with service.create_client() as client:
        ids = evaluation_set.upload(client, kb, {"chunking": {"max_tokens": size}})
        run = list(run_queries(client, kb, evaluation_set.queries, ids, {"top_k": BUDGET_TOP_K}))
        chunk_count = client.get(f"/v1/knowledge-bases/{kb}").json()["chunk_count"]
    firsts = [count_tokens(result["text"], tokenizer) for line in run for result in line["results"][:5]]
    scores = {}
    for budget in BUDGETS:
        cut = [
            {**line, "results": cut_results(line["results"], budget, tokenizer, MIN_PASSAGE_SHARE.get(name, 0.0))}
            for line in run
        ]
        scores[budget] = evaluation_set.score(BUDGET_MEASURES[name], cut)
    return SizeResult(chunk_count, mean(firsts), scores)


def format_size_rows(model: str, name: str, by_size: Mapping[int, SizeResult]) -> Iterator[str]:
    """Yield a row for each chunk size of a model and set."""
    first = next(iter(by_size.values()))
    for size, result in by_size.items():
        cells = [
            format_score(result.scores[budget], None if result is first else first.scores[budget]) for budget in BUDGETS
        ]
        measure = BUDGET_MEASURES[name].partition("@")[0]
        counts = [str(size), str(result.chunk_count), f"{result.passage_tokens:.0f}"]
        yield join_row([model, name, measure, *counts, *cells])


def cut_results(results: Sequence[JsonObject], budget: int, tokenizer: Tokenizer, min_share: float) -> list[JsonObject]:
    """Return the first results with at most ``budget`` tokens together. The last one is cut at the budget.

    Args:
        results: Results, best first.
        budget: Maximum number of tokens.
        tokenizer: Tokenizer without truncation.
        min_share: Least share of the last result's tokens; a shorter rest is left out.
    """
    returned: list[JsonObject] = []
    for result in results:
        ends = [end for _, end in tokenizer.encode(result["text"], add_special_tokens=False).offsets]
        if len(ends) > budget:
            if budget > min_share * len(ends):
                returned.append({**result, "text": result["text"][: ends[budget - 1]]})
            break
        returned.append(result)
        budget -= len(ends)
    return returned


def count_tokens(text: str, tokenizer: Tokenizer) -> int:
    """Return the number of tokens of a text, without special tokens."""
    return len(tokenizer.encode(text, add_special_tokens=False).ids)


def load_budget_tokenizer() -> Tokenizer:
    """Load the tokenizer of the default model, which counts the returned text of every model."""
    directory = find_directory(DEFAULT_MODEL)
    if directory is None:
        raise ValueError(f"`carrel models pull {DEFAULT_MODEL}` fetches the tokenizer that counts the returned text")
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
