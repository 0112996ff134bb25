"""`Ranker`: question and candidates -> encode -> match -> ranked answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ap_ranker.errors import InputError, one_line
from ap_ranker.models.base import States
from ap_ranker.models.registry import MODELS
from ap_ranker.processes import number_on_machine
from ap_ranker.ranking.cache import EncodingCache
from ap_ranker.ranking.checkpoint import DEV_QUESTIONS, find_checkpoint, find_trained, read_trained_forms
from ap_ranker.ranking.decision import Decider, Decision
from ap_ranker.ranking.explanation import Explanation, Token, tokens_of
from ap_ranker.ranking.language_advice import init_command
from ap_ranker.ranking.loaded_checkpoints import load_shared
from ap_ranker.ranking.random_questions import RANDOM_QUESTIONS
from ap_ranker.ranking.ranking_request import RankingRequest, matched_together
from ap_ranker.ranking.rule import Numbers, Signals, Weights, rank
from ap_ranker.ranking.stored_encodings import Encodings
from ap_ranker.ranking.text_encoder import BATCH_SIZE, TextEncoder, check_number, fetched, float32_array
from ap_ranker.text.language_detection import LANGUAGES, main_language
from ap_ranker.text.tokenizer import TokenBatch

COMPARED = 10_000
"""Maximum number of a search's texts that are compared with the FAQ of its checkpoint, in a third of a second."""

MOST_BACKGROUNDS = 100_000
"""Maximum number of entries whose background is kept, a number each; those of a larger FAQ are computed again."""

_comparing = threading.Lock()


class _Matched(NamedTuple):
    """A model's numbers for a question and its N candidates."""

    scores: Numbers  # (N,)
    cosines: Numbers  # (N,) of the question with each; NaN where the model has no vectors, or they do not count
    vector: NDArray[np.float32] | None  # (C,) the question's, where known wordings count


@dataclass(frozen=True)
class RankedAnswer:
    """One answer in a ranking: its position among the candidates, and its score, higher is better.

    `wording` is the known one that the question was found by; `None` if the answer itself is more like it.
    """

    index: int
    text: str
    score: float
    wording: str | None = None


class Ranker(TextEncoder):
    """Ranks answers to a question. Several threads may use it at once.

    Example:
        >>> ranker = Ranker.from_pretrained("checkpoints/faq")
        >>> ranker.rank("Where is my parcel?", ["We ship daily.", "Open the tracking link."], top_k=1)
        [RankedAnswer(index=1, text='Open the tracking link.', score=0.71)]
    """

    source = "CHECKPOINT"
    """The checkpoint's name, for messages."""

    knows_faq: bool | None = None
    """Whether its FAQ is the checkpoint's, for which the calibration holds; `None` before a search compares them."""

    changed_share: float | None = None
    """The share of its FAQ's entries that are new since the checkpoint was trained or calibrated; `None` as above."""

    faq_language: str | None = None
    """The code of the language that its FAQ is in; `None` if that is unclear, or before a search compares FAQs."""

    @classmethod
    def from_pretrained(
        cls,
        source: str | Path,
        device: torch.device | str | None = None,
        token: str | None = None,
        *,
        cache: EncodingCache | None = None,
        encodings: str | Path | None = None,
    ) -> Ranker:
        """Load a checkpoint. All rankers of a process that load the same one on the same device share its model.

        Args:
            source: a checkpoint folder, or the name of a hub repository.
            device: `None` selects the GPU if there is one.
            token: access token for private repositories.
            cache: keeps the states of answers for the next question; none by default.
            encodings: a folder that `ap-ranker encode` wrote with this checkpoint; none by default.
        """
        resolved_device = resolve_device(device)
        folder = find_checkpoint(source, token)
        loaded = load_shared(folder, resolved_device)
        ranker = cls(loaded.model, loaded.tokenizer, resolved_device, loaded.config, cache=cache)
        ranker.source = str(source)
        ranker._loaded = loaded
        ranker.wording_vectors = loaded.states.wordings
        try:
            example = ranker._encode_empty_text()
        except Exception as error:  # intact files that do not belong together can raise anything
            reason = one_line(repr(error))
            raise InputError(f"{folder}: expected a checkpoint that can encode a text, found {reason}.") from error
        if encodings is not None:
            ranker.encodings = Encodings.open(encodings, ranker.fingerprint)
        if cache is not None:
            ranker._reads(ranker.quantize(example, ranker.stored_dtype))  # compiles what does so
        return ranker

    @property
    def fingerprint(self) -> str:
        """A hash of the checkpoint's weights, vocabulary and sizes; an InputError without a checkpoint."""
        return self._checkpoint.files.fingerprint

    def seen_in_training(self, questions: Sequence[str]) -> list[bool] | None:
        """Whether the checkpoint has learnt from each question; `None` if that is unknown, as for `find_trained`."""
        return None if self._loaded is None else self._loaded.seen_in_training(questions)

    def near_training(self, questions: Sequence[str]) -> list[bool] | None:
        """Whether each question is one that the checkpoint has learnt from, or a near copy of one; `None` as above."""
        seen = self.seen_in_training(questions)
        forms = None
        if self._loaded is not None:
            forms = read_trained_forms(self._loaded.files.folder)
        if seen is None or forms is None:
            return seen
        is_near: list[bool] = []
        for text, is_seen in zip(questions, seen, strict=True):
            is_near.append(is_seen or forms.has(text))
        return is_near

    def chosen_by(self, questions: Sequence[str]) -> list[bool] | None:
        """Whether each question is one that chose the checkpoint's epoch and weights; `None` as above."""
        if self._loaded is None:
            return None
        return find_trained(self._loaded.files.folder, questions, DEV_QUESTIONS)

    def rank(
        self,
        question: str,
        answers: Sequence[str],
        top_k: int | None = None,
        *,
        wordings: Sequence[Sequence[str]] | None = None,
        bm25_scores: Sequence[float] | None = None,
        precision: float | None = None,
        score_threshold: float | None = None,
        scale_score: bool = False,
    ) -> list[RankedAnswer]:
        """The answers from best to worst, without those below a threshold; ties keep the given order.

        Args:
            question: the question of the user.
            answers: N candidates; an empty text counts as one unknown word.
            top_k: maximum number of answers to return; all by default.
            wordings: for each of the N candidates, the questions that are known to ask for it, maybe none. The most
                similar one raises the candidate's score by the weight that training found best. A candidate of which
                one is the question itself comes first and is never left out. Lists that are all empty say that other
                entries of the FAQ have some: scores are those that these candidates have beside them.
            bm25_scores: N scores of BM25, added to the model's with the weight that training found best (0 if it does
                not help); by default nothing is added.
            precision: target share of right first answers, such as 0.9: answers below its threshold are left out;
                without a calibration, all but those of which the question is a known wording.
            score_threshold: minimum score of an answer, after scaling, if any.
            scale_score: return scores from 0 to 1, in the same order: probabilities if the checkpoint is calibrated.

        Raises:
            ValueError: `top_k` is not positive, `bm25_scores` are not N finite numbers, `wordings` are not N lists, or
                both `precision` and `score_threshold` are given.
            InputError: a score is not finite, or `precision` is not between 0 and 1.
        """
        if top_k is not None:
            check_number("top_k", top_k, 1)
        signals = self.score_entries(question, answers, wordings, bm25_scores)
        selected, _ = self.decider().answer(
            signals, top_k=top_k, scale_score=scale_score, score_threshold=score_threshold, precision=precision
        )
        return [RankedAnswer(row, answers[row], score, signals.matched[row]) for row, score in selected]

    def decide(
        self,
        question: str,
        answers: Sequence[str],
        *,
        wordings: Sequence[Sequence[str]] | None = None,
        bm25_scores: Sequence[float] | None = None,
        precision: float | None = None,
    ) -> Decision:
        """Whether the question has an answer among these: `answer`, `maybe` or `none`, and with which probability.

        The arguments and errors are those of `rank`; without a `precision`, the target is .8. The two best different
        answers are enough, as `rank` returns them: further ones change nothing.
        """
        signals = self.score_entries(question, answers, wordings, bm25_scores)
        return self.decider().answer(signals, precision=precision)[1]

    @property
    def bm25_language(self) -> str | None:
        """The language of the stemmer of BM25 that the checkpoint was trained beside; `None` for no stemmer."""
        if self.config:
            return self.config.bm25_language
        return None

    @property
    def compares_wordings(self) -> bool:
        """Whether the checkpoint compares known wordings with a question by their vectors."""
        return self.config is not None and self.config.wording_weight != 0 and self.has_vectors

    def compare_faq(self, first_texts: Callable[[int], Sequence[str]], warn: Callable[..., None]) -> None:
        """
        Compare what is searched with the FAQ that the checkpoint knows; of clearly another one, warn.

        What was calibrated there is not applied here (`knows_faq`). Nothing happens if that is decided already, if the
        checkpoint is older than sketches of FAQs, or if there are no texts.

        Args:
            first_texts: returns texts of what is searched, at most as many as it is asked for.
            warn: takes a message and the values that it names in braces, as of Haystack's logger.
        """
        if self.config is None or self.config.faq is None or self.knows_faq is not None:
            return
        trained = self.config.faq
        with _comparing:  # the first to come; the others wait for what it finds
            if self.knows_faq is not None:
                return
            texts = first_texts(COMPARED)
            if not texts:
                return
            today = trained.nearest_form([(text, _without_first_line(text)) for text in texts])
            self.changed_share = trained.changed_share(today)
            self.faq_language = trained.language if trained.is_same(today) else main_language(texts)
            self.knows_faq = trained.is_same(today)
        if self.knows_faq:
            return
        language = self.faq_language
        languages = ""
        if language and trained.language and language != trained.language:
            languages = (
                f" That is in {LANGUAGES[trained.language]}, this one is in {LANGUAGES[language]}: without training, "
                f"{init_command(language)} makes one that reads it."
            )
        warn(
            "{checkpoint} was made for another FAQ than the one that is searched.{languages}{calibration} Train it on "
            "this one, or calibrate it on questions to this one: ap-ranker calibrate {checkpoint} DEV.",
            checkpoint=self.source,
            languages=languages,
            calibration=" Its calibration is not applied." if self.config.calibration else "",
        )

    def decider(self, *, fuse_scores: bool = True, other_faq: bool = False) -> Decider:
        """The checkpoint's weights, that of BM25 if scores are fused; its calibration and floor, but of another FAQ."""
        if self.config is None:
            return Decider(self.source, Weights(), {}, self.model.scale)
        weights = Weights(self.config.wording_weight, self.config.bm25_weight if fuse_scores else 0.0)
        if other_faq or self.knows_faq is False:
            return Decider(self.source, weights, {}, self.model.scale)
        return Decider(
            self.source, weights, calibrations=self.config.calibration, scale=self.model.scale, floor=self.config.floor
        )

    def score(self, question: str, answers: Sequence[str], batch_size: int = BATCH_SIZE) -> Tensor:
        """(N,) the model's scores of one question with N answers, on the CPU; an InputError if one is not finite."""
        return torch.from_numpy(self.score_entries(question, answers, batch_size=batch_size).model).float()

    def score_entries(
        self,
        question: str,
        answers: Sequence[str],
        wordings: Sequence[Sequence[str]] | None = None,
        bm25_scores: Sequence[float] | None = None,
        *,
        batch_size: int = BATCH_SIZE,
    ) -> Signals:
        """What the rule of ranking needs to know of one question and N entries, with the arguments of `rank`."""
        return self.score_batch([RankingRequest(question, answers, wordings, bm25_scores)], batch_size)[0]

    @torch.inference_mode()
    def score_batch(self, batch: Sequence[RankingRequest], batch_size: int = BATCH_SIZE) -> list[Signals]:
        """What the rule of ranking needs to know of each question and its entries.

        Scores are those of each question alone, up to rounding in the last digit: products may be summed in another
        order. What is wrong with one of the questions is raised as of it alone.
        """
        check_number("batch_size", batch_size, 1)
        signals = [request.signals(self.bm25_language, self.faq_language) for request in batch]
        groups = matched_together(batch, any_candidates=self._is_on_gpu)
        if len(groups) > 1:
            self.encode_ahead([request.question for request in batch if request.answers])
        for group in groups:
            requests_of_group = [batch[position] for position in group]
            for position, numbers in zip(group, self._matched(requests_of_group, batch_size), strict=True):
                signals[position] = self._with_model(signals[position], batch[position], numbers)
        return signals

    def _matched(self, batch: Sequence[RankingRequest], batch_size: int) -> Iterator[_Matched]:
        """The model's numbers for each of some questions, which are matched with the candidates of all."""
        states = self.question_states([request.question for request in batch])
        compared = any(self._is_compared(request) for request in batch)
        vectors = self.model.text_vectors(states) if compared else None
        distinct = dict.fromkeys(chain.from_iterable(request.answers for request in batch))
        place_of = {text: place for place, text in enumerate(distinct)}
        scores, cosines = np.full((2, len(batch), len(place_of)), np.nan)
        question_vectors = None
        computed: list[tuple[NDArray[Any], Sequence[int] | slice, Tensor]] = []  # numbers, and where they belong
        if vectors is not None:
            question_vectors = np.empty(vectors.shape, np.float32)
            computed.append((question_vectors, slice(None), vectors))
        for rows, kept in self._kept_states(list(place_of), batch_size, rounded=True):
            if vectors is None and self._reads(kept):
                for number, question in enumerate(states.split() if len(batch) > 1 else [states]):
                    scores[number, rows] = float32_array(self.model.match_stored(question, kept))
                continue
            answers = kept.dequantize(self.device)
            match = self.model.match_in_parts if self._is_on_gpu else self.model.match
            computed.append((scores, rows, match(states, answers)))
            answer_vectors = None if vectors is None else self.model.text_vectors(answers)
            if vectors is not None and answer_vectors is not None:
                computed.append((cosines, rows, vectors @ answer_vectors.T))
        for (array, columns, _), numbers in zip(computed, fetched([part for *_, part in computed]), strict=True):
            array[:, columns] = numbers
        for number, request in enumerate(batch):
            # Copies are scored once: two rows of a product may differ in the last bit.
            places = [place_of[text] for text in request.answers]
            vector = None
            if question_vectors is not None and self._is_compared(request):
                vector = question_vectors[number]
            yield _Matched(scores[number, places], cosines[number, places], vector)

    def _is_compared(self, request: RankingRequest) -> bool:
        """Whether the known wordings of a question's candidates count."""
        return request.wordings is not None and self.config is not None and self.config.wording_weight != 0

    def _with_model(self, signals: Signals, request: RankingRequest, matched: _Matched) -> Signals:
        """The signals of a question with what the model says; InputError if a score is not finite."""
        n_bad = int((~np.isfinite(matched.scores)).sum())
        if n_bad:
            raise InputError(
                f"{self.name}: expected finite scores, found {n_bad} of {len(matched.scores)} that are not: its "
                "weights or its encodings contain too large numbers. Train it or encode again."
            )
        wordings = request.wordings_of_rows
        is_compared = self._is_compared(request)

        def background_of(row: int) -> float:
            return self.background(request.answers[row], wordings[row] if is_compared else None)

        count = len(request.answers)
        signals = replace(signals, model=matched.scores, matched=[None] * count, background_of=background_of)
        if matched.vector is None:
            return signals
        best, texts = self.wording_vectors.best(matched.vector, wordings, self.embed_wordings)
        theirs = best.astype(np.float64)
        better_wordings = []
        for text, better in zip(texts, (theirs > matched.cosines).tolist(), strict=True):
            better_wordings.append(text if better else None)
        return replace(signals, cosines=matched.cosines, wordings=theirs, matched=better_wordings)

    def background(self, answer: str, wordings: Sequence[str] | None = None) -> float:
        """What an entry scores for questions about other matters, on average (`scores_of_random_questions`).

        It is computed when a question has the entry as its best one for the first time, and kept.
        """
        compared = None if wordings is None else tuple(wordings)
        key = answer, compared, self.decider().weights.wording
        kept = self._backgrounds.get(key)
        if kept is None:
            if len(self._backgrounds) >= MOST_BACKGROUNDS:
                self._backgrounds.clear()
            scores = self.scores_of_random_questions([answer], None if compared is None else [compared])
            kept = self._backgrounds[key] = float(scores.mean())
        return kept

    @torch.inference_mode()
    def scores_of_random_questions(
        self, answers: Sequence[str], wordings: Sequence[Sequence[str]] | None = None
    ) -> Numbers:
        """(Q, N) what N entries score for each of `RANDOM_QUESTIONS`, with their known `wordings`, if these count.

        BM25's score is left out: these questions hardly share a word with an entry.
        """
        asked = self._random_questions
        vectors = self.model.text_vectors(asked)
        scores = np.empty((len(RANDOM_QUESTIONS), len(answers)))
        weights = Weights(self.decider().weights.wording)
        if wordings is not None and weights.wording and vectors is not None:
            # Encoded together, they take half of the time that they take entry by entry.
            self.wording_vectors.find([*chain.from_iterable(wordings)], self.embed_wordings)
        for rows, states in self.answer_states(answers, rounded=True):
            model = self.model.match(asked, states).double().cpu().numpy()
            own = self.model.text_vectors(states)
            if wordings is None or not weights.wording or vectors is None or own is None:
                scores[:, rows] = model
                continue
            cosines = (vectors @ own.T).double().cpu().numpy()
            question_vectors = float32_array(vectors)
            for place, row in enumerate(rows):
                best = self.wording_vectors.best_of_each(question_vectors, wordings[row], self.embed_wordings)
                signals = Signals(model[:, place], cosines[:, place], best.astype(np.float64))
                scores[:, row] = rank(signals, weights).scores
        return scores

    @cached_property
    def _random_questions(self) -> States:
        return self.encode_questions(RANDOM_QUESTIONS)

    @cached_property
    def _backgrounds(self) -> dict[object, float]:
        if self._loaded is None:
            return {}
        return self._loaded.backgrounds

    def explain(self, question: str, answer: str) -> Explanation:
        """The answer's score, and the attention weight of each word of both texts; an InputError without attention."""
        return Explanation(self.score(question, [answer]).item(), *self.attention_weights(question, answer))

    @torch.inference_mode()
    def attention_weights(self, question: str, answer: str) -> tuple[list[Token], list[Token]]:
        """The tokens of both texts with their weights, as in `explain`, without the score."""
        self._stop_training()
        question_tokens = TokenBatch.from_lists(self.tokenize_questions([question]), self.device)
        answer_tokens = TokenBatch.from_lists(self.tokenize([answer]), self.device)
        attention = self.model.attention_weights(question_tokens, answer_tokens)
        if attention is None:
            attentive = ", ".join(spec.name for spec in MODELS.values() if spec.attention_over)
            raise InputError(f"Expected a model with attention weights ({attentive}), found {self.name}.")
        return (
            tokens_of(question, self.question_spans(question), attention.questions),
            tokens_of(answer, self.tokenizer.spans(answer), attention.answers),
        )


class LazyRanker:
    """A ranker that is loaded on first use, once, whichever thread comes first; the others wait for it."""

    def __init__(self, load: Callable[[], Ranker]) -> None:
        self.ranker: Ranker | None = None
        self.on_load: Callable[[Ranker], None] | None = None  # is called with each ranker before anyone else has it
        self._load = load
        self._lock = threading.RLock()

    def __call__(self) -> Ranker:
        """The ranker, loaded unless it is already."""
        with self._lock:
            if self.ranker is None:
                ranker = self._load()
                if self.on_load is not None:
                    self.on_load(ranker)
                self.ranker = ranker
            return self.ranker

    def warm_up(self) -> None:
        """Load the ranker unless it is loaded already."""
        self()

    def close(self) -> None:
        """Free the ranker, until the next use."""
        self.ranker = None


def resolve_device(device: torch.device | str | None) -> torch.device:
    """The given device; for `None` and `auto` the GPU if there is one, else the CPU.

    A GPU has its number, so that it stays the same if another one becomes the current one. Under `torchrun`, `auto` and
    `cuda` are the process's own. An InputError says that the device does not exist.
    """
    if device is None or str(device) == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        resolved = torch.device(device)
        if resolved.type == "cuda" and resolved.index is None:
            number = number_on_machine()
            current = torch.cuda.current_device() if number is None else number % torch.cuda.device_count()
            resolved = torch.device("cuda", current)
        torch.empty(0, device=resolved)
    except (RuntimeError, AssertionError) as error:
        reason, _, _ = str(error).partition(" device type at start of device string")  # torch lists all of them
        named_device = f"{str(device)!r}" if reason != str(error) else f"{str(device)!r} ({one_line(error, 80)})"
        raise InputError(f"Expected a device such as auto, cpu or cuda:0, found {named_device}. Try auto.") from error
    return resolved


def _without_first_line(text: str) -> str:
    """A document without the stored question above its answer; the same text if it has one line."""
    return text.partition("\n")[2] or text
