"""Checksums of records: each is begun with that of what stands before it, so what is missing or stands elsewhere is
noticed as well as what changed.
"""

from __future__ import annotations

from zlib import crc32


def seal(*parts: object, data: bytes = b"", before: int = 0) -> int:
    """The CRC-32 of some texts and numbers, and of data that follow.

    Args:
        parts: the texts and numbers.
        data: what follows them.
        before: the checksum it is begun with.
    """
    text = "\0".join(map(str, parts))
    return crc32(data, crc32(text.encode("utf-8", "surrogatepass"), before))
