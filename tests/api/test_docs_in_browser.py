"""Pages of the API documentation in a real browser, if one is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from harness.running_service import Service

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# The bundle of Redoc asks for the logo of its maker. The page's policy blocks the request.
BLOCKED_LOGO = "https://cdn.redoc.ly/redoc/logo-mini.svg"


@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")
@pytest.mark.parametrize(("page", "text"), [("/docs", "search_knowledge_base"), ("/redoc", "Search a knowledge base")])
def test_docs_page_shows_operations_under_its_policy(service: Service, tmp_path: Path, page: str, text: str) -> None:
    assert BROWSER is not None
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--virtual-time-budget=20000"]
    command = [BROWSER, *flags, f"--user-data-dir={tmp_path}", "--dump-dom", f"{service.url}{page}"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert text in result.stdout
    messages = [line for line in result.stderr.splitlines() if re.search(r":CONSOLE[:(]", line)]
    assert [message for message in messages if BLOCKED_LOGO not in message] == []
