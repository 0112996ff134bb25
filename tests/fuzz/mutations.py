"""Damage to files: bytes that a disk, a network or an editor may have left, and values that no writer should write."""

from __future__ import annotations

import copy
import csv
import gzip
import io
import json
import re
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import yaml
from safetensors.numpy import load, save

DEEP = 100_000
HUGE_TEXT = "word " * 40_000

# What no table, argument or setting should have to bear. No absolute path that could be written to, nothing above the
# folder that an input lives in.
NASTY_TEXTS = (
    *("", " ", "\0", "\ufeff", "\u200b", "\t", "\n", "\r", "\r\n", "\x85", "\u2028", "\x1b[2Jgone", "\x07", "\ud800"),
    *("nan", "inf", "-inf", "-1", "-5", "0", "0.3", "1", "2", "1e400", "1e-400", "9" * 400, "9" * 5000, "0x10", "1_0"),
    *("true", "no", "None", "null", "[]", "{}", "[bold]", "[/]", "{0}", "%s", "b'x'", "a,b", 'a"b', '"', "'", "a;b"),
    *("--help", "--", "-", ".", "/proc/1/nothing", "~", "a/b/c", "x" * 300, "😀", "e\u0301", "Ã©", "&amp;lt;b&gt;"),
    *("<script>", "question", "answer", "label", "Good", "中文 字", "ﬁ", "İ", "ß", HUGE_TEXT),
)
# The same for JSON, as it stands in a file: some of it is no JSON.
NASTY_JSON = (
    *("null", "true", "false", "[]", "{}", '""', "0", "1", "-1", "2", "0.5", "-0.0", "NaN", "Infinity", "-Infinity"),
    *("1e400", "-1e400", "1e308", "1e-320", "9" * 400, "9" * 5000, "2147483648", "9223372036854775808", "700000"),
    *('"nan"', '"-1"', '"\\ud800"', '"\\u0000"', '"\\u001b[2J"', '"[/]"', "[null]", '["a", 1]', '{"a": {"b": [1]}}'),
    *("[" * DEEP + "]" * DEEP, '{"a":' * DEEP + "1" + "}" * DEEP, "[" * 500 + "]" * 500, json.dumps(HUGE_TEXT)),
    *("[1, 2", "'a'", "", "1.0.0", "[" + "0," * 20_000 + "0]", '"../x"', '"cuda:99"', '"float16"'),
)
_LAUGHS = "[" + ", ".join(f"&a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" if n else "&a0 [lol]" for n in range(12)) + "]"
NASTY_YAML = (
    *NASTY_JSON,
    *(".nan", ".inf", "-.inf", "1e-4", "2001-01-01", "0x10", "1_000", "0o17", "12:30:00", "~", "!!binary aGk="),
    *("!!python/object/apply:os.getcwd []", "!!set {a, b}", "&a [*a]", _LAUGHS, "*unknown", "!custom 1", "{[1]: 2}"),
)
NASTY_NUMBERS = (np.nan, np.inf, -np.inf, -1, 0, 1, 2**31 - 1, 1e30, -1e30, 1e-40)
NASTY_BYTES = (b"\0", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r", b"\n\n", b'"', b"\t", b"{", b"}", b",", b"\x80")
MAGIC = (
    b"PK\x03\x04",
    b"\x1f\x8b\x08\x00",
    b"PAR1",
    b"\x93NUMPY\x01\x00",
    b"SQLite format 3\0",
    b"%PDF-1.7",
    b"\x80\x04",
)
BOMB_BYTES = 3_000_000_000
MAX_STRUCTURED = 1_000_000

_MARK = "@@nasty@@"

Mutation = Callable[[bytes, Random], bytes]


def mutate_folder(folder: Path, rng: Random, only: str = "**/*") -> None:
    """Damage one to three places of a folder that holds a valid input, in the files of this pattern."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        files = sorted(file for file in folder.glob(only) if file.is_file())
        if not files:
            return
        file = rng.choice(files)
        if rng.random() < 0.08:
            _mutate_place(file, files, rng)
        elif file.suffix == ".sqlite" and rng.random() < 0.7:
            mutate_sqlite(file, rng)
        else:
            file.write_bytes(mutate_content(file.name, file.read_bytes(), rng))


def mutate_content(name: str, content: bytes, rng: Random) -> bytes:
    """Damage a file's content by its structure, which its name tells, or byte by byte."""
    structured = STRUCTURED.get(Path(name).suffix)
    if (
        structured is None or rng.random() < 0.35 or len(content) > MAX_STRUCTURED
    ):  # what has become a bomb stays packed
        return mutate_bytes(content, rng)
    try:
        if structured is mutate_gzip:
            return mutate_gzip(name, content, rng)
        return structured(content, rng)
    except Exception:  # an earlier mutation has left nothing that could be parsed
        return mutate_bytes(content, rng)


def mutate_bytes(content: bytes, rng: Random) -> bytes:
    """Flipped, lost, repeated, moved or foreign bytes."""
    start = rng.randrange(len(content) + 1)
    end = min(len(content), start + rng.choice((1, 1, 2, 4, 8, 64, 1024)))
    part = content[start:end]
    kind = rng.randrange(10)
    if kind < 3:
        part = bytes(byte ^ (1 << rng.randrange(8)) for byte in part[:1]) + part[1:]
    elif kind == 3:
        part = b""
    elif kind == 4:
        part = part * rng.choice((2, 3, 100))
    elif kind == 5:
        part = rng.choice(NASTY_BYTES) + part
    elif kind == 6:
        part = rng.randbytes(len(part))
    elif kind == 7:
        return content[:start]
    elif kind == 8:
        return rng.choice((b"", *MAGIC)) + rng.choice((b"", content, content[start:]))
    else:
        part = rng.choice(NASTY_TEXTS).encode("utf-8", "surrogatepass")
    return content[:start] + part + content[end:]


def _mutate_place(file: Path, files: list[Path], rng: Random) -> None:
    """A file that is lost, a folder, a link to itself, another file, or beside one that nobody expects."""
    kind = rng.randrange(6)
    if kind == 0:
        file.write_bytes(rng.choice(files).read_bytes())
    elif kind == 1:
        shutil.copy(file, file.with_name(f"copy-{file.name}"))
    elif kind == 2:
        file.with_name("extra").mkdir(exist_ok=True)
    else:
        file.unlink()
        if kind == 3:
            file.mkdir()
        elif kind == 4:
            file.symlink_to(file.name)


def mutate_json(content: bytes, rng: Random, nasty: tuple[str, ...] = NASTY_JSON) -> bytes:
    """A value of another kind, a lost, repeated or moved one, a key of another name."""
    tree = _mutate_tree(json.loads(content), rng)
    text = json.dumps(tree, ensure_ascii=rng.random() < 0.5, indent=rng.choice((None, 2)))
    text = text.replace(f'"{_MARK}"', rng.choice(nasty))
    if rng.random() < 0.1:
        text = _repeat_key(text, rng)
    return text.encode("utf-8", "surrogatepass")


def mutate_jsonl(content: bytes, rng: Random) -> bytes:
    """One record of a file of records."""
    lines = content.split(b"\n")
    place = rng.randrange(max(len(lines) - 1, 1))
    lines[place] = mutate_json(lines[place], rng).replace(b"\n", b" ")
    return b"\n".join(lines)


def mutate_yaml(content: bytes, rng: Random) -> bytes:
    """As `mutate_json`, with what only YAML can say."""
    tree = _mutate_tree(yaml.safe_load(content), rng)
    text = yaml.safe_dump(tree, sort_keys=False).replace(f"'{_MARK}'", rng.choice(NASTY_YAML))
    return text.encode("utf-8", "surrogatepass")


def _mutate_tree(tree: Any, rng: Random) -> Any:
    holder = [copy.deepcopy(tree)]
    container, key = _place(holder, rng)
    value = container[key]
    kind = rng.randrange(9)
    if kind < 4:
        container[key] = _MARK
    elif kind == 4 and container is not holder:
        del container[key]
    elif kind == 5 and isinstance(container, dict):
        container[rng.choice((_MARK, f"{key} ", "", "unknown"))] = container.pop(key)
    elif kind == 6:
        container[key] = rng.choice(([value], {"a": value}, str(value), [value, value]))
    elif kind == 7 and isinstance(container, dict):
        other = rng.choice(list(container))
        container[key], container[other] = container[other], value
    elif isinstance(value, dict):
        value[rng.choice(("unknown", "auto_map", "trust_remote_code", ""))] = _MARK
    elif isinstance(value, list):
        value.insert(rng.randrange(len(value) + 1), _MARK)
    else:
        container[key] = _MARK
    return holder[0]


def _place(holder: list[Any], rng: Random) -> tuple[Any, Any]:
    """A node of a tree, as often near its root as deep in it."""
    container: Any = holder
    key: Any = 0
    while isinstance(container[key], dict | list) and container[key] and rng.random() < 0.85:
        container = container[key]
        key = rng.choice(list(container)) if isinstance(container, dict) else rng.randrange(len(container))
    return container, key


def _repeat_key(text: str, rng: Random) -> str:
    keys = re.findall(r'"(\w+)":', text)
    return text.replace("{", f'{{"{rng.choice(keys)}": {rng.choice(NASTY_JSON)}, ', 1) if keys else text


def mutate_csv(content: bytes, rng: Random) -> bytes:
    rows = _mutate_rows(list(csv.reader(io.StringIO(content.decode(), newline=""))), rng)
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=rng.choice(("\n", "\n", "\r\n", "\r"))).writerows(rows)
    return text.getvalue().encode("utf-8", "surrogatepass")


def mutate_tsv(content: bytes, rng: Random) -> bytes:
    rows = _mutate_rows([line.split("\t") for line in content.decode().split("\n")], rng)
    return "\n".join("\t".join(row) for row in rows).encode("utf-8", "surrogatepass")


def _mutate_rows(rows: list[list[str]], rng: Random) -> list[list[str]]:
    """A cell, a header, a row or a column that is not as the others."""
    row = rng.choice(rows) or [""]
    column = rng.randrange(len(row))
    kind = rng.randrange(10)
    if kind < 4:
        row[column] = rng.choice(NASTY_TEXTS)
    elif kind == 4:
        rows[0][column % len(rows[0])] = rng.choice((*rows[0], *NASTY_TEXTS))
    elif kind == 5:
        rows.insert(rng.randrange(len(rows) + 1), rng.choice(([], list(row), ["a"], [""] * len(row), ["x"] * 50)))
    elif kind == 6:
        del row[column]
    elif kind == 7:
        rows.remove(row)
    elif kind == 8:
        row.append(rng.choice(NASTY_TEXTS))
    else:
        for each in rows:
            each.insert(min(column, len(each)), each[-1] if each else "")
    return rows


def mutate_gzip(name: str, content: bytes, rng: Random) -> bytes:
    """What is inside; or a few kilobytes that unpack to gigabytes."""
    inside = gzip.decompress(content)
    if rng.random() < 0.03:
        part = gzip.compress((inside[-200:] or b"\n") * 50_000, mtime=0)
        return gzip.compress(inside, mtime=0) + part * (BOMB_BYTES // (len(inside[-200:] or b"\n") * 50_000))
    return gzip.compress(mutate_content(name.removesuffix(".gz"), inside, rng), mtime=0)


def mutate_parquet(content: bytes, rng: Random) -> bytes:
    """A column of another type, name or length."""
    table = pyarrow.parquet.read_table(pyarrow.BufferReader(content))
    place = rng.randrange(table.num_columns)
    name, n = table.column_names[place], table.num_rows
    if rng.random() < 0.02:  # a few kilobytes of one repeated text
        return _parquet_bomb(table.column_names)
    elif rng.random() < 0.3:
        names = list(table.column_names)
        names[place] = rng.choice((*names, "", "other", "label"))
        table = table.rename_columns(names)
    else:
        table = table.set_column(place, name, rng.choice(_columns(n)))
    file = io.BytesIO()
    pyarrow.parquet.write_table(table, file, compression="zstd")
    return file.getvalue()


def _parquet_bomb(columns: list[str]) -> bytes:
    """One text and two million references to it, which a reader takes for two million texts."""
    column = pyarrow.DictionaryArray.from_arrays(
        pyarrow.repeat(pyarrow.scalar(0, pyarrow.int32()), 2_000_000), ["x" * 1000]
    )
    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(dict.fromkeys(columns, column)), file, store_schema=False)
    return file.getvalue()


def _columns(n: int) -> list[pyarrow.Array]:
    bad_text = pyarrow.array([b"\xff\xfe"] * n, pyarrow.binary()).cast(pyarrow.string(), safe=False)
    kinds: tuple[Any, ...] = (b"x", {"a": 1}, float("nan"), float("inf"), 0.3, None, -5, True, ["a", None], [[1]], "")
    return [
        bad_text,
        *(pyarrow.array([value] * n) for value in kinds),
        *(pyarrow.array([10**18] * n, type_) for type_ in (pyarrow.timestamp("us"), pyarrow.duration("s"))),
        pyarrow.array([2**31 - 1] * n, pyarrow.date32()),
        pyarrow.array(["a"] * n).dictionary_encode(),
    ]


def mutate_npy(content: bytes, rng: Random) -> bytes:
    """An array of other numbers, another shape or another type; or a header that promises terabytes."""
    if rng.random() < 0.1:
        return re.sub(rb"'shape': \((\d+),", b"'shape': (%d," % 10 ** rng.choice((6, 9, 12, 30)), content, count=1)
    array = np.load(io.BytesIO(content), allow_pickle=False)
    file = io.BytesIO()
    np.save(file, _mutate_array(array, rng), allow_pickle=False)
    return file.getvalue()


def mutate_safetensors(content: bytes, rng: Random) -> bytes:
    """A tensor of other numbers, shape, type or name; or a header that promises terabytes."""
    if rng.random() < 0.1:
        return rng.choice((10**6, 10**9, 2**63, 0)).to_bytes(8, "little") + content[8:]
    tensors = load(content)
    name = rng.choice(sorted(tensors))
    kind = rng.randrange(8)
    if kind == 0:
        del tensors[name]
    elif kind == 1:
        tensors[f"{name}.copy"] = tensors[name]
    else:
        tensors[name] = np.ascontiguousarray(_mutate_array(tensors[name], rng))
    return save(tensors)


def _mutate_array(array: np.ndarray, rng: Random) -> np.ndarray:
    kind = rng.randrange(7)
    if kind < 3 and array.size and array.dtype.kind in "fiu":
        array = array.copy()
        value = np.float64(rng.choice(NASTY_NUMBERS))
        with np.errstate(all="ignore"):
            array.flat[rng.randrange(array.size)] = value.astype(array.dtype)
            if kind == 2:
                array[...] = value.astype(array.dtype)
        return array
    changed = {
        3: lambda: array[:-1] if array.ndim else array[None],
        4: lambda: array.astype(rng.choice((np.float64, np.float16, np.int8, np.int64, np.uint8, np.complex64, "U4"))),
        5: lambda: array.T if array.ndim > 1 else array[None],
    }
    return changed.get(kind, lambda: np.concatenate([array, array]) if array.ndim else array.reshape(1, 1))()


SQL_VALUES = (
    None,
    "",
    b"\xff\x00",
    0,
    -1,
    2**62,
    1.5,
    float("inf"),
    "[]",
    "null",
    "{",
    "../x",
    *NASTY_JSON,
    *NASTY_TEXTS,
)
SQL = (
    *("UPDATE documents SET content = ? WHERE row = 2", "UPDATE documents SET rest = ? WHERE row = 3"),
    *("UPDATE documents SET id = ? WHERE row = 1", "UPDATE documents SET content = ?", "UPDATE state SET revision = ?"),
    *("DELETE FROM documents WHERE row = 2", "DELETE FROM documents", "DELETE FROM state", "DROP TABLE state"),
    *(
        "DROP TABLE documents",
        "ALTER TABLE documents RENAME COLUMN rest TO other",
        "UPDATE documents SET row = row + 7",
    ),
    *("PRAGMA user_version = 99", "PRAGMA application_id = 1", "INSERT INTO state VALUES ('two')"),
    *("INSERT INTO documents VALUES (99, 'new', 'a parcel', NULL)", "CREATE TABLE other (a)", "VACUUM"),
)


def mutate_sqlite(file: Path, rng: Random) -> None:
    """What another program may have done to a database."""
    statement = rng.choice(SQL)
    value = rng.choice(SQL_VALUES)
    connection = sqlite3.connect(file, isolation_level=None)
    try:
        connection.execute(statement, (value,) if "?" in statement else ())
    except (sqlite3.Error, UnicodeEncodeError):
        pass  # the schema keeps this one out, or an earlier mutation has left no database
    finally:
        connection.close()


STRUCTURED: dict[str, Callable[..., bytes]] = {
    ".json": mutate_json,
    ".jsonl": mutate_jsonl,
    ".yaml": mutate_yaml,
    ".csv": mutate_csv,
    ".tsv": mutate_tsv,
    ".gz": mutate_gzip,
    ".parquet": mutate_parquet,
    ".npy": mutate_npy,
    ".safetensors": mutate_safetensors,
}
"""Mutations that know a format, by a file name's ending."""
