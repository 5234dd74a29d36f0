"""``make prove NAME=audit``: check requirements, known advisories and newer releases of the locked packages.

The exit code is 1 if a requirement is not met or a locked version has a security advisory, else 0. If the advisory
database cannot be reached, the last line says so. With ``--strict``, an unreachable database also gives exit code 1.
The list of newer releases does not change the exit code. It shows where fixes are available.
"""

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LOCK_FILE = "requirements.lock"
LOCKED_VERSION = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)", re.MULTILINE)
TIMEOUT_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Advisories:
    """Advisories about locked versions, and the number of locked packages that could not be checked."""

    messages: Sequence[str]
    unread_count: int


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--strict", action="store_true", help="fail if advisories cannot be reached")
    provided = parser.parse_args()
    locked = read_lock(Path(LOCK_FILE).read_text())
    broken = run_module("pip", "check")
    print(f"requirements: {broken.stdout.strip()}")
    newer = run_module("pip", "list", "--outdated", "--format", "json")
    if newer.returncode:
        print("newer releases: the package index cannot be reached")
    else:
        releases = list_newer_releases(newer.stdout, locked)
        print(f"newer releases: {len(releases)} of {len(locked)} locked packages have one", *releases, sep="\n  ")
    report = run_module(
        "pip_audit", "--disable-pip", "--require-hashes", "--progress-spinner", "off", "-f", "json", "-r", LOCK_FILE
    )
    advisories = read_report(report.stdout, locked)
    print("\n".join([*(f"advisory: {item}" for item in advisories.messages), format_verdict(advisories, len(locked))]))
    return compute_exit_code(broken.returncode, advisories, strict=provided.strict)


def run_module(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a module of this Python environment and return its output and exit code."""
    return subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS
    )


def read_lock(lock: str) -> dict[str, str]:
    """Return the locked versions by package name."""
    return {_normalize_name(name): version for name, version in LOCKED_VERSION.findall(lock)}


def list_newer_releases(listed: str, locked: Mapping[str, str]) -> list[str]:
    """Return the locked packages that pip's list of outdated packages contains, with both versions."""
    result = {_normalize_name(item["name"]): item["latest_version"] for item in json.loads(listed)}
    return [f"{name} {locked[name]} -> {result[name]}" for name in sorted(result.keys() & locked.keys())]


def read_report(report: str, locked: Mapping[str, str]) -> Advisories:
    """Parse the report of pip-audit, which is empty if pip-audit could not reach the advisory database."""
    dependencies = json.loads(report)["dependencies"] if report.strip() else []
    read = {_normalize_name(item["name"]) for item in dependencies if "skip_reason" not in item}
    existing = [
        f"{item['name']} {item['version']}: {of['id']}, fixed in {', '.join(of['fix_versions']) or 'no release'}"
        for item in dependencies
        for of in item.get("vulns", ())
    ]
    return Advisories(existing, len(locked.keys() - read))


def format_verdict(advisories: Advisories, locked: int) -> str:
    """Format the last line of the output."""
    if advisories.unread_count:
        return f"NOT AUDITED: the advisories of {advisories.unread_count} of {locked} locked packages cannot be reached"
    return f"audited: {len(advisories.messages)} advisories about {locked} locked packages"


def compute_exit_code(broken: int, advisories: Advisories, *, strict: bool) -> int:
    """Return 1 for broken requirements, advisories or, if strict, unchecked packages; else 0."""
    return int(bool(broken or advisories.messages or (strict and advisories.unread_count)))


def _normalize_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    sys.exit(main())
