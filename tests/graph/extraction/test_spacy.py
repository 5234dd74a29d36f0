"""The extractor of the plugin guide, in a Python environment with the real spaCy."""

import json
import os
import re
import subprocess
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ENVIRONMENTS = os.environ.get("CLIENT_ENVIRONMENTS")
pytestmark = pytest.mark.skipif(ENVIRONMENTS is None, reason="make prove NAME=clients creates the environments")

GUIDE = (ROOT / "docs" / "how-to" / "write-a-plugin.md").read_text()
EXAMPLE = re.search(r"^`carrel-spacy/carrel_spacy\.py`\n\n<!--[^\n]*-->\n```python\n(.*?)^```$", GUIDE, re.M | re.S)

PROGRAM = """
import asyncio, json, os, site, sys
import spacy
for folder in sys.argv[1:]:
    site.addsitedir(folder)

if os.environ["SPACY_PIPELINE"] != "missing":
    pipeline = spacy.blank("en")
    labels = {"GPE": "Heidelberg", "ORG": "Anna Smith", "PERSON": "ruler", "DATE": "2026"}
    pipeline.add_pipe("entity_ruler").add_patterns([{"label": k, "pattern": v} for k, v in labels.items()])
    pipeline.to_disk(os.environ["SPACY_PIPELINE"])

from app.graph.extraction.extractor import ChunkText
from app.graph.extraction.extractors import Extractors

async def main():
    texts = ["She saw Heidelberg, then Heidelberg. He met Anna Smith in 2026.", "A ruler.", "Nothing."] * 30
    chunks = [ChunkText(text, "", "", (), {}, (), "english") for text in texts]
    extractors = Extractors.from_installed_plugins()
    found, warnings = await extractors.extract(chunks)
    mentions = [[[each.name, each.kind, each.count] for each in one] for one in found]
    print(json.dumps([dict(extractors.versions), mentions[:3], mentions[3:] == mentions[:3] * 29,
                      [[str(each.code), each.message] for each in warnings]]))

asyncio.run(main())
"""


def run_example(folder: Path, model: str) -> list[object]:
    """Install the example as a plugin, and return the result of the extraction of 90 chunks."""
    assert EXAMPLE is not None
    (folder / "carrel_spacy.py").write_text(EXAMPLE[1])
    about = folder / "carrel_spacy-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: carrel-spacy\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[carrel.extractors]\nspacy = carrel_spacy:EXTRACTOR\n")
    python = Path(ENVIRONMENTS or "") / "spacy" / "bin" / "python"
    done = subprocess.run(
        [python.absolute(), "-c", PROGRAM, str(folder), sysconfig.get_path("purelib"), str(ROOT)],
        env={"SPACY_PIPELINE": model}, cwd=folder, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: list[object] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_spacy_extractor_entities_join_the_others(tmp_path: Path) -> None:
    found = run_example(tmp_path, str(tmp_path / "pipeline"))
    first = [["Heidelberg", "place", 2], ["Anna Smith", "organization", 1]]
    assert found == [{"spacy": "1-pipeline"}, [first, [["ruler", "person", 1]], []], True, []]


def test_spacy_extractor_without_its_pipeline_gives_warning(tmp_path: Path) -> None:
    found = run_example(tmp_path, "missing")
    message = "The extractor 'spacy' failed (OSError), so 90 of 90 chunks have no entities of it."
    assert found[2:] == [True, [["entities_not_extracted", message]]]
    assert found[1] == [[["Heidelberg", "name", 2], ["Anna Smith", "name", 1]], [], []]
