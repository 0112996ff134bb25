"""The index whose texts are read as ap-ranker reads them, by Lucene itself: Debian's liblucene8-java, and a JDK."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT
from reading_table import OTHERS, Row, read_table

from elastic.conftest import Search

INDEX = json.loads((ROOT / "pipelines" / "elasticsearch_index.json").read_text(encoding="utf-8"))
ANALYSIS = INDEX["settings"]["analysis"]
ROWS = [row for row in read_table() if row.expected in ("found", "first", "not")]
JARS = [next(Path("/usr/share/java").glob(f"lucene-{name}-8.*.jar"), None) for name in ("core", "analyzers-common")]

BUILT_IN = {
    *("arabic_normalization", "cjk_width", "decimal_digit", "flatten_graph", "lowercase", "persian_normalization"),
    *("remove_duplicates", "standard"),
}
"""What Elasticsearch has under these names, without a plugin."""

PARAMETERS = {
    "mapping": {"mappings"},
    "pattern_replace": {"pattern", "replacement"},
    "word_delimiter_graph": {"adjust_offsets", "catenate_all", "catenate_words"},
    "cjk_bigram": {"output_unigrams"},
    "asciifolding": {"preserve_original"},
    "stemmer": {"language"},
    "lowercase": {"language"},
    "custom": {"char_filter", "tokenizer", "filter"},
}
"""Type -> those of its parameters, by Elasticsearch's reference, that the index gives."""

GENERATE, JOIN_WORDS, JOIN_ALL, CASES, NUMBERS, POSSESSIVE = 1 | 2, 4, 16, 64, 128, 256
"""Lucene's flags of its word delimiter; Elasticsearch sets the first and the last three by default."""


def steps(side: str, analyzer: str) -> Iterator[list[str]]:
    """The chain of an analyzer as `Lucene.java` takes it."""
    for name in ANALYSIS["analyzer"][analyzer]["char_filter"]:
        step = ANALYSIS["char_filter"][name]
        pairs = [part for mapping in step.get("mappings", ()) for part in mapping.split(" => ")]
        yield [side, step["type"], *(pairs or [step["pattern"], step["replacement"]])]
    for name in ANALYSIS["analyzer"][analyzer]["filter"]:
        step = ANALYSIS["filter"].get(name, {"type": name})
        flags = GENERATE | CASES | NUMBERS | POSSESSIVE
        flags |= JOIN_WORDS * step.get("catenate_words", False) | JOIN_ALL * step.get("catenate_all", False)
        yield [side, step["type"], str(flags)]


def escaped(cell: str) -> str:
    units = cell.encode("utf-16-be")
    codes = [int.from_bytes(units[i : i + 2], "big") for i in range(0, len(units), 2)]
    return "".join(chr(code) if 0x20 <= code < 0x7F and code != ord("\\") else f"\\u{code:04x}" for code in codes)


def write(path: Path, lines: Iterator[list[str]]) -> str:
    path.write_text("".join("\t".join(map(escaped, cells)) + "\n" for cells in lines), encoding="utf-8")
    return str(path)


def others(row: Row) -> list[str]:
    return [*OTHERS, row.twin] if row.twin else [*OTHERS]


def test_lucene_reads_texts_nearly_as_we_do(tmp_path: Path) -> None:
    """But for 25 of 717 rows, with the stemmer of each row's language; docs/haystack.md names their kinds."""
    if None in JARS or shutil.which("javac") is None:
        pytest.skip("Lucene is missing: apt-get install liblucene8-java default-jdk-headless")
    chain = [*steps("index", "reading"), *steps("query", "reading_query")]
    asked = ([row.language or "-", row.query, row.text, *others(row)] for row in ROWS)
    files = write(tmp_path / "chain", iter(chain)), write(tmp_path / "rows", asked)
    command = ["java", "-cp", ":".join(map(str, JARS)), str(Path(__file__).parent / "Lucene.java"), *files]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    scores = [tuple(map(float, line.split("\t"))) for line in printed]
    failing = [
        str(row)
        for row, (own, best) in zip(ROWS, scores, strict=True)
        if (own > 0 if row.expected == "not" else own <= best)
    ]
    assert len(failing) <= 25, "\n".join(failing)


def test_an_index_of_elasticsearch_takes_it(search: Search) -> None:
    if search.server.command:
        pytest.skip("the patterns are Java's, which only Elasticsearch itself reads")
    search.request("PUT", search.index, INDEX)
    analyzed = search.request("POST", f"{search.index}/_analyze", {"analyzer": "reading", "text": "E‑mail for 20€"})
    assert [token["token"] for token in analyzed["tokens"]] == ["email", "e", "mail", "for", "20"]


def test_names_and_parameters_are_elasticsearchs() -> None:
    made = {kind: set(ANALYSIS[kind]) for kind in ("char_filter", "filter", "analyzer")}
    for kind in made:
        for name, step in ANALYSIS[kind].items():
            assert step.keys() - {"type"} == PARAMETERS[step["type"]] & step.keys() == PARAMETERS[step["type"]], name
    for analyzer in ANALYSIS["analyzer"].values():
        assert set(analyzer["char_filter"]) == made["char_filter"]
        assert {*analyzer["filter"], analyzer["tokenizer"]} <= BUILT_IN | made["filter"]
    reading, query = (ANALYSIS["analyzer"][name]["filter"] for name in ("reading", "reading_query"))
    assert [name for name in reading if name != "flatten_graph"] == query, "an index holds no graphs"
    used = {name for analyzer in ANALYSIS["analyzer"].values() for name in analyzer["filter"]}
    assert made["filter"] - used == {"lowercase_turkish"}, "docs/haystack.md names it"


def test_its_fields_are_those_of_the_pipelines() -> None:
    """But for the analyzers; an index with a field for embeddings serves those without, too."""
    analyzers = {"type": "text", "analyzer": "reading", "search_analyzer": "reading_query"}
    for name in ("faq_index_elasticsearch.yaml", "faq_index_hybrid_elasticsearch.yaml"):
        pipeline: dict[str, Any] = yaml.safe_load((ROOT / "pipelines" / name).read_text(encoding="utf-8"))
        store = pipeline["components"]["writer"]["init_parameters"]["document_store"]["init_parameters"]
        declared = store["custom_mapping"]["properties"] | {"content": analyzers}
        assert declared.items() <= INDEX["mappings"]["properties"].items()
        assert store["custom_mapping"]["dynamic"] == INDEX["mappings"]["dynamic"]
