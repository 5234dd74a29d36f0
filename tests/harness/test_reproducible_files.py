"""Generated files have the same bytes with any clock, time zone and hash seed."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
DAYS_LATER = 400

# The standard library's clock is changed before the imports. Large bombs of one kind are left out: the function
# that packs the small ones packs them too.
PROGRAM = """
import sys, time
clock, days = time.time, float(sys.argv[1])
time.time = lambda: clock() + days * 86_400

import hashlib, random, tempfile
from pathlib import Path
from harness.hostile import iter_sample_files
from harness.hostile.archives import PACKAGE_BUILDERS, _generate_false_archives
from harness.hostile.links import generate_linking_files
from harness.hostile.mutations import generate_mutations
from harness.hostile.pdfs import generate_false_pdfs, generate_pdf_loops
from proofs.kill.corpus import CONTENT_BUILDERS, PART_COUNTS
from benchmarks.load import write_pdf
from tests.ingestion import illustrated
from tests.ingestion.parsers import word, workbooks

def show(name, content):
    print(name.encode("unicode_escape").decode(), hashlib.sha256(content).hexdigest())

sources = list(iter_sample_files())
for file in generate_mutations(sources, count=2 * len(sources), seed=7):
    show(file.label, file.content)
for file in (*generate_linking_files("http://127.0.0.1:1"), *generate_false_pdfs(), *generate_pdf_loops()):
    show(file.label, file.content)
for kind, make in PACKAGE_BUILDERS.items():
    for file in _generate_false_archives(kind, make("a text")):
        show(file.label, file.content)
for kind, make in CONTENT_BUILDERS.items():
    content = make(["A text of some words."] * PART_COUNTS.get(kind, (3, 40))[0])
    show(kind, content.file or repr(content.body).encode())
folder = Path(tempfile.mkdtemp(dir=sys.argv[2]))
for make in (illustrated.pdf, illustrated.docx, illustrated.pptx):
    show(make.__name__, make(folder / make.__name__).read_bytes())
show("word", word.write(folder / "word", word.p("a"), {"header1": word.p("b")}).read_bytes())
show("workbook", workbooks.write(folder / "workbook", {"A": workbooks.sheet([["a", 1]])}).read_bytes())
write_pdf(folder / "pdf", "some words " * 500, pages=2, seed=1)
show("load", (folder / "pdf").read_bytes())
"""


def made(folder: Path, *, days: int, **environment: str) -> list[str]:
    """Return a line with a name and a digest for every generated file."""
    command = [sys.executable, "-c", PROGRAM, str(days), str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_generated_files_do_not_depend_on_clock_zone_or_hash_seed(tmp_path: Path) -> None:
    today = made(tmp_path, days=0, TZ="UTC", PYTHONHASHSEED="0")
    later = made(tmp_path, days=DAYS_LATER, TZ="Pacific/Auckland", PYTHONHASHSEED="7")
    assert len(today) > 100
    assert [one for one, other in zip(today, later, strict=True) if one != other] == []
