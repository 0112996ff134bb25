"""A checkpoint's way to the Hugging Face hub: its four files, and nothing else of the folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ap_ranker.errors import InputError
from ap_ranker.ranking.checkpoint import CARD, CONFIG, TOKENIZER, WEIGHTS, find_checkpoint, read_checkpoint_config

if TYPE_CHECKING:
    from huggingface_hub.errors import HfHubHTTPError

FILES = [CONFIG, WEIGHTS, TOKENIZER, CARD]

_NO_LOGIN, _NO_RIGHTS, _NOT_FOUND = 401, 403, 404


def push(folder: Path, repo: str, *, private: bool = False) -> str:
    """Upload a checkpoint in one commit, so the hub never has half of it.

    The token is the environment's `HF_TOKEN` or that of `hf auth login`.

    Args:
        folder: of the checkpoint.
        repo: NAMESPACE/NAME on the hub, or NAME for your own; it is made if it is not there.
        private: whether only you may see one that is made.

    Returns:
        The page of the repository.

    Raises:
        InputError: no checkpoint, no card, no network, no login, no rights, or the hub refuses the files.
    """
    if not folder.is_dir():
        raise InputError(f"Expected a checkpoint folder on this machine, found none at {str(folder)!r}.")
    read_checkpoint_config(find_checkpoint(folder))
    if not (folder / CARD).is_file():
        raise InputError(f"{folder}: expected a card, {CARD}, so that others know what this is; found none. Write one.")

    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, HTTPError

    api = HfApi()
    try:
        url = api.create_repo(repo, private=private or None, exist_ok=True)
        api.upload_folder(
            repo_id=url.repo_id, folder_path=folder, allow_patterns=FILES, commit_message="Pushed by ap-ranker"
        )
    except HFValidationError:
        raise InputError(f"Expected REPO as NAMESPACE/NAME, such as acme/faq-ranker, found {repo!r}.") from None
    except HfHubHTTPError as error:
        raise InputError(f"{_refusal(error, repo)} Nothing was uploaded.") from error
    except (HTTPError, OSError) as error:  # no network, or told not to use it
        raise InputError(
            f"Could not push to {api.endpoint}: {_one_line(str(error) or type(error).__name__)}. Nothing was uploaded; "
            "look at the network, or at HF_ENDPOINT and HF_HUB_OFFLINE, and try again."
        ) from error
    except ValueError as error:  # as the client reports what the hub dislikes in a card
        raise InputError(
            f"{folder / CARD}: expected metadata that the hub takes, found {_one_line(str(error))}. Nothing was "
            "uploaded."
        ) from error
    return str(url)


def _refusal(error: HfHubHTTPError, repo: str) -> str:
    """What the hub's status says, in words."""
    status = error.response.status_code
    if status == _NO_LOGIN:
        return f"The hub does not know who pushes {repo!r}: set HF_TOKEN to a token that may write, or: hf auth login."
    if status == _NO_RIGHTS:
        return f"The token has no right to write {repo!r}: use one that may write there, or another REPO."
    if status == _NOT_FOUND:
        return f"The hub has no {repo!r} that this token may write."
    return f"The hub refused {repo!r} with status {status}: {_one_line(error.server_message or str(error))}."


def _one_line(text: str) -> str:
    return " ".join(text.split()).rstrip(".")
