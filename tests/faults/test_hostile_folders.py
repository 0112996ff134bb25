"""A checkpoint's or an encoder's folder of a stranger: pipes, links, holes, other places, sizes that nobody has."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import write_checkpoint, write_encoder
from forked import MAIN, run
from refusals import refused

from ap_ranker.models.pretrained import encoder_hash, read_encoder
from ap_ranker.models.sentence_modules import SentenceFiles
from ap_ranker.ranking.checkpoint import (
    CARD,
    CONFIG,
    MAX_TRAINED,
    TOKENIZER,
    TRAINED_QUESTIONS,
    WEIGHTS,
    find_trained,
    load_checkpoint,
    push,
    read_checkpoint_config,
)
from ap_ranker.training.card import BEGIN, END, MAX_CARD, card_with_calibration

SECONDS, MEGABYTES = 10, 2_000


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return write_checkpoint("ap-cnn", tmp_path / "checkpoint")


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    return write_encoder(tmp_path / "encoder")


def edit(path: Path, **changes: Any) -> None:
    content = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps(content | changes))


def header_of(path: Path) -> tuple[dict[str, Any], bytes]:
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def write_header(path: Path, header: dict[str, Any], numbers: bytes) -> None:
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + numbers)


# --- weights ---


def with_many_tensors(path: Path) -> None:
    header, numbers = header_of(path)
    more = {f"t{n}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for n in range(200_000)}
    write_header(path, header | more, numbers)


def with_a_long_note(path: Path) -> None:
    header, numbers = header_of(path)
    write_header(path, header | {"__metadata__": {"note": "x" * 50_000_000}}, numbers)


def with_one_place_twice(path: Path) -> None:
    """Two tensors of one place, as billions of numbers could be of one."""
    header, numbers = header_of(path)
    first, second = sorted(header, key=lambda name: str(header[name].get("data_offsets")))[:2]
    header[second] = header[first]
    write_header(path, header, numbers)


def with_a_shape_beyond_the_file(path: Path) -> None:
    header, numbers = header_of(path)
    name = next(name for name in header if "shape" in header[name])
    header[name] |= {"shape": [2**31, 2**31]}
    write_header(path, header, numbers)


def with_holes(path: Path) -> None:
    """A terabyte that takes no place on the disk."""
    header, _ = header_of(path)
    text = json.dumps({name: entry for name, entry in header.items() if "shape" in entry}).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    os.truncate(path, 2**40)


def as_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def as_a_device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def as_a_circle(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def with_another_kind_of_number(path: Path) -> None:
    header, numbers = header_of(path)
    for entry in header.values():
        if entry.get("dtype") == "F32":
            entry["dtype"] = "U32"
    write_header(path, header, numbers)


HOSTILE_WEIGHTS: list[Callable[[Path], None]] = [
    with_many_tensors,
    with_a_long_note,
    with_one_place_twice,
    with_a_shape_beyond_the_file,
    with_holes,
    as_a_pipe,
    as_a_device,
    as_a_circle,
]


def measured(command: list[object], folder: Path) -> tuple[int, str, float, int]:
    """Exit code, messages, seconds of the processor and megabytes of a command with 2 GB."""
    program = textwrap.dedent(f"""
        import atexit, resource, sys
        from pathlib import Path
        status = Path("/proc/self/status").read_text()
        own = int(status.split("VmSize:")[1].split()[0]) * 1024
        resource.setrlimit(resource.RLIMIT_AS, (own + 3 * 10**9,) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
        def tell():
            used = resource.getrusage(resource.RUSAGE_SELF)
            print(f"USED {{used.ru_utime + used.ru_stime}} {{used.ru_maxrss // 1024}}", flush=True)
        try:
            {MAIN.replace("; ", chr(10) + "            ")}
        finally:
            tell()
    """)
    done = run(program, *command, folder=folder)
    used = done.stdout.split("USED ")[-1].split()
    return done.returncode, done.stderr, float(used[0]), int(used[1])


def assert_refused(command: list[object], folder: Path, place: object) -> None:
    code, message, seconds, megabytes = measured(command, folder)
    assert code == 2, message
    assert "Traceback" not in message
    assert "panicked" not in message
    assert str(place) in "".join(message.split("\n"))
    assert message.count(". ") < 8, message
    assert seconds < SECONDS
    assert megabytes < MEGABYTES


@pytest.mark.parametrize("harm", HOSTILE_WEIGHTS)
def test_hostile_weights_of_a_checkpoint(harm: Callable[[Path], None], checkpoint: Path, tmp_path: Path) -> None:
    harm(checkpoint / WEIGHTS)
    (tmp_path / "faq.csv").write_text("question,answer\nWhere is it?,There.\n")
    assert_refused(["ask", "a", "--documents", "faq.csv", "--model", checkpoint], tmp_path, checkpoint)


@pytest.mark.parametrize("harm", HOSTILE_WEIGHTS)
def test_hostile_weights_of_an_encoder(harm: Callable[[Path], None], encoder: Path, tmp_path: Path) -> None:
    harm(encoder / WEIGHTS)
    (tmp_path / "faq.csv").write_text("question,answer\nWhere is it?,There.\n")
    assert_refused(["init", "--documents", "faq.csv", "--encoder", encoder, "--output", "c"], tmp_path, encoder)


def test_whole_numbers_are_no_weights(checkpoint: Path) -> None:
    with_another_kind_of_number(checkpoint / WEIGHTS)
    with refused(f"{checkpoint / WEIGHTS} … uint32"):
        load_checkpoint(checkpoint)


# --- the encoder's sizes ---

SIZES = [
    *((name, 10**n) for name in ("hidden_size", "num_hidden_layers", "intermediate_size") for n in (6, 9, 18)),
    ("vocab_size", 10**9),
    ("num_labels", 10**9),
    ("max_position_embeddings", 10**9),
    ("type_vocab_size", 10**9),
    ("num_attention_heads", 10**9),
    ("num_attention_heads", 0),
    ("hidden_size", -1),
    ("hidden_size", float("nan")),
]


@pytest.mark.parametrize("model_type", ["bert", "modernbert", "qwen3"])
def test_an_encoder_is_as_large_as_its_weights(model_type: str, encoder: Path, tmp_path: Path) -> None:
    """Transformers makes lists of layers and classes already when it reads a configuration."""
    own = json.loads((encoder / CONFIG).read_text())
    (tmp_path / "faq.csv").write_text("question,answer\nWhere is it?,There.\n")
    program = textwrap.dedent("""
        import json, resource, sys, time
        from pathlib import Path
        from ap_ranker import InputError
        from ap_ranker.models.pretrained import read_encoder
        encoder, cases = Path(sys.argv[1]), json.loads(sys.argv[2])
        results = []
        for config in cases:
            (encoder / "config.json").write_text(json.dumps(config))
            begun = time.process_time()
            try:
                read_encoder(str(encoder), None)
                found = ""
            except InputError as error:
                found = str(error)
            results.append((found, time.process_time() - begun))
        print(json.dumps([results, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024]))
    """)
    cases = [own | {"model_type": model_type, name: size} for name, size in SIZES]
    done = run(program, encoder, json.dumps(cases))
    assert done.returncode == 0, done.stderr
    results, megabytes = json.loads(done.stdout)
    for case, (message, seconds) in zip(SIZES, results, strict=True):
        if case[0] not in ("num_labels", "type_vocab_size", "num_attention_heads"):  # mean nothing for some
            assert message, case
        assert seconds < SECONDS, case
    assert megabytes < MEGABYTES


def test_a_configuration_fetches_no_other_model(encoder: Path) -> None:
    for changes in (
        {"use_pretrained_backbone": True, "backbone": "somebody/model"},
        {"use_timm_backbone": True},
        {"activation_fn": "os.getcwd"},
        {"sentence_transformers": {"activation_fn": "shutil.rmtree"}},
    ):
        edit(encoder / CONFIG, **changes)
        with refused(CONFIG):
            read_encoder(str(encoder), None)
        content = json.loads((encoder / CONFIG).read_text())
        (encoder / CONFIG).write_text(json.dumps({name: content[name] for name in content if name not in changes}))
    edit(encoder / CONFIG, activation_fn="torch.nn.modules.linear.Identity", activation_dropout=0.1)
    read_encoder(str(encoder), None)


# --- other places ---


@pytest.mark.parametrize("place", ["..", "../../etc", "/etc", "1_Pooling/../..", "/"])
def test_modules_are_in_their_folder(place: str, encoder: Path) -> None:
    modules = [{"idx": 0, "name": "0", "path": place, "type": "sentence_transformers.models.Transformer"}]
    (encoder / "modules.json").write_text(json.dumps(modules))
    with refused("in this folder"):
        SentenceFiles.read(encoder)
    with refused("in this folder"):
        encoder_hash(encoder)


def test_routes_are_in_their_folder(encoder: Path) -> None:
    (encoder / "modules.json").write_text(json.dumps([{"path": "", "type": "sentence_transformers.models.Router"}]))
    types = {"../..": "sentence_transformers.models.Transformer"}
    (encoder / "router_config.json").write_text(json.dumps({"types": types, "structure": {"query": ["../.."]}}))
    with refused("in this folder"):
        SentenceFiles.read(encoder)


def linked(tmp_path: Path, named: str) -> Path:
    """A checkpoint whose encoder is elsewhere, with the hash of no file at all."""
    folder = write_checkpoint("ap-transformer", tmp_path / "linked")
    config = json.loads((folder / CONFIG).read_text())
    config["options"]["encoder"] = named
    config["encoder_hash"] = hashlib.sha256(b"").hexdigest()
    (folder / CONFIG).write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize(
    "named", ["/", "..", "/etc", "https://example.org/model", "../../../x", "file:///etc", "a" * 9_000]
)
def test_a_linked_encoder_is_one(named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing has a hash, too: of `/`, all files of the machine would be looked through."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    folder = linked(tmp_path, named)
    monkeypatch.setattr(Path, "rglob", lambda *_: pytest.fail("the whole folder is searched"))
    with refused(CONFIG):
        load_checkpoint(folder)


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS, TOKENIZER, CARD])
def test_no_link_is_pushed(name: str, checkpoint: Path, tmp_path: Path) -> None:
    """It may lead to a secret of who pushes."""
    shutil.move(checkpoint / name, tmp_path / "secret")
    (checkpoint / name).symlink_to(tmp_path / "secret")
    with refused(f"{checkpoint / name} … link"):
        push(checkpoint, "somebody/model")


# --- files beside ---


@pytest.mark.parametrize("name", [CONFIG, TOKENIZER])
@pytest.mark.parametrize("harm", [as_a_pipe, as_a_device, as_a_circle])
def test_pipes_and_devices(name: str, harm: Callable[[Path], None], checkpoint: Path, encoder: Path) -> None:
    harm(checkpoint / name)
    with refused(str(checkpoint)):
        load_checkpoint(checkpoint)
    harm(encoder / name)
    with refused():
        read_encoder(str(encoder), None)


@pytest.mark.parametrize(
    "content",
    [b'{"a": "' + b"a" * 20_000_000 + b'"}', b"[" + b"[]," * 3_000_000 + b"[]]", b'{"a":' * 50_000, b'{"a":1,"a":2}'],
)
def test_configurations_have_bounds(content: bytes, checkpoint: Path, encoder: Path) -> None:
    (checkpoint / CONFIG).write_bytes(content)
    with refused(f"{checkpoint / CONFIG}"):
        read_checkpoint_config(checkpoint)
    for name in ("modules.json", "config_sentence_transformers.json", CONFIG):
        before = (encoder / name).read_bytes() if (encoder / name).is_file() else b"{}"
        (encoder / name).write_bytes(content)
        with refused(str(encoder)):
            read_encoder(str(encoder), None)
        (encoder / name).write_bytes(before)
        if before == b"{}":
            (encoder / name).unlink()


@pytest.mark.parametrize("marks", [BEGIN, END, BEGIN + END, f"{BEGIN}x", f"{END}{BEGIN}"])
def test_a_card_of_marks(marks: str, checkpoint: Path) -> None:
    """Each beginning without an end would be followed to the end of the card."""
    from time import process_time

    (checkpoint / CARD).write_text(marks * ((MAX_CARD - 100) // len(marks)))
    begun = process_time()
    card = card_with_calibration(checkpoint, f"{BEGIN}\nnew\n{END}")
    assert process_time() - begun < 1
    assert card is not None
    assert card.count("new") == 1


def test_a_long_card_is_refused(checkpoint: Path) -> None:
    (checkpoint / CARD).write_text("a" * (MAX_CARD + 1))
    with refused(CARD):
        card_with_calibration(checkpoint, "section")


def test_a_long_list_of_questions_is_refused(checkpoint: Path) -> None:
    (checkpoint / TRAINED_QUESTIONS).write_bytes(b"")
    os.truncate(checkpoint / TRAINED_QUESTIONS, MAX_TRAINED + 1)
    with refused(TRAINED_QUESTIONS):
        find_trained(checkpoint, ["a"])
