"""Fields of a Word document: links, form fields, and results without their codes."""

import re
from dataclasses import dataclass, field

from app.ingestion.parsers.toolkit.ooxml import (
    Element,
    find_child,
    get_attribute,
    get_int_attribute,
    is_switched_on,
    iter_children,
)

CHECKED, UNCHECKED = "☒", "☐"
_LINK_PARTS = re.compile(r'\s*HYPERLINK\b|(\\[a-z])|"([^"]*)"|(\S+)', re.IGNORECASE)
MAX_CODE_CHARACTERS = 2_000


@dataclass(slots=True)
class Field:
    """Field that is open.

    Attributes:
        form: Data of a form field; None for any other field.
        code: Parts of the field's code.
        is_code: Whether the code is still being read, and not the result.
        is_link: Whether the result is a link that has to be closed.
        has_result: Whether the result has text.
    """

    form: Element | None = None
    code: list[str] = field(default_factory=list)
    is_code: bool = True
    is_link: bool = False
    has_result: bool = False

    @property
    def replaces_result(self) -> bool:
        """Whether the state of a form field replaces its result."""
        return find_child(self.form, "w:checkBox") is not None or find_child(self.form, "w:ddList") is not None


def read_link_address(code: str) -> str:
    """Return the address of a code such as ``HYPERLINK "https://example.org" \\l "part"``.

    Args:
        code: Code of a field.

    Returns:
        The address with its fragment. It is empty for a link inside of the document, and for any other field.
    """
    if code.strip()[:9].upper() != "HYPERLINK":
        return ""
    address, fragment, switch = "", "", ""
    for match in _LINK_PARTS.finditer(code[:MAX_CODE_CHARACTERS].strip()):
        name, quoted, word = match.groups()
        if name:
            switch = name.lower()
        elif quoted is not None or word:
            value = quoted if quoted is not None else word
            if switch == "\\l":
                fragment = value
            elif not switch and not address:
                address = value
            switch = ""
    return join_fragment(address, fragment)


def join_fragment(address: str, fragment: str) -> str:
    """Return an address with its fragment; empty if there is no address."""
    return f"{address}#{fragment}" if address and fragment and "#" not in address else address


def format_form_state(form: Element | None, *, has_result: bool) -> str:
    """Return the state of a form field.

    Args:
        form: The element ``w:ffData``; None for a field that is no form field.
        has_result: Whether the field has a result with text.

    Returns:
        A check box sign, the chosen entry of a list, or the default text of a text field without a result.
    """
    box = find_child(form, "w:checkBox")
    if box is not None:
        checked = find_child(box, "w:checked")
        state = checked if checked is not None else find_child(box, "w:default")
        return CHECKED if is_switched_on(state) else UNCHECKED
    choices = find_child(form, "w:ddList")
    if choices is not None:
        entries = [get_attribute(entry, "val") for entry in iter_children(choices, "w:listEntry")]
        chosen = get_int_attribute(find_child(choices, "w:result"), "val")
        if chosen is None:
            chosen = get_int_attribute(find_child(choices, "w:default"), "val") or 0
        return entries[chosen] if 0 <= chosen < len(entries) else ""
    return "" if has_result else get_attribute(find_child(form, "w:textInput", "w:default"), "val")
