"""In how many texts is the language told, and how often wrongly?

python examples/languages/detect.py                 # sentences.csv, the FAQs of this folder, the example's questions
python examples/languages/detect.py --shared DATA   # also DATA/faq_public/covid-faq-multilingual.csv.gz
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.data.tables import read_table
from ap_ranker.evaluation.markdown import markdown_table
from ap_ranker.text.language_detection import LANGUAGES, detect_language

FOLDER = Path(__file__).resolve().parent
COVID = Path("faq_public") / "covid-faq-multilingual.csv.gz"


def read_texts(shared: Path | None) -> Iterator[tuple[str, str, str]]:
    """The code of each text's language, its kind and the text."""
    for row in read_table(FOLDER / "sentences.csv").rows:
        yield row.get("language"), "sentences", row.get("text")
    codes = {name: code for code, name in LANGUAGES.items()}
    named = [(codes[folder.name.title()], folder) for folder in sorted((FOLDER / "faqs").iterdir())]
    for code, folder in [*named, ("en", FOLDER.parent / "faq")]:
        for file in ("answers", "dev", "test"):
            for row in read_table(folder / f"{file}.csv").rows if (folder / f"{file}.csv").is_file() else ():
                yield from ((code, f"{kind}s", text) for kind in ("question", "answer") if (text := row.get(kind)))
    for row in read_table(shared / COVID).rows if shared else ():
        yield from ((row.get("lang"), f"{kind}s", row.get(kind)) for kind in ("question", "answer"))


def command(shared: Annotated[Path | None, typer.Option(help=f"A folder with {COVID}.")] = None) -> None:
    """Print the texts of each kind in which the language was told, those told wrongly, and the time it took."""
    texts: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for code, kind, text in read_texts(shared):
        texts[kind].append((code, text))
    detect_language("Which language is this?")  # loads its model
    lines = []
    for kind, pairs in texts.items():
        start = perf_counter()
        told = [(code, detect_language(text)) for code, text in pairs]
        seconds = perf_counter() - start
        known = [(code, found) for code, found in told if found is not None]
        wrong = sum(code != found for code, found in known)
        each = f"{1000 * seconds / len(pairs):.2f}"
        lines.append([kind, f"{len(pairs):,}", f"{len(known) / len(pairs):.3f}", f"{wrong}", each])
    titles = ["texts", "number", "told", "wrong", "ms each"]
    sys.stdout.write(markdown_table(titles, lines) + "\n")


if __name__ == "__main__":
    with report_user_errors():
        typer.run(command)
