"""text8: Wikipedia's XML reduced to words of a–z and single spaces, as Matt Mahoney's `wikifil` does it (2006).

Byte for byte what his program makes of enwik8; text8 itself is the first 100 MB of what it makes of enwik9. A text that
is no such XML gets the last step only: lower case, digits spelled out, all else a space.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

DIGITS = {
    str(digit).encode(): b" %s " % word
    for digit, word in enumerate((b"zero one two three four five six seven eight nine").split())
}
LETTERS = bytes(byte if chr(byte).isascii() and chr(byte).isalpha() else ord(" ") for byte in range(256)).lower()

UNSEEN = [
    (re.compile(pattern), shown)
    for pattern, shown in (
        (rb"<ref[^<]*</ref>", b""),
        (rb"<[^>]*>", b""),
        (rb"\[http:[^] ]*", b"["),  # of an external link, its words stay
        (rb"(?i)\|thumb", b""),  # of an image, its caption stays
        (rb"(?i)\|left", b""),
        (rb"(?i)\|right", b""),
        (rb"(?i)\|\d+px", b""),
        (rb"(?i)\[\[image:[^\[\]]*\|", b""),
        (rb"(?i)\[\[category:([^|\]]*)[^]]*\]\]", rb"[[\1]]"),
        (rb"\[\[[a-z\-]*:[^\]]*\]\]", b""),  # the same article in other languages
        (rb"\[\[[^\|\]]*\|", b"[["),  # of an inner link, its words stay
        (rb"\{\{[^}]*\}\}", b""),
        (rb"\{[^}]*\}", b""),
        (rb"[\[\]]", b""),
        (rb"&[^;]*;", b" "),
    )
]
TAG = re.compile(rb"<.*>")
REDIRECT = re.compile(rb"(?i)#redirect")


def text8(text: bytes) -> bytes:
    if b"<text " not in text:
        return words(text)
    return b"".join(words(visible(record)) for record in shown(text))


def words(text: bytes) -> bytes:
    """Lower case a–z, a single space before each word."""
    for digit, word in DIGITS.items():
        text = text.replace(digit, word)
    found = text.translate(LETTERS).split()
    return b"".join((b" ", b" ".join(found))) if found else b""


def shown(text: bytes) -> Iterator[bytes]:
    """The text between <text> and </text>, redirections left out; as the original, cut after every `>`."""
    end = 0
    while (found := text.find(b"<text ", end)) >= 0:
        end = text.rfind(b">", end, found) + 1 or end
        inside = True
        while inside and end < len(text):
            start, end = end, (text.find(b">", end) + 1 or len(text))
            record = text[start:end]
            if REDIRECT.search(record):
                break
            inside = b"</text>" not in record
            yield record


def visible(record: bytes) -> bytes:
    """What a browser would show."""
    record = TAG.sub(b"", record, count=1)
    record = record.replace(b"&amp;", b"&").replace(b"&lt;", b"<").replace(b"&gt;", b">")
    for pattern, replacement in UNSEEN:
        record = pattern.sub(replacement, record)
    return record
