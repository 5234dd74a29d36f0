"""``python -m scripts.check_words FILE…``: find words that the style guide replaces, in staged lines of files.

Lines that are already committed are not checked.
"""

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence

FORBIDDEN = re.compile(
    r"\b(told|beside|anew|whoever|nobody|meanwhile|so many|but for|by now|at hand|has its own way|of its own)\b",
    re.IGNORECASE,
)
# Files that list the words.
EXEMPT = {"scripts/check_words.py", "tests/test_check_words.py"}


def list_added_lines(diff: str) -> Iterator[tuple[str, int, str]]:
    """Yield path, line number and text of each added line of a unified diff without context."""
    path, number = "", 0
    for line in diff.splitlines():
        if line.startswith("+++ "):
            path = line.removeprefix("+++ b/")
        elif match := re.match(r"@@ -\S+ \+(\d+)", line):
            number = int(match[1])
        elif line.startswith("+"):
            yield path, number, line[1:]
            number += 1


def find_faults(diff: str) -> list[str]:
    """Return one line of report for each forbidden word of a diff."""
    return [
        f"{path}:{number}: {word}"
        for path, number, text in list_added_lines(diff)
        if path not in EXEMPT
        for word in FORBIDDEN.findall(text)
    ]


def main(paths: Sequence[str]) -> int:
    """Report the faults of the staged changes of files; 1 if there are any."""
    command = ["git", "diff", "--cached", "--unified=0", "--no-color", "--", *paths]
    diff = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    faults = find_faults(diff)
    print(*faults, sep="\n", end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
