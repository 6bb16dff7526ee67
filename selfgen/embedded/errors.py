"""What a client can do wrong, as an HTTP status and one line."""

from __future__ import annotations


class RequestError(Exception):
    """A request that cannot be served. `status` is the HTTP status; inside a promise it becomes a user error."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
