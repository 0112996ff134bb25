"""In how many texts is the language told, and how often wrongly?

python examples/languages/detect.py                 # sentences.csv, the FAQs of this folder, the example's questions
python examples/languages/detect.py --shared DATA   # also DATA/faq_public/covid-faq-multilingual.csv.gz

Beside lingua, if it is installed: pip install lingua-language-detector
"""

from __future__ import annotations

import importlib.util
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.data.tables import read_table
from ap_ranker.evaluation.markdown import markdown_table
from ap_ranker.text.language_detection import LANGUAGES, MIN_CONFIDENCE, detect_language

FOLDER = Path(__file__).resolve().parent
COVID = Path("faq_public") / "covid-faq-multilingual.csv.gz"
Detector = Callable[[str], str | None]


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


def lingua() -> Detector:
    """Its choice among the same languages with the same minimum confidence."""
    from lingua import IsoCode639_1, LanguageDetectorBuilder

    names = {"no": "NB"}  # it tells Bokmål from Nynorsk
    wanted = [getattr(IsoCode639_1, names.get(code, code.upper()), None) for code in LANGUAGES]
    codes = [code for code in wanted if code is not None]
    detector = LanguageDetectorBuilder.from_iso_codes_639_1(*codes).with_preloaded_language_models().build()

    def detect(text: str) -> str | None:
        best = detector.compute_language_confidence_values(text)[0]
        code = best.language.iso_code_639_1.name.lower().replace("nb", "no")
        return code if best.value >= MIN_CONFIDENCE else None

    return detect


def command(shared: Annotated[Path | None, typer.Option(help=f"A folder with {COVID}.")] = None) -> None:
    """Print the texts of each kind in which the language was told, those told wrongly, and the time it took."""
    texts: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for code, kind, text in read_texts(shared):
        texts[kind].append((code, text))
    detectors: dict[str, Detector] = {"py3langid": detect_language}
    if importlib.util.find_spec("lingua"):
        detectors["lingua"] = lingua()
    lines = []
    for name, detect in detectors.items():
        detect("Which language is this?")  # loads its model
        for kind, pairs in texts.items():
            start = perf_counter()
            told = [(code, detect(text)) for code, text in pairs]
            seconds = perf_counter() - start
            known = [(code, found) for code, found in told if found is not None]
            wrong = sum(code != found for code, found in known)
            each = f"{1000 * seconds / len(pairs):.2f}"
            lines.append([name, kind, f"{len(pairs):,}", f"{len(known) / len(pairs):.3f}", f"{wrong}", each])
    titles = ["library", "texts", "number", "told", "wrong", "ms each"]
    sys.stdout.write(markdown_table(titles, lines) + "\n")


if __name__ == "__main__":
    with report_user_errors():
        typer.run(command)
