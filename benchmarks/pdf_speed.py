"""``make bench NAME=pdf-speed``: pages a CPU-second and peak memory of the PDF parser, compared with another checkout.

``CARREL_EVAL_DATA`` names the directory of evaluation sets, and ``--before`` the other checkout. Both parse the same
files in turns, each in a new process that parses every file three times; the fastest times count.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROUNDS = 3
ROOT = Path(__file__).resolve().parents[1]
_SCRIPT = """
import resource, sys, time
from pathlib import Path
from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.pdf import pdf_parser
options = ParseOptions(None, max_pages=10_000, max_characters=100_000_000)
for name in sys.argv[1:]:
    seconds = []
    for _ in range(3):
        started = time.process_time()
        document = pdf_parser.parse(Path(name), options)
        seconds.append(time.process_time() - started)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(name, document.page_count, min(seconds), peak, sep="\\t")
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench NAME=pdf-speed", description=__doc__)
    parser.add_argument("--before", type=Path, help="another checkout of this repository")
    arguments = parser.parse_args()
    data = os.environ.get("CARREL_EVAL_DATA")
    if not data:
        print("Set CARREL_EVAL_DATA to the directory of evaluation sets.")
        return 2
    files = [*sorted((Path(data) / "filings-dev").glob("*.pdf")), Path(data) / "torture" / "GeoTopo-komprimiert.pdf"]
    trees = {"before": arguments.before, "now": ROOT} if arguments.before else {"now": ROOT}
    measured: dict[tuple[str, str], list[tuple[float, int]]] = {}
    for _ in range(ROUNDS):
        for name, tree in trees.items():
            for file, pages, seconds, peak in measure_tree(tree.resolve(), files):
                measured.setdefault((file, name), []).append((pages / seconds, peak))
    for (file, name), runs in sorted(measured.items()):
        speed, peak = max(speed for speed, _ in runs), max(peak for _, peak in runs)
        print(f"{file:40} {name:7} {speed:7.0f} pages a CPU-second, peak {peak} MB")
    return 0


def measure_tree(tree: Path, files: list[Path]) -> Iterator[tuple[str, int, float, int]]:
    """Parse files with the parser of a checkout in a new process.

    Args:
        tree: Root of the checkout.
        files: PDF files.

    Yields:
        Name, pages, shortest CPU seconds, and peak memory of the process so far in megabytes, for each file.
    """
    command = [sys.executable, "-c", _SCRIPT, *map(str, files)]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=True, timeout=900)
    for line in done.stdout.splitlines():
        name, pages, seconds, peak = line.split("\t")
        yield Path(name).name, int(pages), float(seconds), int(peak)


if __name__ == "__main__":
    sys.exit(main())
