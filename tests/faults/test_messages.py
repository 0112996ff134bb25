"""Whatever goes wrong is one message of at most three lines, with an exit code that says whose fault it is; and a text
of a FAQ cannot command the terminal."""

from __future__ import annotations

import errno
import inspect
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from command_line import run
from conftest import ROOT
from refusals import absent
from rich.table import Table
from typer.testing import CliRunner

from ap_ranker.cli.ask import ask
from ap_ranker.cli.check import check
from ap_ranker.cli.console import Console, to_json, visible
from ap_ranker.cli.errors import report_user_errors
from ap_ranker.cli.main import app
from ap_ranker.errors import InputError

HOSTILE = "\x1b]0;owned\x07 \x1b[2J\x9b31m \u202egpj.exe \r\x08\x00\x7f"
COMMANDS = set("\x00\x07\x08\r\x1b\x7f\x9b\u202e")


def reported(error: BaseException, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    """The exit code and the lines on standard error."""
    with pytest.raises(SystemExit) as ended, report_user_errors():
        raise error
    printed = capsys.readouterr()
    assert not printed.out
    code = ended.value.code
    assert isinstance(code, int)
    return code, printed.err.splitlines()


def oom() -> RuntimeError:
    try:
        torch.empty(2**55)
    except RuntimeError as error:
        return error
    raise AssertionError("so much memory there is not")


def no_errno() -> OSError:
    return OSError("16 requested and 3 written")


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (InputError("a.csv, line 3: expected [text], found nothing."), 2, "a.csv, line 3 … [text]"),
        (
            OSError(errno.ENOSPC, "No space left on device", "c/model"),
            2,
            "c/model … No space left",
        ),
        (OSError(errno.ENOSPC, "No space left on device"), 2, "No space left"),
        (OSError(errno.EDQUOT, "Disk quota exceeded", "c"), 2, "c … Disk quota exceeded"),
        (PermissionError(errno.EACCES, "Permission denied", "c"), 2, "c … Permission denied"),
        (OSError(errno.EROFS, "Read-only file system", "c"), 2, "c … Read-only file system"),
        (IsADirectoryError(errno.EISDIR, "Is a directory", "c"), 2, "c … Is a directory"),
        (NotADirectoryError(errno.ENOTDIR, "Not a directory", "c"), 2, "c … Not a directory"),
        (FileNotFoundError(errno.ENOENT, "No such file", "c"), 2, "c … No such file"),
        (FileExistsError(errno.EEXIST, "File exists", "c", None, "d"), 2, "c … d … File exists"),
        (OSError(errno.EMFILE, "Too many open files"), 2, "Too many open files"),
        (OSError(errno.ETXTBSY, "Text file busy", b"c"), 2, "c … Text file busy"),
        (no_errno(), 2, "16 requested and 3 written"),
        (RuntimeError("IoError(Os { code: 28, kind: StorageFull, message: .."), 2, "disk"),
        (MemoryError(), 2, "memory"),
        (oom(), 2, "memory"),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate"), 2, "memory"),
        (UnicodeDecodeError("utf-8", b"a\xff", 1, 2, "invalid"), 2, "0xff"),
        (UnicodeEncodeError("ascii", "é", 0, 1, "no"), 2, "UTF-8 … PYTHONUTF8=1"),
        (RecursionError("maximum recursion depth exceeded"), 2, "deeply"),
        (ZeroDivisionError("division by zero"), 1, "bug … ap-ranker … ZeroDivisionError"),
        (KeyError("x" * 100_000), 1, "bug … ap-ranker … KeyError"),
        (KeyboardInterrupt(), 130, "Stopped"),
    ],
)
def test_one_message(
    error: BaseException, code: int, words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AP_RANKER_TRACEBACK", raising=False)
    found, lines = reported(error, capsys)
    assert found == code
    assert 1 <= len(lines) <= 3
    assert not absent(words, "\n".join(lines))
    assert sum(map(len, lines)) < 1_100
    assert "Traceback" not in "".join(lines)
    if code == 1:
        assert "test_messages.py, line" in lines[0]
        assert "AP_RANKER_TRACEBACK=1" in lines[-1]


@pytest.mark.parametrize("error", [ZeroDivisionError("division by zero"), InputError("bad data")])
def test_the_traceback_for_who_asks(
    error: Exception, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AP_RANKER_TRACEBACK", "1")
    _, lines = reported(error, capsys)
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1].startswith(("Error: bad data", "Please report"))


def test_a_long_message_keeps_its_beginning_and_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    text = "faq.csv: expected a label, found:\n\n" + "\n".join("nonsense" * 20 for _ in range(50)) + "\nDo this."
    _, lines = reported(InputError(text), capsys)
    assert len(lines) == 1
    assert lines[0].startswith("Error: faq.csv: expected a label, found: nonsense")
    assert lines[0].endswith("nonsense Do this.")


def test_a_message_does_not_command_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    _, lines = reported(InputError(f"{HOSTILE}.csv: expected rows, found none."), capsys)
    text = "\n".join(lines)
    assert not COMMANDS & set(text)
    assert r"\x1b]0;owned" in text
    assert r"\u202egpj.exe" in text


def test_what_is_visible_stays_as_it_is() -> None:
    for text in ("Öl\tund\nWasser — 🚲 保险 שלום", "👩‍👩‍👧", "a\u200db", "\u200e"):
        assert visible(text) == text
    everything = "".join(map(chr, range(0x3000)))
    shown = visible(everything)
    assert visible(shown) == shown
    removed = set(everything) - set(shown)
    controls = {chr(code) for code in (*range(32), *range(127, 160))} - {"\n", "\t"}
    assert removed == controls | set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def test_printed_json_says_the_same_without_control_characters() -> None:
    value = [{"answer": HOSTILE + "é\ud800"}]
    printed = to_json(value)
    assert json.loads(printed) == value
    assert not COMMANDS & set(printed)
    assert "é" in printed
    printed.encode("utf-8")


def test_a_table_and_markup_are_printed_safely() -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=False, width=120)
    table = Table(title=HOSTILE)
    table.add_column(HOSTILE)
    table.add_row(HOSTILE)
    console.print(table, f"[bold]{HOSTILE}[/]", soft_wrap=True)
    console.print(HOSTILE, markup=False)
    assert not COMMANDS & set(file.getvalue())
    coloured = io.StringIO()
    Console(file=coloured, force_terminal=True, color_system="standard").print("[bold]a[/]\x1b!", highlight=False)
    assert coloured.getvalue() == "\x1b[1ma\x1b[0m\\x1b!\n", "the console's own colours stay"


def test_every_command_prints_safely() -> None:
    """No command has a console of its own kind, nor prints past it."""
    for path in (ROOT / "ap_ranker" / "cli").glob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path.name not in ("changes.py", "epoch_lines.py", "console.py"):  # they are given theirs
            assert "from rich.console import Console" not in text, path.name


def test_check_prints_hostile_texts_and_file_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = "\x1b]0;owned\x07\x1b[2J.csv"
    Path(name).write_text("question,answer\n" + "\x1b[2Jwhere?,\x1b]0;x\x07there\n" * 2 + "where?,\u202ehere\n")
    result = CliRunner().invoke(app, ["check", name])
    assert result.exit_code == 0, result.output
    assert "control-character" in result.output
    assert not COMMANDS & set(result.output)
    assert r"\x1b]0;owned\x1b[2J.csv" in result.output  # Rich leaves the bell out


def start(*arguments: str, cwd: Path, **other: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "ap_ranker", *arguments]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "COLUMNS": "80"}
    return subprocess.Popen(
        command, cwd=cwd, env=environment, text=True, stderr=subprocess.PIPE, **{"stdout": subprocess.PIPE, **other}
    )  # type: ignore[call-overload, no-any-return]


def test_a_folder_of_answers_is_refused(tmp_path: Path) -> None:
    (tmp_path / "faq.csv").write_text("question,answer\nwhere,there\nwhen,now\n")
    ended = run("check", "faq.csv", "--answers", ".", folder=tmp_path)
    assert ended.code == 2
    assert not absent("expected a file, found a folder", ended.errors)


def test_a_reader_that_has_seen_enough(tmp_path: Path) -> None:
    process = start("models", "qa-cnn", cwd=tmp_path)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.wait(timeout=300) == 1
    assert not process.stderr.read()


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="needs a device that is always full")
def test_a_full_disk_behind_standard_output(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        process = start("models", "qa-cnn", cwd=tmp_path, stdout=full)
    _, errors = process.communicate(timeout=300)
    assert (process.returncode, "No space left on device" in errors) == (2, True), errors
    assert len(errors.splitlines()) <= 3


def test_control_c(tmp_path: Path) -> None:
    program = (
        "import signal, time\nfrom ap_ranker.cli import main\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background jobs ignore it
        "@main.app.command('wait')\ndef wait() -> None:\n    print('waiting', flush=True)\n    time.sleep(60)\n"
        "main.main()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, "wait"], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    assert errors == "Stopped.\n"


def test_commands_are_what_typer_runs() -> None:
    """What this file imports is what a user runs."""
    assert {ask, check} <= {inspect.unwrap(each.callback) for each in app.registered_commands if each.callback}
