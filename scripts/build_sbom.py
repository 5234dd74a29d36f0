"""Write the software bill of materials of the image (CycloneDX 1.6), from the locks alone.

``python scripts/build_sbom.py [FILE]``; the same locks give the same bytes.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements-runtime.lock"
API_DOCS = ROOT / "app/api/api_docs/static/manifest.json"


def main(target: Path = ROOT / "sbom.cdx.json") -> None:
    """Write the list of packages, their versions and the digests of their files."""
    listed: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "carrel", "bom-ref": "carrel"}},
        "components": [
            *_list_locked(LOCK.read_text()),
            *map(_build_npm_component, json.loads(API_DOCS.read_text()).values()),
        ],
    }
    target.write_text(json.dumps(listed, indent=1) + "\n")


def _list_locked(text: str) -> list[dict[str, Any]]:
    result: list[dict[str, Any]] = []
    for line in text.splitlines():
        if pin := re.match(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^ ;\\]+)(?: *; *([^\\]*))?", line):
            name, version, marker = pin.groups()
            purl = f"pkg:pypi/{name}@{version}"
            component: dict[str, Any] = {
                "type": "library",
                "bom-ref": purl,
                "name": name,
                "version": version,
                "purl": purl,
            }
            if marker:
                component["properties"] = [{"name": "carrel:marker", "value": marker.strip()}]
            component["externalReferences"] = [{"type": "distribution", "url": purl, "hashes": []}]
            result.append(component)
        elif digest := re.search(r"--hash=sha256:([0-9a-f]{64})", line):
            result[-1]["externalReferences"][0]["hashes"].append({"alg": "SHA-256", "content": digest[1]})
    return result


def _build_npm_component(package: dict[str, Any]) -> dict[str, Any]:
    name, version = package["package"], package["version"]
    purl = f"pkg:npm/{name}@{version}"
    licence = [{"license": {"id": package["license"]}}]
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl, "licenses": licence}


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
