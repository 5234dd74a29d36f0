"""``python -m scripts.docs.build_screenshots``: take the screenshots of the documentation with a separate service.

Needs what ``make console`` installs, and Chromium.
"""

from pathlib import Path
from typing import Any

import httpx2

from harness.console_browser import run_browser
from harness.processes import running_service

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs/_static/console"
BASE = "/knowledge-bases/default"
NOTES = {
    "Cancellation": "Free cancellation up to 24 hours before pickup. Later cancellations cost one day of rent.",
    "One-way rentals": "A one-way rental costs a fee that depends on the distance between the two stations.",
    "Young drivers": "Drivers under 25 pay a daily surcharge. The minimum age is 21.",
}


def main() -> None:
    """Fill a new service with the samples and write the screenshots to ``docs/_static/console``."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with running_service(None) as service:
        headers = {"Authorization": f"Bearer {service.key}"}
        with httpx2.Client(base_url=service.url, headers=headers, timeout=120) as client:
            shots = build_shots(upload_samples(client), client)
        keys = {"admin": service.key}
        report = run_browser("screenshots.mjs", service.url, keys, shots=shots, directory=str(FOLDER))
    assert report["errors"] == report["reports"] == [], report
    for path in sorted(FOLDER.glob("*.png")):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1024} KiB")


def upload_samples(client: httpx2.Client) -> str:
    """Upload the samples and some notes, and return the id of the handbook."""
    documents = f"/v1{BASE}/documents"
    for title, text in NOTES.items():
        client.post(documents, params={"wait": 60}, json={"title": title, "text": text}).raise_for_status()
    identifiers = []
    for name in ("product-tour.pptx", "handbook.pdf"):
        with (ROOT / "samples" / name).open("rb") as content:
            reply = client.post(documents, params={"wait": 60}, files={"file": (name, content)})
        identifiers.append(str(reply.raise_for_status().json()["id"]))
    return identifiers[-1]


def build_shots(handbook: str, client: httpx2.Client) -> list[dict[str, Any]]:
    """Return name, path, a selector of loaded content, and the element at the top, for each screenshot."""
    query = "free cancellation for one-way rentals"
    body = {"query": query, "filter": {"$document_id": handbook}}
    [best, *_] = client.post(f"/v1{BASE}/search", json=body).raise_for_status().json()["results"]
    search = f"/search?q={query.replace(' ', '+')}&kb=default"
    return [
        {"name": "overview", "path": "/", "selector": ".chart"},
        {"name": "documents", "path": BASE, "selector": "tbody tr"},
        {
            "name": "document",
            "path": f"{BASE}/documents/{handbook}?chunk={best['chunk_id']}",
            "selector": ".page-image rect",
            "top": ".page-image",
        },
        {"name": "search", "path": search, "selector": ".hit"},
    ]


if __name__ == "__main__":
    main()
