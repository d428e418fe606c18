"""Small requests that take long to read: forms whose automata are large."""


def strings(*patterns):
    """All of the patterns hold for the string, so that their automata are multiplied."""
    return {"type": "string", "allOf": [{"pattern": pattern} for pattern in patterns]}


def slow_form(number=0):
    """A tenth of a second to compile, and then refused, as it has become too large. No two numbers give the same form."""
    properties = {f"p{number}x{i}": strings("a.{11}$", chr(98 + i)) for i in range(8)}
    return {"type": "object", "properties": properties}


def slow_body(number=0):
    """Of a completion, 600 bytes and a few."""
    return {"prompt": "x", "max_tokens": 1, "guided_json": slow_form(number)}
