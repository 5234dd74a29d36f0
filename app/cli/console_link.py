"""Links to the console that sign in, and a browser that opens one."""

import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from urllib.parse import quote

from app.cli.runtime_state import write_private

_TEXT_BROWSERS = frozenset({"www-browser", "links", "elinks", "lynx", "w3m"})
_REDIRECT_PAGE = """<!DOCTYPE html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={link}">
<title>Carrel</title>
"""


def format_console_link(url: str, key: str) -> str:
    """Return the address of the console with the key in its fragment, which browsers send to no server."""
    return f"{url}/#key={quote(key, safe='')}"


@contextmanager
def open_console(link: str, data_dir: Path) -> Iterator[None]:
    """Open a link in a graphical browser, if the machine has one.

    The browser gets the path of a private file that leads to the link. Other users of the machine can read the
    arguments of processes, so the key must not be among them. The file is deleted at the end.

    Args:
        link: Address with the key.
        data_dir: Directory of the file.
    """
    page = data_dir.absolute() / "console.html"
    try:
        if _has_graphical_browser():
            write_private(page, _REDIRECT_PAGE.format(link=escape(link)))
            webbrowser.open(page.as_uri())
        yield
    finally:
        page.unlink(missing_ok=True)


def _has_graphical_browser() -> bool:
    """Return whether a browser can open without taking over the terminal."""
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return False
    return Path(str(getattr(browser, "name", ""))).name not in _TEXT_BROWSERS
