"""Upload of a checkpoint's four files to the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path

from ap_ranker.errors import InputError, one_line
from ap_ranker.ranking.checkpoint import CARD, CONFIG, TOKENIZER, WEIGHTS, find_checkpoint, read_checkpoint_config

FILES = [CONFIG, WEIGHTS, TOKENIZER, CARD]


def push(folder: Path, repo: str, *, private: bool = False) -> str:
    """Upload a checkpoint in one commit, so that the hub never has an incomplete one.

    The token is the environment's `HF_TOKEN` or that of `hf auth login`. `repo` is NAMESPACE/NAME, or NAME in your own
    namespace; if it does not exist, it is created, `private` or not. Its URL is returned.
    """
    if not folder.is_dir():
        raise InputError(f"Expected a checkpoint folder on this machine, found none at {str(folder)!r}.")
    read_checkpoint_config(find_checkpoint(folder))
    if not (folder / CARD).is_file():
        raise InputError(f"{folder}: expected a card, {CARD}, that describes the model; found none. Write one.")

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
        reason = f"status {error.response.status_code}: {one_line(error.server_message or error)}"
        raise InputError(
            f"The hub rejected {repo!r} ({reason}). Nothing was uploaded: name a REPO that you may write to, and set "
            "HF_TOKEN to a token that may write, or: hf auth login."
        ) from error
    except (HTTPError, OSError) as error:  # no network, or offline mode
        raise InputError(
            f"Could not push to {api.endpoint}: {one_line(str(error) or type(error).__name__)}. Nothing was uploaded; "
            "check the network, HF_ENDPOINT and HF_HUB_OFFLINE, and try again."
        ) from error
    except ValueError as error:  # the client's error for invalid metadata in a card
        raise InputError(
            f"{folder / CARD}: expected metadata that the hub accepts, found {one_line(error)}. Nothing was uploaded."
        ) from error
    return str(url)
