"""Batch requests: many calls in one multipart/mixed POST, answered in one, each on its own."""

from __future__ import annotations

import http
import uuid
from collections.abc import Callable
from email.message import Message
from email.parser import BytesParser
from urllib.parse import parse_qsl, urlsplit

from slurm_flex.emulator.core.errors import ApiError
from slurm_flex.emulator.web.exchange import Answer, Asked

MOST = 1000


def batch(content_type: str, body: bytes, root: str, answer: Callable[[Asked], Answer]) -> Answer:
    """Answer each part in turn. Raises 400 where it isn't a batch."""
    whole = BytesParser().parsebytes(f"Content-Type: {content_type}\r\n\r\n".encode() + body)
    parts = whole.get_payload()
    if not whole.is_multipart() or not isinstance(parts, list):
        raise ApiError(400, "badRequest", "Failed to parse batch request, error: no parts found.")
    if len(parts) > MOST:
        raise ApiError(
            400, "badRequest", f"The batch request has more than {MOST} calls: {len(parts)}."
        )
    boundary = f"batch_{uuid.uuid4().hex}"
    pieces = []
    for part in parts:
        if not isinstance(part, Message):
            continue
        found = answer(read_call(part.get_payload(decode=True), root))
        pieces.append(_written(boundary, part.get("Content-ID", ""), found))
    pieces.append(f"--{boundary}--\r\n".encode())
    return Answer(200, b"".join(pieces), f"multipart/mixed; boundary={boundary}")


def read_call(raw: object, root: str) -> Asked:
    """One inner HTTP request. Raises 400."""
    if not isinstance(raw, bytes):
        raise ApiError(400, "badRequest", "Failed to parse batch request.")
    head, _, body = raw.replace(b"\r\n", b"\n").partition(b"\n\n")
    words = head.split(b"\n", 1)[0].decode("latin-1").split()
    if len(words) < 2:
        raise ApiError(400, "badRequest", "Failed to parse batch request.")
    url = urlsplit(words[1])
    params = dict(parse_qsl(url.query, keep_blank_values=True))
    return Asked(words[0], url.path, params, body, root)


def _written(boundary: str, content_id: str, answer: Answer) -> bytes:
    phrase = http.HTTPStatus(answer.code).phrase
    name = content_id.strip("<>")
    head = (
        f"--{boundary}\r\nContent-Type: application/http\r\n"
        f"Content-ID: <response-{name}>\r\n\r\n"
        f"HTTP/1.1 {answer.code} {phrase}\r\nContent-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\n\r\n"
    )
    return head.encode() + answer.body + b"\r\n"
