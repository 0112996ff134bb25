"""The tables of three pages, drawn from the JSON files: like beside like, means of the seeds with their deviation.

python examples/fair_peers/fair_tables.py
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import typer

from ap_ranker.evaluation.markdown import markdown_table, spread
from ap_ranker.evaluation.significance import holm, randomisation_test
from ap_ranker.files import write_text_atomically
from ap_ranker.models.pretrained import DEFAULT_ENCODER

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent.parent
START = "<!-- results: python examples/fair_peers/fair_tables.py -->"
END = "<!-- end of results -->"

OURS = "ap-transformer"
SHOWN = ("P@1", "MAP", "MRR")
NOTHING = "No data set has been measured yet."

FRONT_PAGE = ("example", "covid_questions")
"""The data sets of the table in the README of the project: one that was written for it, and one of others."""

SUMMED_UP = {"answers alone": "answers alone", "wordings": "known wordings"}
"""The rows of the summary -> what it calls them. Those with BM25 are in this folder's page alone; so is what was not
trained."""

SURE = 0.05
"""A difference with a smaller p-value gets an asterisk in the summary."""


def ranks_text(reciprocal_ranks: Sequence[float]) -> str:
    """The rank of each question's first right answer, 0 if it has none, as a line of a JSON file.

    It is 1 by the reciprocal rank, which is a mean where equal scores share ranks: 1.333333 for one of the first two.
    """
    ranks = [1 / value if value else 0 for value in reciprocal_ranks]
    return " ".join(f"{rank:.7g}" for rank in ranks)


def _mean_reciprocal_ranks(seeds: Sequence[str]) -> np.ndarray:
    """(Q,) the questions' means over the seeds, from a line of ranks for each seed."""
    ranks = np.array([seed.split() for seed in seeds], float)
    return np.divide(1.0, ranks, out=np.zeros_like(ranks), where=ranks > 0).mean(axis=0)


def with_earlier(collected: Mapping[str, Any], earlier: Mapping[str, Any]) -> dict[str, Any]:
    """What was measured now, and the systems that only an earlier JSON file has: of the same data, with their ranks."""
    systems = dict(collected["systems"])
    ranks = dict(collected["ranks"])
    if earlier.get("origin") == collected["origin"]:
        for name, rows in earlier["ranks"].items():
            systems.setdefault(name, earlier["systems"][name])
            ranks.setdefault(name, rows)
    order = [*collected["grids"], *systems]  # a system without settings has no grid
    names = [name for name in dict.fromkeys(order) if name in systems]
    return {
        **collected,
        "systems": {name: systems[name] for name in names},
        "ranks": {name: ranks[name] for name in names},
    }


def with_tests(collected: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON file of a data set: each row's deviations and p-values added.

    The tests are of the questions' mean over the seeds, ours against each other system in the same row; Holm's method
    corrects all those of the data set together.
    """
    ranks = collected["ranks"]
    compared: list[dict[str, Any]] = []
    for row, ours in ranks[OURS].items():
        for system, rows in ranks.items():
            if system != OURS and row in rows:
                first = _mean_reciprocal_ranks(ours)
                second = _mean_reciprocal_ranks(rows[row])
                gain = float(first.mean() - second.mean())
                p_value = randomisation_test(first, second)
                compared.append({"row": row, "system": system, "gain": gain, "uncorrected": p_value})
    for test, p_value in zip(compared, holm([test["uncorrected"] for test in compared]), strict=True):
        test["p_value"] = p_value
    systems: dict[str, Any] = {}
    for name, system in collected["systems"].items():
        deviations = {
            row: {measure: stdev(values) if len(values) > 1 else None for measure, values in measures.items()}
            for row, measures in system["rows"].items()
        }
        systems[name] = {**system, "deviations": deviations}
    return {**collected, "systems": systems, "tests": compared}


def render(results: Sequence[Mapping[str, Any]]) -> str:
    """A section for each data set; equal rows stand together, the highest MRR first."""
    sections: list[str] = []
    for result in sorted(results, key=lambda result: (result["title"], result["encoder"])):
        title = f"### {result['title']}, {result['encoder']}"
        intro = f"{result['questions']} test questions; candidates: {result['candidates']}."
        parts = [title, intro, _table(result)]
        if any(system["trials"] for system in result["systems"].values()):
            parts.append(_settings(result))
        sections.append("\n\n".join(parts))
    return "\n\n".join(sections) or NOTHING


def _table(result: Mapping[str, Any]) -> str:
    p_values = {(test["row"], test["system"]): test["p_value"] for test in result["tests"]}
    lines = [["BM25", "", *(f"{result['bm25'][name]:.3f}" for name in SHOWN), ""]]
    rows = result["systems"][OURS]["rows"]
    for row in rows:
        having = [name for name, system in result["systems"].items() if row in system["rows"]]
        having.sort(key=lambda name: -fmean(result["systems"][name]["rows"][row]["MRR"]))
        for name in having:
            measures = result["systems"][name]["rows"][row]
            p_value = f"{p_values[row, name]:.4f}" if (row, name) in p_values else ""
            lines.append([row, f"`{name}`", *(spread(measures[measure]) for measure in SHOWN), p_value])
    return markdown_table(["row", "system", *SHOWN, f"p of MRR against `{OURS}`"], lines)


def summary(results: Sequence[Mapping[str, Any]]) -> str:
    """MRR alone: a column for each data set, and a line for each trained system in each row that it has somewhere.

    An asterisk is a difference from ours in the same row.
    """
    lines = [["BM25", *(f"{result['bm25']['MRR']:.3f}" for result in results)]]
    for row, title in SUMMED_UP.items():
        for name in _systems(results, row):
            cells = [_cell(result, row, name) for result in results]
            lines.append([f"{title}: `{name}`", *cells])
    return markdown_table(["MRR", *(result["title"] for result in results)], lines)


def _systems(results: Sequence[Mapping[str, Any]], row: str) -> list[str]:
    """Those that were trained and have this row on a data set, in the order of the first file."""
    names: dict[str, None] = {}
    for result in results:
        for name, system in result["systems"].items():
            if system["trials"] and row in system["rows"]:
                names[name] = None
    return list(names)


def _cell(result: Mapping[str, Any], row: str, name: str) -> str:
    system = result["systems"].get(name, {"rows": {}})
    if row not in system["rows"]:
        return ""
    mrr = spread(system["rows"][row]["MRR"])
    for test in result["tests"]:
        if (test["row"], test["system"]) == (row, name) and test["p_value"] < SURE:
            return f"{mrr} *"
    return mrr


def _settings(result: Mapping[str, Any]) -> str:
    """What the trials chose."""
    lines: list[list[str]] = []
    for name, system in result["systems"].items():
        if system["trials"]:
            chosen = ", ".join(f"{setting} {value}" for setting, value in system["chosen"].items()) or "its defaults"
            tried = len(system["trials"])
            best = max(trial["dev"] for trial in system["trials"])
            lines.append([f"`{name}`", chosen, str(tried), f"{best:.3f}", f"{fmean(system['seconds']):,.0f} s"])
    return markdown_table(["system", "chosen on the dev questions", "trials", "dev MRR", "a run"], lines)


def replaced(page: str, text: str, start: str = START) -> str:
    """The page with another text between the markers."""
    before, _, rest = page.partition(start)
    _, _, after = rest.partition(END)
    return f"{before}{start}\n\n{text}\n\n{END}{after}"


def read_results(folder: Path = HERE) -> list[dict[str, Any]]:
    """All JSON files of a folder."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]


def write_page(folder: Path = HERE) -> None:
    """Draw the tables of all JSON files of a folder into its README.md."""
    write_between(folder / "README.md", render(read_results(folder)))


def summaries(results: Sequence[Mapping[str, Any]]) -> dict[Path, str]:
    """Page of the project -> its summary, of the default encoder alone."""
    default = {result["name"]: result for result in results if result["encoder"] == Path(DEFAULT_ENCODER).name}
    front_page = [default[name] for name in FRONT_PAGE if name in default]
    others = [default[name] for name in sorted(default) if name not in FRONT_PAGE]
    return {
        PROJECT / "README.md": summary(front_page),
        PROJECT / "docs" / "results.md": summary([*front_page, *others]),
    }


def write_between(path: Path, text: str, start: str = START) -> None:
    """Write the text between the markers of a page."""
    write_text_atomically(path, replaced(path.read_text(encoding="utf-8"), text, start))


def main() -> None:
    """Draw the tables of this folder's page, and the summaries of the project's."""
    write_page()
    for path, text in summaries(read_results()).items():
        write_between(path, text)


if __name__ == "__main__":
    typer.run(main)
