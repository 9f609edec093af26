"""What a scorer needs of prepared data."""

from collections.abc import Sequence


class Text:
    """Streams of references of the split `test`; tokenisation leaves lines as they are."""

    def __init__(self, *streams: Sequence[str], target: str = "en") -> None:
        self.streams, self.target_language = [list(stream) for stream in streams], target

    def references(self, split: str) -> list[list[str]]:
        assert split == "test"
        return self.streams

    def reference_text(self, split: str) -> list[list[str]]:
        return self.references(split)

    def tokenise(self, lines: list[str], side: str) -> list[str]:
        return lines
