"""What the bench is doing, for whoever waits."""

import sys


def say(what: str) -> None:
    print(f"bench: {what}", file=sys.stderr, flush=True)
