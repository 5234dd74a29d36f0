"""Run of a browser test of the console. Needs Node, the packages of ``make console``, and Chromium."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

_CONSOLE = Path(__file__).parents[1] / "console"
_BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_NODE = shutil.which("node")

BROWSER_MARKS = [
    pytest.mark.skipif(_BROWSER is None, reason="no Chromium is installed"),
    pytest.mark.skipif(_NODE is None, reason="no Node is installed"),
    pytest.mark.skipif(not (_CONSOLE / "node_modules/playwright-core").is_dir(), reason="`make console` has not run"),
]


def run_browser(script: str, url: str, keys: dict[str, str], **order: Any) -> dict[str, Any]:
    """Run a script of ``console/tests`` and return its report.

    Args:
        script: Name of the script.
        url: Address of the service.
        keys: API keys that the script uses. The report lists every place in which one of them leaks.
        order: Further input of the script. Screenshots go into the directory of ``CONSOLE_SCREENSHOTS``.
    """
    assert _NODE is not None
    screenshots = os.environ.get("CONSOLE_SCREENSHOTS")
    content = json.dumps({"url": url, "browser": _BROWSER, "keys": keys, "screenshots": screenshots, **order})
    done = subprocess.run(
        [_NODE, f"tests/{script}"],
        cwd=_CONSOLE,
        input=content,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result
