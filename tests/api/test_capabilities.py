"""Capabilities: the formats that the server reads, among them images, and OCR if language data is installed."""

from harness.running_service import Service, Tenant


def test_capabilities_list_ocr_languages(service: Service, tenant: Tenant) -> None:
    found = tenant.create_client("reader").get("/v1/capabilities").json()
    wanted = service.settings.parser.ocr_languages
    assert [*found["ocr"]["languages"], *found["ocr"]["missing"]] == list(wanted) == ["eng"]


def test_capabilities_list_image_types_with_extensions(tenant: Tenant) -> None:
    parsers = tenant.create_client("reader").get("/v1/capabilities").json()["parsers"]
    extensions = {one["media_type"]: one["extensions"] for one in parsers}
    assert extensions["image/jpeg"] == [".jpg", ".jpeg"]
    assert extensions["image/tiff"] == [".tif", ".tiff"]
