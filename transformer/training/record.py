"""runs/NAME/record.json: what a run was made from and on; and what of it is not as it was."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter
from tqdm import tqdm

from data.atomic import whole_file
from data.prepared import Prepared, read_manifest
from transformer.config import Settings
from transformer.errors import RunError
from transformer.model_directory import WEIGHTS, find_model
from transformer.training.choices import Choices

FORMAT = 1
PROGRAM = Path(__file__).resolve().parents[2]  # the folder of both packages

# The files that a run depends on. The other two, manifest.json and report.html, tell about the making: times, paths.
_DATA = {".npy", ".model", ".txt"}
_LIBRARIES = ("numpy", "sentencepiece", "sacrebleu", "attention-is-all-you-need")
_OF_DEVICE = ("type", "name", "instructions")  # how many others a machine has changes nothing
_CHUNK = 2**20  # bytes


# --- what is recorded ---


@dataclass(frozen=True)
class FileRecord:
    """A file as it was when the run began."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Git:
    """The state of the program."""

    commit: str
    dirty: bool  # files of the program differed from the commit


@dataclass(frozen=True)
class Device:
    """What a process computed on."""

    type: str
    name: str
    count: int  # in the machine: GPUs, or processors of a CPU
    threads: int  # of PyTorch on the CPU
    instructions: str  # the widest that PyTorch uses on this CPU, such as AVX512; sums run in another order with others


@dataclass(frozen=True)
class Environment:
    """Everything besides settings and data that may change the last digits."""

    versions: dict[str, str]
    git: Git | None  # None: not run from a git repository
    device: Device
    processes: int
    platform: dict[str, str]


@dataclass(frozen=True)
class Record:
    """Everything that a run depends on besides its settings and choices, as it was when the run began."""

    format: int
    seed: int
    vocabularies: dict[str, str]  # side → `Vocabulary.hash`
    corpora: dict[str, int]  # name → training pairs, in their order: what data.mixing draws from
    files: dict[str, FileRecord]  # of prepared/NAME
    init_from: dict[str, FileRecord]  # of the model that training started from; empty without train.init_from
    environment: Environment


def make_record(settings: Settings, directory: Path, prepared: Prepared, choices: Choices, n_processes: int) -> Record:
    """Describe a run that begins; `directory` is that of the prepared data, whose every byte is read once, with a bar.

    Raises:
        RunError: the model of train.init_from is not there.
        OSError: a file cannot be read.
    """
    names = [name for name in prepared.manifest["files"] if Path(name).suffix in _DATA]
    start = _initial_model(settings)
    return Record(
        format=FORMAT,
        seed=settings.seed,
        vocabularies={"src": prepared.src_vocabulary.hash, "tgt": prepared.tgt_vocabulary.hash},
        corpora=_corpora(prepared.manifest),
        files=_describe_files(directory, names),
        init_from={} if start is None else _describe_files(start, _model_files(start)),
        environment=_environment(torch.device(choices.device), n_processes),
    )


def save_record(path: Path, record: Record) -> None:
    """Write record.json, whole or not at all."""
    with whole_file(path) as stream:
        stream.write(json.dumps(asdict(record), indent=2, ensure_ascii=False).encode() + b"\n")


def load_record(path: Path) -> Record:
    """Read what `save_record` wrote.

    Raises:
        RunError: missing, damaged, or of a newer format.
    """
    try:
        content = json.loads(path.read_bytes())
        if content["format"] > FORMAT:
            raise RunError(f"{path}: format {content['format']}, this program reads up to {FORMAT}: update the program")
        return TypeAdapter(Record).validate_python(content)
    except FileNotFoundError as error:
        raise RunError(
            f"{path}: not there, so nothing tells which data the run had; train it again to have it recorded"
        ) from error
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise RunError(f"{path}: damaged; restore it from a copy, or train the run again") from error


def _corpora(manifest: dict[str, Any]) -> dict[str, int]:
    return {corpus["name"]: corpus["kept"] for corpus in manifest["counts"].get("train", [])}


def _initial_model(settings: Settings) -> Path | None:
    return None if settings.train.init_from is None else find_model(settings.train.init_from)


def _model_files(model: Path) -> list[str]:
    return [WEIGHTS, *sorted(path.name for path in model.glob("*.model"))]


def _describe_files(directory: Path, names: Sequence[str]) -> dict[str, FileRecord]:
    """Size and checksum of each file; a bar shows bytes, once a second has passed."""
    sizes = {name: (directory / name).stat().st_size for name in names}
    description = f"checksums of {directory}"
    with tqdm(total=sum(sizes.values()), unit="B", unit_scale=True, desc=description, delay=1, disable=None) as bar:
        return {name: FileRecord(size, _sha256(directory / name, bar.update)) for name, size in sizes.items()}


def _sha256(path: Path, report: Callable[[int], object]) -> str:
    """The checksum of a file of any size; `report` is called with the bytes of each chunk."""
    digest = hashlib.sha256()
    chunk = memoryview(bytearray(_CHUNK))
    with path.open("rb", buffering=0) as file:
        while n_bytes := file.readinto(chunk):
            digest.update(chunk[:n_bytes])
            report(n_bytes)
    return digest.hexdigest()


def _environment(device: torch.device, n_processes: int) -> Environment:
    libc = " ".join(platform.libc_ver()).strip()
    system = {"system": platform.system(), "machine": platform.machine(), "release": platform.release(), "libc": libc}
    return Environment(_versions(), _git(PROGRAM), _describe_device(device), n_processes, system)


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version(), "torch": str(torch.__version__)}  # this one names the build
    for library in _LIBRARIES:
        try:
            versions[library] = version(library)
        except PackageNotFoundError:  # run from a folder of the source, not installed
            versions[library] = "not installed"
    return versions


def _describe_device(device: torch.device) -> Device:
    on_gpu = device.type == "cuda"
    return Device(
        type=device.type,
        name=torch.cuda.get_device_name(device) if on_gpu else _processor(),
        count=torch.cuda.device_count() if on_gpu else os.cpu_count() or 1,
        threads=torch.get_num_threads(),
        instructions=torch.backends.cpu.get_cpu_capability(),
    )


def _processor() -> str:
    """The name of the CPU: Linux tells it in a file of its own."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def _git(folder: Path) -> Git | None:
    """The commit of a folder, and whether its files differ from it; None without git, or where it does not hold them.

    A folder of installed packages may lie inside a repository of something else.
    """

    def ask(*arguments: str) -> str:
        command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
        return subprocess.run(command, capture_output=True, encoding="utf-8", check=True, timeout=10).stdout

    try:
        ask("ls-files", "--error-unmatch", "train.py")
        commit = ask("rev-parse", "HEAD").strip()
        return Git(commit, dirty=bool(ask("status", "--porcelain", "--untracked-files=no", "--", ".")))
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


# --- what differs now ---


def check_record(record: Record, settings: Settings, directory: Path) -> None:
    """Compare the prepared data in `directory`, and the model of train.init_from, with the record, byte for byte.

    Raises:
        RunError: something differs; the message names every file.
    """
    problems = list(_altered(record.files, directory))
    if not problems and [*(corpora := _corpora(read_manifest(directory))).items()] != [*record.corpora.items()]:
        problems.append(f"pairs of each training corpus: {record.corpora} → {corpora}")
    if problems:
        lines = "\n".join(f"  {problem}" for problem in problems)
        raise RunError(
            f"{directory} is not what the run was trained on (then → now):\n{lines}\n"
            "Restore these files, or prepare the same text again with the settings of the run: "
            "preprocess.py --config RUN/settings.yaml."
        )
    start = _initial_model(settings)
    if start is not None and (problems := list(_altered(record.init_from, start))):
        lines = "\n".join(f"  {problem}" for problem in problems)
        raise RunError(
            f"{start} is not the model that the run started from (train.init_from; then → now):\n{lines}\n"
            "Restore these files."
        )


def _altered(files: dict[str, FileRecord], directory: Path) -> Iterator[str]:
    """One sentence for each file that is not as recorded; those of another size are not read."""
    of_equal_size = []
    for name, recorded in files.items():
        path = directory / name
        if not path.is_file():
            yield f"{name}: is missing"
        elif (size := path.stat().st_size) != recorded.bytes:
            yield f"{name}: {recorded.bytes:,} → {size:,} bytes"
        else:
            of_equal_size.append(name)
    for name, now in _describe_files(directory, of_equal_size).items():
        if now.sha256 != files[name].sha256:
            yield f"{name}: sha256 {files[name].sha256[:12]}… → {now.sha256[:12]}…"


def environment_changes(record: Record, device: torch.device, n_processes: int) -> list[str]:
    """One line for each version, device or number of processes by which the last digits may change.

    Threads are not among them: `open_reproduction` asks for as many as there were.
    """
    then, now = record.environment, _environment(device, n_processes)
    pairs: list[tuple[str, object, object]] = [
        *((name, then.versions.get(name), found) for name, found in now.versions.items()),
        *((f"device {name}", getattr(then.device, name), getattr(now.device, name)) for name in _OF_DEVICE),
        ("processes", then.processes, now.processes),
        *((name, then.platform.get(name), now.platform[name]) for name in ("system", "machine", "libc")),
    ]
    changes = [f"{name}: {recorded} → {found}" for name, recorded, found in pairs if recorded != found]
    if then.git != now.git or (now.git is not None and now.git.dirty):
        changes.append(f"program: {_commit(then.git)} → {_commit(now.git)}")
    return changes


def _commit(git: Git | None) -> str:
    return "unknown commit" if git is None else git.commit[:12] + (" with changes" if git.dirty else "")
