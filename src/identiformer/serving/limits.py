"""What one request, and all of them together, may ask for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Bounds that keep the server answering, whatever it is asked.

    Args:
        body: Bytes of a request's body.
        characters: Characters of a text, and of its pair.
        texts: Texts of one prediction.
        tokens: Tokens of a text that is explained. The linear programs of a row are not stopped half way, and their
            number and size grow with its tokens.
        weights: Attention weights of one explanation: layers times heads times rows times tokens. Certificates of a
            layer are not stopped half way either, and an answer has about 150 bytes for each weight.
        waiting: Requests that wait while another one is answered: the next is turned away.
        reading: Requests whose bodies are read at the same time.
        seconds: How long one request may compute, and how long it may wait before that.
        body_seconds: How long a client may take to send a body.
    """

    body: int = 1_048_576
    characters: int = 20_000
    texts: int = 64
    tokens: int = 1024
    weights: int = 100_000
    waiting: int = 16
    reading: int = 64
    seconds: float = 20.0
    body_seconds: float = 10.0
