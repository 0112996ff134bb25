"""Reads files that a user names within bounds: a small file cannot fill the memory, and a device cannot block."""

from __future__ import annotations

import codecs
import gzip
import io
import json
import logging
import re
import stat
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

import yaml
from yaml.constructor import SafeConstructor

from ap_ranker.errors import InputError, did_you_mean, library_errors, one_line, told_at

logger = logging.getLogger(__name__)

MAX_RATIO = 50
"""Maximum growth of a compressed file. The texts of the public benchmarks grow three- to fivefold, word vectors and
pools of ids less; a file that grows fiftyfold repeats one line and would fill the memory."""

ALWAYS_READ = 2**20
"""Bytes that a compressed file may hold in any case: a few repeated lines do no harm."""

MAX_YAML = 2**17
"""Maximum size of a YAML file in bytes, sixty times the longest of the examples; parsing that many takes a second."""

MAX_NODES = 20_000
"""Maximum number of YAML values, each alias expanded: ten lines of aliases of aliases stand for a billion values."""

MAX_DATA_NODES = 1_000_000
"""The same for YAML that holds data, such as the entries of a FAQ."""

MAX_JSON = 10 * 2**20
"""Maximum size of a JSON file in bytes, but for vocabularies. The longest known one, of an encoder's tokenizer with
6,415 tokens that were added, has 1.2 MB."""

MAX_JSON_VALUES = 4_000_000
"""Maximum number of commas and brackets in a JSON file: an empty list takes two bytes there and 64 in memory. The
longest vocabulary has two million."""

_KINDS = {
    stat.S_ISDIR: "a folder",
    stat.S_ISFIFO: "a pipe",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
    stat.S_ISSOCK: "a socket",
}


def what_is_at(path: Path) -> str:
    """`a file`, `a folder`, `a pipe`, `a device`, `a socket`, or `nothing`; InputError if the system cannot tell."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "nothing"
    except (OSError, ValueError) as error:  # Python itself refuses a NUL in a name
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{one_line(path)}: expected a file, found a name that cannot be used ({reason}).") from error
    return next((kind for is_kind, kind in _KINDS.items() if is_kind(mode)), "a file")


LONGEST_NAME = 255
"""Maximum number of bytes of a file's name on the usual file systems."""


def may_be_path(text: str) -> bool:
    """Whether what a user typed may name a file: prose is told by its signs, without asking the file system."""
    names = re.split(r"[/\\]", text)
    is_short = all(len(name.encode("utf-8", "surrogatepass")) <= LONGEST_NAME for name in names)
    return is_short and len(text) <= 4_096 and not re.search(r"[\0\r\n?]", text)


def names_path(text: str) -> bool:
    """Whether a text is the name of a file or folder that there is, as far as this user may know."""
    if not may_be_path(text):
        return False
    try:
        return Path(text).exists()
    except (OSError, ValueError):
        return False


def require_file(path: Path) -> None:
    """Refuse (InputError) anything but a regular file: a pipe or a device may never end."""
    kind = what_is_at(path)
    if kind == "nothing":
        advice = did_you_mean(path.name, [neighbour.name for neighbour in path.parent.glob("*")]) or " Check the path."
        if re.match(r"(?i)(https?|ftp|file):|www\.|docs\.google\.", str(path)):
            advice = " That is an address: download what is there, and name the file."
        elif str(path).startswith("~"):
            advice = " Write ~ outside of quotation marks, where the shell reads it as your home folder."
        raise InputError(f"No file at {str(path)!r}.{advice}")
    if kind != "a file":
        raise InputError(f"{path}: expected a file, found {kind}.")


_SUCCESSORS = {
    **dict.fromkeys((".doc", ".odt", ".rtf", ".pages", ".gdoc"), ".docx"),
    **dict.fromkeys((".xlsb", ".numbers", ".gsheet"), ".xlsx"),
    **dict.fromkeys((".ppt", ".odp", ".key"), ".pptx"),
    **dict.fromkeys((".mht", ".mhtml", ".webarchive"), ".html"),
}
"""The ending of a file that cannot be read -> the one under which its program can save it."""

_DOCUMENTS = (".pdf", ".docx", ".pptx", ".html", ".htm", ".md", ".markdown", ".mdx", ".txt")


def save_as(path: Path) -> str:
    """What to do with a file whose ending is not an expected one, as a sentence after another; empty if unknown."""
    ending = path.suffix.lower()
    if ending in _DOCUMENTS:
        questions = f"ap-ranker extract {path} --output FAQ.csv"
        return f" It is a document: search it (ap-ranker serve {path}), or make a table of what it asks ({questions})."
    if ending == ".zip":
        return " Unpack it, and name the folder or the file in it."
    if ending in _SUCCESSORS:
        return f" Save it as {_SUCCESSORS[ending]}."
    return ""


OLD_OFFICE = b"\xd0\xcf\x11\xe0"
_KINDS_OF_FILES = (
    (rb"%PDF-", "a PDF file", ".pdf"),
    (rb"PK.*xl/workbook", "an Excel workbook", ".xlsx"),
    (rb"PK.*word/document", "a Word document", ".docx"),
    (rb"PK.*ppt/presentation", "a presentation", ".pptx"),
    (rb"PK.*opendocument\.spreadsheet", "a table of LibreOffice", ".ods"),
    (rb"PK\x03\x04", "a zip archive, which must be unpacked first", ""),
    (OLD_OFFICE, "one with a password, or of an Office before 2007: save it anew without a password", ""),
    (rb"\x1f\x8b", "a gzip file", ".gz"),
    (rb"PAR1", "a Parquet file", ".parquet"),
    (rb"\s*(?i:<!doctype|<html|<\?xml|<table)", "a web page or XML", ".html"),
    (rb"SQLite format 3", "a database", ""),
    (rb"version https://git-lfs", "a pointer of Git LFS: fetch what it stands for with `git lfs pull`", ""),
    (rb"\{\\rtf", "a document in RTF, which must be saved as .docx", ""),
    (rb"\x89PNG|\xff\xd8\xff|GIF8|RIFF", "a picture or a recording", ""),
)
"""How a file begins -> what it is, and the ending of its name, if it is one that may be read."""


def found_instead(content: bytes, path: Path) -> str:
    """What a file is that is not what its name says, and what to do; empty if that is unknown."""
    for begins, kind, ending in _KINDS_OF_FILES:
        if re.match(begins, content, re.DOTALL):
            named = path.suffix.lower()
            is_named_so = named == ending or (ending == ".html" and named in _DOCUMENTS)  # Markdown may begin so
            if is_named_so:
                return ""
            if ending:
                return f"{kind}: name it {path.stem}{ending}"
            return kind
    return ""


def open_file(path: Path) -> BinaryIO:
    """Open a regular file (InputError: another) for reading bytes, decompressed if its name ends in `.gz` or `.GZ`."""
    require_file(path)
    if path.suffix.lower() != ".gz":
        return path.open("rb")
    read = 0
    expected = f"{path}: expected a complete gzip file, found a damaged one"
    # Decompressed once only to measure it, which takes little beside what follows.
    with library_errors(expected, (gzip.BadGzipFile, EOFError, zlib.error)), gzip.open(path) as file:
        while piece := file.read(2**20):
            read += len(piece)
            check_growth(path, read)
    return cast(BinaryIO, gzip.open(path))


def check_growth(path: Path, read: int, size: int | None = None) -> None:
    """Refuse (InputError) a compressed file (of `size` bytes) that grows beyond `MAX_RATIO`, by those `read` so far."""
    size = path.stat().st_size if size is None else size
    if read > max(MAX_RATIO * size, ALWAYS_READ):
        expected = f"expected a compressed file of {size:,} bytes to hold at most {MAX_RATIO} times as much"
        advice = "it would fill the memory. If it is correct, decompress it or save it as CSV, and name that file."
        raise InputError(f"{path}: {expected}, found more: {advice}")


def check_zip(content: bytes, path: Path, expected: str) -> None:
    """Refuse (InputError) a file that is no zip archive, as the `expected` document is, or that grows too much."""
    is_text = bool(content) and not re.search(rb"[\0-\x08\x0e-\x1f]", content[:4_096])
    instead = found_instead(content, path) or (f"text: name it {path.stem}.csv or .txt" if is_text else "")
    if instead and (not content.startswith(b"PK") or zipfile.is_zipfile(io.BytesIO(content))):
        raise InputError(f"{path}: expected {expected}, found {instead}.")
    problem = f"{path}: expected {expected}, found another or a damaged file"
    kinds = (zipfile.BadZipFile, ValueError, struct.error, NotImplementedError)
    with (
        library_errors(problem, kinds, advice=" Save it again in its program."),
        zipfile.ZipFile(io.BytesIO(content)) as archive,
    ):
        size = sum(part.file_size for part in archive.infolist())  # zipfile reads no more than is declared
    check_growth(path, size, len(content))


def decode(content: bytes, path: Path) -> str:
    """Decode a file's content: UTF-8, or another encoding, which a notice names; an InputError says what is no text."""
    instead = found_instead(content, path)
    if instead:
        raise InputError(f"{path}: expected text, found {instead}.")
    try:
        text = content.decode("utf-8-sig")  # spreadsheets write a byte order mark
        position = content.find(b"\0")
    except UnicodeDecodeError as error:
        position = error.start
    if position < 0:
        return text
    with suppress(UnicodeDecodeError, LookupError):  # no encoding
        encoding = _encoding(content)
        text = content.decode(encoding).removeprefix("\ufeff")
        word = next((f", such as {word!r}" for word in text.split() if not word.isascii()), "")
        logger.info("%s: read as %s, not UTF-8%s. Is it wrong? Save it as UTF-8.", path, encoding, one_line(word, 40))
        return text
    character = "a NUL character"
    if content[position] != 0:
        character = f"the byte 0x{content[position]:02x}"
    excel = " (in Excel: CSV UTF-8)" if path.suffix.lower() == ".csv" else ""
    where = f"{path}, line {content.count(bytes([10]), 0, position) + 1}"
    raise InputError(f"{where}: expected UTF-8 text, found {character}. Save the file as UTF-8{excel} and try again.")


_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),  # before that of UTF-16, with which it begins
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_WESTERN = {
    "cp1250": ("pl", "cs", "sk", "hu", "sl", "hr", "sr", "bs", "ro", "sq"),
    "cp1254": ("tr", "az"),
    "cp1257": ("lt", "lv", "et"),
    "cp1258": ("vi",),
}
"""Code page of Windows -> languages; others of Latin script have cp1252. Words tell a language whatever the accents."""

FEW_LETTERS = 8  # beyond ASCII, and hardly others: so few do not tell a script, and are rather damage

_SAMPLE = 100_000
"""Maximum number of bytes by which the encoding is told, from lines with others than ASCII characters."""


def _encoding(content: bytes) -> str:
    """The encoding of a text that is not UTF-8; empty if it is none, or UTF-8 that is damaged in places."""
    mark = next((name for mark, name in _MARKS if content.startswith(mark)), "")
    if mark:
        return mark
    if b"\0" in content:  # ASCII characters in UTF-16, of which any table has some, are a NUL and one other byte
        high = content[::2].count(0)
        low = content[1::2].count(0)
        ends = content.count(b"\0\n" if high > low else b"\n\0")  # of UTF-8 with a NUL, other lines end without
        is_text = min(high, low) * 10 <= max(high, low) and 0 < content.count(b"\n") < 2 * ends
        encoding = "utf-16-be" if high > low else "utf-16-le"
        return encoding if is_text else ""
    from charset_normalizer import from_bytes

    sample = b"\n".join(line for line in content.splitlines() if not line.isascii())[:_SAMPLE]
    read = sample.decode("utf-8", "replace")
    best = from_bytes(sample).best()
    letters = len(re.findall(rb"[\x80-\xff]", sample))
    latin = len(re.findall(rb"[A-Za-z]", sample))
    is_damaged = read.count("\ufffd") * 2 <= sum(character > "\x7f" for character in read)
    if best is None or is_damaged or latin < letters <= FEW_LETTERS:
        return ""
    if letters > latin:  # of no Latin script
        japanese = sample.decode("cp932", "ignore")  # which may pass for Korean
        is_japanese = len(re.findall("[\u3041-\u30fa]", japanese)) * 10 > len(japanese)
        return "cp932" if is_japanese else best.encoding
    if len(re.findall(rb"[a-z][\x80-\x90\x95-\x9f][a-z]", sample)) > len(re.findall(rb"[\xc0-\xff]", sample)):
        return "mac_roman"  # where Windows has signs, or letters of few languages
    import py3langid

    language, _ = py3langid.classify(sample.decode("cp1252", "replace"))
    return next((encoding for encoding, languages in _WESTERN.items() if language in languages), "cp1252")


def read_yaml_text(path: Path) -> str:
    """Read the text of a YAML file; raises InputError."""
    with open_file(path) as file:
        content = file.read(MAX_YAML + 1)
    if len(content) > MAX_YAML:
        raise InputError(f"{path}: expected a YAML file of at most {MAX_YAML:,} bytes, found a longer one.")
    return decode(content, path)


def read_json_file(path: Path, max_bytes: int = MAX_JSON) -> Any:
    """Read a JSON file of limited size in which no name stands twice; raises InputError."""
    with open_file(path) as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise InputError(f"{path}: expected a JSON file of at most {max_bytes:,} bytes, found a longer one.")
    if sum(map(content.count, (b",", b"[", b"{"))) > MAX_JSON_VALUES:
        raise InputError(f"{path}: expected a JSON file of at most {MAX_JSON_VALUES:,} values, found more.")
    with library_errors(f"{path}: expected JSON", (ValueError, RecursionError)):  # also of bad UTF-8 and large numbers
        return json.loads(content.decode("utf-8"), object_pairs_hook=_unique_names)


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object: programs differ in which of two equal names they read, so one may be checked and the other used."""
    values = dict(pairs)
    if len(values) < len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise ValueError(f"each name once, found {one_line(repr(twice), 40)} twice")
    return values


CORRECT = " Correct it there."
"""What to do about a fault in YAML."""


@contextmanager
def _yaml_fault() -> Iterator[None]:
    """Tell a fault in one line: PyYAML quotes the text around it, in several."""
    try:
        yield
    except yaml.MarkedYAMLError as error:
        if error.problem is None or error.problem_mark is None:
            raise
        raise ValueError(f"{error.problem} in line {error.problem_mark.line + 1}") from error


def parse_yaml(text: str, where: object) -> Any:
    """Parse a YAML text; the message of an InputError begins with `where`."""
    # PyYAML raises all kinds for a number, a date or a tag that it cannot convert, and for what is nested too deeply.
    with told_at(where), library_errors("expected settings in YAML", advice=CORRECT), _yaml_fault():
        node = yaml.compose(text, yaml.SafeLoader)
        if node is None:
            return None
        _check_nodes(node)
        return SafeConstructor().construct_document(node)


def parse_yaml_texts(text: str, where: object) -> Any:
    """Parse data in YAML, whose values are texts as written; the message of an InputError begins with `where`."""
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # that of C, where it was built, is ten times as fast
    with told_at(where), library_errors("expected data in YAML", advice=CORRECT), _yaml_fault():
        node = yaml.compose(text, loader)
        if node is None:
            return None
        _check_nodes(node, MAX_DATA_NODES)
        return yaml.constructor.BaseConstructor().construct_document(node)


def _check_nodes(node: yaml.Node, most: int = MAX_NODES) -> None:
    """Check the number of values that a node stands for, each alias expanded, and that no name stands twice."""
    nodes = [node]
    n_values = 0
    while nodes:
        checked = nodes.pop()
        n_values += 1
        if n_values > most:  # also of a value that contains itself
            raise InputError(f"expected at most {most:,} values with aliases expanded, found more.")
        if isinstance(checked, yaml.MappingNode):
            names: set[str] = set()
            for name, value in checked.value:
                nodes += [name, value]
                if isinstance(name, yaml.ScalarNode) and name.tag != "tag:yaml.org,2002:merge":
                    if name.value in names:
                        line = name.start_mark.line + 1
                        raise InputError(f"expected each name once, found {name.value!r} again in line {line}.")
                    names.add(name.value)
        elif isinstance(checked, yaml.SequenceNode):
            nodes += checked.value
