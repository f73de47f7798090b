"""How long a server waits for what its clients send, or lets them wait."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Patience:
    """In seconds."""

    headers_s: float = 20.0  # from the first byte of a request, or the connection, to the end of its headers
    body_s: float = 15.0  # a body may take so long, and the time that its bytes take at the slowest pace
    wrong_token_s: float = 0.5  # before a wrong token is refused: guessing takes long


PATIENCE = Patience()
