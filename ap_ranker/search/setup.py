"""Sets up a search: over which documents, with which pipeline and which checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from haystack import Document

from ap_ranker.data.dataset import Dataset
from ap_ranker.data.faq import DEFAULT_MATCH, Match, have_questions
from ap_ranker.data.wordings import WordingFiles, log_wordings_of_no_entry, searched_faq
from ap_ranker.documents.watched_folder import Overlay, WatchedFolder
from ap_ranker.errors import InputError
from ap_ranker.files import restore
from ap_ranker.progress import Progress, untold
from ap_ranker.ranking.checkpoint import find_checkpoint, is_checkpoint, read_checkpoint_config
from ap_ranker.ranking.decision import check_limits
from ap_ranker.ranking.fingerprint import checkpoint_version
from ap_ranker.ranking.loaded_checkpoints import flush_encodings
from ap_ranker.ranking.outcome import Outcome
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.state_store import keep_encodings
from ap_ranker.ranking.wordings import MATCHED
from ap_ranker.search.asked_parts import SearchedQuestion, search_parts
from ap_ranker.search.choose_checkpoint import check_same_language, choose_checkpoint, is_recommended, reason
from ap_ranker.search.declared_pipeline import NO_LIMITS, DeclaredPipeline, Limits
from ap_ranker.search.default_pipelines import BY_MEANING, BY_WORDS
from ap_ranker.search.load_pipeline import components_of, report_store_errors
from ap_ranker.search.sources import source_of
from ap_ranker.threads import use_one_thread
from haystack_integrations.common.ap_ranker.query_data import query_data, query_key

logger = logging.getLogger(__name__)

CHECKPOINT = Path("checkpoints/faq")  # where the documentation trains a checkpoint; it is used if it is there


@dataclass(frozen=True)
class SearchSetup:
    """What makes a search, the same in each process: the parameters of `set_up`, with the documents already read.

    `checkpoint` is that of a default pipeline, or `None` for the one that the file names. Where nobody has named one,
    `untrained` is the folder of an untrained one, made when it is needed, and the checkpoint is chosen anew with each
    change (`choose_checkpoint`).
    """

    pipeline: Path
    documents: WatchedFolder | None
    match: Match
    wordings: Sequence[Path]
    limits: Limits
    checkpoint: str | None = None
    synonyms: Path | None = None
    keep: bool = False
    language: str | None = None  # of BM25's stemmer in an untrained search
    untrained: Path | None = None

    def current(self, on_progress: Progress = untold) -> str | None:
        """The checkpoint as it is now; one that is chosen may have been trained since."""
        if self.untrained is None:
            return self.checkpoint
        choice = choose_checkpoint(CHECKPOINT)
        if choice.folder is not None:
            return str(choice.folder)
        if not is_checkpoint(self.untrained):
            self._write_untrained(self.untrained, on_progress)
        return str(self.untrained)

    def log_choice(self) -> None:
        """Say which checkpoint was chosen, and why; nothing if it was named."""
        if self.untrained is None:
            return
        choice = choose_checkpoint(CHECKPOINT)
        level = logging.WARNING if choice.folder is None else logging.INFO
        logger.log(level, "%s", choice.why)

    def _write_untrained(self, folder: Path, on_progress: Progress) -> None:
        from ap_ranker.training.untrained import write_untrained  # most searches have a trained checkpoint

        assert self.documents is not None
        answers = self.faq().answers
        write_untrained(
            folder,
            [answer.text for answer in answers],
            self.language,
            source=str(self.documents.path),
            stored=have_questions(self.documents.entries),
            wordings=[answer.wordings for answer in answers],
            on_progress=on_progress,
        )

    def faq(self) -> Dataset:
        """What is searched, as data without questions: each entry with its known wordings, its stored question first.

        InputError if it is in a store that another program fills.
        """
        if self.documents is None:
            raise InputError("Expected a FAQ or documents to read, found a store. Name them.")
        wordings = WordingFiles().now(self.wordings)
        return searched_faq(str(self.documents.path), self.documents.entries, self.match, wordings)

    def look(self, search: DeclaredPipeline) -> list[object]:
        """What differs after every change of the checkpoints that a search has; those of the hub do not change."""
        folders: set[Path] = set()
        if self.untrained is None:
            for part in components_of(search.pipeline):
                if hasattr(part, "model"):
                    folders.add(Path(str(part.model)))
        else:
            folders.add(CHECKPOINT)
        return [checkpoint_version(folder) for folder in sorted(folders)]

    def load(self) -> tuple[DeclaredPipeline, list[Document]]:
        """The pipeline with filled stores, and the documents written into them; InputError if that fails."""
        keep_encodings(self.keep)
        search = DeclaredPipeline.load(self.pipeline, self.current())
        search.version = self.look(search)  # before they are read, so that a change meanwhile is seen later
        search.add_wordings(self.wordings)
        if self.synonyms is not None:
            search.use_synonyms(self.synonyms)
        with report_store_errors(search.path, search.place):
            entries = None
            if self.documents is not None:
                entries = self.documents.entries
            return search, search.fill(entries, self.match)

    def warm_up(self, search: DeclaredPipeline, documents: Sequence[Document]) -> None:
        """Make a pipeline ready to search in this process; InputError if it, its store or its server fails."""
        with report_store_errors(search.path, search.place):
            search.warm_up(documents, self.limits)
        flush_encodings()
        use_one_thread()


@contextmanager
def set_up(
    documents: Path | None = None,
    *,
    pipeline: Path | None = None,
    model: str | None = None,
    language: str | None = None,
    columns: tuple[str, str] | None = None,
    match: Match = DEFAULT_MATCH,
    wordings: Sequence[Path] = (),
    synonyms: Path | None = None,
    limits: Limits = NO_LIMITS,
    overlay: Overlay | None = None,
    keep: bool = False,
    on_progress: Progress = untold,
) -> Iterator[SearchSetup]:
    """Set up a search; within the block, its files are there.

    The documents are a FAQ, a document or a folder; without them, what the pipeline's stores hold is searched. Their
    `columns` of questions and answers are recognized unless named; `match` is the text of an entry that is matched with
    the question; the overlay, such as the owner's changes, is laid over them.

    Without a pipeline's YAML file, which names its checkpoints, it is a default one: by words and, if the model has
    vectors, by meaning. Its checkpoint is `model`, a folder or a hub name, obeyed with a warning if its training does
    not recommend it; by default the one that `choose_checkpoint` takes of `checkpoints/faq`, or else the default
    encoder as it was pretrained. A notice says which, and why. BM25's stemmer is that of its language.

    `wordings` are files of questions that are known to ask for an entry, `synonyms` is one for BM25, and `keep` keeps
    encoded answers for the next run, in the user's cache folder. `on_progress` gets the step in words, how many files
    or texts are read, and their number.
    """
    if pipeline is not None and (model is not None or language is not None):
        option = "--model" if model is not None else "--language"
        raise InputError(f"Expected --pipeline or {option}, found both: {pipeline} names its own; change it there.")
    if pipeline is None and documents is None:
        raise InputError(
            "Expected documents to search, or a pipeline (--pipeline) whose store is filled, found neither. "
            "Name a FAQ or a folder: --documents FAQ.csv"
        )
    check_limits(None, limits.get("precision"))  # before a checkpoint is loaded, which takes seconds
    watched = None
    if documents is not None:
        watched = WatchedFolder(documents, columns, overlay)
    if watched is not None:
        watched.read(on_progress)
        log_wordings_of_no_entry(wordings, watched.entries, match)
    setup = SearchSetup(
        pipeline or BY_WORDS, watched, match=match, wordings=wordings, limits=limits, synonyms=synonyms, keep=keep
    )
    with ExitStack() as stack:
        stack.callback(keep_encodings, False)
        stack.callback(flush_encodings)
        if pipeline is None:
            restore(CHECKPOINT)
            if model is None:
                folder = Path(stack.enter_context(TemporaryDirectory(prefix="ap-ranker-")))
                setup = replace(setup, untrained=folder / "untrained", language=language)
                model = setup.current(on_progress)
                setup.log_choice()
            else:
                _warn_of_verdict(model)
            assert model is not None
            on_progress("loading the checkpoint", 0, 1)
            ranker = Ranker.from_pretrained(model)  # kept until the pipeline shares it
            on_progress("loading the checkpoint", 1, 1)
            check_same_language(ranker, language)
            named = BY_MEANING if ranker.has_vectors else BY_WORDS
            setup = replace(setup, pipeline=named, checkpoint=ranker.source)
        yield setup


def _warn_of_verdict(model: str) -> None:
    """A checkpoint that is named is searched with, whatever its training says of it."""
    config = read_checkpoint_config(find_checkpoint(model))
    if not is_recommended(config):
        logger.warning("%s is searched with as you name it. It is not recommended: %s.", model, reason(config))


def search_faq(
    questions: Sequence[str], setup: SearchSetup, top_k: int | None = None, on_progress: Progress = untold
) -> list[dict[str, Any]]:
    """Put questions to a search; without `top_k`, with as many answers as its pipeline says.

    For each question, there is `question`, the fields of a `Decision`, and `answers`, or maybes, with `score`,
    `question` (`None` if not stored), `answer`; if a known wording found it, `matched_wording`; if it is known,
    `source` with the fields of `Source`. `parts` are the same of each question in a text that asks several.
    `on_progress` is as for `set_up`.
    """
    search, _ = setup.load()
    results = []

    def ask(question: str) -> SearchedQuestion:
        return SearchedQuestion(question, *search.answer(question, setup.limits, top_k))

    with report_store_errors(search.path, search.place):
        search.prepare(on_progress)
        logger.info("%s", search.describe_decisions(setup.limits))
        for question in questions:
            whole = ask(question)
            kind, parts = search_parts(whole, ask)
            results.append(_result(whole) | {"kind": str(kind), "parts": list(map(_result, parts))})
    flush_encodings()  # now: nobody else may hold the checkpoint of a pipeline that a file declares
    return results


def _result(searched: SearchedQuestion) -> dict[str, Any]:
    answers: list[dict[str, Any]] = []
    if searched.decision.outcome is not Outcome.NONE:
        answers = [_as_json(document, searched.question) for document in searched.documents]
    return {"question": searched.question, **searched.decision.as_json(), "answers": answers}


def _as_json(document: Document, question: str) -> dict[str, Any]:
    """A document that answers a question, as `search_faq` describes it."""
    meta = document.meta
    stored_question = meta.get("question")
    answer: dict[str, Any] = {
        "score": document.score,
        "question": None if stored_question is None else str(stored_question),
        "answer": str(meta.get("answer") or document.content or ""),
    }
    of_question = query_data(document, query_key(question))
    if MATCHED in of_question:
        answer[MATCHED] = of_question[MATCHED]
    source = source_of(document)
    if source is not None:
        answer["source"] = asdict(source)
    return answer
