"""Rules of the Markdown parser for blocks beyond CommonMark: notes, callouts and formulas."""

import re
from html import escape

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock

CALLOUT_NAMES = frozenset(
    {
        "abstract", "attention", "bug", "caution", "danger", "error", "example", "failure", "fail", "hint", "important",
        "info", "missing", "note", "question", "quote", "success", "summary", "tip", "tldr", "todo", "warning",
    }
)  # fmt: skip
_NOTE = re.compile(r"\[\^([^\]\s]{1,100})\]:")
_CALLOUT = re.compile(r"(?:!!!|\?\?\?\+?|===\+?)\s+([\w-]{1,40})?[\w\s-]{0,80}?(?:\"(.{0,300}?)\")?\s*$")
_FENCE = re.compile(r":{3,}\s*(?:\{?\.?([A-Za-z][\w-]{0,40})\}?)?(?:\[(.{0,300}?)\])?\s*(.{0,300})$")
_INDENTATION = 4
_FORMULA_END_MISSING = "formula_end_missing"


def add_block_rules(parser: MarkdownIt) -> None:
    """Add the rules to a parser. They also end a paragraph.

    Args:
        parser: Parser of Markdown.
    """
    rules = parser.block.ruler
    rules.before("reference", "note", _read_note, {"alt": ["paragraph", "reference"]})
    rules.before("reference", "callout", _read_callout, {"alt": ["paragraph", "reference", "blockquote"]})
    rules.before("reference", "callout_fence", _read_callout_fence, {"alt": ["paragraph", "reference", "blockquote"]})
    rules.before("lheading", "formula", _read_formula, {"alt": ["paragraph", "reference", "blockquote"]})


def _get_line(state: StateBlock, line: int) -> str:
    return state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]]


def _read_note(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read a note, such as ``[^1]: Text``, with the indented blocks after it."""
    match = None if state.is_code_block(start) else _NOTE.match(_get_line(state, start))
    if match is None:
        return False
    if silent:
        return True
    _add_markup(state, '<aside role="doc-footnote">', 1)
    first = len(state.tokens)
    old = state.bMarks[start], state.tShift[start], state.sCount[start], state.parentType
    text_start = state.bMarks[start] + state.tShift[start] + match.end()
    line = state.src[text_start : state.eMarks[start]]
    state.bMarks[start], state.tShift[start] = text_start, len(line) - len(line.lstrip())
    state.sCount[start] = state.blkIndent + _INDENTATION
    _read_indented(state, start, end)
    state.bMarks[start], state.tShift[start], state.sCount[start], state.parentType = old
    for token in state.tokens[first:]:
        if token.type == "inline":
            token.content = f"[^{match[1]}] {token.content}"
            break
    _add_markup(state, "</aside>", -1)
    return True


def _read_indented(state: StateBlock, start: int, end: int) -> None:
    state.blkIndent += _INDENTATION
    state.md.block.tokenize(state, start, end)
    state.blkIndent -= _INDENTATION


def _read_callout(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read a callout or a tab of MkDocs, such as ``!!! note "Title"``, with the indented blocks after it."""
    line = _get_line(state, start)
    match = _CALLOUT.match(line) if line[:3] in ("!!!", "???", "===") and not state.is_code_block(start) else None
    if match is None or (line.startswith("===") and match[2] is None):
        return False
    if silent:
        return True
    _add_markup(state, "<div>", 1)
    _add_label(state, match[1] or "", match[2] or "", start)
    _read_indented(state, start + 1, end)
    state.line = max(state.line, start + 1)
    _add_markup(state, "</div>", -1)
    return True


def _read_callout_fence(state: StateBlock, start: int, _: int, silent: bool) -> bool:
    """Read the first or last line of a callout between colons. The blocks between them are read as usual."""
    line = _get_line(state, start)
    match = _FENCE.match(line) if line.startswith(":::") and not state.is_code_block(start) else None
    if match is None:
        return False
    if not silent:
        _add_label(state, match[1] or "", match[2] or match[3].strip("{}# "), start)
        state.line = start + 1
    return True


def _add_label(state: StateBlock, name: str, title: str, line: int) -> None:
    """Add the name and the title of a callout as a paragraph."""
    kind = name.capitalize() if name.lower() in CALLOUT_NAMES else ""
    text = ": ".join(part for part in (kind, title.strip()) if part)
    if not text:
        return
    state.push("paragraph_open", "p", 1)
    token = state.push("inline", "", 0)
    token.content, token.children, token.map = text if title.strip() else f"{text}:", [], [line, line + 1]
    state.push("paragraph_close", "p", -1)


def _read_formula(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read a formula between lines that begin and end with ``$$``. Its text stays as it is written."""
    line = _get_line(state, start)
    if not line.startswith("$$") or state.is_code_block(start) or state.env.get(_FORMULA_END_MISSING):
        return False
    lines = [line.strip()]
    last = start
    while not (lines[-1].endswith("$$") and (last > start or len(lines[0]) > 3)):
        last += 1
        if last >= end:
            # No later search can succeed either, and many searches would take quadratic time.
            state.env[_FORMULA_END_MISSING] = True
            return False
        lines.append(_get_line(state, last).strip())
    if not silent:
        _add_markup(state, f"<p>{escape(' '.join(lines))}</p>", 0, lines=[start, last + 1])
        state.line = last + 1
    return True


def _add_markup(state: StateBlock, markup: str, nesting: int, *, lines: list[int] | None = None) -> None:
    token = state.push("html_block", "", nesting)  # type: ignore[arg-type]
    token.map = lines
    token.content = markup + "\n"
