"""Measures the rule for near copies: what it finds, what it takes for a copy that is none, its time and memory.

python examples/near_copies/measure.py --half built-on
python examples/near_copies/measure.py --half judged-by
python examples/near_copies/measure.py --speed
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence

from twins import BUILT_ON, FAQ, JUDGED_BY, make_twins, questions_of

from ap_ranker.evaluation.markdown import markdown_table
from ap_ranker.text.near_copies import near_any, near_groups
from ap_ranker.text.reading import nearly_equal

MANY = 100_000
Rule = Callable[[str, str], bool]


def is_near(one: str, other: str) -> bool:
    """Whether two questions are near copies."""
    return bool(near_any([one], [other]))


RULES: dict[str, Rule] = {"character 5-grams, Jaccard .8 (before)": nearly_equal, "near copies": is_near}


def recall(half: str) -> str:
    """A table: of each kind of twin, how many the rules find."""
    twins = make_twins(questions_of(FAQ / "train.csv"), BUILT_ON if half == "built-on" else JUDGED_BY)
    total = Counter(twin.kind for twin in twins)
    counts = {
        name: Counter(twin.kind for twin in twins if rule(twin.original, twin.text)) for name, rule in RULES.items()
    }
    rows = [[kind, f"{count}", *(f"{counts[name][kind]}" for name in RULES)] for kind, count in total.items()]
    rows.append(["all", f"{len(twins)}", *(f"{counts[name].total()}" for name in RULES)])
    return markdown_table(["kind", "twins", *RULES], rows)


def flagged() -> list[tuple[str, list[str]]]:
    """The test questions of the example that are near a training question, with those."""
    training, test = questions_of(FAQ / "train.csv"), questions_of(FAQ / "test.csv")
    near = near_any(test, training)
    return [(text, [each for each in training if is_near(text, each)]) for text in test if text in near]


def many_questions(count: int, seed: int = 1) -> list[str]:
    """Different questions, the first half of each from one of the example's, the second from another."""
    words = [text.split() for text in questions_of(FAQ / "train.csv")]
    draw = random.Random(seed)
    made: dict[str, None] = {}
    while len(made) < count:
        one, other = draw.choice(words), draw.choice(words)
        made[" ".join(one[: len(one) // 2 + 1] + other[len(other) // 2 :])] = None
    return list(made)


def speed(texts: Sequence[str]) -> str:
    """Seconds to group so many questions, and the memory of the process."""
    start = time.perf_counter()
    groups = Counter(near_groups(texts).tolist())
    seconds = time.perf_counter() - start
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return f"{len(texts):,} questions: {seconds:.0f} s, {megabytes:.0f} MB; largest group {max(groups.values())}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=["built-on", "judged-by"])
    parser.add_argument("--speed", action="store_true", help=f"time and memory for {MANY:,} questions")
    arguments = parser.parse_args()
    if arguments.half:
        lines = [recall(arguments.half), *(f"test question {text!r} is near {copies}" for text, copies in flagged())]
        sys.stdout.write("\n".join(lines) + "\n")
    if arguments.speed:
        sys.stdout.write(speed(many_questions(MANY)) + "\n")


if __name__ == "__main__":
    main()
