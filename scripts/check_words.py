"""``python -m scripts.check_words [PATH…]``: check the text of source files and pages against the style guide.

It reads docstrings, comments, messages and Markdown. Without paths it checks every file of the repository.
"""

import ast
import inspect
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORDS_FILE = Path(__file__).with_name("forbidden_words.txt")
VERBS_FILE = ROOT / "tests/architecture/verbs.txt"
MAX_SENTENCE_WORDS = 25
# Openings that a stranger must read twice.
FORBIDDEN_OPENINGS = ("those", "the same", "as", "what", "of", "where", "whoever")
# They list the words, or quote them.
EXEMPT_FILES = {"scripts/check_words.py", "scripts/forbidden_words.txt", "tests/test_check_words.py"}
# Other people's text, and data.
EXEMPT_DIRECTORIES = ("app/api/api_docs/static/", "samples/", "LICENSE", "scripts/handbook.txt")
# String literals there are inputs and expected outputs, not messages.
DATA_DIRECTORIES = (
    "tests/", "harness/", "proofs/", "benchmarks/", "scripts/", "migrations/", "app/lexical/stop_words.py",
    "app/lexical/function_words.py", "app/graph/extraction/word_lists.py",
)  # fmt: skip
# Constants with instructions for a chat model: a change of their words changes its answers.
PROMPT_NAME = re.compile(r"(?:^|_)(?:TASK|RULES)$")
HASH_COMMENT_SUFFIXES = {".sh", ".yml", ".yaml", ".toml", ".ini", ".example", ""}
IMPERATIVES = frozenset(
    {"accept", "assert", "convert", "expand", "give", "hold", "keep", "let", "name", "represent", "see", "show", "use"}
)

_CODE = re.compile(r"``[^`]*``|`[^`\n]*`")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_URL = re.compile(r"\bhttps?://\S+")
_ABBREVIATION = re.compile(r"\b(e\.g|i\.e|etc|vs|cf|approx|No|p|pp|Fig)\.", re.IGNORECASE)
# A sentence ends at a full stop before a space, at an empty line, and before a list item or an entry of Args.
_SENTENCE_END = re.compile(r"(?<=[.!?])[)\"'*_]*\s+|\n\s*\n|\n\s*(?=[-*•]\s|\d+\.\s|\w+(?: \([^)]*\))?: )|:\s*\n")
_WORD = re.compile(r"[^\W_][\w'’.,/=<>%+-]*")
# A word of prose; the names in a list of ``name=value`` are none.
_PLAIN_WORD = re.compile(r"(?<!\w)[^\W\d_]{2,}(?![\w=])")
# SQL, markup and regular expressions in string literals.
_SQL = re.compile(
    r"\s*(?:<|--|do \$\$|`x` where \w+\.\w)|"
    r"\s*(?:select|insert|update|delete|with|create|alter|drop|grant|revoke|set|lock|from|where|and|or|join|left|order|"
    r"union|returning|exists|case|coalesce|on|into|values|not)\b(?=[^.]*(?:[=(*]|\bfrom\b|\bset\b|\btable\b))|"
    r".*(?:\bselect\b.*\bfrom\b|\bdo update set\b|\bcreate view\b|\$1|\(\?[:=!<]|:\w+::\w+)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Text:
    """One docstring, comment, message or paragraph; ``kind`` says which, and of what."""

    path: str
    line: int
    kind: str
    text: str


@cache
def load_forbidden_words() -> list[tuple[re.Pattern[str], str]]:
    """Return the forbidden expressions with their advice."""
    lines = [line for line in WORDS_FILE.read_text().splitlines() if line and not line.startswith("#")]
    pairs = [line.split("\t") for line in lines]
    return [(re.compile(rf"(?<![\w-])(?:{words})(?![\w-]|\.\w)", re.IGNORECASE), advice) for words, advice in pairs]


@cache
def load_verbs() -> frozenset[str]:
    """Return the verbs with which the docstring of a function may begin."""
    return frozenset(VERBS_FILE.read_text().split()) | IMPERATIVES


def list_texts(path: str, source: str) -> Iterator[Text]:
    """Yield the texts of one file, by its name."""
    suffix = Path(path).suffix
    if suffix == ".py":
        yield from list_python_texts(path, source)
    elif suffix == ".md":
        yield from list_markdown_texts(path, source)
    elif suffix == ".sql":
        yield from list_comment_lines(path, source, "--")
    elif suffix in HASH_COMMENT_SUFFIXES:
        yield from list_comment_lines(path, source, "#")


def list_python_texts(path: str, source: str) -> Iterator[Text]:
    """Yield docstrings, comments and messages of a Python file."""
    tree = ast.parse(source)
    docstrings: set[int] = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for index, statement in enumerate(body if isinstance(body, list) else []):
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                constant = statement.value
                if isinstance(constant.value, str):
                    docstrings.add(id(constant))
                    kind = find_docstring_kind(node, index)
                    yield Text(path, constant.lineno, kind, strip_docstring(constant.value))
    yield from list_python_comments(path, source)
    if not path.startswith(DATA_DIRECTORIES):
        yield from list_messages(path, tree, docstrings)


def find_docstring_kind(node: ast.AST, index: int) -> str:
    """Return the kind of a docstring by what it documents."""
    if index:
        return "attribute docstring"
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        names = {ast.unparse(decorator).split("(")[0].split(".")[-1] for decorator in node.decorator_list}
        return "property docstring" if names & {"property", "cached_property", "fixture"} else "function docstring"
    return "class docstring" if isinstance(node, ast.ClassDef) else "module docstring"


def strip_docstring(text: str) -> str:
    """Return a docstring without indentation and without blocks of examples and literal code."""
    lines: list[str] = []
    skipping, margin = False, 0
    for line in inspect.cleandoc(text).splitlines():
        indent = len(line) - len(line.lstrip())
        if skipping and (not line.strip() or indent > margin):
            continue
        skipping = line.rstrip().endswith("::") or line.strip() in ("Example:", "Examples:", "\b")
        margin = indent
        lines.append("" if line.lstrip().startswith(">>>") else line.strip())
    return "\n".join(lines)


def list_python_comments(path: str, source: str) -> Iterator[Text]:
    """Yield the comments of a Python file; comments on consecutive lines are one text."""
    block: list[str] = []
    begin = last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        row, own_line = token.start[0], token.line.lstrip().startswith("#")
        if block and (row != last + 1 or not own_line):
            yield Text(path, begin, "comment", "\n".join(block))
            block = []
        if not block:
            begin = row
        block.append(re.sub(r"#\s*(?:noqa|type: ignore|pragma|fmt:)[^#]*(?:\s{2}|$)", "", token.string).lstrip("#! "))
        last = row if own_line else 0
    if block:
        yield Text(path, begin, "comment", "\n".join(block))


def list_messages(path: str, tree: ast.Module, docstrings: set[int]) -> Iterator[Text]:
    """Yield the string literals of a module that are prose: three words or more, no SQL, no table, no prompt."""
    inside = set(list_prompts(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inside |= {id(part) for part in node.values}
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "`x`" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings | inside:
            text = node.value
        else:
            continue
        if len(_PLAIN_WORD.findall(text)) >= 3 and " " in text and not _SQL.match(text):
            yield Text(path, node.lineno, "message", text)


def list_prompts(tree: ast.Module) -> Iterator[int]:
    """Yield the object ids of the string literals in a module's prompts."""
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)]) if PROMPT_NAME.search(name):
                yield from (id(node) for node in ast.walk(statement.value))


def list_comment_lines(path: str, source: str, mark: str) -> Iterator[Text]:
    """Yield the comments of a file of another language; comments on consecutive lines are one text."""
    block: list[str] = []
    begin = 0
    for number, line in enumerate([*source.splitlines(), ""], 1):
        comment = (
            line.strip().lstrip(f"{mark} ") if line.lstrip().startswith(mark) and not line.startswith("#!") else ""
        )
        if comment and not re.match(r"[A-Z_]+=", comment):  # a setting with its default
            begin = begin if block else number
            block.append(comment)
        elif block:
            yield Text(path, begin, "comment", "\n".join(block))
            block = []


def list_markdown_texts(path: str, source: str) -> Iterator[Text]:
    """Yield the paragraphs, list items and table cells of a page, without code."""
    paragraph: list[str] = []
    begin = 0
    fence = ""
    for number, line in enumerate([*source.splitlines(), ""], 1):
        stripped = line.strip()
        if mark := re.match(r"(`{3,}|~{3,})", stripped):
            fence = "" if fence and stripped.startswith(fence) else fence or mark[1]
            stripped = ""
        elif fence:
            continue
        starts = re.match(r"([-*+]|\d+\.)\s", stripped) or stripped.startswith(("#", "|", ">", "<", "!!!", "???"))
        if paragraph and (not stripped or starts):
            yield Text(path, begin, "paragraph", "\n".join(paragraph))
            paragraph = []
        if stripped.startswith("|"):
            for cell in re.split(r"(?<!\\)\|", stripped.strip("|")):
                if cell.strip(" -:"):
                    yield Text(path, number, "table cell", cell.strip())
        elif stripped and not stripped.startswith(("<!--", "[//]")):
            begin = begin if paragraph else number
            paragraph.append(re.sub(r"^(?:[-*+]|\d+\.|#+|>)\s+", "", stripped))


def replace_code(text: str) -> str:
    """Return a text with each piece of code, link and address as one word."""
    text = _CODE.sub("Code", text)
    text = _URL.sub("Url", _LINK.sub(r"\1", text))
    return _ABBREVIATION.sub(r"\1", text)


def list_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a simplified text."""
    for sentence in _SENTENCE_END.split(text):
        if sentence and sentence.strip():
            yield " ".join(sentence.split())


def find_faults(item: Text) -> Iterator[str]:
    """Yield what the style guide forbids in a text."""
    text = replace_code(item.text)
    plain = re.sub(r"\bwall[ -]clock\b", "clock", text, flags=re.IGNORECASE)
    for pattern, advice in load_forbidden_words():
        for match in pattern.finditer(plain):
            yield f"'{match[0]}': {advice}"
    for sentence in list_sentences(text):
        if (count := len(_WORD.findall(sentence))) > MAX_SENTENCE_WORDS:
            yield f"a sentence of {count} words, at most {MAX_SENTENCE_WORDS}: {sentence[:60]}…"
    if item.kind.endswith("docstring"):
        yield from find_opening_faults(item, text)


def find_opening_faults(item: Text, text: str) -> Iterator[str]:
    """Yield the faults of the first words of a docstring."""
    opening = text.strip().lower()
    for words in FORBIDDEN_OPENINGS:
        if re.match(rf"{words}\b", opening):
            yield f"a docstring that begins with '{words}': begin with the subject, or with a verb"
    first = re.match(r"[a-z-]+", opening)
    if item.kind == "function docstring" and not item.path.startswith("tests/"):
        word = first[0].replace("-", "") if first else ""
        if word not in load_verbs():
            yield f"the docstring of a function begins with '{word or opening[:12]}', not with a verb"


def list_files() -> list[str]:
    """Return the paths of the repository's files with text to check."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.splitlines()


def is_checked(path: str) -> bool:
    """Return whether a file's text is the project's own."""
    return path not in EXEMPT_FILES and not path.startswith(EXEMPT_DIRECTORIES) and not path.endswith(".lock")


def check_files(paths: Sequence[str]) -> list[str]:
    """Return one line of report for each fault in files."""
    faults = []
    for path in filter(is_checked, paths):
        file = ROOT / path
        if not file.is_file() or Path(path).suffix not in {".py", ".md", ".sql", *HASH_COMMENT_SUFFIXES}:
            continue
        for item in list_texts(path, file.read_text()):
            faults += [f"{item.path}:{item.line}: {item.kind}: {fault}" for fault in find_faults(item)]
    return faults


def main(arguments: Sequence[str]) -> int:
    """Report the faults of files, and of the files below directories; 1 if there are any."""
    requested = tuple(argument.rstrip("/") for argument in arguments)
    directories = tuple(f"{path}/" for path in requested)
    faults = check_files(
        [path for path in list_files() if not requested or path in requested or path.startswith(directories)]
    )
    print(*faults, sep="\n", end="\n" if faults else "")
    print(f"{len(faults)} faults", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
