"""Every write is whole or leaves no trace: full and read-only disks, kills, modes, two writers."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import TEXTS, write_checkpoint
from disks import fill, read_only, small_disk_or_skip
from forked import Forked, run
from refusals import refused
from safetensors.torch import save_file

from ap_ranker.errors import InputError
from ap_ranker.files import atomic_directory, atomic_file, locked, restore, write_text_atomically
from ap_ranker.ranking.checkpoint import find_checkpoint, load_checkpoint
from ap_ranker.text.tokenizer import WordTokenizer

BIG = 300_000
"""Bytes: more than the small disk holds."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk_or_skip(tmp_path / "disk", 128) as folder:
        yield folder


def save_figure(path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 12))
    figure.subplots().imshow(np.random.default_rng(0).random((500, 500)))
    figure.savefig(path, format="png", dpi=150)


WRITERS: dict[str, Callable[[Path], object]] = {
    "text": lambda path: path.write_text("x" * BIG),
    "numpy": lambda path: np.save(path, np.zeros(BIG)),
    "safetensors": lambda path: save_file({"a": torch.zeros(BIG)}, path),
    "torch": lambda path: torch.save(torch.zeros(BIG), path),
    "tokenizer": lambda path: WordTokenizer.build([f"w{i}" for i in range(BIG // 10)], max_tokens=9).save(path),
    "figure": save_figure,
}
"""Each library reports a full disk in a way of its own, half of them not as an OSError."""


@pytest.mark.parametrize("writer", WRITERS)
def test_a_full_disk_is_one_message_and_leaves_no_trace(writer: str, disk: Path) -> None:
    def whole() -> None:
        with atomic_file(disk / "file") as draft:
            WRITERS[writer](draft)

    def aside() -> None:
        with atomic_directory(disk / "folder") as draft:
            WRITERS[writer](draft / "file")

    for write, name in ((whole, "file"), (aside, "folder")):
        with refused(f"{disk / name}") as raised:
            write()
        assert len(str(raised.value).splitlines()) == 1
        assert list(disk.iterdir()) == []


def test_torch_on_a_disk_that_is_nearly_full(disk: Path) -> None:
    """Which of its messages it gives depends on where in the file the room ends."""
    for number in range(12):
        fill(disk, leave=4 * (number % 3))
        with refused(f"{disk / 'file'}"), atomic_file(disk / "file") as draft:
            torch.save({str(key): torch.zeros(150) for key in range(14 + number)}, draft)
        assert [path.name for path in disk.iterdir()] == ["filler"]


def test_what_was_there_survives_a_full_disk(disk: Path) -> None:
    (disk / "folder").mkdir()
    for path in (disk / "file", disk / "folder" / "file"):
        path.write_text("old")
    fill(disk)
    with refused(f"{disk / 'file'}"):
        write_text_atomically(disk / "file", "new" * BIG)
    with refused(f"{disk / 'folder'}"), atomic_directory(disk / "folder") as draft:
        (draft / "file").write_text("new" * BIG)
    assert (disk / "file").read_text() == (disk / "folder" / "file").read_text() == "old"
    assert sorted(path.name for path in disk.iterdir()) == ["file", "filler", "folder"]


def test_a_read_only_disk(disk: Path) -> None:
    (disk / "file").write_text("old")
    with read_only(disk):
        for name in ("file", "new", "folder/new"):
            with refused(f"{disk / name} … Read-only file system"):
                write_text_atomically(disk / name, "new")
            with refused(f"{disk / name}"), atomic_directory(disk / name):
                raise AssertionError
    assert [path.name for path in disk.iterdir()] == ["file"]
    assert (disk / "file").read_text() == "old"


def test_a_folder_of_somebody_else(tmp_path: Path) -> None:
    """As a user who may read the folder only; the administrator may write everywhere."""
    if os.geteuid() != 0:
        pytest.skip("only an administrator can become somebody else")
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom ap_ranker.files import write_text_atomically\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "try: write_text_atomically(Path(sys.argv[1]), 'x')\nexcept ValueError as error: print(error)"
    )
    import tempfile

    with tempfile.TemporaryDirectory() as name:  # pytest's own folders are closed to others
        Path(name).chmod(0o755)
        done = run(code, Path(name) / "file")
        assert "Permission denied" in done.stdout, done.stderr
        assert list(Path(name).iterdir()) == []


@pytest.mark.parametrize(
    ("place", "reason"),
    [("file/x", "Not a directory|File exists"), ("folder", "Is a directory"), ("n" * 300, "too long")],
)
def test_places_that_cannot_be(place: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match=reason):
        write_text_atomically(tmp_path / place, "x")


def test_a_file_is_not_replaced_by_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    with refused("file … folder"), atomic_directory(tmp_path / "file") as draft:
        (draft / "x").touch()
    assert (tmp_path / "file").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077, 0o002])
def test_modes_are_the_users(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        with atomic_directory(tmp_path / "folder") as draft:
            (draft / "inner").mkdir(0o700)
            save_file({"a": torch.zeros(1)}, draft / "inner" / "weights")  # the library makes it private
        with atomic_file(tmp_path / "file") as path:
            save_file({"a": torch.zeros(1)}, path)
    finally:
        os.umask(before)
    for path in (tmp_path / "folder", tmp_path / "folder" / "inner"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o777 & ~umask
    for path in (tmp_path / "file", tmp_path / "folder" / "inner" / "weights"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


def test_links_stay_and_devices_are_written_to(tmp_path: Path) -> None:
    (tmp_path / "large").mkdir()
    (tmp_path / "checkpoint").symlink_to("large")
    with atomic_directory(tmp_path / "checkpoint") as draft:
        (draft / "file").write_text("new")
    (tmp_path / "link").symlink_to("large/file")
    write_text_atomically(tmp_path / "link", "newer")
    assert (tmp_path / "large" / "file").read_text() == "newer"
    assert (tmp_path / "link").is_symlink() and (tmp_path / "checkpoint").is_symlink()
    os.mkfifo(tmp_path / "pipe")
    reader = subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE, text=True)
    write_text_atomically(tmp_path / "pipe", "told")
    assert reader.communicate(timeout=300)[0] == "told"
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint", "large", "link", "pipe"]


def test_an_error_of_another_kind_stays_what_it_is(tmp_path: Path) -> None:
    for error in (ValueError("no such option"), RuntimeError("size mismatch"), KeyboardInterrupt()):
        with pytest.raises(type(error)) as raised, atomic_directory(tmp_path / "folder"):
            raise error
        assert raised.value is error
    assert list(tmp_path.iterdir()) == []


REPLACE = """
import os, sys
from pathlib import Path
from ap_ranker import files
step, exchange = int(sys.argv[2]), sys.argv[3] == "True"
calls = 0

def dying(function):
    def call(*arguments, **options):
        global calls
        calls += 1
        if calls == step:
            os._exit(9)
        return function(*arguments, **options)
    return call

files._exchange = dying(files._exchange) if exchange else lambda first, second: False
os.rename, os.replace, os.rmdir, os.unlink = map(dying, (os.rename, os.replace, os.rmdir, os.unlink))
files.shutil.rmtree = dying(files.shutil.rmtree)
with files.atomic_directory(Path(sys.argv[1])) as draft:
    for file in Path(sys.argv[1]).iterdir():
        (draft / file.name).write_bytes(file.read_bytes())
    (draft / "README.md").write_text("new")
"""


@pytest.mark.parametrize("exchange", [True, False], ids=["exchanged", "two renames"])
def test_killed_at_any_step_of_a_replacement(exchange: bool, tmp_path: Path) -> None:
    """Wherever the process dies, the old checkpoint is there or the new one, and the next writer tidies up."""
    place, states = tmp_path / "c", set()
    for step in range(1, 20):
        write_checkpoint("ap-cnn", place)
        assert [path.name for path in tmp_path.iterdir()] == ["c"], "the write tidied up"
        done = run(REPLACE, place, step, exchange)
        assert done.returncode in (0, 9), done.stderr
        if exchange:
            assert place.is_dir(), "never away, not for a moment"
        load_checkpoint(find_checkpoint(place))
        states.add((place / "README.md").read_text())
        if done.returncode == 0:
            break
    assert states == {"# card\n", "new"}
    assert step > 2


def test_a_swap_under_way_is_left_alone(tmp_path: Path) -> None:
    """The old folder is not put back while the process that replaces it lives."""
    hidden = tmp_path / ".c.0123abcd.draft"
    (hidden / ".replaced").mkdir(parents=True)
    with locked(hidden):
        restore(tmp_path / "c")
        assert not (tmp_path / "c").exists()
    restore(tmp_path / "c")
    assert (tmp_path / "c").is_dir()


KILLED = """
import os, signal, sys
from pathlib import Path
from ap_ranker.files import write_text_atomically, atomic_directory, atomic_file
with atomic_directory(Path(sys.argv[1]) / "folder") as draft, atomic_file(Path(sys.argv[1]) / "file") as other:
    (draft / "x").write_text("half")
    other.write_text("half")
    print("writing", flush=True)
    if sys.argv[2] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    sys.stdin.read()
"""


def test_drafts_of_the_dead_are_removed_and_those_of_the_living_are_not(tmp_path: Path) -> None:
    assert run(KILLED, tmp_path, "killed").returncode == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 2
    write_text_atomically(tmp_path / "file", "whole")
    with atomic_directory(tmp_path / "folder"):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]
    living = Forked(KILLED, tmp_path, "living")
    assert living.stdout.readline() == "writing\n"
    write_text_atomically(tmp_path / "file", "whole")
    with atomic_directory(tmp_path / "folder"):
        pass
    assert len(list(tmp_path.iterdir())) == 4
    living.stdin.close()
    assert living.wait(300) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]
    assert (tmp_path / "file").read_text() == "half" == (tmp_path / "folder" / "x").read_text()


def test_a_name_with_signs_that_patterns_use(tmp_path: Path) -> None:
    (tmp_path / ".x.draft").mkdir()
    (tmp_path / ".[x].0123abcd.draft" / ".replaced").mkdir(parents=True)
    restore(tmp_path / "[x]")
    write_text_atomically(tmp_path / "x*", TEXTS[0])
    assert sorted(path.name for path in tmp_path.iterdir()) == [".x.draft", "[x]", "x*"]


HOLD = """
import sys
from pathlib import Path
from ap_ranker.files import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    holder = Forked(HOLD, tmp_path)
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(TimeoutError), locked(tmp_path):
        raise AssertionError
    holder.kill()
    holder.wait()
    with locked(tmp_path), pytest.raises(TimeoutError), locked(tmp_path):
        raise AssertionError
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError), locked(tmp_path / "none"):
        raise AssertionError


# What only its user can read.


@pytest.mark.parametrize("umask", [0, 0o022, 0o077])
def test_private_files_are_private_from_the_first_byte(umask: int, tmp_path: Path) -> None:
    """Whatever the umask is, and whoever could read the file in its place; nobody can look at the draft."""
    path = tmp_path / "said.csv"
    path.write_text("older")
    path.chmod(0o644)
    before = os.umask(umask)
    try:
        with atomic_file(path, private=True) as draft:
            draft.write_text("said")
            assert stat.S_IMODE(draft.parent.stat().st_mode) & 0o077 == 0
        with atomic_directory(tmp_path / "folder", private=["dev.jsonl"]) as folder:
            assert stat.S_IMODE(folder.parent.stat().st_mode) & 0o077 == 0
            for name in ("dev.jsonl", "config.json"):
                (folder / name).write_text("said")
        assert os.umask(umask) == umask
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "folder" / "dev.jsonl").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "folder" / "config.json").stat().st_mode) == 0o666 & ~umask


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644])
def test_what_is_replaced_was_closed_on_purpose(mode: int, tmp_path: Path) -> None:
    path, folder = tmp_path / "report.json", tmp_path / "checkpoint"
    path.write_text("older")
    folder.mkdir()
    for place in (path, folder):
        place.chmod(mode if place == path else mode | 0o100)
    write_text_atomically(path, "newer")
    with atomic_directory(folder) as draft:
        (draft / "weights").write_text("w")
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert stat.S_IMODE(folder.stat().st_mode) == mode | 0o100
    assert stat.S_IMODE((folder / "weights").stat().st_mode) == mode
