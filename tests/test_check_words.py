"""The word list of the commit hook, and the paths that AGENTS.md names."""

import re
from pathlib import Path

from scripts.check_words import find_faults

ROOT = Path(__file__).parents[1]
DIFF = """diff --git a/docs/a.md b/docs/a.md
--- a/docs/a.md
+++ b/docs/a.md
@@ -3 +3,2 @@
-Nobody is told.
+The caller is told of it.
+The caller gets a warning.
"""


def test_find_faults_added_line_with_forbidden_word_names_file_and_line() -> None:
    assert find_faults(DIFF) == ["docs/a.md:3: told"]


def test_find_faults_removed_line_is_ignored() -> None:
    assert find_faults(DIFF.replace("+The caller is told of it.\n", "")) == []


def test_agents_page_names_paths_that_exist() -> None:
    page = (ROOT / "AGENTS.md").read_text()
    named = re.findall(r"`((?:app|carrel|tests|harness|proofs|benchmarks|migrations|docs)/[\w./-]*)`", page)
    paths = {path for path in named if "<" not in path}
    assert len(paths) > 15
    assert {path for path in paths if not (ROOT / path).exists()} == set()


def test_agents_page_names_registries_that_exist() -> None:
    page = (ROOT / "AGENTS.md").read_text()
    registries = re.findall(r"`([A-Z]+)` in `([\w./]+\.py)`", page)
    assert len(registries) >= 5
    for name, path in registries:
        assert re.search(rf"^{name}\b.* = ", (ROOT / path).read_text(), re.MULTILINE), name
