"""Writes events/*.txt: sentences of a small vocabulary, the same ones each time."""

import random
from pathlib import Path

_TEXT = "the cow jumped over moon an apple a day keeps doctor away four score and seven years ago snow white"
WORDS = _TEXT.split()


def main() -> None:
    """Two files, and the lines for the socket."""
    draw = random.Random(1)
    folder = Path(__file__).parent / "events"
    folder.mkdir(exist_ok=True)
    for name, count in (("first.txt", 1000), ("second.txt", 500), ("socket.txt", 500)):
        sentences = [" ".join(draw.choices(WORDS, k=draw.randint(3, 9))).capitalize() + "." for _ in range(count)]
        (folder / name).write_text("\n".join(sentences) + "\n")


if __name__ == "__main__":
    main()
