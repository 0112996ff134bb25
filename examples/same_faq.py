"""How much does a FAQ overlap with what it was a year ago, and how much with other FAQs?

python examples/same_faq.py                 # the example's FAQ and those of examples/languages
python examples/same_faq.py --shared DATA   # also the FAQs of DATA/faq_public, one for each publisher and language
"""

from __future__ import annotations

import random
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Annotated

import typer

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.data.faq import DEFAULT_MATCH, read_faq
from ap_ranker.ranking.faq_sketch import SAME_FAQ, FAQSketch

EXAMPLES = Path(__file__).resolve().parent
PUBLIC = ("covid-faq-en.csv.gz", "covid-faq-multilingual.csv.gz")
FEWEST = 20  # entries of a publisher's FAQ
YEARS = 5


def read_faqs(shared: Path | None) -> dict[str, list[str]]:
    """Name of a FAQ -> the texts that questions are matched with."""
    files = [EXAMPLES / "faq" / "answers.csv", *sorted(EXAMPLES.glob("languages/faqs/*/answers.csv"))]
    faqs = {file.parent.name: [entry.text(DEFAULT_MATCH) for entry in read_faq(file)] for file in files}
    published = defaultdict(list)
    for file in [shared / "faq_public" / name for name in PUBLIC] if shared else []:
        for entry in read_faq(file):
            name = f"{file.name.split('.')[0]}, {entry.other['source']} {entry.other.get('lang', '')}".rstrip()
            published[name].append(entry.text(DEFAULT_MATCH))
    return faqs | {name: texts for name, texts in published.items() if len(texts) >= FEWEST}


def year_later(texts: Sequence[str], others: Sequence[str], seed: int) -> list[str]:
    """The texts after a year, in any order: three in ten rewritten, as many added, and two letters of as many mended.

    A rewritten text has other words in a third of all places, drawn from those of `others`, which are added, too.
    """
    draw = random.Random(seed)
    words = " ".join(others).split()
    changed = round(0.3 * len(texts))
    later, added = draw.sample(texts, len(texts)), draw.sample(others, changed)
    for row in range(changed):
        parts = later[row].split()
        for place in draw.sample(range(len(parts)), -(-len(parts) // 3)):
            parts[place] = draw.choice(words)
        later[row] = " ".join(parts)
    for row in range(changed, 2 * changed):
        for place in draw.sample(range(len(later[row])), 2):
            later[row] = later[row][:place] + draw.choice("abcdefgh") + later[row][place + 1 :]
    return draw.sample(later + added, len(later + added))


def overlaps_after_a_year(faqs: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Name of each FAQ -> the smallest of its overlaps with what became of it in some drawn years."""
    sketches = {name: FAQSketch.of(texts) for name, texts in faqs.items()}
    least = {}
    for name, texts in faqs.items():
        others = [text for other, more in faqs.items() if other != name for text in more]
        years = (FAQSketch.of(year_later(texts, others, seed)) for seed in range(YEARS))
        least[name] = min(map(sketches[name].overlap, years))
    return least


def overlaps_of_others(faqs: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Names of two FAQs -> their overlap."""
    sketches = {name: FAQSketch.of(texts) for name, texts in faqs.items()}
    return {f"{one} | {other}": sketches[one].overlap(sketches[other]) for one, other in combinations(faqs, 2)}


def command(shared: Annotated[Path | None, typer.Option(help="A folder with faq_public.")] = None) -> None:
    """Print the overlaps nearest to the bound between the same FAQ and another one."""
    faqs = read_faqs(shared)
    same, other = overlaps_after_a_year(faqs), overlaps_of_others(faqs)
    sys.stdout.write(f"{len(faqs)} FAQs; the same from an overlap of {SAME_FAQ} on\n\nThe same FAQ a year later:\n")
    for name in sorted(same, key=lambda each: same[each])[:5]:
        sys.stdout.write(f"{same[name]:.3f} {name}\n")
    sys.stdout.write(f"\nTwo FAQs, of {len(other):,} pairs:\n")
    for name in sorted(other, key=lambda each: -other[each])[:5]:
        sys.stdout.write(f"{other[name]:.3f} {name}\n")


if __name__ == "__main__":
    with report_user_errors():
        typer.run(command)
