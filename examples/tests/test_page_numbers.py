"""Numbers that several pages show, or sentences outside of the large tables, are those of their source."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import yaml
from conftest import ROOT, imported
from page_tables import rows
from refusals import refused

EXAMPLES = ROOT / "examples"
DOCS = ROOT / "docs"


def text_of(path: Path) -> str:
    """The page with each paragraph and each item of a list on one line."""
    return re.sub(r"(?<!\n)\n *(?![\n|#-])", " ", path.read_text(encoding="utf-8"))


README = text_of(ROOT / "README.md")
COMPARISON = json.loads((EXAMPLES / "faq" / "comparison.json").read_text(encoding="utf-8"))


def numbers(pattern: str, page: str) -> list[float]:
    """The groups of a pattern that fits once, as numbers."""
    (groups,) = re.findall(pattern, page)
    return [float(group.replace(",", "")) for group in ([groups] if isinstance(groups, str) else groups)]


def row(path: Path, name: str, heading: str = "") -> list[str]:
    """The cells behind the first one of the one row with this name."""
    (cells,) = [others for first, *others in rows(path, heading) if first == name]
    return cells


def few_pairs(data: str, method: str, size: int) -> dict[str, Any]:
    measured = json.loads((EXAMPLES / "small_data" / "results.json").read_text(encoding="utf-8"))
    key = (data, method, size)
    (wanted,) = [
        measurement
        for measurement in measured
        if (measurement["data"], measurement["method"], measurement["size"]) == key
    ]
    return wanted


def fair_peers(data: str) -> dict[str, Any]:
    """What was measured of ours and of tuned peers on a data set."""
    measured: dict[str, Any] = json.loads((EXAMPLES / "fair_peers" / f"{data}.json").read_text(encoding="utf-8"))
    return measured


def fair(system: str, row_name: str, data: str = "example") -> str:
    """The mean MRR over the seeds of a system and what it knows, as a page shows it."""
    return f"{fmean(fair_peers(data)['systems'][system]['rows'][row_name]['MRR']):.3f}"


def fair_seconds(system: str, data: str) -> float:
    """Of a run with one seed."""
    return fmean(fair_peers(data)["systems"][system]["seconds"])


OURS, PEER, ALONE, WORDINGS = "ap-transformer", "bi-encoder", "answers alone", "wordings"


def test_the_first_lines_of_the_readme() -> None:
    """Quality is that of its own table; speed that of the benchmark's committed run."""
    number = r"([\d.]+)"
    ours = rf"MRR {number} with known wordings and {number} without"
    quality = rf"{ours}; the bi-encoder has {number} and {number}, BM25 {number}\. "
    of_both = [fair(system, row_name) for system in (OURS, PEER) for row_name in (WORDINGS, ALONE)]
    assert numbers(quality, README) == [*map(float, of_both), round(COMPARISON["bm25"]["MRR"], 3)]
    for data in ("example", "covid_questions"):  # runs of the first shared the cores with others
        assert fair_seconds(PEER, data) > 6 * fair_seconds(OURS, data)
    (measured,) = [
        cells
        for first, *cells in rows(DOCS / "archive" / "benchmark.md", "Ranking the candidates of a question (ms)")
        if (first, cells[0]) == ("ap-transformer", "100")
    ]
    times, milliseconds = numbers(r"([\d.]+) times faster than a cross-encoder.*?([\d.]+) ms for 100 cached", README)
    assert times == float(measured[7].split(" ")[0])
    assert milliseconds == round(float(measured[3]), 1)


def test_the_larger_encoder_and_the_bi_encoder() -> None:
    archive = DOCS / "archive" / "results_example.md"
    larger = row(archive, "to the bi-encoder", "A larger encoder")[-1]
    said = numbers(r"a bi-encoder on it is level \(\[p = ([\d.]+)\]", text_of(DOCS / "results.md"))
    assert said == [float(larger)]


def test_the_verdict_on_peers() -> None:
    """Level from answers alone; with known wordings the bi-encoder is behind on one FAQ, and perhaps on another."""
    p_values: dict[tuple[str, str, str], float] = {}
    for data in ("example", "covid_questions", "openstreetmap", "wikiqa"):
        trained = [name for name, system in fair_peers(data)["systems"].items() if system["trials"] and name != OURS]
        for test in fair_peers(data)["tests"]:
            p_values[data, test["system"], test["row"]] = test["p_value"]
        for name in trained:
            assert p_values[data, name, ALONE] > 0.1
            if data != "wikiqa":
                assert fair_seconds(name, data) > 4 * fair_seconds(OURS, data)
    assert p_values["example", PEER, WORDINGS] < 0.05
    assert p_values["openstreetmap", PEER, WORDINGS] > 0.1
    leads_of_page = r"late interaction's lead \(p = ([\d.]+)\), .*?bi-encoder \(p = ([\d.]+)\)"
    said = numbers(leads_of_page, text_of(DOCS / "results.md"))
    leads = [("late-interaction", ALONE), (PEER, WORDINGS)]
    assert said == [round(p_values["covid_questions", name, known], 2) for name, known in leads]


def test_what_a_question_costs() -> None:
    """Of the comparison, one seed."""
    results = {result["label"]: result for result in COMPARISON["results"]}
    alone, complete, peer = (results[name] for name in (f"{OURS}, {ALONE}", OURS, PEER))
    time = r"the example's (\d+) answers takes ([\d.]+) ms \(bi-encoder: ([\d.]+) ms\)"
    size = r"An answer takes ([\d,]+) bytes, ([\d,]+) with its wordings \(([\d,]+)\)"
    (answers,) = numbers(r"all (\d+) answers", COMPARISON["data"])
    times = [round(1000 * result["seconds_per_question"], 1) for result in (complete, peer)]
    kept = [round(result["bytes_per_answer"]) for result in (alone, complete, peer)]
    assert numbers(rf"{time}\. {size}", README) == [answers, *times, *kept]


def test_which_model() -> None:
    quick = few_pairs("faq", "transformer-frozen", 1848)
    assert numbers(r"`ap-transformer --quick`: MRR ([\d.]+) \|", README) == [round(fmean(quick["model"]["MRR"]), 3)]
    result = json.loads((EXAMPLES / "encoders" / "results.json").read_text(encoding="utf-8"))
    wanted = ("all-mpnet-base-v2", "normal", "example")
    (larger,) = [cell for cell in result["cells"] if (cell["encoder"], cell["effort"], cell["data"]) == wanted]
    time = result["question_ms"]
    ratio = round(time[wanted[0]] / time["all-MiniLM-L6-v2"], 1)
    said = numbers(r"\| ([\d.]+) times as long for a question \| .*: ([\d.]+) with MPNet", README)
    assert said == [ratio, round(larger["measures"]["MRR"], 3)]
    assert numbers(r"a question takes ([\d.]+) times as long", text_of(DOCS / "encoders.md")) == [ratio]
    of_covid = {
        cell["encoder"]: cell["measures"]["MRR"]
        for cell in result["cells"]
        if (cell["effort"], cell["data"]) == ("normal", "covid_questions")
    }
    assert of_covid[wanted[0]] < of_covid["all-MiniLM-L6-v2"]  # as docs/results.md says
    taught = distilled("bow-idf")
    share = 100 * fmean(taught["model"]["MRR"]) / fmean(distilled("teacher")["model"]["MRR"])
    assert numbers(r"\(docs/encoders.md\): ([\d.]+) % of the MRR", README) == [round(share, 1)]
    assert fmean(taught["milliseconds"]) < 1


def distilled(name: str) -> dict[str, Any]:
    measured = json.loads((EXAMPLES / "distill" / "results.json").read_text(encoding="utf-8"))
    (wanted,) = [measurement for measurement in measured if (measurement["data"], measurement["name"]) == ("faq", name)]
    return wanted


def test_students() -> None:
    heading = "A small model that learns from a large one"
    for name, shown in (("teacher", "teacher, ap-transformer"), ("bow-idf", "student, bow-idf")):
        quality, time, size, training = row(DOCS / "encoders.md", shown, heading)
        measured = distilled(name)
        assert float(quality) == round(fmean(measured["model"]["MRR"]), 3)
        assert time == f"{fmean(measured['milliseconds']):.2f} ms"
        assert size == f"{fmean(measured['bytes_per_answer']):,.0f}"
        assert training == f"{fmean(measured['training_seconds']):.0f} s"


def means_of_languages() -> list[list[str]]:
    """Of the shops' FAQs, of the public authorities', and of half of the shops' questions."""
    source = EXAMPLES / "languages" / "README.md"
    return [cells for first, *cells in rows(source, "An encoder") if first == "mean"]


def test_a_large_encoder_on_a_gpu() -> None:
    """The same rows on two pages."""
    large = {first: cells for first, *cells in rows(DOCS / "encoders.md", "A large encoder")}
    assert large["BM25"][:2] == [f"{COMPARISON['bm25'][name]:.3f}" for name in ("P@1", "MRR")]
    archive = {first: cells for first, *cells in rows(DOCS / "archive" / "results_example.md", "A larger encoder")}
    assert large["bi-encoder on all-mpnet-base-v2"] == archive["bi-encoder"][:3]
    assert large["all-mpnet-base-v2, all layers, four epochs"] == archive["ap-transformer"][:3]


def test_languages_of_the_results() -> None:
    table = {first.split(",")[0]: cells for first, *cells in rows(DOCS / "results.md", "Languages")[2:]}
    shops, authorities, *_ = means_of_languages()
    assert table["shop FAQs of eleven languages"] == shops[:3]
    assert table["questions to public authorities"] == authorities[:3]


def test_time_against_quality() -> None:
    """And BM25 without a stemmer, on two pages."""
    methods = {"--epochs 0": "untrained", "--quick": "frozen", "default": "fine-tuned", "--best": "best"}
    training = {first: cells for first, *cells in rows(DOCS / "training.md", "Choose how long it trains")}
    for option, method in methods.items():
        measured = few_pairs("faq", f"transformer-{method}", 1848)
        quality, seconds = f"{fmean(measured['model']['MRR']):.3f}", f"{fmean(measured['training_seconds']):.0f}"
        assert training["none" if option == "default" else option][1:] == [seconds, quality]
    bm25 = f"{few_pairs('faq', 'transformer-best', 1848)['bm25']['MRR']:.3f}"
    assert training["BM25 alone"][-1] == bm25
    assert set(row(DOCS / "results.md", "BM25", "How many pairs are enough")) == {bm25}


def test_the_papers_data_sets() -> None:
    """Their page is held against results.json by `test_reproduce.py`; no model's paper has more than the page says."""
    papers = DOCS / "archive" / "results_papers.md"
    reported = yaml.safe_load((EXAMPLES / "reproduce" / "papers.yaml").read_text(encoding="utf-8"))
    columns = {
        "InsuranceQA V2, P@1": ("InsuranceQA V2, pools of 500 answers", "ap-transformer-mpnet", "insuranceqa"),
        "WikiQA, MAP": ("WikiQA", "ap-transformer-mpnet-gpu", "wikiqa"),
        "TREC-QA, MAP": ("TREC-QA, clean", "ap-transformer-mpnet-gpu", "trecqa"),
        "SemEval-2016, MAP": ("SemEval-2016 Task 3, subtask A", "ap-transformer-mpnet-gpu", "semeval"),
    }
    for name, (heading, larger, key) in columns.items():
        bm25, paper, ours, on_larger = row(DOCS / "results.md", name, "The papers' data sets")
        table = {first: cells for first, *cells in rows(papers, heading)}
        sources = ("BM25", "ap-transformer", larger)
        assert [bm25, ours, on_larger] == [table[source][1].split(" ")[0] for source in sources], name
        measure = name.split(", ")[1]
        best = max(np.max(numbers_of[measure]) for numbers_of in reported[key]["models"].values() if numbers_of)
        assert paper.split(" ")[0] == f"{best:.3f}", name
        for large in re.findall(r"TANDA.*MAP ([\d.]+)", reported[key]["compare"]):
            assert f"{large} on {name.split(',')[0]}" in text_of(DOCS / "results.md")
    peer = row(papers, "bi-encoder-all-mpnet-base-v2", "InsuranceQA V2, pools of 500 answers")[1]
    assert numbers(r"a bi-encoder on MPNet has ([\d.]+)\.", text_of(DOCS / "results.md")) == [float(peer)]


def test_shares_of_none_and_of_steps() -> None:
    results = text_of(DOCS / "results.md")
    least, most, answered = numbers(r"\[(\d+) to (\d+) % get none\].*?, at most (\d+) % an answer", results)
    source = text_of(EXAMPLES / "no_answer" / "README.md")
    lowest, *others, german = numbers(
        r"matters: (\d+) to (\d+) % are `none`, at most (\d+) % an answer; German COVID-19 documents (\d+) %", source
    )
    assert [least, most, answered] == [min(lowest, german), *others]
    (steps,) = numbers(r"None of (\d+) advised steps", results)
    tested = re.findall(r"\(0 of (\d+)\b", text_of(EXAMPLES / "every_step" / "README.md"))
    assert {float(number) for number in tested} == {steps}, "without and with hubs"


def test_the_lowest_precision_of_a_faq() -> None:
    """Of all states, beside the pooled ones; before any training, beside those of the page of decisions."""
    measured = json.loads((EXAMPLES / "every_step" / "results.json").read_text(encoding="utf-8"))["cells"]
    cells = [cell for cell in measured if cell["state"] in ("untrained", "wordings", "trained", "calibrated")]
    said = numbers(r"the lowest had ([.\d]+) at 0.8, ([.\d]+) at 0.9\.", text_of(DOCS / "results.md"))
    below: list[float] = []
    for target, name, value in zip((0.8, 0.9), ("precision", "precision_higher"), said, strict=True):
        precisions = [cell for cell in cells if cell[name] is not None]
        assert value == round(min(cell[name] for cell in precisions), 2)
        untrained = [cell[name] for cell in precisions if cell["state"] in ("untrained", "wordings")]
        below.append(100 * (target - min(untrained)))
    assert numbers(r"on public FAQs up to (\d+)\]", text_of(DOCS / "decisions.md")) == [round(max(below))]


def test_the_table_of_decisions() -> None:
    """python examples/no_answer/decision_plot.py prints it."""
    with imported(EXAMPLES / "no_answer" / "decision_plot.py") as plot:
        printed = [[cell.strip() for cell in line.strip("|").split("|")] for line in plot.table().splitlines()[2:]]
    shown = rows(DOCS / "decisions.md", "How well it holds")[2 : 2 + len(printed)]
    assert shown == printed


def test_the_users_of_a_small_server() -> None:
    loads = json.loads((EXAMPLES / "serve_load" / "results.json").read_text(encoding="utf-8"))["loads"]
    for load in loads:
        shown = row(DOCS / "speed.md", str(load["users"]), "On one small server")
        times = [f"{load[place]:,.0f} ms" for place in ("p50", "p95")]
        memory = f"{max(load['megabytes']) / 1000:.2f} GB"
        assert shown == [f"{load['per_second']:.0f}", *times, str(len(load["errors"])), memory]


def test_retraining() -> None:
    page = text_of(DOCS / "retrain.md")
    source = text_of(EXAMPLES / "retrain" / "results.md")
    accepted = numbers(r"([\d,]+) accepted wordings raised MRR", page)
    assert accepted == numbers(r"wordings at first, (\d+) accepted", source)
    said = numbers(
        r"raised MRR on test questions from ([\d.]+) to ([\d.]+)\. Training on them raised it to ([\d.]+)", page
    )
    assert said == [float(cells[2]) for cells in rows(EXAMPLES / "retrain" / "results.md")[3:]]


def span(values: Sequence[float], digits: int) -> str:
    """The lowest and the highest, as pages show them."""
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}"


def test_the_demo() -> None:
    """Its ranges stand on three pages; the README's last line has other processors, too, which the archive names."""
    runs = list(json.loads((EXAMPLES / "faq" / "demo.json").read_text(encoding="utf-8")).values())
    assert len(runs) == 3
    by_system = {name: [run["measures"][name] for run in runs] for name in ("fusion", "bm25")}
    decisions = DOCS / "archive" / "decisions.md"
    with_two_threads = numbers(r"questions with P@1 ([\d.]+) and MRR ([\d.]+) \(BM25", text_of(decisions))
    spans: dict[str, str] = {}
    for name, other in zip(("P@1", "MRR"), with_two_threads, strict=True):
        spans[name] = span([*(run[name] for run in by_system["fusion"]), other], 3)
    assert f"with BM25's score added: P@1 {spans['P@1']} and MRR {spans['MRR']}" in README
    bm25 = by_system["bm25"][0]
    assert f"BM25 alone: P@1 {bm25['P@1']:.3f} and MRR {bm25['MRR']:.3f}" in README
    archive = {first: cells for first, *cells in rows(decisions, "A trained checkpoint")}
    chosen = {first: cells for first, *cells in rows(DOCS / "calibration.md", "Choose a number") if len(cells) == 2}
    others = re.findall(r"([\d.]+), ([\d.]+) and ([\d.]+) % (?:were right )?on (?:one|another one)", text_of(decisions))
    assert len(others) == 2
    for place, target in enumerate(("0.8", "0.9", "0.95")):
        thresholds = [run["thresholds"][target] for run in runs]
        percents = {name: [100 * threshold[name] for threshold in thresholds] for name in thresholds[0]}
        shown = [f"{span(percents[name], 1)} %" for name in ("answered", "precision", "rejected")]
        assert archive[target] == shown
        assert chosen[target] == shown[:2]
        with_others = [*percents["precision"], *(float(other[place]) for other in others)]
        assert re.search(rf"{span(with_others, 1)} % at (a target precision of )?{target}\b", README), target
    errors = [run["calibration_error"] for run in runs]
    assert f"(Guo et al. 2017) is {span(errors, 3)}." in text_of(decisions)


def test_the_demo_is_measured_as_make_trains_it() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    trained = re.findall(r"train examples/faq --config examples/faq/settings.yaml --epochs (\d+)", makefile)
    with imported(EXAMPLES / "faq" / "demo.py") as demo:
        assert trained == [str(demo.EPOCHS)]


def test_a_command_of_the_demo_that_fails_is_named(tmp_path: Path) -> None:
    with imported(EXAMPLES / "faq" / "demo.py") as demo, refused(f"evaluate … {tmp_path} … 0 … 2"):
        demo.run("evaluate", tmp_path, tmp_path)


def test_make_demo_prints_what_to_expect() -> None:
    """Beside its result: the README's own lines."""
    [command] = re.findall(r"^\t@(sed .*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    printed = subprocess.run(shlex.split(command), cwd=ROOT, capture_output=True, text=True, check=True)
    lines = printed.stdout.splitlines()
    assert lines[0].startswith("- with BM25's score added: P@1 0.")
    assert lines[-1].endswith("% at 0.95")
    assert len(lines) == 4


def test_an_hour_of_labelling() -> None:
    """What `serve` takes by itself beside the untrained search of the same run."""
    runs: list[dict[tuple[str, int, str], Any]] = []
    for name in ("results.json", "results_50.json"):
        measured = json.loads((EXAMPLES / "every_step" / name).read_text(encoding="utf-8"))["cells"]
        runs.append({(cell["faq"], cell["size"], cell["state"]): cell for cell in measured if not cell["hubs"]})
    table = rows(DOCS / "archive" / "results_small_data.md", "What an hour of labelling is worth")[2:]
    assert [int(line[0]) for line in table] == [10, 30, 50, 100, 300]
    for size, *shown in table:
        cells = runs[size == "50"]
        counts = {"higher": 0, "lower": 0, "untrained": 0}
        gains: list[float] = []
        for faq, number, state in cells:
            if number != int(size) or state != "trained":
                continue
            untrained = cells[faq, 0, "untrained"]
            trained = cells[faq, number, "trained"]
            served = trained if trained["recommended"] else cells[faq, number, "wordings"]
            gains.append(100 * (served["first_right"] - untrained["first_right"]))
            if not trained["recommended"]:
                counts["untrained"] += 1
            else:
                counts["higher" if trained["mrr"] > untrained["mrr"] else "lower"] += 1
        gain = fmean(gains)
        expected = [len(gains), *counts.values(), round(gain, 1), round(gain / (int(size) / 60), 1)]
        assert [float(cell) for cell in shown] == expected


def test_batches_of_the_default_model() -> None:
    """The trials that chose its settings, in the same order."""
    shown = [cells for _, *cells in rows(DOCS / "archive" / "results_defaults.md", "Batches of `ap-transformer`")[3:7]]
    for place, data in enumerate(("example", "covid_questions")):
        trials = fair_peers(data)["systems"][OURS]["trials"]
        assert [cells[place] for cells in shown] == [f"{trial['dev']:.3f}" for trial in trials]
