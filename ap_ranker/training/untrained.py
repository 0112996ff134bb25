"""A checkpoint that has learnt nothing: the default encoder, for searching before there are questions to train on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from ap_ranker.data.dataset import Answer, Dataset
from ap_ranker.evaluation.dev_choice import rank_for_left_out_wordings
from ap_ranker.evaluation.weight_fit import UNTRAINED, fit_weight
from ap_ranker.progress import Progress, untold
from ap_ranker.ranking.cache import CACHE_BYTES, EncodingCache
from ap_ranker.ranking.checkpoint import CheckpointConfig, round_as_stored, save_checkpoint
from ap_ranker.ranking.faq_sketch import FAQSketch
from ap_ranker.ranking.priors import floor_of, random_scores
from ap_ranker.ranking.ranker import Ranker, resolve_device
from ap_ranker.ranking.rule import MODEL, Weights
from ap_ranker.ranking.text_encoder import warn_of_cut_texts
from ap_ranker.ranking.wordings import DEFAULT_WEIGHT
from ap_ranker.training.card import untrained_card
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.initialize import initialize_model
from ap_ranker.training.prior_calibration import untrained_calibration

SAMPLE = 200
"""Number of texts that the projection is fitted to: their tokens are far more than its directions."""

ASKED = 300
"""Number of entries whose wordings are asked: all have to be encoded, and of fewer than half the entries of a FAQ the
weight was as good (dev MRR lower by at most .005)."""


def write_untrained(
    folder: str | Path,
    texts: Sequence[str],
    language: str | None = None,
    *,
    source: str = "",
    stored: bool = True,
    options: Mapping[str, Any] = MappingProxyType({}),
    wordings: Sequence[Sequence[str]] = (),
    warn_of_cuts: bool = False,
    on_progress: Progress = untold,
) -> CheckpointConfig:
    """Write the checkpoint of an untrained `ap-transformer`, as `untrained_ranker` makes it.

    The card names the `source` of the texts. InputError if there is no such encoder, or the folder cannot be written.
    """
    ranker = untrained_ranker(
        texts,
        language,
        source=source,
        stored=stored,
        options=options,
        wordings=wordings,
        warn_of_cuts=warn_of_cuts,
        on_progress=on_progress,
    )
    assert ranker.config is not None
    card = untrained_card(ranker.config, f"{len(texts):,} texts of {source or 'the documents'}")
    save_checkpoint(Path(folder), ranker.config, ranker.model, ranker.tokenizer, card)
    return ranker.config


def untrained_ranker(
    texts: Sequence[str],
    language: str | None = None,
    *,
    source: str = "",
    stored: bool = True,
    options: Mapping[str, Any] = MappingProxyType({}),
    wordings: Sequence[Sequence[str]] = (),
    warn_of_cuts: bool = False,
    device: str | None = None,
    on_progress: Progress = untold,
) -> Ranker:
    """An untrained `ap-transformer` as its checkpoint would rank, with how rare words are in the texts to be searched.

    Training that far needs questions: without any, the weights of words and of BM25 are fixed, and
    probabilities are those of the encoder's prior (`ranking/priors.py`), if any: without one, nothing is sure, but what
    scores no more than questions about other matters is not shown. The `language` is that of BM25's
    stemmer; `stored` says whether most of the texts have a stored question; the
    `options` of the model name another `encoder`, any of sentence-transformers, by name or folder, and say how it reads
    (prompts) and whether it is copied (`linked`).

    `wordings` are the known ones of each text, if any are, its stored question first. How much they count is fitted to
    them: each is asked as if nobody had known it (`leave_one_out`), of at most 300 entries.

    `warn_of_cuts` logs how many texts are too long for the encoder; a search over the checkpoint does so itself.
    `on_progress` gets the step in words, how many texts are read, and their number.

    InputError if there is no such encoder.
    """
    config = TrainingConfig("ap-transformer", options, epochs=0, language=language)
    resolved_device = resolve_device(device)
    rows = np.random.default_rng(config.seed).permutation(len(texts))[:SAMPLE]
    sample = Dataset(source or "FAQ.csv", [Answer(str(row), texts[row]) for row in rows], [])
    model, tokenizer, inputs = initialize_model(
        sample, config, config.model_options, None, resolved_device, on_progress
    )
    round_as_stored(model.state_dict().items())
    tokens, n_cut = tokenizer.encode(texts)
    tokenizer.told_of_cuts = True  # a sample of the texts is read below, of which no count is worth a warning
    if n_cut and warn_of_cuts:
        warn_of_cut_texts(n_cut, len(texts), tokenizer.max_tokens)
    if model.statistics is not None:
        model.statistics.count(tokens)
    checkpoint = CheckpointConfig(
        config.model,
        config.model_options,
        inputs.embedding_size,
        inputs.max_tokens,
        training={"epochs": 0, "data": source},
        bm25_language=language,
        wording_weight=DEFAULT_WEIGHT,
        encoder=inputs.encoder,
        faq=FAQSketch.with_language(texts),
    )
    cache = EncodingCache(CACHE_BYTES)  # the weight, the prior and the floor below need the same texts
    ranker = Ranker(model.eval(), tokenizer, resolved_device, checkpoint, cache=cache)
    if not texts:
        return ranker
    if any(wordings):
        checkpoint = replace(checkpoint, wording_weight=_wording_weight(ranker, texts, wordings, on_progress))
        ranker.config = checkpoint
    wordings_of_texts = wordings if any(wordings) else [()] * len(texts)
    answers = [Answer(str(row), text, tuple(wordings_of_texts[row])) for row, text in enumerate(texts)]
    calibration = untrained_calibration(ranker, answers, stored=stored)
    if calibration is None:
        best = random_scores(ranker, texts).max(axis=1)
        checkpoint = replace(checkpoint, floor=floor_of(best))
    else:
        checkpoint = replace(checkpoint, calibration={MODEL: calibration})
    ranker.config = checkpoint
    return ranker


def _wording_weight(
    ranker: Ranker, texts: Sequence[str], wordings: Sequence[Sequence[str]], on_progress: Progress
) -> float:
    rows = np.random.default_rng(0).permutation(len(texts))[:ASKED]
    entries = [Answer(str(row), texts[row], tuple(wordings[row])) for row in rows]
    signals, right = rank_for_left_out_wordings(ranker, Dataset("own wordings", entries, []), on_progress=on_progress)
    return fit_weight(signals, right, Weights(DEFAULT_WEIGHT), "wording", prior=UNTRAINED).wording
