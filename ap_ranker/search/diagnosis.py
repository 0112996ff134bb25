"""What stands in the way of a good search, in the texts, the checkpoint and both together; what to do first."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from torch import Tensor

from ap_ranker.data.dataset import Dataset, leave_one_out
from ap_ranker.data.faq import Entry, have_questions
from ap_ranker.errors import InputError
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.progress import Progress, untold
from ap_ranker.ranking.cache import EncodingCache
from ap_ranker.ranking.checkpoint import CheckpointConfig, is_checkpoint, read_checkpoint_config
from ap_ranker.ranking.language_advice import MULTILINGUAL, init_command
from ap_ranker.ranking.priors import languages_read_by
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.rule import Basis
from ap_ranker.search.choose_checkpoint import is_recommended, reason
from ap_ranker.search.setup import CHECKPOINT, SearchSetup
from ap_ranker.text.language_detection import LANGUAGES, main_language
from ap_ranker.text.nearly_equal import nearly_equal_groups
from ap_ranker.text.question_keys import question_key
from ap_ranker.text.reading import normalized

MANY = 0.3
"""Share of entries without a known wording from which on to write some is advised."""

ENOUGH_TO_TRAIN = 30
"""Number of users' questions, beside the stored ones, from which on a training is worth its minutes: of seven FAQs with
as many, five take what was trained, and all five gain; with 10, three do, and two gain (`examples/every_step`)."""

ENOUGH_TO_CALIBRATE = 100
"""Number of users' questions from which on a calibration of one's own counts more than that of other FAQs. With fewer,
what it changes in right and wrong answers cannot be measured on ten FAQs (`examples/every_step`)."""

MORE_QUESTIONS = 1.5
"""How many times the questions of a training that was not recommended make another one worth trying."""

LARGEST = 5_000
"""Number of entries up to which answers are compared with each other and wordings are asked: a minute on two cores."""

CACHE_BYTES = 10**9


SAME_QUESTION = 0.8
"""Minimum cosine of two stored questions that may ask the same in other words: few pairs that do not have so much."""

LIKE_QUESTION = 0.5
LIKE_ANSWER = 0.85
"""The same with answers that are alike: "cancel my order" and "annul a purchase" have .54 and .96. Of the 168 entries
of the example FAQ, no pair has as much."""


@dataclass(frozen=True)
class Finding:
    """What was found in one matter, in a sentence, and what to do about it: nothing if all is well."""

    found: str
    advice: str = ""


def diagnose(setup: SearchSetup, on_progress: Progress = untold) -> list[Finding]:
    """Examine a search with its documents and its checkpoint as it is served; what helps most comes first.

    The order of what to do: texts that contradict each other, as no search can mend them; a language that the encoder
    has not read; a checkpoint of another FAQ; training, once there are enough questions; missing wordings; answers
    that are cut; calibration. InputError if the search has no documents to read, or a pipeline of its own, whose
    checkpoint is unknown here. `on_progress` gets the step in words, how many matters or answers are done, and their
    number.
    """
    if setup.documents is None or setup.checkpoint is None:
        raise InputError("Expected a FAQ or documents with a checkpoint to examine, found a pipeline or a store.")
    entries = setup.documents.entries
    data = setup.faq()
    ranker = Ranker.from_pretrained(setup.checkpoint, cache=EncodingCache(CACHE_BYTES))
    source = data.name
    if setup.wordings:
        source = f"{setup.wordings[0]} --answers {data.name}"
    if setup.untrained is not None:
        ranker.source = str(CHECKPOINT)  # for messages: an untrained one is in a folder of this run
    train = f"ap-ranker train {source} --output {CHECKPOINT}"
    examinations = (
        partial(_texts, entries),
        partial(_checkpoint, ranker, data, train),
        partial(_training, ranker, data, train),
        partial(_wordings, entries, data),
        partial(_cut, ranker, data),
        partial(_calibration, ranker),
        partial(_same_in_other_words, ranker, entries),
    )
    findings: list[Finding] = []
    for done, examine in enumerate(examinations):
        on_progress("examining", done, len(examinations))
        findings += examine()
    on_progress("examining", len(examinations), len(examinations))
    # Those with advice first; among them, the order above is that of importance.
    findings.sort(key=lambda finding: not finding.advice)
    return [*findings, *_measured(ranker, data, on_progress)]


def _texts(entries: Sequence[Entry]) -> Iterator[Finding]:
    """Questions that ask for two answers, and answers that are told twice."""
    torn = _torn_questions(entries)
    if torn:
        places = _first_places(torn[0])
        yield Finding(
            f"{len(torn):,} questions ask for two different answers, such as those of {places}.",
            "Decide which answer is right, and keep one entry.",
        )
    if len(entries) > LARGEST:
        return
    copies = _nearly_equal_answers(entries)
    if copies and have_questions(entries):  # documents repeat themselves: their copies are shown once
        places = _first_places(copies[0])
        yield Finding(
            f"{len(copies):,} answers are nearly equal to another, such as those of {places}.",
            "Merge nearly equal answers: give one entry the other's question as a further wording.",
        )
    if not torn and not copies:
        yield Finding(f"{len(entries):,} entries, none of which contradicts or nearly repeats another.")


def _first_places(entries: Sequence[Entry]) -> str:
    """Where the first two of several entries are, as an example."""
    return " and ".join(entry.place for entry in entries[:2])


def _torn_questions(entries: Sequence[Entry]) -> list[list[Entry]]:
    """For each question that has several answers, the entries that it asks for."""
    entries_of: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        for key in {question_key(text) for text in entry.questions} - {""}:
            entries_of[key].append(entry)
    torn = []
    for same_question in entries_of.values():
        answers = {entry.answer for entry in same_question}
        if len(answers) > 1:
            torn.append(same_question)
    return torn


def _nearly_equal_answers(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Groups of entries with answers that are nearly, but not quite, equal."""
    groups = nearly_equal_groups([entry.answer for entry in entries]).tolist()
    by_answer: defaultdict[int, dict[str, Entry]] = defaultdict(dict)  # of each group
    for entry, group in zip(entries, groups, strict=True):
        by_answer[group].setdefault(normalized(entry.answer), entry)  # other rows with equal answers are wordings
    copies = []
    for different in by_answer.values():
        if len(different) > 1:
            copies.append(list(different.values()))
    return copies


def _same_in_other_words(ranker: Ranker, entries: Sequence[Entry]) -> Iterator[Finding]:
    """Entries with different answers whose stored questions mean the same to the encoder."""
    asked = [entry for entry in entries if entry.question]
    if not ranker.has_vectors or not 1 < len(asked) <= LARGEST:
        return
    cosines = _cosines(ranker, [entry.question for entry in asked])
    answers = _cosines(ranker, [entry.answer for entry in asked])
    is_same = (cosines >= SAME_QUESTION) | ((cosines >= LIKE_QUESTION) & (answers >= LIKE_ANSWER))
    torn: list[tuple[int, int]] = []
    for i, j in is_same.nonzero().tolist():
        first = asked[i]
        second = asked[j]
        has_one_answer = normalized(first.answer) == normalized(second.answer)
        has_one_question = question_key(first.question) == question_key(second.question)  # `_texts` tells of it
        if not has_one_answer and not has_one_question:
            torn.append((i, j))
    if torn:
        i, j = max(torn, key=lambda pair: float(cosines[pair]))
        first = asked[i]
        second = asked[j]
        yield Finding(
            f"{len(torn):,} pairs of entries ask nearly the same in other words, such as {first.question!r} and "
            f"{second.question!r}.",
            "Merge them, one question as a wording of the other; or say in each question what differs.",
        )


def _cosines(ranker: Ranker, texts: Sequence[str]) -> Tensor:
    """(N, N) of each pair of texts, in the upper triangle."""
    vectors = ranker.embed_wordings(texts)
    vectors = vectors / vectors.norm(dim=1, keepdim=True).clamp(min=1e-9)
    return (vectors @ vectors.T).triu(diagonal=1)


def _checkpoint(ranker: Ranker, data: Dataset, train: str) -> Iterator[Finding]:
    """Whether the encoder has read the language, and the checkpoint has learnt from the FAQ; `train` is a command."""
    assert ranker.config is not None
    texts = data.answer_texts
    language = main_language(texts)
    encoder = str(ranker.config.options.get("encoder", ""))
    languages = languages_read_by(encoder)
    if language is not None and languages and language not in languages:
        names = " and ".join(LANGUAGES[code] for code in languages)
        yield Finding(
            f"The texts are in {LANGUAGES[language]}; the encoder {encoder} has read {names}.",
            f"Use an encoder that has: {init_command(language, data.name)}; "
            f"or train one: {train} --encoder {MULTILINGUAL}",
        )
    elif language is not None:
        yield Finding(f"The texts are in {LANGUAGES[language]}.")
    sketch = ranker.config.faq
    forms = [answer.parts for answer in data.answers]
    if not _is_untrained(ranker) and sketch is not None and not sketch.is_same(sketch.nearest_form(forms)):
        yield Finding(f"{ranker.source} was trained on another FAQ.", f"Train on this one: {train}")


def _training(ranker: Ranker, data: Dataset, train: str) -> Iterator[Finding]:
    """Whether there are enough questions to train on, more than a training had that was not recommended.

    A step that `train` would not recommend is not advised: of a search that would be no better, the owner has nothing.
    """
    assert ranker.config is not None
    if not _is_untrained(ranker):
        why = reason(ranker.config)
        yield Finding(f"{ranker.source} is trained: {why}.")
        return
    asked = sum(len(answer.wordings) for answer in data.answers)
    stored = sum(bool(answer.wordings) for answer in data.answers)
    needed = ENOUGH_TO_TRAIN
    learnt = 0
    refused = _refused(CHECKPOINT)
    if refused is not None:
        learnt = int(refused.training.get("pairs", 0))
        needed = max(needed, math.ceil(MORE_QUESTIONS * learnt) - stored)
    further = asked - stored
    if further >= needed:
        yield Finding(f"Nothing was trained; there are {asked:,} questions to learn from.", f"Train: {train}")
        return
    without = "Nothing was trained"
    if refused is not None:
        without = f"{CHECKPOINT} learnt from {learnt:,} and is not recommended"
    yield Finding(f"{without}. It is worth trying from {needed:,} questions of users; there are {further:,}.")


def _refused(folder: Path) -> CheckpointConfig | None:
    """The configuration of a checkpoint that its training does not recommend; `None` if there is none."""
    if not is_checkpoint(folder):
        return None
    config = read_checkpoint_config(folder)
    return None if is_recommended(config) else config


def _wordings(entries: Sequence[Entry], data: Dataset) -> Iterator[Finding]:
    """How many entries users' own words are known for."""
    total = len(entries)
    wordings_of = defaultdict[str, set[str]](set)
    for answer, entry in zip(data.answers, entries, strict=True):
        # By the answer's text, as another row with the same answer is a wording, too.
        wordings_of[normalized(entry.answer)].update(answer.wordings)
    without = []
    for entry in entries:
        n_stored = int(bool(entry.question))
        if len(wordings_of[normalized(entry.answer)]) <= n_stored:
            without.append(entry)
    advice = ""
    if len(without) > MANY * total:
        first = ", ".join(entry.question or entry.place for entry in without[:3])
        advice = (
            f"Write how users would ask for them, in a column `wordings`, beginning with those of: {first}. Or go "
            f"live, and accept what users ask on the owner's page: ap-ranker serve {data.name} --log-questions"
        )
    if without:
        yield Finding(
            f"{len(without):,} of {total:,} entries have no known wording beside their stored question.", advice
        )
    else:
        yield Finding(f"All {total:,} entries have known wordings.")


def _cut(ranker: Ranker, data: Dataset) -> Iterator[Finding]:
    """Texts that are longer than the model reads."""
    most = ranker.tokenizer.max_tokens
    _, cut = ranker.tokenizer.encode(data.answer_texts)
    if cut:
        yield Finding(
            f"{cut:,} of {len(data.answers):,} texts are longer than the {most} tokens that are read.",
            "Put what is asked for first, or split them into several entries.",
        )
    else:
        yield Finding(f"All texts are read to their end, as none is longer than {most} tokens.")


def _calibration(ranker: Ranker) -> Iterator[Finding]:
    """What the decision between answer, maybe and none rests on."""
    calibration = ranker.decider().served
    if calibration is not None and calibration.basis in (Basis.QUESTIONS, Basis.WORDINGS):
        yield Finding(f"Calibrated on {calibration.basis}.")
        return
    rests = "Nothing is calibrated: every answer but that to a known question is a maybe."
    if calibration is not None:
        rests = "What is an answer and what a maybe rests on other FAQs."
    worth = f"A calibration of its own is worth it from {ENOUGH_TO_CALIBRATE} questions of users on."
    if _is_untrained(ranker):
        yield Finding(f"{rests} {worth}")
    else:
        yield Finding(rests, f"Calibrate on questions of users: ap-ranker calibrate {ranker.source} QUESTIONS.csv")


def _measured(ranker: Ranker, data: Dataset, on_progress: Progress) -> Iterator[Finding]:
    """How the search ranks known wordings, each asked as if nobody had known it; nothing if there are none."""
    if len(data.answers) > LARGEST:
        return
    left_one_out = leave_one_out(data)
    if not left_one_out.questions:
        return
    evaluation_set = EvaluationSet(left_one_out, language=ranker.bm25_language)
    report = evaluation_set.report(ranker, partial(on_progress, "asking known wordings"))
    measures = report.fusion or report.model
    words = report.bm25
    count = len(left_one_out.questions)
    yield Finding(
        f"Asked as if unknown, {measures['P@1']:.0%} of {count:,} known wordings find their entry first "
        f"(MRR {measures['MRR']:.3f}; by words alone, with BM25, {words['P@1']:.0%} and {words['MRR']:.3f})."
    )


def _is_untrained(ranker: Ranker) -> bool:
    return ranker.config is not None and ranker.config.training.get("epochs") == 0
