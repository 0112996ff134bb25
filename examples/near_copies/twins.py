"""Makes twins of questions: the same question as another visitor, or the same one a day later, would have typed it.

The kinds are divided into two halves. The rule of `ap_ranker/text/near_copies.py` was built on the first half alone;
the second half judges it.

    python examples/near_copies/twins.py --output twins.csv
"""

from __future__ import annotations

import argparse
import csv
import random
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
FAQ = HERE.parent / "faq"
LANGUAGES = HERE.parent / "languages" / "faqs"
SEED = 20
TWINS = 300
"""Number of twins of each half."""

FEWEST_WORDS = 4
"""Minimum number of words of a question that gets a twin: a half of two words is no half."""

LONG_WORD = 5
"""Minimum number of letters of a word with a slip: shorter words become other words."""

WORDS_TO_DROP_ONE = 6
"""Minimum number of words of a question that loses one."""

NEVER_DROPPED = frozenset(["not", "no", "never", "without", "none", "nothing", "neither", "nor"])
"""Without one of these, a question asks for the opposite."""

PHRASES = tomllib.loads((HERE / "phrases.toml").read_text(encoding="utf-8"))

Kind = Callable[[str, random.Random], str | None]
"""Makes a twin of a question; `None` if it cannot, as nothing would change."""


@dataclass(frozen=True)
class Twin:
    """A copy of a question, made by a kind of change."""

    kind: str
    original: str
    text: str


# --- the first half: to build on ---


def swapped_letters(text: str, draw: random.Random) -> str | None:
    """Two neighbouring letters of a long word, none of which is the first one, are exchanged."""

    def slip(word: str) -> str | None:
        places = [place for place in range(1, len(word) - 1) if word[place] != word[place + 1]]
        if not places:
            return None
        place = draw.choice(places)
        return word[:place] + word[place + 1] + word[place] + word[place + 2 :]

    return _with_slip(text, slip, draw)


def dropped_letter(text: str, draw: random.Random) -> str | None:
    """A letter of a long word, but not its first one, is missing."""

    def slip(word: str) -> str:
        place = draw.randrange(1, len(word))
        return word[:place] + word[place + 1 :]

    return _with_slip(text, slip, draw)


def doubled_letter(text: str, draw: random.Random) -> str | None:
    """A letter of a long word is typed twice."""

    def slip(word: str) -> str:
        place = draw.randrange(len(word))
        return word[:place] + word[place] + word[place:]

    return _with_slip(text, slip, draw)


def _with_slip(text: str, slip: Callable[[str], str | None], draw: random.Random) -> str | None:
    words = [match for match in re.finditer(r"[^\W\d_]+", text) if len(match[0]) >= LONG_WORD]
    if not words:
        return None
    word = draw.choice(words)
    changed = slip(word[0])
    return None if changed is None else text[: word.start()] + changed + text[word.end() :]


def reordered_halves(text: str, draw: random.Random) -> str | None:
    """The second half comes first: at a comma if there is one, else in the middle."""
    end = text[-1] if text[-1] in ".?!" else ""
    body = text.removesuffix(end)
    if ", " in body:
        first, second = body.split(", ", 1)
    else:
        words = body.split()
        middle = len(words) // 2
        first, second = " ".join(words[:middle]), " ".join(words[middle:])
    return f"{second}, {first}{end}"


def dropped_word(text: str, draw: random.Random) -> str | None:
    """A word is missing, but none that turns the question into its opposite."""
    words = text.split()
    places = [place for place, word in enumerate(words) if not _negates(word)]
    if len(words) < WORDS_TO_DROP_ONE or not places:
        return None
    del words[draw.choice(places)]
    return " ".join(words)


def _negates(word: str) -> bool:
    letters = re.sub(r"[^\w']", "", word.lower().replace("’", "'"))
    return letters in NEVER_DROPPED or letters.endswith("n't") or letters in ("cant", "dont", "wont", "isnt", "doesnt")


def thanks_added(text: str, draw: random.Random) -> str | None:
    """Thanks follow the question."""
    return f"{_ended(text)} {draw.choice(PHRASES['thanks'])}"


def greeting_before(text: str, draw: random.Random) -> str | None:
    """A greeting precedes the question."""
    return f"{draw.choice(PHRASES['greetings'])} {text}"


def wondering_before(text: str, draw: random.Random) -> str | None:
    """Polite words precede the question."""
    return f"{draw.choice(PHRASES['wondering'])} {_lower_first(text)}"


# --- the second half: to be judged by ---


def voice_typed(text: str, draw: random.Random) -> str | None:
    """As a phone writes down what it hears: in lower case, without punctuation, some with the sounds of a speaker."""
    said = re.sub(r"(?<=\w)['’](?=\w)", "" if draw.random() < 0.5 else "'", text.lower())
    said = " ".join(re.sub(r"[^\w\s']", " ", said).split())
    if draw.random() < 0.5:
        said = f"{draw.choice(PHRASES['spoken'])} {said}"
    return said if said != text else None


def signature_below(text: str, draw: random.Random) -> str | None:
    """A signature follows, most on lines of their own."""
    return f"{_ended(text)}{draw.choice(PHRASES['signatures'])}"


def subject_before(text: str, draw: random.Random) -> str | None:
    """The question stands behind what a mail program writes before a subject."""
    return f"{draw.choice(PHRASES['subjects'])}{text}"


def emoji_added(text: str, draw: random.Random) -> str | None:
    """Emoji follow the question, or stand in it."""
    signs = "".join(draw.choices(PHRASES["emoji"], k=draw.randint(1, 3)))
    if draw.random() < 0.3:
        words = text.split()
        words.insert(draw.randint(1, len(words)), signs)
        return " ".join(words)
    return f"{text} {signs}"


def abbreviated(text: str, draw: random.Random) -> str | None:
    """Words are abbreviated as in a chat; some questions end in "asap" or "pls"."""
    shorter = _exchanged(text, PHRASES["abbreviations"], draw, most=3)
    if shorter is None or draw.random() < 0.3:
        ending = draw.choice(PHRASES["chat_endings"])
        return f"{(shorter or text).rstrip('?.! ')} {ending}"
    return shorter


def other_english(text: str, draw: random.Random) -> str | None:
    """British spelling becomes American, or American British."""
    return _exchanged(text, PHRASES["british_to_american"], draw, most=9)


def synonym(text: str, draw: random.Random) -> str | None:
    """A word becomes another one of the same meaning."""
    return _exchanged(text, PHRASES["synonyms"], draw, most=1)


def _exchanged(text: str, table: Mapping[str, str], draw: random.Random, most: int) -> str | None:
    """The text with at most so many of its words, or groups of words, exchanged by the table; `None` if none is."""
    pattern = "|".join(sorted(map(re.escape, table), key=len, reverse=True))
    matches = list(re.finditer(rf"(?<![\w'-])(?:{pattern})(?![\w'-])", text, re.IGNORECASE))
    if not matches:
        return None
    chosen = sorted(draw.sample(range(len(matches)), min(most, len(matches))), reverse=True)
    for place in chosen:
        match = matches[place]
        new = table[match[0].lower()]
        new = new[0].upper() + new[1:] if match[0][0].isupper() and match.start() == 0 else new
        text = text[: match.start()] + new + text[match.end() :]
    return text


def _in_language(language: str) -> Kind:
    """Changes of several kinds, with the words of another language."""
    phrases = PHRASES[language]

    def change(text: str, draw: random.Random) -> str | None:
        kinds: list[Kind] = [
            lambda text, draw: f"{_ended(text)} {draw.choice(phrases['thanks'])}",
            lambda text, draw: f"{draw.choice(phrases['greetings'])} {text}",
            lambda text, draw: f"{draw.choice(phrases['wondering'])}{_lower_first(text)}",
            lambda text, draw: f"{_ended(text)}{draw.choice(phrases['signatures'])}",
            lambda text, draw: f"{draw.choice(phrases['subjects'])}{text}",
            lambda text, draw: f"{text} {draw.choice(PHRASES['emoji'])}",
            lambda text, draw: " ".join(re.sub(r"[^\w\s'’]", " ", text.lower()).split()),
            swapped_letters if phrases["spaces"] else _swapped_characters,
        ]
        changed = draw.choice(kinds)(text, draw)
        return None if changed == text else changed

    return change


def _swapped_characters(text: str, draw: random.Random) -> str | None:
    """Two neighbouring characters of a script without spaces are exchanged."""
    places = [place for place in range(len(text) - 1) if text[place : place + 2].isalpha()]
    if not places:
        return None
    place = draw.choice(places)
    return text[:place] + text[place + 1] + text[place] + text[place + 2 :]


def _ended(text: str) -> str:
    return text if text[-1] in ".?!？！。" else f"{text}."


def _lower_first(text: str) -> str:
    return text if re.match(r"(I\b|[A-Z]{2})", text) else text[0].lower() + text[1:]


BUILT_ON: Mapping[str, Kind] = {
    "swapped letters": swapped_letters,
    "dropped letter": dropped_letter,
    "doubled letter": doubled_letter,
    "reordered halves": reordered_halves,
    "dropped word": dropped_word,
    "thanks": thanks_added,
    "greeting": greeting_before,
    "wondering": wondering_before,
}

JUDGED_BY: Mapping[str, Kind] = {
    "voice": voice_typed,
    "signature": signature_below,
    "subject": subject_before,
    "emoji": emoji_added,
    "abbreviation": abbreviated,
    "British, American": other_english,
    "synonym": synonym,
    "french": _in_language("french"),
    "chinese": _in_language("chinese"),
}


def questions_of(path: Path) -> list[str]:
    """The questions of a CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        return [row["question"] for row in csv.DictReader(file)]


def make_twins(
    questions: Sequence[str], kinds: Mapping[str, Kind], *, total: int = TWINS, seed: int = SEED
) -> list[Twin]:
    """So many twins, as many of each kind, of questions drawn at random; those of a language are of its own FAQ."""
    twins = []
    for number, (kind, change) in enumerate(kinds.items()):
        draw = random.Random(f"{seed} {kind}")
        count = total // len(kinds) + (number < total % len(kinds))
        own = LANGUAGES / kind / "test.csv"
        asked = (
            questions_of(own) if own.is_file() else [text for text in questions if len(text.split()) >= FEWEST_WORDS]
        )
        made: list[Twin] = []
        for original in draw.sample(asked, len(asked)):
            text = change(original, draw)
            if text is not None and text != original:
                made.append(Twin(kind, original, text))
            if len(made) == count:
                break
        twins += made
    return twins


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=["built-on", "judged-by"], default="built-on")
    parser.add_argument("--output", type=Path, required=True, help="a CSV file with kind, original and text")
    arguments = parser.parse_args()
    kinds = BUILT_ON if arguments.half == "built-on" else JUDGED_BY
    with arguments.output.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("kind", "original", "text"))
        for twin in make_twins(questions_of(FAQ / "train.csv"), kinds):
            writer.writerow((twin.kind, twin.original, twin.text))


if __name__ == "__main__":
    main()
