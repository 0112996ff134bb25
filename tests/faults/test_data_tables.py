"""Files of questions and answers that are not what they seem: one message each, nothing silent, no filled memory."""

from __future__ import annotations

import datetime
import gzip
import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusals import absent, refused

from ap_ranker.data.reader import read_dataset
from ap_ranker.data.tables import read_table

DEEP = '{"question": "q", "answer": ' + "[" * 100_000 + "]" * 100_000 + "}"


def refused_file(path: Path, facts: str) -> None:
    with refused(f"{path} … {facts}"):
        read_table(path)


@pytest.mark.parametrize(
    ("name", "content", "facts"),
    [
        ("a.csv", "question,answer,answer\nq,a,b\n", "line 1 … 'answer'"),
        ("a.tsv", "question\tanswer\t answer \nq\ta\tb\n", "line 1 … answer"),
        ("a.csv", ",ask,say\n0,x,y\n", "line 1 … column 1"),
        ("a.jsonl", '{"question": "q", "": "a"}\n', "line 1 … column 2"),
        ("a.jsonl", '{"answer": "a", "answer": "b"}\n', "line 1 … answer"),
        ("a.jsonl", '{"answer": {"text": {"x": "a"}}}\n', "line 1 … answer … object"),
        ("a.jsonl", '{"answer": [{"text": "a"}]}\n', "line 1 … answer … object"),
        ("a.jsonl", '{"answer": [["a"]]}\n', "line 1 … answer"),
        ("a.jsonl", '{"answer": NaN}\n', "line 1 … nan"),
        ("a.jsonl", '{"answer": -Infinity}\n', "line 1 … -inf"),
        ("a.jsonl", '{"answer": "a"}\n{"answer": "\\ud800"}\n', "line 2 … answer"),
        ("a.jsonl", '{"answer": "a\\u0000b"}\n', "line 1 … answer … \\x00"),
        ("a.jsonl", DEEP, "line 1 … JSON … deeply"),
        ("a.csv", "question,answer\nq,a\nq,a\0b\n", "line 3 … UTF-8 … NUL"),
        ("a.tsv", "question\tanswer\nq\ta\0b\n", "line 2 … UTF-8 … NUL"),
        ("b.tsv", "question\tanswer\nq\ta\t\0\nq\ta\n", "line 2 … UTF-8 … NUL"),
    ],
)
def test_what_would_be_lost_or_misread_is_refused(tmp_path: Path, name: str, content: str, facts: str) -> None:
    (tmp_path / name).write_text(content)
    refused_file(tmp_path / name, facts)


def test_numbers_of_json_are_the_text_that_stands_there(tmp_path: Path) -> None:
    digits = "7" * 5_000
    (tmp_path / "a.jsonl").write_text(f'{{"qid": {digits}, "version": 1.50, "huge": 1e999, "n": [1, 2.0]}}\n')
    fields = read_table(tmp_path / "a.jsonl").rows[0].fields
    assert fields == {"qid": digits, "version": "1.50", "huge": "1e999", "n": "1 2.0"}


NANOSECONDS = pa.array([1_700_000_000_123_456_789], pa.timestamp("ns"))


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (pa.array([b"B\xc3\xbccher"]), "Bücher"),
        (pa.array([b"B\xc3\xbccher"], pa.binary(7)), "Bücher"),
        (pa.array(["Bücher"], pa.large_string()), "Bücher"),
        (pa.array(["Bücher"]).dictionary_encode(), "Bücher"),
        (pa.array([["a1", "a2"]]), "a1 a2"),
        (pa.array([[b"a1", b"a2"]]), "a1 a2"),
        (pa.array([[1, 2]]), "1 2"),
        (pa.array([datetime.date(2024, 2, 29)]), "2024-02-29"),
        (pa.array([datetime.datetime(2024, 2, 29, 12, 30)], pa.timestamp("ms")), "2024-02-29 12:30:00.000"),
        (NANOSECONDS, "2023-11-14 22:13:20.123456789"),
        (pa.array([datetime.time(12, 30)], pa.time32("ms")), "12:30:00.000"),
        (pa.array([Decimal("1.50")]), "1.50"),
        (pa.array([None], pa.null()), ""),
        (pa.array([None], pa.string()), ""),
        (pa.array([True]), "1"),
        (pa.array([1.5]), "1.5"),
    ],
)
def test_parquet_values_become_text(tmp_path: Path, column: pa.Array, text: str) -> None:
    pq.write_table(pa.table({"answer": column}), tmp_path / "a.parquet")
    assert read_table(tmp_path / "a.parquet").rows[0].fields == {"answer": text}


def bad_utf8() -> pa.Array:
    """A column of texts that are none: Parquet does not look."""
    return pa.Array.from_buffers(pa.string(), 2, pa.array([b"good", b"bad\xff"]).buffers())


@pytest.mark.parametrize(
    ("column", "facts"),
    [
        (pa.array([b"good", b"bad\xff"]), "row 2 … answer … 0xff"),
        (bad_utf8(), "row 2 … answer … 0xff"),
        (pa.array([{"text": "a"}]), "answer … objects"),
        (pa.array([[("a", "b")]], pa.map_(pa.string(), pa.string())), "answer … map"),
        (pa.array([[["a"]]]), "answer … objects"),
        (pa.array([datetime.timedelta(1)]), "answer … duration"),
        (pa.array([1.0, float("nan")]), "row 2 … answer … nan"),
        (pa.array([float("inf")]), "row 1 … answer … inf"),
        (pa.array(["a\0b"]), "row 1 … answer"),
    ],
)
def test_parquet_that_holds_no_text_is_refused(tmp_path: Path, column: pa.Array, facts: str) -> None:
    pq.write_table(pa.table({"answer": column}), tmp_path / "a.parquet")
    refused_file(tmp_path / "a.parquet", facts)


def test_parquet_with_a_column_twice(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["answer", "answer"])
    pq.write_table(table, tmp_path / "a.parquet")
    refused_file(tmp_path / "a.parquet", "'answer'")


READ = """
import sys
from pathlib import Path
import pyarrow.parquet
from ap_ranker.data.tables import read_table
from ap_ranker.errors import InputError
try:
    read_table(Path(sys.argv[1]))
except InputError as error:
    print(error)
    print(next(line.split()[1] for line in Path("/proc/self/status").open() if line.startswith("VmHWM")))
"""


def peak_of_reading(path: Path) -> tuple[str, int]:
    """The message that refuses a file, and the most memory in bytes that it took."""
    if not Path("/proc/self/status").exists():
        pytest.skip("needs Linux, which tells how much memory a process has had")
    command = [sys.executable, "-c", READ, path]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    message, kilobytes = result.stdout.rsplit("\n", 2)[:2]
    return message, int(kilobytes) * 1024


def gzip_bomb(path: Path) -> None:
    piece = b"question,answer\n" + b"q,a\n" * 2**18
    path.write_bytes(gzip.compress(piece) * 400)  # one file after another is one gzip file: 400 MB


def parquet_bomb(path: Path) -> None:
    pq.write_table(pa.table({"answer": ["a" * 2**26]}), path, compression="gzip", use_dictionary=False)


def dictionary_bomb(path: Path) -> None:
    """A long value that stands in the file once and in its rows 4,000 times."""
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 4_000), pa.array(["a" * 2**20]))
    pq.write_table(pa.table({"answer": column}), path, compression="gzip")


def empty_rows_bomb(path: Path) -> None:
    pq.write_table(pa.table({"answer": pa.array([""] * 4_000_000)}), path)


@pytest.mark.parametrize(
    ("name", "bomb"),
    [
        ("a.csv.gz", gzip_bomb),
        ("a.parquet", parquet_bomb),
        ("b.parquet", dictionary_bomb),
        ("c.parquet", empty_rows_bomb),
    ],
)
def test_a_small_file_does_not_fill_the_memory(tmp_path: Path, name: str, bomb: Any) -> None:
    bomb(tmp_path / name)
    assert (tmp_path / name).stat().st_size < 2**21
    message, peak = peak_of_reading(tmp_path / name)
    assert not absent("50", message)
    assert peak < 300e6


def test_a_file_that_repeats_itself_a_little_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"question,answer\n" + b"q,a\n" * 100_000))
    assert len(read_table(tmp_path / "a.csv.gz").rows) == 100_000


def test_the_public_benchmarks_are_far_below_the_limit(benchmarks: Path) -> None:
    for path in benchmarks.rglob("*.tsv.gz"):
        with gzip.open(path) as file:
            assert file.seek(0, 2) < 10 * path.stat().st_size, path


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "zero.csv").symlink_to("/dev/zero")
    for name, kind in (("pipe.csv", "a pipe"), ("folder.csv", "a folder"), ("zero.csv", "a device")):
        refused_file(tmp_path / name, kind)


@pytest.mark.parametrize("label", ["nan", "-5", "0.3", "inf", "-inf", "1e999", "2", "1.5", "yes", "0x1", "1_0", "١"])
def test_labels_that_are_neither_right_nor_wrong(tmp_path: Path, label: str) -> None:
    (tmp_path / "d.csv").write_text(f"question,answer,label\nq,a,1\nq,b,{label}\n")
    with refused(f"d.csv, line 3 … 1 … 0 … {label!r}"):
        read_dataset(tmp_path / "d.csv", "train")


def test_labels_that_are_understood(tmp_path: Path) -> None:
    labels = ["1", "0", "1.0", "0.0", "true", "False"]
    (tmp_path / "d.csv").write_text("question,answer,label\n" + "".join(f"q,a{n},{v}\n" for n, v in enumerate(labels)))
    [question] = read_dataset(tmp_path / "d.csv", "train").questions
    assert question.positives == (0, 2, 4)
    (tmp_path / "d.jsonl").write_text(
        "".join(json.dumps({"question": "q", "answer": f"a{n}", "label": v}) + "\n" for n, v in enumerate([1, 0, True]))
    )
    [question] = read_dataset(tmp_path / "d.jsonl", "train").questions
    assert question.positives == (0, 2)
