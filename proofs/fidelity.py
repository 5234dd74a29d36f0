"""``make prove NAME=fidelity``: preview files of all formats and compare the result with their contents.

The files are those of ``harness.fidelity`` and, if ``CARREL_EVAL_DATA`` names the directory of evaluation sets, its
``cases``. Each file is right, or a warning reports the loss, or the loss is silent, or the file is refused. The exit
code is 1 if one loss is silent or one file is refused.
"""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import httpx2

from harness.fidelity import iter_cases
from harness.fidelity.cases import CaseOutcome, FidelityCase, Verdict, judge_preview, load_cases
from harness.processes import exit_on_sigterm, running_service

TIMEOUT_SECONDS = 120
SETTINGS = {"CARREL_LOG_LEVEL": "error"}


def list_cases() -> list[FidelityCase]:
    """Return the cases of the repository and those of the evaluation sets."""
    cases = list(iter_cases())
    directory = os.environ.get("CARREL_EVAL_DATA")
    if directory:
        cases += load_cases(Path(directory) / "cases")
    return cases


def preview_cases(client: httpx2.Client, cases: Iterable[FidelityCase]) -> list[CaseOutcome]:
    """Preview the file of each case, and return the verdicts.

    Args:
        client: Client of a running service, with an API key.
        cases: The cases.
    """
    outcomes = []
    for case in cases:
        reply = client.post("/v1/preview", files={"file": (case.filename, case.data)}, timeout=TIMEOUT_SECONDS)
        outcomes.append(judge_preview(case, reply.status_code, reply.json()))
    return outcomes


def print_table(outcomes: Sequence[CaseOutcome]) -> None:
    """Print the number of cases with each verdict, by format and kind, and the faults of the others."""
    counts = Counter((outcome.case.format, outcome.case.kind, outcome.verdict) for outcome in outcomes)
    groups = sorted({(outcome.case.format, outcome.case.kind) for outcome in outcomes})
    print(f"{'format':<8}{'kind':<20}" + "".join(f"{verdict:>9}" for verdict in Verdict))
    for file_format, kind in groups:
        print(
            f"{file_format:<8}{kind:<20}" + "".join(f"{counts[file_format, kind, verdict]:>9}" for verdict in Verdict)
        )
    totals = Counter(outcome.verdict for outcome in outcomes)
    print(f"{'all':<28}" + "".join(f"{totals[verdict]:>9}" for verdict in Verdict))
    for outcome in outcomes:
        if outcome.verdict is not Verdict.RIGHT:
            print(f"{outcome.verdict}: {outcome.case.filename} ({outcome.case.kind}): {outcome.faults}")


def main() -> int:
    """Run the proof. Return 1 if a loss is silent or a file is refused, else 0."""
    parser = argparse.ArgumentParser(prog="make prove NAME=fidelity", description=__doc__.split(": ", 1)[1])
    parser.parse_args()
    exit_on_sigterm()
    with running_service(None, settings=SETTINGS) as service:
        headers = {"Authorization": f"Bearer {service.key}"}
        with httpx2.Client(base_url=service.url, headers=headers) as client:
            outcomes = preview_cases(client, list_cases())
    print_table(outcomes)
    return int(any(outcome.verdict in (Verdict.SILENT, Verdict.REFUSED) for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
