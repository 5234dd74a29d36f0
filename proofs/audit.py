"""``make prove NAME=audit``: check requirements, known advisories and newer releases of the locked packages.

It ends with 1 where requirements are broken or an advisory is known, else with 0. Where advisories cannot be reached it
says so in its last line; with ``--strict`` that is 1 too. Newer releases are told either way: that is how fixes come.
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
    """What is known about versions that are locked, and about how many of these nothing could be asked."""

    messages: Sequence[str]
    unread_count: int


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--strict", action="store_true")
    provided = parser.parse_args()
    locked = read_lock(Path(LOCK_FILE).read_text())
    broken = run_module("pip", "check")
    print(f"requirements: {broken.stdout.strip()}")
    newer = run_module("pip", "list", "--outdated", "--format", "json")
    if newer.returncode:
        print("newer releases: the package index cannot be asked")
    else:
        releases = list_newer_releases(newer.stdout, locked)
        print(f"newer releases: of {len(releases)} of {len(locked)} locked packages", *releases, sep="\n  ")
    report = run_module(
        "pip_audit", "--disable-pip", "--require-hashes", "--progress-spinner", "off", "-f", "json", "-r", LOCK_FILE
    )
    advisories = read_report(report.stdout, locked)
    print("\n".join([*(f"advisory: {item}" for item in advisories.messages), format_verdict(advisories, len(locked))]))
    return compute_exit_code(broken.returncode, advisories, strict=provided.strict)


def run_module(*command: str) -> subprocess.CompletedProcess[str]:
    """What a module of this environment says when it is run."""
    return subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS
    )


def read_lock(lock: str) -> dict[str, str]:
    """The locked versions by name."""
    return {_normalize_name(name): version for name, version in LOCKED_VERSION.findall(lock)}


def list_newer_releases(listed: str, locked: Mapping[str, str]) -> list[str]:
    """Of pip's list of what is outdated, what is locked."""
    result = {_normalize_name(item["name"]): item["latest_version"] for item in json.loads(listed)}
    return [f"{name} {locked[name]} -> {result[name]}" for name in sorted(result.keys() & locked.keys())]


def read_report(report: str, locked: Mapping[str, str]) -> Advisories:
    """Of pip-audit's report, which is empty where it could reach nothing at all."""
    dependencies = json.loads(report)["dependencies"] if report.strip() else []
    read = {_normalize_name(item["name"]) for item in dependencies if "skip_reason" not in item}
    existing = [
        f"{item['name']} {item['version']}: {of['id']}, mended in {', '.join(of['fix_versions']) or 'no release'}"
        for item in dependencies
        for of in item.get("vulns", ())
    ]
    return Advisories(existing, len(locked.keys() - read))


def format_verdict(advisories: Advisories, locked: int) -> str:
    """The last line."""
    if advisories.unread_count:
        return f"NOT AUDITED: advisories about {advisories.unread_count} of {locked} locked packages cannot be reached"
    return f"audited: {len(advisories.messages)} advisories about {locked} locked packages"


def compute_exit_code(broken: int, advisories: Advisories, *, strict: bool) -> int:
    """As the module's text has it."""
    return int(bool(broken or advisories.messages or (strict and advisories.unread_count)))


def _normalize_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    sys.exit(main())
