"""Numbers of things in sentences: "1 job", "2 jobs"."""


def number_of(count: int, noun: str) -> str:
    """The number and the noun, whose plural ends in s."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
