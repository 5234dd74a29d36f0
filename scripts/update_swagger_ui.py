"""Fetch one version of Swagger UI from the npm registry and put its files where the API documentation page has them.

``python scripts/update_swagger_ui.py VERSION``; needs the ``npm`` program.
"""

import base64
import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

STATIC = Path(__file__).resolve().parents[1] / "app/api/api_docs/static"
PACKAGE = "swagger-ui-dist"
FILES = ("swagger-ui-bundle.js", "swagger-ui.css", "swagger-ui-bundle.js.LICENSE.txt", "LICENSE", "NOTICE")


def main(version: str) -> None:
    """Replace the files and the manifest.

    Raises:
        CalledProcessError: npm failed.
        SystemExit: The archive is not what the registry describes.
    """
    named = f"{PACKAGE}@{version}"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", "--silent", named], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        reported = subprocess.run(
            ["npm", "view", named, "dist.integrity"], cwd=folder, check=True, capture_output=True, text=True
        )
        (archive,) = Path(folder).glob("*.tgz")
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if integrity != reported.stdout.strip():
            raise SystemExit(f"{named} is not what the registry describes")
        digests = _replace(archive, version)
    manifest = {"package": PACKAGE, "version": version, "integrity": integrity, "files": digests}
    (STATIC / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")


def _replace(archive: Path, version: str) -> dict[str, str]:
    """Write the files of the archive and return their SHA-256 by name."""
    for old in STATIC.glob("swagger-ui-*"):
        shutil.rmtree(old)
    target = STATIC / f"swagger-ui-{version}"
    target.mkdir()
    digests = {}
    with tarfile.open(archive) as packed:
        for name in FILES:
            member = packed.extractfile(f"package/{name}")
            assert member is not None, name
            content = member.read()
            (target / name).write_bytes(content)
            digests[name] = hashlib.sha256(content).hexdigest()
    return digests


if __name__ == "__main__":
    main(*sys.argv[1:])
