"""What a GPU computes, against the CPU's numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from conftest import TEXTS, make_model, write_checkpoint, write_encoder
from naive import CASES
from naive.case import Case

from ap_ranker.data.dataset import Dataset
from ap_ranker.evaluation.evaluate import evaluate
from ap_ranker.ranking.cache import EncodingCache
from ap_ranker.ranking.captured_encoder import MOST_APART_UNPADDED
from ap_ranker.ranking.quantization import StateDtype
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.text.tokenizer import TokenBatch
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.train import train
from benchmarks.latency import copy_bandwidth

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")]

WORDS = ["[PAD]", "[UNK]", "parcel", "refund", "the", "a", "bike", "where", "my", "is", "open", "link", "helmet"]
QUESTIONS = [[3, 5, 2, 9], [7], [4, 4, 8, 1, 6, 2]]
ANSWERS = [[2, 3, 11, 5, 9, 12, 4], [6, 1], [10], [5, 2, 3, 9, 9], [8, 7, 6, 5, 4, 3, 2, 1, 11, 12]]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_scores_of_every_model(case: Case) -> None:
    model = make_model(case.name, WORDS, case.options).double().eval()
    found = {}
    with torch.no_grad():
        for device in ("cpu", "cuda"):
            questions, answers = (TokenBatch.from_lists(texts, device) for texts in (QUESTIONS, ANSWERS))
            found[device] = model.to(device)(questions, answers).cpu()
    assert torch.allclose(found["cuda"], found["cpu"], rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["ap-transformer", "ap-cnn", "bimpm"])
@pytest.mark.parametrize("dtype", list(StateDtype))
def test_a_ranker_with_a_cache(name: str, dtype: StateDtype, tmp_path: Path) -> None:
    folder = write_checkpoint(name, tmp_path / "c")
    rankers = [Ranker.from_pretrained(folder, device, cache=EncodingCache(10**7, dtype)) for device in ("cpu", "cuda")]
    for _ in ("cold", "warm"):
        expected, found = (ranker.score("Where is my bike?", TEXTS) for ranker in rankers)
        # A number between two integers may be rounded to either.
        tolerance = {StateDtype.int8: 2e-2, StateDtype.int4: 0.1}.get(dtype, 1e-3)
        assert torch.allclose(found, expected, atol=tolerance)


@pytest.mark.parametrize("name", ["ap-transformer", "ap-cnn"])
def test_a_checkpoint_trained_on_a_gpu_ranks_as_well_on_a_cpu(name: str, pairs: Dataset, tmp_path: Path) -> None:
    options = {"encoder": str(write_encoder(tmp_path / "encoder"))} if name == "ap-transformer" else {}
    config = TrainingConfig(name, options, epochs=20, batch_size=3, max_tokens=20, encoder_learning_rate=5e-3)
    # Each question wants the answer of another, which nobody can know untrained.
    wrong = [replace(each, positives=((row + 1) % 3,)) for row, each in enumerate(pairs.questions)]
    data = replace(pairs, questions=wrong)
    result = train(data, data, tmp_path / "c", config, device="cuda")
    assert result.best_epoch > 0
    on_cpu = evaluate(tmp_path / "c", data, device="cpu")
    assert on_cpu.model == pytest.approx(result.dev.model, abs=1e-6)


def test_encodings_of_a_gpu_are_those_of_a_cpu(tmp_path: Path) -> None:
    folder = write_checkpoint("ap-transformer", tmp_path / "c")
    cpu, gpu = (Ranker.from_pretrained(folder, device) for device in ("cpu", "cuda"))
    assert torch.allclose(gpu.embed_answers(TEXTS), cpu.embed_answers(TEXTS), atol=1e-4)
    assert torch.allclose(gpu.embed_questions(TEXTS), cpu.embed_questions(TEXTS), atol=1e-4)


@pytest.mark.parametrize("rows", [1, 5, 32])
def test_questions_encoded_by_graphs(rows: int, tmp_path: Path) -> None:
    """Have the states that they have without, also if others are encoded meanwhile."""
    ranker = Ranker.from_pretrained(write_checkpoint("ap-transformer", tmp_path / "c"), "cuda")
    words = " ".join(TEXTS).split()
    found = []
    with torch.inference_mode():
        for longest in (3, 3, 9, 18, 18, 7, 1):
            texts = [" ".join(words[place % 20 :][: longest - place % longest]) for place in range(rows)]
            found.append((texts, ranker.encode_questions(texts)))
        assert {width for _, width in ranker._checkpoint.captured._passes} == {16, 20}
        for texts, states in found:
            tokens = ranker.tokenize_questions(texts)
            expected = ranker.model.encode_questions(TokenBatch.from_lists(tokens, "cuda"))
            assert torch.equal(states.mask, expected.mask)
            for name in ("states", "weights"):
                assert torch.allclose(
                    states.per_token[name], expected.per_token[name], rtol=0, atol=MOST_APART_UNPADDED
                )
            assert torch.allclose(
                states.per_text["pooled"], expected.per_text["pooled"], rtol=0, atol=MOST_APART_UNPADDED
            )


def test_copy_bandwidth() -> None:
    """Between a slow laptop's GPU and ten times the fastest that there is."""
    assert 1e10 < copy_bandwidth(torch.device("cuda")) < 1e14
