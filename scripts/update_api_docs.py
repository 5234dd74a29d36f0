"""Fetch one version of Swagger UI or Redoc from the npm registry, for the pages of the API documentation.

``python scripts/update_api_docs.py swagger-ui-dist|redoc VERSION``; needs the ``npm`` program.
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
MANIFEST = STATIC / "manifest.json"
FOLDERS = {"swagger-ui-dist": "swagger-ui", "redoc": "redoc"}
"""Names of the folders by package, without the version."""
LICENCES = {"swagger-ui-dist": "Apache-2.0", "redoc": "MIT"}
FILES = {
    "swagger-ui-dist": (
        "swagger-ui-bundle.js",
        "swagger-ui.css",
        "swagger-ui-bundle.js.LICENSE.txt",
        "LICENSE",
        "NOTICE",
    ),
    "redoc": ("bundles/redoc.standalone.js", "bundles/redoc.standalone.js.LICENSE.txt", "LICENSE"),
}


def main(package: str, version: str) -> None:
    """Replace the files of a package and its entry in the manifest.

    Raises:
        CalledProcessError: npm failed.
        SystemExit: The archive is not what the registry describes.
    """
    named = f"{package}@{version}"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", "--silent", named], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        reported = subprocess.run(
            ["npm", "view", named, "dist.integrity"], cwd=folder, check=True, capture_output=True, text=True
        )
        (archive,) = Path(folder).glob("*.tgz")
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if integrity != reported.stdout.strip():
            raise SystemExit(f"{named} is not what the registry describes")
        digests = _replace(archive, package, version)
    manifest = json.loads(MANIFEST.read_text())
    manifest[FOLDERS[package]] = {
        "package": package,
        "version": version,
        "license": LICENCES[package],
        "integrity": integrity,
        "files": digests,
    }
    MANIFEST.write_text(json.dumps(manifest, indent=2) + "\n")


def _replace(archive: Path, package: str, version: str) -> dict[str, str]:
    """Write the files of the archive and return their SHA-256 by name."""
    for old in STATIC.glob(f"{FOLDERS[package]}-*"):
        shutil.rmtree(old)
    target = STATIC / f"{FOLDERS[package]}-{version}"
    target.mkdir()
    digests = {}
    with tarfile.open(archive) as packed:
        for path in FILES[package]:
            member = packed.extractfile(f"package/{path}")
            assert member is not None, path
            content, name = member.read(), Path(path).name
            (target / name).write_bytes(content)
            digests[name] = hashlib.sha256(content).hexdigest()
    return digests


if __name__ == "__main__":
    main(*sys.argv[1:])
