"""Links as Markdown in the stored text, and the text without their addresses."""

import re
from urllib.parse import urljoin, urlsplit

MAX_ADDRESS_CHARACTERS = 500
_SCHEMES = ("http", "https", "mailto", "tel")
_UNSAFE = re.compile(r"[\s<>()\[\]\\\x00-\x1f]")
# The label of a link of this module contains no brackets, and its address no white space or brackets.
_LINK = re.compile(r"\[([^\[\]\n]{1,500})\]\((?:https?://|mailto:|tel:)[^\s()<>\[\]]{1,600}\)")


def format_link(label: str, address: str, *, base: str = "") -> str:
    """Return a link as Markdown, ``[label](address)``, so that an agent can answer with the address.

    The result is only the label if the label already shows the address, or if the address has more than 500
    characters. Only absolute addresses of the web, of mail and of telephones are kept.

    Args:
        label: Text of the link.
        address: Address as the file has it.
        base: Address that a relative address is resolved against; empty if it is unknown.
    """
    target = resolve_address(address, base=base)
    core = " ".join(label.split())
    if not target or not core or "[" in core or "]" in core or len(core) > MAX_ADDRESS_CHARACTERS:
        return label
    shown = target.removeprefix("mailto:").removeprefix("tel:")
    if core.rstrip("/") in (shown.rstrip("/"), shown.rstrip("/").partition("://")[2]):
        return label
    leading, trailing = label[: len(label) - len(label.lstrip())], label[len(label.rstrip()) :]
    return f"{leading}[{core}]({target}){trailing}"


def resolve_address(address: str, *, base: str = "") -> str:
    """Return an absolute address in a form that Markdown can hold; empty if there is none. Nothing is fetched.

    Args:
        address: Address as the file has it.
        base: Address that a relative address is resolved against; empty if it is unknown.
    """
    try:
        target = urljoin(base, address.strip()) if base else address.strip()
        scheme = urlsplit(target).scheme.lower()
    except ValueError:
        return ""
    if scheme not in _SCHEMES or target.partition(":")[2].strip("/") == "":
        return ""
    target = _UNSAFE.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), target)
    return target if len(target) <= MAX_ADDRESS_CHARACTERS else ""


def strip_addresses(text: str) -> str:
    """Return a text in which each link of ``format_link`` is only its label."""
    return _LINK.sub(r"\1", text) if "](" in text else text
