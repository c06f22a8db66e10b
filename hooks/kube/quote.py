"""How a piece of foreign text appears in one of our messages."""

import json

_LONGEST = 38


def quote(text: str) -> str:
    """The text in double quotes, ASCII only so that look-alikes show, and at most 40 characters long."""
    quoted = json.dumps(text[: _LONGEST + 1])
    return quoted if len(text) <= _LONGEST and len(quoted) <= _LONGEST + 2 else f'{quoted[: _LONGEST - 2]}..."'
