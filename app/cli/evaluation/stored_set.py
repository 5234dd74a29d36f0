"""Evaluations of golden sets that the service stores: a worker of the service searches, this command waits."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from carrel_client import Client

from app.cli.evaluation.report import ConfigResult
from app.cli.evaluation.runner import SearchConfig
from app.errors import InvalidInputError, UnavailableError
from app.evaluations.ranking_measures import DEFAULT_ALL_MEASURE

POLL_INTERVAL_SECONDS = 0.25
MAX_SETTINGS = 2
# The report counts failed and warned queries itself.
_COUNTED_WARNINGS = frozenset({"evaluation_searches_failed", "evaluation_searches_warned"})


class TooManySearchConfigs(InvalidInputError):
    """An evaluation of a golden set compares at most two settings."""

    code = "too_many_search_configs"


class UnavailableMeasure(InvalidInputError):
    """Golden sets are measured with nDCG@10, recall@5, recall@10, recall@100, MRR@10 and all@5."""

    code = "unavailable_measure"


class StoredEvaluationFailed(UnavailableError):
    """The evaluation of the golden set failed."""

    code = "stored_evaluation_failed"


def run_stored_evaluation(
    client: Client, golden_set: str, configs: Sequence[SearchConfig], show_progress: Callable[[int, int], None]
) -> dict[str, Any]:
    """Start an evaluation of a golden set, wait for its end, and return it.

    Args:
        client: Client of the service.
        golden_set: ID of the golden set.
        configs: One or two search settings.
        show_progress: Called with the numbers of searches that are done and of all.

    Raises:
        TooManySearchConfigs: There are more than two settings.
        StoredEvaluationFailed: The evaluation failed.
        CarrelError: The service refuses the evaluation, or it was deleted.
    """
    if len(configs) > MAX_SETTINGS:
        raise TooManySearchConfigs
    evaluation = client.evaluations.create(golden_set, [config.body for config in configs])
    while True:
        show_progress(evaluation["progress"]["done"], evaluation["progress"]["total"])
        if evaluation["state"] not in ("queued", "running"):
            break
        time.sleep(POLL_INTERVAL_SECONDS)
        evaluation = client.evaluations.get(evaluation["id"])
    if evaluation["error"] is not None:
        raise StoredEvaluationFailed(evaluation["error"]["message"])
    return dict(evaluation)


def read_stored_results(
    client: Client, evaluation: dict[str, Any], configs: Sequence[SearchConfig], labels: Sequence[str]
) -> tuple[list[ConfigResult], dict[str, int | None]]:
    """Return the results of each setting by query, and the numbers of queries.

    Args:
        client: Client of the service.
        evaluation: Evaluation that is done.
        configs: Its settings.
        labels: Measures to report; if empty, those of the evaluation.

    Raises:
        UnavailableMeasure: The evaluation has no such measure.
    """
    available = [figure["measure"] for figure in evaluation["figures"]]
    if not available:
        raise StoredEvaluationFailed("nothing that is relevant in the golden set exists any more")
    if unavailable := set(labels) - {*available, DEFAULT_ALL_MEASURE}:
        raise UnavailableMeasure(f"{', '.join(sorted(unavailable))}: {UnavailableMeasure.__doc__}")
    items = list(client.evaluations.results(evaluation["id"]))
    scored = [item for item in items if all(result["scores"] for result in item["results"])]
    results = []
    for number, config in enumerate(configs):
        outcomes = {item["item"]: item["results"][number] for item in scored}
        scores = {
            label: {query: outcome["scores"][label] for query, outcome in outcomes.items()}
            for label in labels or available
        }
        problems = Counter(outcome["error"] for outcome in outcomes.values() if outcome["error"])
        warnings = Counter(code for outcome in outcomes.values() for code in outcome["warning_codes"])
        remarks = [each["message"] for each in evaluation["warnings"] if each["code"] not in _COUNTED_WARNINGS]
        last = number == len(configs) - 1
        results.append(ConfigResult(config, scores, problems, warnings, 0, remarks if last else ()))
    return results, {"queries": len(scored), "without_judgements": len(items) - len(scored)}
