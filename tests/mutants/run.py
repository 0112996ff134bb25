"""Change what decides, measures and refuses, one operator or number at a time, and count what the tests notice.

    PYTHONPATH=tests python -m mutants.run                                     all files of `TESTS`
    PYTHONPATH=tests python -m mutants.run ap_ranker/ranking/rule.py --kept    only what survived in it, or has changed

mutmut makes the mutants, and runs the tests that reach each of them. It changes no decorated functions and no constants
of a module, and, by `PROSE`, no sentences: what an error says is tested elsewhere (`refusals.py`). A mutant that no
test can notice stands in `equivalent.toml` with a reason, by its function and the lines before and after, so that the
entry lasts while other lines move. Exits with 1 where fewer than `LEAST` of the others die, or an entry fits no mutant
that survived.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
WORK = ROOT / "build" / "mutants"
EQUIVALENT = Path(__file__).with_name("equivalent.toml")

LEAST = 0.9
"""Minimum share of the mutants that die, of those of a file that are not equivalent."""

TESTS = {
    "ap_ranker/ranking/rule.py": ["ranking/test_rule.py", "ranking/test_calibration.py"],
    "ap_ranker/ranking/decision.py": ["ranking/test_decision.py"],
    "ap_ranker/evaluation/metrics.py": ["evaluation/test_metrics.py"],
    "ap_ranker/evaluation/significance.py": ["evaluation/test_significance.py"],
    "ap_ranker/evaluation/calibration_fit.py": [
        "evaluation/test_calibration_parts.py",
        "evaluation/test_calibration_fit.py",
    ],
    "ap_ranker/evaluation/weight_fit.py": ["evaluation/test_weight_fit.py"],
    "ap_ranker/data/split.py": ["data/test_parts.py", "data/test_split.py"],
    "ap_ranker/web/limits.py": ["web/test_guard.py"],
    "ap_ranker/web/owner/sessions.py": ["web/test_sessions.py"],
}
"""A file that is mutated -> the quick tests of it, below `tests`."""

PROSE = r"""(?<![\w"'})])f?"[A-Za-z{(;,][^"]*\w[^"]* [^"]*\w[^"]* [^"]*"|"Expected\b"""
"""A line with a sentence of three words or more, of which nothing is changed."""

SURVIVED = {0, 5, 33}
"""The codes of mutmut for a mutant that no test notices: all pass, or none runs."""

PLUGINS = ["-p", "no:cacheprovider", "-p", "pytest_asyncio.plugin", "-p", "mutants.quick_examples"]
"""Those of pytest that the tests need: to look for others takes longer than most tests."""

LINKS = ("ap_ranker", "haystack_integrations", "tests", "conftest.py", "pipelines", "examples")

INTERRUPTED = {None, 2}


@dataclass(frozen=True)
class Mutant:
    """A change of a function of a file: its lines before and after, without those that stay."""

    file: str
    function: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.file}, {self.function}\n  - {self.before}\n  + {self.after}"


@dataclass
class Results:
    """What became of a file's mutants."""

    killed: Counter[Mutant] = field(default_factory=Counter)
    survived: Counter[Mutant] = field(default_factory=Counter)


def prepare(file: str) -> Path:
    """A folder for the mutants of a file, with the project linked and its own settings of mutmut."""
    folder = WORK / Path(file).stem
    folder.mkdir(parents=True, exist_ok=True)
    for name in LINKS:
        link = folder / name
        if not link.exists():
            link.symlink_to(ROOT / name)
    settings = {
        "source_paths": ["ap_ranker", "haystack_integrations"],
        "only_mutate": [file],
        "do_not_mutate_patterns": [PROSE],
        "also_copy": ["conftest.py", "pipelines", "examples/faq"],
        "pytest_add_cli_args": ["-m", "not slow", *PLUGINS],
        "pytest_add_cli_args_test_selection": [f"tests/{name}" for name in TESTS[file]],
        "use_git_change_detection": False,
    }
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    (folder / "pyproject.toml").write_text("\n".join([project, "[tool.mutmut]", *lines, ""]), encoding="utf-8")
    return folder


def forget_survivors(file: str) -> None:
    """Let mutmut test the mutants of a file again that no test has noticed, by all tests that now reach them."""
    (WORK / Path(file).stem / "mutants" / "mutmut-stats.json").unlink(missing_ok=True)
    meta = WORK / Path(file).stem / "mutants" / f"{file}.meta"
    if meta.exists():
        content = json.loads(meta.read_text(encoding="utf-8"))
        codes = content["exit_code_by_key"]
        content["exit_code_by_key"] = {key: None if code in SURVIVED else code for key, code in codes.items()}
        meta.write_text(json.dumps(content), encoding="utf-8")


def run_mutmut(file: str, *, workers: int) -> None:
    """Test all mutants of a file; SystemExit if the tests fail without any."""
    folder = prepare(file)
    environment = {**os.environ, "HAYSTACK_TELEMETRY_ENABLED": "false", "OMP_NUM_THREADS": "1"}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    environment["PYTHONPATH"] = str(ROOT / "tests")  # and no other one: the tests import the mutants
    command = [Path(sys.executable).with_name("mutmut"), "run", "--max-children", str(workers)]
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode:
        told = re.sub(r"(?m)^[⠀-⣿].*\n", "", ended.stdout)[-3000:]  # without the signs of progress
        raise SystemExit(f"{file}: mutmut ended with {ended.returncode}.\n{told}{ended.stderr[-3000:]}")


def read_results(file: str) -> Results:
    """What became of the mutants of a file."""
    mutated = WORK / Path(file).stem / "mutants" / file
    codes = json.loads(mutated.with_name(f"{mutated.name}.meta").read_text(encoding="utf-8"))["exit_code_by_key"]
    text = mutated.read_text(encoding="utf-8")
    lines_of: dict[str, list[str]] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and "__mutmut_" in node.name:
            lines_of[node.name] = text.splitlines()[node.lineno - 1 : node.end_lineno]
    results = Results()
    for key, code in codes.items():
        if code in INTERRUPTED:
            raise SystemExit(f"{file}: expected all mutants to be tested, found some that are not.")
        name = key.rpartition(".")[2]
        original = f"{name.rpartition('__mutmut_')[0]}__mutmut_orig"
        mutant = _mutant(file, name, lines_of[original], lines_of[name])
        (results.survived if code in SURVIVED else results.killed)[mutant] += 1
    return results


def _mutant(file: str, name: str, original: Sequence[str], mutated: Sequence[str]) -> Mutant:
    """The change between the lines of two functions as mutmut writes them, such as `xǁRateǁallows__mutmut_3`."""
    mangled = name.rpartition("__mutmut_")[0]
    before = [line.replace(f"{mangled}__mutmut_orig", "") for line in original]
    after = [line.replace(name, "") for line in mutated]
    removed: list[str] = []
    added: list[str] = []
    for line in difflib.ndiff(before, after):
        if line.startswith("- "):
            removed.append(line[2:].strip())
        elif line.startswith("+ "):
            added.append(line[2:].strip())
    function = mangled.removeprefix("x_").removeprefix("xǁ").replace("ǁ", ".")
    return Mutant(file, function, " ".join(removed), " ".join(added))


def read_equivalent() -> Iterator[tuple[Mutant, str]]:
    """The mutants that no test can notice, each with the reason."""
    for entry in tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))["mutants"]:
        for after in entry["after"]:
            yield Mutant(entry["file"], entry["function"], entry["before"], after), entry["reason"]


def is_tested(file: str, equivalent: Mapping[Mutant, str]) -> bool:
    """Print what became of the mutants of a file; whether enough of them die, and each equivalent one survives."""
    results = read_results(file)
    listed = [mutant for mutant in equivalent if mutant.file == file]
    unfit = [mutant for mutant in listed if mutant not in results.survived]
    survivors = {mutant: count for mutant, count in results.survived.items() if mutant not in listed}
    n_killed = results.killed.total()
    n_survived = sum(survivors.values())
    n_equivalent = results.survived.total() - n_survived
    share = n_killed / max(1, n_killed + n_survived)
    print(f"{file:<45}{n_killed:>8}{n_survived:>10}{n_equivalent:>12}{share:>8.1%}", flush=True)
    for mutant in survivors:
        print(f"survived: {mutant}")
    for mutant in unfit:
        print(f"Expected a survivor for an entry of {EQUIVALENT.name}, found none: {mutant}")
    return share >= LEAST and not unfit


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Count the mutants that the tests notice.")
    parser.add_argument("files", nargs="*", help=f"the files to mutate, of {', '.join(TESTS)}; by default all")
    parser.add_argument("--kept", action="store_true", help="test only what survived the last run, or has changed")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes at once")
    arguments = parser.parse_args()
    unknown = set(arguments.files) - set(TESTS)
    if unknown:
        parser.error(f"expected files of {', '.join(TESTS)}; found {', '.join(sorted(unknown))}")
    equivalent = dict(read_equivalent())
    are_tested: list[bool] = []
    print(f"{'file':<45}{'killed':>8}{'survived':>10}{'equivalent':>12}{'share':>8}")
    for file in arguments.files or TESTS:
        if arguments.kept:
            forget_survivors(file)
        else:
            shutil.rmtree(WORK / Path(file).stem, ignore_errors=True)
        run_mutmut(file, workers=arguments.workers)
        are_tested.append(is_tested(file, equivalent))
    raise SystemExit(not all(are_tested))


if __name__ == "__main__":
    main()
