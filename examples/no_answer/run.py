"""Fits the priors of untrained encoders, and measures every way to decide between an answer, a maybe and none.

python examples/no_answer/run.py fit --shared DATA        # writes ap_ranker/ranking/priors.json
python examples/no_answer/run.py measure --shared DATA    # writes results.md and results.json

Both take another encoder, such as --encoder intfloat/multilingual-e5-small --languages all; measure --output FILE.json
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import compress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
import typer
from faqs import DOCUMENTS, WORDINGS, Faq, off_topic, read_faqs
from numpy.typing import NDArray
from rich.console import Console

from ap_ranker.data.dataset import Dataset, Question, leave_one_out
from ap_ranker.evaluation.calibration_fit import Rankings, fit, top_answers, with_hidden
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.files import write_text_atomically
from ap_ranker.models.pretrained import DEFAULT_ENCODER
from ap_ranker.ranking import rule
from ap_ranker.ranking.priors import FILE, EncoderPriors, Prior, encoder_key, random_scores
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.rule import Basis, Calibration, Signals
from ap_ranker.text.language_detection import LANGUAGES, main_language
from ap_ranker.training.untrained import write_untrained

HERE = Path(__file__).parent
TARGETS = (0.8, 0.9, 0.95)

UNANSWERABLE = 0.1
"""Share of the questions without an answer, as `ap-ranker calibrate` assumes; by weights where the data has others."""

BELOW_FLOOR = 0.03
"""Share of the answerable dev questions whose best score may lie below the floor."""

SPLITS = ("dev", "test")

SYSTEMS = ("ours", "bi-encoder", "BM25")
"""The ranking that decides: ours; the same encoder's cosine with an entry's best text; BM25."""

app = typer.Typer(add_completion=False)
console = Console(soft_wrap=True)
EncoderOption = Annotated[str, typer.Option(help="A name or a folder.")]
Languages = Annotated[str, typer.Option(help="Codes of the languages that it has read, separated by commas, or all.")]
Shared = Annotated[Path | None, typer.Option(help="A folder with faq_public/: without it, without the COVID-19 FAQs.")]


@dataclass(frozen=True)
class Measured:
    """A FAQ's questions as each system ranks them, those about other matters, and what is known of the FAQ itself."""

    faq: Faq
    rankings: dict[str, Rankings]
    off_topic: dict[str, Rankings]
    loo: Rankings | None
    background: float
    encoder: str
    language: str | None


def measured(faq: Faq, encoder: str) -> dict[str, Measured]:
    """Split -> all its questions, ranked with an untrained checkpoint; each answer is encoded once for all of them."""
    texts, wordings = zip(*((answer.text, answer.wordings) for answer in faq.data.answers), strict=True)
    asked = {split: [each for each in faq.data.questions if each.id.startswith(split)] for split in SPLITS}
    others = {split: [Question(f"off-{text}", text, ()) for text in off_topic(split)] for split in SPLITS}
    own = leave_one_out(faq.data).questions if faq.known == WORDINGS else []
    parts = [*asked.values(), *others.values(), own]
    with TemporaryDirectory() as folder:
        stored = faq.known != DOCUMENTS
        options = {"encoder": encoder}
        write_untrained(Path(folder) / "m", texts, faq.language, stored=stored, options=options, wordings=wordings)
        ranker = Ranker.from_pretrained(Path(folder) / "m")
        everything = systems(ranker, replace(faq.data, questions=[each for part in parts for each in part]))
        ground = float(random_scores(ranker, texts).mean())
        key = encoder_key(ranker.model.state_dict())
    ends = np.cumsum([len(part) for part in parts])
    split_ = [
        {name: each.between(end - len(part), end) for name, each in everything.items()}
        for part, end in zip(parts, ends, strict=True)
    ]
    loo = weighted(split_[-1]["ours"]) if own else None
    return {
        split: Measured(
            faq,
            {name: weighted(each) for name, each in split_[place].items()} if asked[split] else {},
            split_[place + len(SPLITS)],
            loo,
            ground,
            key,
            main_language(texts),
        )
        for place, split in enumerate(SPLITS)
    }


def systems(ranker: Ranker, data: Dataset) -> dict[str, Rankings]:
    """The questions of a data set as each system ranks them."""
    questions = EvaluationSet(data, unanswerable=True, language=ranker.bm25_language, retriever=ranker)
    signals = questions.signals(questions.scores(ranker))
    answerable = np.array([bool(question.positives) for question in data.questions])
    rest = questions.right, answerable, np.ones(len(signals))
    best = [each.cosines if each.best_wording is None else each.best_wording for each in signals]
    scores: dict[str, Sequence[Any]] = {"bi-encoder": best, "BM25": questions.bm25_scores}
    scores["ours"] = [rule.rank(each, ranker.decider().weights).scores for each in signals]
    return {
        name: Rankings(
            [Signals(one, answers=each.answers) for one, each in zip(scores[name], signals, strict=True)], *rest
        )
        for name in SYSTEMS
    }


def weighted(rankings: Rankings) -> Rankings:
    """So that `UNANSWERABLE` of all have no answer: by their weights, or with copies whose right answers are hidden."""
    lost = ~rankings.answerable
    if not lost.any():
        return with_hidden(rankings, UNANSWERABLE)
    weights = np.where(lost, UNANSWERABLE / lost.sum(), (1 - UNANSWERABLE) / (~lost).sum()) * len(lost)
    return replace(rankings, weights=weights)


def joined(parts: Iterable[tuple[Rankings, float]]) -> Rankings:
    """The rankings of several FAQs, all with the same total weight, their scores above a background."""
    all_, total = list(parts), 0
    total = sum(len(part.signals) for part, _ in all_)
    return Rankings(
        [replace(each, model=each.model - ground) for part, ground in all_ for each in part.signals],
        [right for part, _ in all_ for right in part.right],
        np.concatenate([part.answerable for part, _ in all_]),
        np.concatenate([part.weights / part.weights.sum() * total / len(all_) for part, _ in all_]),
    )


def fitted_prior(faqs: Sequence[Measured], system: str = "ours") -> Prior:
    """The prior of a system for these FAQs' questions; only ours has a background."""
    grounds = [each.background if system == "ours" else 0.0 for each in faqs]
    everything = joined((each.rankings[system], ground) for each, ground in zip(faqs, grounds, strict=True))
    found = fit(everything, TARGETS)
    tops = [each.model.max() for each in compress(everything.signals, everything.answerable)]
    shares = everything.weights[everything.answerable]
    order = np.argsort(tops)
    below = np.cumsum(shares[order]) / shares.sum()
    floor = float(np.array(tops)[order][np.searchsorted(below, BELOW_FLOOR)])
    names = sorted({each.faq.family for each in faqs})
    return Prior(found.score, found.margin, found.bias, dict(found.thresholds), floor, names, len(everything.signals))


def encoder_priors(faqs: Sequence[Measured], encoder: str, languages: Sequence[str]) -> EncoderPriors:
    """The priors of an encoder that has read some languages: chosen on the dev questions, see README.md."""
    read = [each for each in faqs if each.language in languages]
    stored = fitted_prior(read)
    documents = fitted_prior([each for each in read if each.faq.known == DOCUMENTS])
    others = [each for each in faqs if each.language not in languages]
    foreign = fitted_prior(others) if others else None
    return EncoderPriors(encoder, languages, stored, replace(documents, floor=stored.floor), foreign)


def codes(languages: str) -> list[str]:
    """The codes that an option names: `all` are those that ap-ranker tells apart."""
    return sorted(LANGUAGES) if languages == "all" else languages.split(",")


@app.command("fit")
def fit_priors(
    shared: Shared = None, encoder: EncoderOption = DEFAULT_ENCODER, languages: Languages = "en", name: str = ""
) -> None:
    """Fit the priors of an encoder to the dev questions of all FAQs, and write them beside the code."""
    path = HERE.parents[1] / "ap_ranker" / "ranking" / FILE
    faqs = [measured(faq, encoder)["dev"] for faq in read_faqs(shared)]
    found = encoder_priors(faqs, name or Path(encoder).name, codes(languages))
    write_text_atomically(
        path, json.dumps(json.loads(path.read_text()) | {faqs[0].encoder: asdict(found)}, indent=2) + "\n"
    )
    console.print(found)


def strategies(
    faq: Measured, others: Sequence[Measured], dev: Measured, languages: Sequence[str]
) -> dict[str, Calibration]:
    """What each way to calibrate gives for a FAQ that no prior has seen."""
    found = {}
    for system in SYSTEMS:
        if system == "ours":
            kind = encoder_priors(others, "", languages).of(faq.language, stored=faq.faq.known != DOCUMENTS)
            if kind is None:
                continue
            prior = kind.calibration(faq.background)
        else:
            prior = fitted_prior(others, system).calibration(0.0)
        found["prior" if system == "ours" else f"{system}'s prior"] = prior
        if system == "ours" and faq.loo is not None:
            own = fit(faq.loo, TARGETS, prior)
            found["leave one out"] = replace(own, floor=prior.floor, basis=Basis.WORDINGS)
        if len(dev.rankings[system].signals) >= 20:
            own = fit(dev.rankings[system], TARGETS, prior)
            named = "users' questions" if system == "ours" else f"{system}, users' questions"
            found[named] = replace(own, floor=prior.floor)
    return found


def judged(faq: Measured, name: str, calibration: Calibration, seed: int = 0) -> list[dict[str, Any]]:
    """A row for each target: achieved precision with its bounds, shares, and what the best threshold would do."""
    system = next((each for each in SYSTEMS if name.startswith(each)), "ours")
    answers = top_answers(calibration, faq.rankings[system])
    lost = top_answers(calibration, faq.off_topic[system])
    floor = -np.inf if calibration.floor is None or system != "ours" else calibration.floor
    tops = np.array([each.model.max() for each in faq.rankings[system].signals])
    off = np.array([each.model.max() for each in faq.off_topic[system].signals])
    rows = []
    for target in TARGETS:
        least = calibration.threshold(target)
        kept = answers.probabilities >= (2.0 if least is None else least)
        low, high = interval(kept & (tops >= floor), answers.right, answers.weights, seed)
        rows.append(
            {
                "faq": faq.faq.name,
                "strategy": name,
                "target": target,
                "questions": int(answers.answerable.sum()),
                "precision": share(answers.right, answers.weights, kept & (tops >= floor)),
                "low": low,
                "high": high,
                "answer": share(kept & (tops >= floor), answers.weights, np.ones(len(kept), bool)),
                "oracle": best_share(answers.probabilities, answers.right, answers.weights, target),
                "none of answerable": share(tops < floor, answers.weights, answers.answerable),
                "none of off-topic": float((off < floor).mean()),
                "answer of off-topic": float(
                    ((lost.probabilities >= (2 if least is None else least)) & (off >= floor)).mean()
                ),
            }
        )
    return rows


def share(of: NDArray[np.bool_], weights: NDArray[np.float64], among: NDArray[np.bool_]) -> float | None:
    """The share of weight among some; `None` if there are none."""
    total = weights[among].sum()
    return float(weights[among & of].sum() / total) if total else None


def interval(
    kept: NDArray[np.bool_], right: NDArray[np.bool_], weights: NDArray[np.float64], seed: int
) -> tuple[float | None, float | None]:
    """The central 90 % of a precision in 2,000 bootstrap samples: each end is a one-sided bound of 95 %."""
    if not kept.any():
        return None, None
    rng = np.random.default_rng(seed)
    hits, used = (right & kept) * weights, kept * weights
    drawn = rng.integers(0, len(kept), (2000, len(kept)))
    totals = used[drawn].sum(axis=1)
    precisions = hits[drawn].sum(axis=1)[totals > 0] / totals[totals > 0]
    if right[kept].all() or not right[kept].any():  # a bootstrap knows no doubt then: the rule of three
        n = int(kept.sum())
        bound = 0.05 ** (1 / n)
        return (bound, 1.0) if right[kept].all() else (0.0, 1 - bound)
    return float(np.quantile(precisions, 0.05)), float(np.quantile(precisions, 0.95))


def best_share(
    probabilities: NDArray[np.float64], right: NDArray[np.bool_], weights: NDArray[np.float64], target: float
) -> float:
    """The share answered above the lowest threshold that reaches the target on these questions themselves."""
    order = np.argsort(-probabilities)
    reached = np.cumsum((weights * right)[order]) / np.cumsum(weights[order]) >= target
    return float(np.cumsum(weights[order])[reached].max(initial=0.0) / weights.sum())


@app.command("measure")
def measure_all(
    shared: Shared = None,
    encoder: EncoderOption = DEFAULT_ENCODER,
    languages: Languages = "en",
    split: Annotated[str, typer.Option(help="dev to choose by, test to report once.")] = "test",
    output: Annotated[Path, typer.Option(help="A file of results, .json; tables go beside it as .md.")] = HERE
    / "results.json",
) -> None:
    """Judge each strategy on each FAQ, with a prior of the other FAQs."""
    every = {faq.name: measured(faq, encoder) for faq in read_faqs(shared)}
    dev = {name: splits["dev"] for name, splits in every.items()}
    found: list[dict[str, Any]] = []
    read = codes(languages)
    for name, faq in ((name, splits[split]) for name, splits in every.items() if splits[split].rankings):
        others = [each for each in dev.values() if each.faq.family != faq.faq.family]
        for strategy, calibration in strategies(faq, others, dev[name], read).items():
            found += judged(faq, strategy, calibration)
    write_text_atomically(output, json.dumps(found, indent=1) + "\n")
    write_text_atomically(output.with_suffix(".md"), tables(found))
    console.print(tables(found))


def tables(rows: Sequence[dict[str, Any]]) -> str:
    """The results as Markdown: a table of each target, and the means over the FAQs that are answered at all."""
    shown: Callable[[float | None], str] = lambda value: "–" if value is None else f"{value:.3f}"  # noqa: E731
    parts = []
    for target in TARGETS:
        parts.append(f"\n### Target {target:g}\n")
        parts.append("| FAQ, what is known of it | decided by | precision | 95 % bounds | answered | best possible |")
        parts.append("|---|---|---:|---:|---:|---:|")
        for row in (row for row in rows if row["target"] == target):
            cells = [shown(row[name]) for name in ("precision", "answer", "oracle")]
            bounds = f"{shown(row['low'])} – {shown(row['high'])}"
            parts.append(f"| {row['faq']} | {row['strategy']} | {cells[0]} | {bounds} | {cells[1]} | {cells[2]} |")
        for strategy in dict.fromkeys(row["strategy"] for row in rows):
            chosen = [row for row in rows if row["target"] == target and row["strategy"] == strategy]
            answered = [row for row in chosen if row["precision"] is not None]
            if answered:
                means = [float(np.mean([row[name] for row in answered])) for name in ("precision", "answer", "oracle")]
                below = sum(row["high"] < target for row in answered)
                cells = [f"mean of {len(answered)} FAQs", strategy, f"{means[0]:.3f}", f"{below} below the target"]
                parts.append(f"| {' | '.join([*cells, *(f'{mean:.3f}' for mean in means[1:])])} |")
    parts += ["\n### None\n", "| FAQ, what is known of it | answerable: none | off-topic: none | off-topic: answer |"]
    parts.append("|---|---:|---:|---:|")
    for row in (row for row in rows if row["target"] == 0.8 and row["strategy"] == "prior"):
        cells = [shown(row[name]) for name in ("none of answerable", "none of off-topic", "answer of off-topic")]
        parts.append(f"| {row['faq']} | {' | '.join(cells)} |")
    return "\n".join(parts).lstrip() + "\n"


if __name__ == "__main__":
    app()
