"""The pipelines that come with ap-ranker: a wheel has its own copies, a clone the folder `pipelines`."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from ap_ranker.errors import InputError, one_line
from ap_ranker.files import write_text_atomically


def _default_folder() -> Path:
    """The folder `pipelines` of the wheel, or else that of the clone."""
    package = Path(str(files("ap_ranker")))
    of_wheel = package / "pipelines"
    if (of_wheel / "faq_search.yaml").is_file():
        return of_wheel
    return package.parent / "pipelines"


DEFAULTS = _default_folder()
"""The folder of the default pipelines."""

BY_WORDS = DEFAULTS / "faq_search.yaml"
BY_MEANING = DEFAULTS / "faq_search_hybrid.yaml"  # by words, too; for a model with vectors of whole texts


def find_pipeline(path: Path) -> Path:
    """The path itself or, if there is no such file, the default one in place of `pipelines/NAME`."""
    default = DEFAULTS / path.name
    if path.parent == Path("pipelines") and not path.exists() and default.is_file():
        return default
    return path


def write_pipelines(folder: Path, *, overwrite: bool = False) -> list[Path]:
    """Copy the default pipelines, and the index that those of Elasticsearch use, into a folder; all or none."""
    copies: dict[Path, str] = {}
    for path in sorted(DEFAULTS.iterdir()):
        if path.suffix in (".json", ".yaml"):
            copies[folder / path.name] = path.read_text(encoding="utf-8")
    existing = [path.name for path in copies if path.exists()]
    if existing and not overwrite:
        raise InputError(
            f"Expected a folder without these files, found {one_line(', '.join(existing), 60)} in "
            f"{folder}. Choose another, or give --overwrite."
        )
    for path, text in copies.items():
        write_text_atomically(path, text)
    return list(copies)
