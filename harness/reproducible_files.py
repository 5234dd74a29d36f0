"""Zip packages without the time of their making: the same content gives the same bytes at any time."""

import io
import re
import zipfile

MEMBER_TIME = (2026, 1, 5, 9, 0, 0)
_PROPERTY_TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def create_zip_member(name: str, compression: int = zipfile.ZIP_DEFLATED) -> zipfile.ZipInfo:
    """Return the directory entry of one zip member, with a fixed time instead of the time of day."""
    member = zipfile.ZipInfo(name, MEMBER_TIME)
    member.compress_type = compression
    return member


def with_fixed_times(archive: bytes) -> bytes:
    """Pack a zip again with a fixed time for every member, in its core properties and in embedded workbooks too."""
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
