"""The one exception that is the user's to mend: bad data, a bad option, a missing extra."""


class InputError(ValueError):
    """Something the user gave cannot be used.

    Its message names what was expected, what was found, where, and what to do. The command line prints it as it is and
    exits with 2; a library caller catches it as a `ValueError`.
    """


def one_line(found: object, limit: int = 300) -> str:
    """What an error says, or what was found, on one line without control characters; a long one's end is cut off."""
    text = " ".join(str(found)[: 2 * limit].split()).rstrip(".")
    text = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
