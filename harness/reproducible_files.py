"""Zip packages with fixed times: the same content gives the same bytes at any time."""

import io
import re
import zipfile

MEMBER_TIME = (2026, 1, 5, 9, 0, 0)
_PROPERTY_TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def create_zip_member(name: str, compression: int = zipfile.ZIP_DEFLATED) -> zipfile.ZipInfo:
    """Return the directory entry of one zip member, with a fixed time."""
    member = zipfile.ZipInfo(name, MEMBER_TIME)
    member.compress_type = compression
    return member


def with_fixed_times(archive: bytes) -> bytes:
    """Pack a zip again with fixed times for its members, its core properties and its embedded workbooks.

    Args:
        archive: Bytes of the zip.

    Returns:
        Bytes of the new zip.
    """
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name.endswith(".xlsx"):
                data = with_fixed_times(data)
            elif name == "docProps/core.xml":
                data = _PROPERTY_TIME.sub(b"2026-01-05T09:00:00Z", data)
            new.writestr(create_zip_member(name), data)
    return target.getvalue()
