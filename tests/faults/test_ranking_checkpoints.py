"""Checkpoints that are none: each is refused at loading with one short error, runs nothing and takes no memory."""

from __future__ import annotations

import copy
import json
import os
import shutil
import stat
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import TEXTS, write_checkpoint, write_encoder
from forked import run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from naive.ap_transformer import TINY
from refusals import absent, refused
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, processors

from ap_ranker.errors import InputError
from ap_ranker.models.pretrained import read_encoder_config
from ap_ranker.models.transformer_encoder import TransformerEncoder
from ap_ranker.ranking.checkpoint import CONFIG, TOKENIZER, WEIGHTS, load_checkpoint, read_checkpoint_config
from ap_ranker.ranking.ranker import Ranker

CHECKPOINTS = ["ap-cnn", "ap-transformer", "bm25", "abcnn-1"]


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("originals")
    return {name: write_checkpoint(name, folder / name) for name in CHECKPOINTS}


@pytest.fixture
def folder(originals: dict[str, Path], tmp_path: Path) -> Path:
    return shutil.copytree(originals["ap-cnn"], tmp_path / "c")


@pytest.fixture
def reading(originals: dict[str, Path], tmp_path: Path) -> Path:
    """A checkpoint that reads with an encoder."""
    return shutil.copytree(originals["ap-transformer"], tmp_path / "t")


def change(folder: Path, name: str, value: Any) -> None:
    """Set a field of `config.json`, such as `options.filters`."""
    config = json.loads((folder / CONFIG).read_text())
    *parents, last = name.split(".")
    fields = config
    for parent in parents:
        fields = fields[parent]
    fields[last] = value
    (folder / CONFIG).write_text(json.dumps(config))


def refusal(folder: Path) -> str:
    """What the user reads."""
    with pytest.raises(InputError) as caught:
        Ranker.from_pretrained(folder, "cpu")
    message = str(caught.value)
    assert len(message.splitlines()) <= 3
    assert len(message) < 800
    assert str(folder) in message
    return message


# --- files ---


@pytest.fixture(params=[0o022, 0o077, 0o002])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_all_files_have_the_mode_that_the_umask_says(tmp_path: Path, umask: int) -> None:
    folder = write_checkpoint("ap-cnn", tmp_path / "c")
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}
    assert modes == dict.fromkeys(modes, 0o666 & ~umask)
    assert WEIGHTS in modes


# --- code ---


@pytest.fixture
def no_question(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(*_: object) -> str:
        raise AssertionError("asked")

    monkeypatch.setattr("builtins.input", ask)


CODE = {"AutoConfig": "evil.Config", "AutoModel": "evil.Model"}
EVIL = 'from pathlib import Path\n(Path(__file__).parent / "was-run").touch()\nConfig = Model = None\n'


@pytest.mark.usefixtures("no_question")
@pytest.mark.parametrize("where", ["encoder.auto_map", "encoder.text_config"])
def test_a_checkpoint_runs_no_code(reading: Path, where: str) -> None:
    (reading / "evil.py").write_text(EVIL)
    change(reading, where, CODE if where.endswith("auto_map") else {"auto_map": CODE})
    message = refusal(reading)
    assert not absent(f"{reading / CONFIG} … 'auto_map'", message)
    with refused("auto_map"):  # as other commands read it
        read_checkpoint_config(reading)


@pytest.mark.usefixtures("no_question")
@pytest.mark.parametrize("model_type", ["bert", "unheard-of"])
def test_an_encoder_runs_no_code(tmp_path: Path, model_type: str) -> None:
    folder = write_encoder(tmp_path / "encoder")
    encoder = TransformerEncoder(read_encoder_config(folder), 0.0, frozen=False)
    (folder / "evil.py").write_text(EVIL)
    change(folder, "model_type", model_type)
    change(folder, "auto_map", CODE)
    with refused("encoder/config.json … auto_map"):
        read_encoder_config(folder)
    encoder.load_pretrained(folder)  # by the names of its weights
    assert not (folder / "was-run").exists()


@pytest.mark.usefixtures("no_question")
def test_no_attention_is_fetched_from_the_hub(reading: Path) -> None:
    change(reading, "encoder.attn_implementation", "somebody/attention")
    assert not absent("'attn_implementation'", refusal(reading))


# --- sizes ---


def test_absurd_sizes_take_neither_memory_nor_time(originals: dict[str, Path], tmp_path: Path) -> None:
    """In a process of its own, whose peak is measured."""
    cases = [
        ("ap-cnn", "embedding_size", 700_000),
        ("ap-cnn", "embedding_size", 10**12),
        ("ap-cnn", "options.filters", 10**6),
        ("ap-cnn", "options.filters", 10**30),
        ("ap-cnn", "options.window", 10**6),
        ("ap-cnn", "max_tokens", 10**30),
        ("abcnn-1", "max_tokens", 900_000),
        ("hd-lstm", "options.layers", 10**6),
        ("hd-lstm", "options.layers", 10**9),
        ("ap-transformer", "options.size", 10**9),
        *(
            ("ap-transformer", f"encoder.{name}", number)
            for name in ("hidden_size", "num_hidden_layers", "intermediate_size", "vocab_size", "num_labels")
            for number in (10**6, 10**9, 10**25)
        ),
        ("ap-transformer", "encoder.id2label", {str(n): str(n) for n in range(1000)}),
    ]
    folders = []
    for number, (name, field, value) in enumerate(cases):
        original = originals.get(name) or write_checkpoint(name, tmp_path / name)
        folders.append(str(shutil.copytree(original, tmp_path / str(number))))
        change(Path(folders[-1]), field, value)
    script = textwrap.dedent("""
        import json, resource, sys, time
        from ap_ranker import InputError, Ranker
        def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for folder in sys.argv[1:3]:
            Ranker.from_pretrained(folder, "cpu")
        results = []
        for folder in sys.argv[3:]:
            before, begun, message = peak(), time.process_time(), ""
            try:
                Ranker.from_pretrained(folder, "cpu")
            except InputError as error:
                message = str(error)
            results.append((message, peak() - before, time.process_time() - begun))
        print(json.dumps(results))
    """)
    done = run(script, originals["ap-cnn"], originals["ap-transformer"], *folders)
    assert done.returncode == 0, done.stderr
    for case, (message, kilobytes, seconds) in zip(cases, json.loads(done.stdout), strict=True):
        assert kilobytes < 100_000, case
        assert seconds < 8, case
        if "label" not in case[1]:  # the number of classes means nothing for an encoder
            assert "expected" in message.lower(), case
            assert "must be from" in message or message.count("\n") == 0, case


def test_limits_name_themselves(folder: Path, reading: Path) -> None:
    change(folder, "embedding_size", 10**12)
    assert not absent("embedding_size … 1000000 … 1000000000000", refusal(folder))
    change(folder, "embedding_size", 700_000)
    assert not absent("ap-cnn … config.json", refusal(folder))
    change(reading, "encoder.num_hidden_layers", 10**9)
    assert not absent("encoder … 1,000 … 1000000000", refusal(reading))
    change(reading, "encoder.num_hidden_layers", 10**6)
    assert not absent("layers", refusal(reading))


# --- config.json ---

NONSENSE = [None, True, -1, 0, 0.5, "x", "", [], [1], {}, {"a": 1}, float("nan"), float("inf"), -(10**400), 10**400]


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_every_field_of_every_wrong_type(originals: dict[str, Path], tmp_path: Path, name: str) -> None:
    """Each value of each field, and no field at all: it loads, and then scores, or it is refused."""
    folder = shutil.copytree(originals[name], tmp_path / "c")
    config = json.loads((folder / CONFIG).read_text())
    refused = 0
    for field in config:
        for value in NONSENSE:
            (folder / CONFIG).write_text(json.dumps(config | {field: value}))
            refused += not loads(folder)
        (folder / CONFIG).write_text(json.dumps({key: value for key, value in config.items() if key != field}))
        refused += not loads(folder)
    assert refused > 8 * len(config)


def loads(folder: Path) -> bool:
    """Whether it can be used; it can or says why not, in three lines."""
    try:
        scores = Ranker.from_pretrained(folder, "cpu").score(TEXTS[0], TEXTS)
    except InputError as error:
        assert len(str(error).splitlines()) <= 3, error
        assert len(str(error)) < 1000, error
        assert str(error).isprintable(), error
        return False
    assert scores.isfinite().all()
    return True


FIT = {"score": 1, "margin": 1, "bias": 0, "thresholds": {}}
MANY_THRESHOLDS = {f"0.{n + 1:06}": 0.5 for n in range(100_000)}


@pytest.mark.parametrize(
    ("field", "value", "facts"),
    [
        ("model", 7, "model … 7"),
        ("model", "ap-cn\n", "model … abcnn-1"),
        ("options", [], "options … []"),
        ("options.filters", "many", "filters … many"),
        ("options.filters", -3, "filters … 1 … -3"),
        ("options.sharpness", float("nan"), "sharpness … 1,000 … nan"),
        ("options.bogus", 1, "ap-cnn … bogus"),
        ("embedding_size", "8", "embedding_size … 8"),
        ("max_tokens", 0, "max_tokens … 1 … 0"),
        ("max_tokens", True, "max_tokens … True"),
        ("training", "no", "training … 'no'"),
        ("training.match", "neither", "training … match … both, answer, question"),
        ("segmenter", 3, "segmenter … 3"),
        ("bm25_weight", float("nan"), "bm25_weight … nan"),
        ("bm25_weight", -1, "bm25_weight … 0 … -1"),
        ("bm25_language", "x", "bm25_language … 'x'"),
        ("bm25_language", [3], "bm25_language … [3]"),
        ("encoder", "bert", "encoder … 'bert'"),
        ("encoder", TINY, "encoder … ap-cnn"),
        ("calibration", {"bogus": {}}, "bogus … score"),
        ("calibration", {"bogus": FIT}, "calibration … model … fused … 'bogus'"),
        ("calibration", {"model": FIT | {"thresholds": {"0.9": 7}}}, "thresholds.0.9 … 1"),
        (
            "calibration",
            {"model": FIT | {"thresholds": MANY_THRESHOLDS}},
            "thresholds … 100",
        ),
        ("calibration", {"model": FIT | {"thresholds": {"9" * 100_000: 0.5}}}, "thresholds … 30"),
        ("max_tokens", 10_001, "max_tokens … 10000 … 10001"),
        ("extra", 1, "config.json … 'extra' … names"),
        ("extra\ud800", 1, ""),
        ("format_version", "9" * 5000, "version 1"),
    ],
)
def test_a_wrong_field_is_named(folder: Path, field: str, value: Any, facts: str) -> None:
    change(folder, field, value)
    found = refusal(folder)
    assert not absent(facts, found)
    assert found.isprintable()


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"null", b"7", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000, b"9" * 6000]
)
def test_a_config_that_is_no_object(folder: Path, content: bytes) -> None:
    (folder / CONFIG).write_bytes(content)
    assert not absent(f"{folder / CONFIG}", refusal(folder))


def test_longer_texts_than_the_encoder_reads(reading: Path) -> None:
    change(reading, "max_tokens", 25)
    assert not absent("max_tokens … max_position_embeddings … 24 … 25", refusal(reading))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(NONSENSE),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)


def paths(value: Any) -> list[list[str]]:
    """To each field of an object, and of those in it."""
    return (
        [p for key, each in value.items() for p in ([key], *([key, *rest] for rest in paths(each)))]
        if isinstance(value, dict)
        else []
    )


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
@pytest.mark.parametrize("name", ["ap-cnn", "ap-transformer"])
def test_a_changed_config_loads_or_is_refused(
    name: str, originals: dict[str, Path], tmp_path: Path, data: st.DataObject
) -> None:
    folder = tmp_path / "c"
    if not folder.exists():
        shutil.copytree(originals[name], folder)
    config = json.loads((originals[name] / CONFIG).read_text())
    config["calibration"] = {"model": {"score": 1.0, "margin": 1.0, "bias": 0.0, "thresholds": {"0.9": 0.5}}}
    for _ in range(data.draw(st.integers(1, 2))):
        *parents, last = data.draw(st.sampled_from([*paths(config), ["new"], ["encoder", "new"]]))
        fields = config
        for parent in parents:
            fields = fields[parent] if isinstance(fields.get(parent), dict) else fields
        if data.draw(st.integers(0, 9)):
            fields[last] = data.draw(values)
        else:
            fields.pop(last, None)
    (folder / CONFIG).write_text(json.dumps(config))
    loads(folder)


# --- model.safetensors ---


def test_cut_weights(folder: Path) -> None:
    weights = folder / WEIGHTS
    whole = weights.read_bytes()
    for length in (0, 1, 7, 8, 9, 100, 300, len(whole) // 2, len(whole) - 1):
        weights.write_bytes(whole[:length])
        assert not absent(f"{weights} … ap-cnn", refusal(folder))


@pytest.mark.parametrize(
    "header",
    [
        b"{}",
        b"null",
        b'{"x":{"dtype":"F32","shape":[1000000000,1000000],"data_offsets":[0,4]}}',
        b'{"x":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}',
        b'{"x":{"dtype":"NONE","shape":[1],"data_offsets":[0,4]}}',
        b"{" * 5000,
    ],
)
def test_nonsense_in_the_weights_header(folder: Path, header: bytes) -> None:
    (folder / WEIGHTS).write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    assert not absent(f"{folder / WEIGHTS} … ap-cnn", refusal(folder))


def test_too_many_and_too_few_weights(folder: Path) -> None:
    weights = load_file(folder / WEIGHTS)
    save_file(weights | {"extra\n\n\n": torch.zeros(3)}, folder / WEIGHTS)
    assert not absent("extra … none … [3] … 1", refusal(folder))
    first = sorted(weights)[0]
    save_file({name: value for name, value in weights.items() if name != first}, folder / WEIGHTS)
    assert not absent(f"{first} … {list(weights[first].shape)} … none … 1", refusal(folder))


# --- tokenizer.json ---


def word_level(vocabulary: dict[str, int], unknown: str = "[UNK]") -> Tokenizer:
    return Tokenizer(models.WordLevel(vocabulary, unknown))


def with_missing_special_tokens() -> Tokenizer:
    tokenizer = word_level({"[PAD]": 0, "[UNK]": 1})
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 9**9), ("[CLS]", 9**9))
    return tokenizer


OTHER_KINDS: dict[str, Callable[[], Tokenizer]] = {
    "empty": lambda: Tokenizer(models.BPE()),
    "bpe": lambda: Tokenizer(models.BPE({"[PAD]": 0, "[UNK]": 1, "a": 2}, [], unk_token="[UNK]")),
    "wordpiece": lambda: Tokenizer(models.WordPiece({"[PAD]": 0, "[UNK]": 1}, unk_token="[UNK]")),
    "unigram": lambda: Tokenizer(models.Unigram([("[PAD]", 0.0), ("[UNK]", 0.0)], 1, False)),
    "no-words": lambda: word_level({}),
    "no-unknown-word": lambda: word_level({"[PAD]": 0, "a": 1}),
    "another-unknown-word": lambda: word_level({"[PAD]": 0, "[UNK]": 1}, "none"),
    "gaps": lambda: word_level({"[PAD]": 0, "[UNK]": 1, "a": 70_000}),
    "special-tokens-beyond-the-vocabulary": with_missing_special_tokens,
}


@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_tokenizers_of_other_kinds(kind: str, folder: Path, reading: Path) -> None:
    for checkpoint in (folder, reading):
        OTHER_KINDS[kind]().save(str(checkpoint / TOKENIZER))
    message = refusal(folder)
    assert str(folder / TOKENIZER) in message or kind == "special-tokens-beyond-the-vocabulary"
    loads(reading)  # an encoder's may be of any kind; scoring then works or tells


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255), cut=st.booleans())
@pytest.mark.parametrize("name", ["ap-cnn", "ap-transformer"])
def test_a_changed_tokenizer_loads_or_is_refused(
    name: str, originals: dict[str, Path], tmp_path: Path, place: float, byte: int, cut: bool
) -> None:
    folder = tmp_path / "c"
    if not folder.exists():
        shutil.copytree(originals[name], folder)
    content = bytearray((originals[name] / TOKENIZER).read_bytes())
    at = int(place * len(content))
    content[at] = byte
    (folder / TOKENIZER).write_bytes(content[:at] if cut else content)
    loads(folder)


# --- what loads as before ---


def test_weights_are_read_as_ever(name: str, tmp_path: Path) -> None:
    folder = write_checkpoint(name, tmp_path / "c")
    config, model, _ = load_checkpoint(folder)
    stored = load_file(folder / WEIGHTS)
    state = copy.copy(model.state_dict())
    assert state.keys() == stored.keys()
    assert all(torch.equal(state[key], stored[key]) for key in stored)
    assert config == read_checkpoint_config(folder)
    assert all(value.device.type == "cpu" for value in [*model.parameters(), *model.buffers()])
