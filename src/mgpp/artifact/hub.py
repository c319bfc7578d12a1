"""To the Hugging Face hub and from it."""

from collections.abc import Sequence
from pathlib import Path

from huggingface_hub import HfApi, snapshot_download

from mgpp.artifact.model import CONFIG_FILE, GENERATION_FILE
from mgpp.artifact.shards import STEM


def fetch(model: str | Path) -> Path:
    """The folder itself; of a name on the hub, its sparse files in the local cache."""
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder
    # A name without an owner is a mistyped folder, and asking the hub for it without a network takes half a minute.
    if folder.exists() or not is_hub_name(str(model)) or "/" not in str(model):
        raise FileNotFoundError(f"{model} is no folder: give one that mgpp export or save_sparse wrote, or a hub id")
    try:
        return Path(snapshot_download(str(model), allow_patterns=[CONFIG_FILE, GENERATION_FILE, f"{STEM}*"]))
    except Exception as error:  # no network, no such name, no access: the hub's libraries raise many kinds
        reason = " ".join(str(error).split())[:200]
        raise OSError(
            f"{model!r} is no local folder, and fetching it from the Hugging Face hub failed: check the name and the "
            f"connection ({reason})"
        ) from error


def push(folder: Path, repo: str, *, files: Sequence[str], private: bool = False) -> str:
    """Upload these files of a folder as one commit; returns the address."""
    api = HfApi()
    try:
        made = api.create_repo(repo, private=private, exist_ok=True)
        api.upload_folder(
            repo_id=made.repo_id,
            folder_path=folder,
            commit_message="Upload a model pruned with mgpp",
            allow_patterns=list(files),
        )
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise OSError(
            f"the folder {folder} is written, and pushing it to {repo} failed: check the connection and `hf auth "
            f"login` ({reason})"
        ) from error
    return str(made)


def is_hub_name(name: str) -> bool:
    """OWNER/NAME, or a name alone."""
    parts = name.split("/")
    return len(parts) <= 2 and all(parts) and not name.startswith((".", "~"))
