"""Where do vectors of known wordings belong in Elasticsearch: nested in their entry, or in an index of their own?

PYTHONPATH=tests:. python -m benchmarks.elasticsearch_wordings --documents ANSWERS --wordings KNOWN --questions OTHERS

It starts one node, writes the same entries and wordings in both layouts, and asks both the same questions in turn.
Nested, one search finds the entries with the number of the last change of each, which tells whether memory has their
texts as they are now. In an index of wordings, a search finds the nearest ones and keeps the best of each entry, and a
second request asks for these numbers. Its rows differ in how many neighbours are asked for.

Wordings and questions are encoded by an untrained checkpoint. Vectors and states of answers are random ones: no answer
is searched here, but its document is written anew with each new wording that is nested in it.
"""

from __future__ import annotations

import tempfile
import time
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Annotated, Any

import numpy as np
import typer
from elastic.adapter import Adapter
from elastic.engine import start_engine
from haystack import Document

from ap_ranker.data.faq import Match
from ap_ranker.data.tables import read_table
from ap_ranker.data.wordings import WordingFiles, wordings_of
from ap_ranker.documents import read_entries
from ap_ranker.evaluation.markdown import markdown_table
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.state_bytes import STATES
from ap_ranker.ranking.wordings import WORDINGS
from ap_ranker.search.elasticsearch.index_cluster import Cluster
from ap_ranker.search.elasticsearch.index_layout import Layout
from ap_ranker.search.index_source import sources_of
from ap_ranker.training.untrained import write_untrained
from haystack_integrations.common.ap_ranker.entries import to_document
from haystack_integrations.components.retrievers.ap_ranker.elasticsearch_queries import nearest
from haystack_integrations.document_stores.ap_ranker import ElasticsearchFAQStore
from haystack_integrations.document_stores.ap_ranker.elasticsearch_faq import ASKED

EXAMPLE = Path(__file__).parents[1] / "examples" / "faq"
BEST = 100
NEIGHBOURS = (100, 300, 1000)
STATE_BYTES = 3_600  # of an answer, before base64: 5 KB in the document
WARM = 3  # how often all questions are asked before those that count
NEW = "Is there a parking space for penguins?"
Reply = tuple[list[str], float]  # the best entries, and the milliseconds that Elasticsearch says it took


def main(
    documents: Annotated[Path, typer.Option(help="The FAQ.")] = EXAMPLE / "answers.csv",
    wordings: Annotated[Path, typer.Option(help="Its known wordings.")] = EXAMPLE / "train.csv",
    questions: Annotated[Path, typer.Option(help="Other questions, to be asked.")] = EXAMPLE / "test.csv",
    number: Annotated[int, typer.Option(min=1, help="Number of these.")] = 100,
) -> None:
    """Print a table: a row for each layout."""
    entries = read_entries(documents)
    texts = [entry.text(Match.both) for entry in entries]
    known = wordings_of(entries, texts, WordingFiles().now([wordings]))
    asked = [row.need("question") for row in read_table(questions).rows][:number]
    made = [to_document(entry, Match.both) for entry in entries]
    for document, of_entry in zip(made, known, strict=True):
        document.meta[WORDINGS] = list(of_entry)
    with tempfile.TemporaryDirectory(prefix="ap-ranker-wordings-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        write_untrained(folder / "checkpoint", texts, "english", wordings=known)
        ranker = Ranker.from_pretrained(folder / "checkpoint")
        different = [NEW, *{text: None for of_entry in known for text in of_entry}]
        vectors = dict(zip(different, np.asarray(ranker.embed_wordings(different)), strict=True))
        engine = start_engine(folder / "node")
        try:
            rows = Layouts(engine.url, made, vectors).compare(np.asarray(ranker.embed_questions(asked)))
        finally:
            engine.stop()
    typer.echo(f"{len(made):,} entries, {sum(map(len, known)):,} wordings, {len(asked):,} questions")
    cells = [[name, *(f"{measure:,.3f}" for measure in row.values())] for name, row in rows.items()]
    typer.echo(markdown_table(["", *rows["nested"]], cells))


class Layouts:
    """The same entries and wordings in both layouts, on one node."""

    def __init__(self, url: str, documents: Sequence[Document], vectors: Mapping[str, np.ndarray]) -> None:
        self._proxy = Adapter(url)
        self._client: Any = ElasticsearchFAQStore(hosts=url, request_timeout=600).client
        self._cluster = Cluster(self._client, "faq")
        self._documents = documents
        self._vectors = vectors
        self._states = b64encode(np.random.default_rng(0).bytes(STATE_BYTES)).decode()

    def compare(self, questions: np.ndarray) -> dict[str, dict[str, float]]:
        """What each layout costs, by its name, for (B, C) vectors of questions."""
        nested = [self._source(document) for document in self._documents]
        alone = [{name: value for name, value in source.items() if name != ASKED} for source in nested]
        wordings: list[dict[str, Any]] = []
        for source in nested:
            wordings += [{"entry": source["id"], **wording} for wording in source[ASKED]]
        layout = Layout.read(None, language="english", dimensions=questions.shape[1])
        own = {"entry": {"type": "keyword"}, **layout.mappings["properties"][ASKED]["properties"]}
        mappings = {"nested": layout.mappings, "alone": layout.mappings, "wordings": {"properties": own}}
        for index, mapping in mappings.items():
            self._client.indices.create(index=index, settings=layout.settings, mappings=mapping)
        written = {"nested": self._write(nested=nested), "own": self._write(alone=alone, wordings=wordings)}
        size = {"nested": self._bytes("nested"), "own": self._bytes("alone") + self._bytes("wordings")}
        ways: dict[str, Callable[[np.ndarray], Reply]] = {"nested": self._nested}
        for neighbours in NEIGHBOURS:
            ways[f"own index, {neighbours:,} neighbours"] = partial(self._own, neighbours=neighbours)
        rows = self._ask(ways, questions)
        changed = self._source(self._documents[0], NEW)
        new = {"entry": changed["id"], **changed[ASKED][-1]}
        found = {"nested": self._write(nested=[changed]), "own": self._write(wordings=[new])}
        for way in (self._nested, partial(self._own, neighbours=BEST)):
            assert way(self._vectors[NEW])[0][0] == changed["id"], "the new wording's entry is the nearest"
        for name, row in rows.items():
            kind = "nested" if name == "nested" else "own"
            row |= {"MB on disk": size[kind] / 1e6, "s to write": written[kind], "s until found": found[kind]}
        return rows

    def _source(self, document: Document, *further: str) -> dict[str, Any]:
        """An entry as `ap-ranker index` writes it, with further wordings."""
        answer = np.random.default_rng(len(document.id)).standard_normal(len(self._vectors[NEW])).tolist()
        meta = document.meta | {STATES: self._states, WORDINGS: [*document.meta[WORDINGS], *further]}
        entry = Document(id=document.id, content=document.content, meta=meta, embedding=answer)
        return sources_of([entry], "benchmark", "english", self._embed)[0]

    def _embed(self, texts: Sequence[str]) -> np.ndarray:
        return np.stack([self._vectors[text] for text in texts])

    def _write(self, **sources: Sequence[dict[str, Any]]) -> float:
        """Write documents into indexes; the seconds until searches find them."""
        start = time.perf_counter()
        for index, of_index in sources.items():
            actions = [{"_op_type": "index", "_id": source.get("id"), "_source": source} for source in of_index]
            self._cluster.write(index, actions)
            self._client.indices.refresh(index=index)
        return time.perf_counter() - start

    def _bytes(self, index: str) -> int:
        self._client.indices.forcemerge(index=index, max_num_segments=1)
        stats = self._client.indices.stats(index=index, metric="store")
        return int(stats["_all"]["primaries"]["store"]["size_in_bytes"])

    def _nested(self, vector: np.ndarray) -> Reply:
        similar = nearest(f"{ASKED}.vector", vector, [], BEST)
        query = {"nested": {"path": ASKED, "query": similar, "score_mode": "max"}}
        return self._search("nested", query, "id", seq_no_primary_term=True)

    def _own(self, vector: np.ndarray, neighbours: int) -> Reply:
        query = nearest("vector", vector, [], neighbours)
        ids, took = self._search("wordings", query, "entry", collapse={"field": "entry"})
        self._client.mget(index="alone", ids=ids, source=False, filter_path="docs._id,docs._seq_no")
        return ids, took

    def _search(self, index: str, query: Mapping[str, Any], name: str, **more: Any) -> Reply:
        columns = {"stored_fields": "_none_", "docvalue_fields": [name], "track_total_hits": False}
        answer = self._client.search(index=index, query=query, size=BEST, **columns, **more)
        return [hit["fields"][name][0] for hit in answer["hits"]["hits"]], answer["took"]

    def _ask(self, ways: Mapping[str, Callable[[np.ndarray], Reply]], questions: np.ndarray) -> dict[str, Any]:
        """Ask all ways each question, in turn; a row of each. Requests are counted by a proxy, in a pass of its own."""
        best = [self._best(vector) for vector in questions]
        replies: dict[str, list[tuple[float, ...]]] = {name: [] for name in ways}
        for turn in range(WARM + 1):
            for vector, expected in zip(questions, best, strict=True):
                for name, way in ways.items():
                    start = time.perf_counter()
                    ids, took = way(vector)
                    seconds = time.perf_counter() - start
                    if turn == WARM:
                        replies[name].append((len(expected.intersection(ids)) / len(expected), took, 1000 * seconds))
        self._client = ElasticsearchFAQStore(hosts=self._proxy.url).client
        rows: dict[str, dict[str, float]] = {}
        for name, way in ways.items():
            sent, received = len(self._proxy.requests), self._proxy.received
            for vector in questions:
                way(vector)
            recalls, took_of_all, times = zip(*replies[name], strict=True)
            rows[name] = {"recall": mean(recalls), "requests": (len(self._proxy.requests) - sent) / len(questions)}
            rows[name] |= {"bytes": (self._proxy.received - received) / len(questions)}
            rows[name] |= {"took ms": median(took_of_all), "ms": median(times)}
        return rows

    def _best(self, vector: np.ndarray) -> set[str]:
        """The entries of the nearest wordings, exactly."""
        having = [document for document in self._documents if document.meta[WORDINGS]]
        cosines = {each.id: float((self._embed(each.meta[WORDINGS]) @ vector).max()) for each in having}
        return set(sorted(cosines, key=cosines.__getitem__, reverse=True)[:BEST])


if __name__ == "__main__":
    typer.run(main)
