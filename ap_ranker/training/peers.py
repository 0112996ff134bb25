"""Models of sentence-transformers: what a user would train or take instead, or lets a student learn from.

Those to train, a bi-encoder and a cross-encoder, start from the pretrained encoder of `ap-transformer` and learn from
the same questions by the losses that the library advises, with wrong answers that are hard (`peer_lessons.py`). The dev
questions choose the epoch, also that before any training. Ready ones are `bi-encoder:NAME` and `cross-encoder:NAME`, by
a name on the hub or a folder. Only weights in safetensors are read, and code that a model brings is never run.
"""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel, TrainingArguments, set_seed

from ap_ranker.data.dataset import Dataset
from ap_ranker.errors import InputError, check_known, extra_for, library_errors
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.scoring import CandidateScores
from ap_ranker.files import atomic_directory, hash_of_files
from ap_ranker.kept_results import Latest
from ap_ranker.models.pretrained import check_numbers, encoder_hash, find_encoder, refuse_code, stored_shapes
from ap_ranker.models.sentence_modules import modules_of
from ap_ranker.models.transformer_encoder import multiplies_bfloat16
from ap_ranker.safe_open import read_json_file
from ap_ranker.text.question_keys import keys_of_questions, question_keys
from ap_ranker.text.tokenizer_file import read_tokenizer
from ap_ranker.training.best_epoch import BestEpoch
from ap_ranker.training.distributed import OnOneDevice
from ap_ranker.training.freed_memory import freed_memory_kept
from ap_ranker.training.peer_lessons import Lesson, lessons_of, with_hard_candidates

Settings = Mapping[str, Any]
"""Epochs at most, learning rate, batch size, and the number of wrong answers beside each right one; with `max_tokens`
texts are cut there, else where the encoder cuts them."""

RECIPE: Settings = {"epochs": 4, "learning_rate": 5e-5, "batch_size": 32, "wrong_answers": 4}
"""Where `examples/fair_peers` begins to tune."""

Arguments = Callable[..., Any]
"""Makes the settings of a training from their class and what a kind of peer adds."""

MAX_TOKENS = 256
"""Of a question and an answer together, of a cross-encoder that is trained here; the default encoder's own limit of 128
would cut long answers."""

TEXTS_AT_ONCE = 128
"""A step of the bi-encoder that reads more texts reads them in mini-batches, with the same gradient (GradCache, Gao et
al. 2021): of 384 texts with 256 tokens each, plain attention keeps 20 GB."""

MINI_BATCH = 32
"""Number of texts in one of these mini-batches."""

SETTINGS = "peer.json"

ATTENTION_DROPOUT = ("attention_probs_dropout_prob", "attention_dropout")
"""What kinds of encoders call the dropout of attention weights. Peers learn without it, as `ap-transformer` does: that
saves a sixth of a step on a CPU, and dev questions ranked no worse (`examples/fair_peers`)."""

ENCODING: dict[str, Any] = {"normalize_embeddings": True, "show_progress_bar": False}


class BiEncoder:
    """One vector per text; the score is their cosine (Reimers & Gurevych 2019)."""

    temperature = 0.05
    """What the library's loss divides cosines by."""

    reads_pairs = False

    def __init__(self, folder: Path, device: torch.device) -> None:
        from sentence_transformers import SentenceTransformer

        self.source = f"bi-encoder:{folder}"
        self.model = SentenceTransformer(str(folder), device=str(device), **library_options(folder))
        self._answers: Latest[np.ndarray] = Latest()

    def fine_tune(self, lessons: Sequence[Lesson], dev: EvaluationSet, arguments: Arguments) -> BestEpoch:
        """Learn, and return the best epoch by MRR on the dev questions, with the known wordings or without."""
        from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
        from sentence_transformers.base.sampler import BatchSamplers
        from sentence_transformers.sentence_transformer.losses import (
            CachedMultipleNegativesRankingLoss,
            MultipleNegativesRankingLoss,
        )

        table = table_of_lessons(lessons)
        prompts = {name: self.model.prompts.get("document") or "" for name in table.column_names}
        prompts["question"] = self.model.prompts.get("query") or ""
        settings = arguments(
            SentenceTransformerTrainingArguments,
            most_rows=most_without_copies(lessons),
            batch_sampler=BatchSamplers.NO_DUPLICATES,
            prompts=prompts,
        )
        n_texts = settings.per_device_train_batch_size * len(table.column_names)
        loss: torch.nn.Module = MultipleNegativesRankingLoss(self.model)
        if n_texts > TEXTS_AT_ONCE and self.model.device.type == "cpu":
            loss = CachedMultipleNegativesRankingLoss(self.model, mini_batch_size=MINI_BATCH)
        trainer = SentenceTransformerTrainer(self.model, settings, train_dataset=table, loss=loss)
        return learn(trainer, partial(self._dev_mrr, dev))

    def _dev_mrr(self, dev: EvaluationSet) -> float:
        self._answers.forget()
        return best_mrr(self, dev)

    def score(self, asked: EvaluationSet, *, wordings: bool = False) -> CandidateScores:
        """The candidates' scores; with `wordings` by an entry's best text, its answer or one of these, but not the
        question's own."""
        answers = asked.dataset.answers
        wording_rows: list[int] = []
        wording_texts: list[str] = []
        for row, answer in enumerate(answers if wordings else ()):
            wording_rows += [row] * len(answer.wordings)
            wording_texts += answer.wordings
        keys = [keys_of_questions([text]) for text in wording_texts]
        entries = np.array(wording_rows, int)
        started = time.perf_counter()
        vectors = self.answers(asked.dataset.answer_texts)
        others = self.questions(wording_texts) if wording_texts else vectors[:0]
        encoded = time.perf_counter()
        scores = []
        for question, pool in zip(asked.questions, asked.pools, strict=True):
            vector = self.questions([question.text])[0]
            best = vectors[list(pool)] @ vector
            if wording_texts:
                asked_keys = question_keys(question.text)
                new = np.array([other.isdisjoint(asked_keys) for other in keys])
                best_of_wordings = np.full(len(vectors), -1.0, best.dtype)
                np.maximum.at(best_of_wordings, entries[new], others[new] @ vector)
                best = np.maximum(best, best_of_wordings[list(pool)])
            scores.append(best)
        seconds = time.perf_counter() - encoded
        n_bytes = (vectors.nbytes + others.nbytes) / len(vectors)
        return CandidateScores(scores, encoded - started, seconds, n_bytes)

    def logits(self, questions: Sequence[str], answers: Sequence[str], pools: Sequence[Sequence[int]]) -> np.ndarray:
        """The scores of each question with each answer of its pool, one after the other."""
        vectors = self.answers(answers)
        asked = self.questions(questions)
        scores: list[np.ndarray] = []
        for vector, rows in zip(asked, pools, strict=True):
            scores.append(vectors[list(rows)] @ vector)
        return np.concatenate(scores)

    def answers(self, texts: Sequence[str]) -> np.ndarray:
        """(N, H) vectors of length 1, with the model's prompt for documents, if any; the last ones are kept."""
        return self._answers.get(texts, partial(self._encode_answers, texts))

    def _encode_answers(self, texts: Sequence[str]) -> np.ndarray:
        return np.asarray(self.model.encode_document(list(texts), **ENCODING))

    def questions(self, texts: Sequence[str]) -> np.ndarray:
        """(N, H) vectors of length 1, with the model's prompt for queries, if any."""
        return np.asarray(self.model.encode_query(list(texts), **ENCODING))


class CrossEncoder:
    """Reads question and answer together, so nothing can be kept (Nogueira & Cho 2019)."""

    temperature = 1.0
    reads_pairs = True

    def __init__(self, folder: Path, device: torch.device, *, ready: bool = False) -> None:
        from sentence_transformers.cross_encoder import CrossEncoder as Library

        self.source = f"cross-encoder:{folder}"
        own: dict[str, Any] = {}
        if not ready:
            own = {"num_labels": 1, "max_length": MAX_TOKENS}
        self.model = Library(str(folder), device=str(device), **own, **library_options(folder))
        # The library gives random weights to what a model of texts lacks.
        is_none = ready and str(self.model.config.architectures).endswith(("Model']", "ForMaskedLM']"))
        n_scores = "none" if is_none else self.model.num_labels
        if n_scores != 1:
            raise InputError(f"{folder}: expected a cross-encoder with one score for each pair, found {n_scores}.")

    def fine_tune(self, lessons: Sequence[Lesson], dev: EvaluationSet, arguments: Arguments) -> BestEpoch:
        """Learn, and return the best epoch by MRR on the dev questions."""
        from sentence_transformers.cross_encoder import CrossEncoderTrainer, CrossEncoderTrainingArguments
        from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss

        rows: list[tuple[str, str, float]] = []
        for lesson in lessons:
            rows.append((lesson.question, lesson.right, 1.0))
            for wrong in lesson.wrong:
                rows.append((lesson.question, wrong, 0.0))
        # So right answers weigh as much as wrong ones, as in the library's own recipe for rerankers.
        balance = torch.tensor(float(max(1, len(lessons[0].wrong))))
        trainer = CrossEncoderTrainer(
            self.model,
            arguments(CrossEncoderTrainingArguments),
            train_dataset=table_of(("question", "answer", "label"), rows),
            loss=BinaryCrossEntropyLoss(self.model, pos_weight=balance),
        )
        return learn(trainer, partial(self._dev_mrr, dev))

    def _dev_mrr(self, dev: EvaluationSet) -> float:
        # All pairs at once, by length, and in bfloat16 as its steps: else the dev questions take longer than those.
        reduced = self.model.device.type == "cpu" and multiplies_bfloat16()
        with torch.autocast("cpu", torch.bfloat16, enabled=reduced):
            scores = self.logits(dev.dataset.question_texts, dev.dataset.answer_texts, dev.pools)
        ends = np.cumsum([len(pool) for pool in dev.pools])
        return dev.measures(np.split(scores, ends[:-1]))["MRR"]

    def score(self, asked: EvaluationSet) -> CandidateScores:
        texts = asked.dataset.answer_texts
        started = time.perf_counter()
        scores: list[np.ndarray] = []
        for question, rows in zip(asked.questions, asked.pools, strict=True):
            pairs = [(question.text, texts[row]) for row in rows]
            scores.append(np.asarray(self.model.predict(pairs, show_progress_bar=False)))
        return CandidateScores(scores, 0.0, time.perf_counter() - started, 0)

    def logits(self, questions: Sequence[str], answers: Sequence[str], pools: Sequence[Sequence[int]]) -> np.ndarray:
        """The scores of each question with each answer of its pool, one after the other, before any sigmoid."""
        pairs: list[tuple[str, str]] = []
        for question, rows in zip(questions, pools, strict=True):
            for row in rows:
                pairs.append((question, answers[row]))
        return np.asarray(self.model.predict(pairs, show_progress_bar=False, activation_fn=torch.nn.Identity()))


Peer = BiEncoder | CrossEncoder
"""A model of sentence-transformers, from the folder of a pretrained encoder or of a trained peer."""

PEERS: dict[str, type[Peer]] = {"bi-encoder": BiEncoder, "cross-encoder": CrossEncoder}


def check_peers(names: Sequence[str]) -> None:
    """Refuse an unknown peer or a missing package before anything is trained."""
    for name in names:
        check_known("a peer", name.partition(":")[0], PEERS)
    needed: list[str] = []
    if names:
        needed.append("sentence_transformers")
    if not all(":" in name for name in names):  # one that is trained here
        needed.append("datasets")
    with extra_for("Models of sentence-transformers need", "peers"):
        for package in needed:
            importlib.import_module(package)


def is_ready_peer(name: object) -> bool:
    """Whether this is a model of sentence-transformers, as KIND:NAME."""
    return str(name).startswith(tuple(f"{kind}:" for kind in PEERS))


def ready_peer(text: str, device: torch.device) -> Peer:
    """The model of sentence-transformers that KIND:NAME names, as it is; InputError if it cannot be used."""
    check_peers([text])
    kind, _, name = text.partition(":")
    folder = find_encoder(name)
    with library_errors(f"{folder}: expected a {kind} of sentence-transformers with weights in safetensors"):
        peer = CrossEncoder(folder, device, ready=True) if kind == "cross-encoder" else BiEncoder(folder, device)
    peer.source = text
    return peer


def fingerprint(text: str) -> str:
    """A hash of all that KIND:NAME scores by."""
    kind, _, name = text.partition(":")
    files: list[Path] = []
    for path in find_encoder(name).rglob("*"):
        if path.suffix in (".json", ".safetensors", ".txt") and path.is_file():
            files.append(path)
    return hash_of_files(sorted(files), kind.encode())


def library_options(folder: Path) -> dict[str, Any]:
    """What the library is told of each model; InputError if its folder has code to run or weights that are pickled."""
    list(modules_of(folder))  # which are all in the folder
    for path in folder.rglob("tokenizer.json"):
        read_tokenizer(path)
    without_dropout: dict[str, float] = {}
    settings: list[Path] = []
    for name in ("config", "tokenizer_config", "modules"):
        settings += folder.rglob(f"{name}.json")
    for path in settings:
        content = read_json_file(path)
        refuse_code(content, path)
        if path.name == "config.json":
            check_numbers(content, stored_shapes(path.parent), path)
            without_dropout.update((name, 0.0) for name in ATTENTION_DROPOUT if name in content)
        if isinstance(content, dict) and "fast_tokenizer_files" in content:
            raise InputError(f"{path}: expected a tokenizer in tokenizer.json, found 'fast_tokenizer_files'.")
        for module in content if isinstance(content, list) else ():
            kind = str(module.get("type"))
            if not kind.startswith("sentence_transformers."):
                raise InputError(f"{path}: expected modules of sentence_transformers, found {kind!r}, code to be run.")
    for path in folder.rglob("pytorch_model*.bin"):
        if not any(path.parent.glob("*.safetensors")):
            raise InputError(f"{path}: expected weights in safetensors, found pickled ones, which are never loaded.")
    return {
        "local_files_only": True,
        "trust_remote_code": False,
        "model_kwargs": {"use_safetensors": True},
        "config_kwargs": without_dropout,
    }


def train_or_load_peer(
    name: str,
    encoder: Path,
    data: Dataset,
    dev: EvaluationSet,
    folder: Path,
    *,
    seed: int,
    device: torch.device,
    recipe: Settings = RECIPE,
    kinds: Mapping[str, Any] = PEERS,
) -> tuple[Any, float]:
    """The peer that an earlier run wrote to `folder`, or a new one from an encoder; the seconds of its training.

    The `dev` questions choose the epoch. InputError if the folder holds a run with another recipe, of other data or of
    another encoder.
    """
    digests = {"encoder_digest": encoder_hash(encoder), "data_digest": data.digest, "dev_digest": dev.dataset.digest}
    settings = {"encoder": encoder.name, "data": data.name, "pairs": data.pairs, **recipe, "seed": seed, **digests}
    kind = kinds[name]
    if not (folder / SETTINGS).is_file():
        set_seed(seed)
        started = time.perf_counter()
        untrained = BiEncoder(encoder, device)
        lessons = lessons_of(data, untrained, recipe["wrong_answers"], dev.language)
        if kind.reads_pairs:
            dev = with_hard_candidates(dev, untrained)
        peer = kind(encoder, device)
        if device.type == "cpu":
            _use_plain_attention(peer.model)
        max_tokens = recipe.get("max_tokens")
        if max_tokens:
            peer.model.max_seq_length = max_tokens
        with atomic_directory(folder) as draft:
            arguments = partial(_arguments, folder=draft, seed=seed, device=device, recipe=recipe)
            best = peer.fine_tune(lessons, dev, arguments)
            peer.model.save_pretrained(str(draft))
            seconds = time.perf_counter() - started
            record = settings | {"best_epoch": best.number, "dev_mrr": best.measured, "seconds": seconds}
            (draft / SETTINGS).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    record = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    seconds = float(record.pop("seconds"))
    for result in ("best_epoch", "dev_mrr"):  # which earlier recipes lack: they are refused
        record.pop(result, None)
    if record != settings:
        raise InputError(f"{folder}: expected a {name} trained with {settings}, found {record}. Name another folder.")
    # Loaded anew also after training, which leaves the library's model in reduced precision.
    return kind(folder, device), seconds


def _use_plain_attention(model: torch.nn.Module) -> None:
    """Fused attention is the faster one forwards, but with its gradient a step on a CPU takes a third longer."""
    for part in model.modules():
        if isinstance(part, PreTrainedModel):
            part.set_attn_implementation("eager")


def learn(trainer: Any, measure: Callable[[], float]) -> BestEpoch:
    """Train, and leave the model with the weights of the epoch that measures best."""
    best = BestEpoch(trainer.model, measure)
    trainer.add_callback(best)
    with freed_memory_kept():
        trainer.train()
    best.restore()
    return best


def best_mrr(peer: Any, asked: EvaluationSet) -> float:
    """The higher MRR, with the known wordings, if there are any, or without: as epochs of our own models compare."""
    mrr = asked.measures(peer.score(asked).by_question)["MRR"]
    if asked.dataset.wordings:
        indexed = peer.score(asked, wordings=True)
        mrr = max(mrr, asked.measures(indexed.by_question)["MRR"])
    return mrr


def most_without_copies(lessons: Sequence[Lesson]) -> int:
    """Number of lessons of a batch in which no answer is twice: of a small FAQ, fewer than a recipe may ask for.

    The library fills each batch from what is left. Were batches so large that most could not be filled, an epoch, whose
    steps it counts beforehand, would end before all lessons had their turn.
    """
    answers: set[str] = set()
    for lesson in lessons:
        answers.update((lesson.right, *lesson.wrong))
    n_wrong = len(lessons[0].wrong)
    if not n_wrong:
        return len(answers)
    return max(1, len(answers) // (2 * (1 + n_wrong)))


def _arguments(
    kind: type[TrainingArguments],
    *,
    folder: Path,
    seed: int,
    device: torch.device,
    recipe: Settings,
    most_rows: int | None = None,
    **others: Any,
) -> Any:
    """The settings of a training; batches have at most `most_rows`."""
    is_gpu = device.type == "cuda"
    batch_size = recipe["batch_size"]
    if most_rows is not None:
        batch_size = min(batch_size, most_rows)
    return type(kind.__name__, (OnOneDevice, kind), {})(
        on=device,
        output_dir=str(folder),
        num_train_epochs=recipe["epochs"],
        per_device_train_batch_size=batch_size,
        learning_rate=recipe["learning_rate"],
        warmup_steps=0.1,
        bf16=torch.cuda.is_bf16_supported(including_emulation=False) if is_gpu else multiplies_bfloat16(),
        seed=seed,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        logging_strategy="no",
        **others,
    )


def table_of_lessons(lessons: Sequence[Lesson]) -> Any:
    """A row for each lesson: its question, its right answer, and a column for each wrong one."""
    names = ["question", "right"]
    for place in range(len(lessons[0].wrong)):
        names.append(f"wrong_{place}")
    return table_of(names, [(lesson.question, lesson.right, *lesson.wrong) for lesson in lessons])


def table_of(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Any:
    """A table of the library `datasets`."""
    from datasets import Dataset as Table

    columns = map(list, zip(*rows, strict=True))
    return Table.from_dict(dict(zip(names, columns, strict=True)))
