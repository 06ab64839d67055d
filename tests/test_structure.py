"""The dependency rules: the network knows no data; data knows no network; inference knows no training."""

from __future__ import annotations

import ast
import graphlib
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ("preprocess", "train", "translate", "evaluate")
NETWORK = ("precision", "masks", "attention", "layers", "embeddings", "encoder", "cache", "decoder", "model")

SETTINGS = (
    "config",
    "config_augmentation",
    "config_corpora",
    "config_filters",
    "config_mixing",
    "config_section",
    "config_translate",
)

Imports = dict[str, set[str]]  # module → the modules of this repository that it imports, wherever in the file


def source_files(root: Path) -> dict[str, Path]:
    """Module name → file, of the two packages and the scripts."""
    files = [*(root / "data").rglob("*.py"), *(root / "transformer").rglob("*.py"), *root.glob("*.py")]
    return {module_name(file.relative_to(root)): file for file in files}


def module_name(file: Path) -> str:
    return ".".join(file.with_suffix("").parts).removesuffix(".__init__")


def imported_names(tree: ast.AST, module: str, is_package: bool) -> Iterator[str]:
    """Every name that import statements bring in, absolute: `from a import b` gives a.b."""
    package = module.split(".") if is_package else module.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def own_imports(root: Path) -> Imports:
    files = source_files(root)
    imports: Imports = {}
    for module, file in files.items():
        tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
        names = imported_names(tree, module, file.name == "__init__.py")
        # a.b is the module a.b if there is one, else something defined in the module a.
        found = {name if name in files else name.rpartition(".")[0] for name in names}
        imports[module] = (found & files.keys()) - {module}
    return imports


def layer(module: str) -> int:
    """How high a module stands: it may import what stands as high or lower, but see `violations` for data."""
    first, *rest = module.split(".")
    second = rest[0] if rest else ""
    if first == "data":
        return 0
    if first != "transformer" or second == "__main__":
        return 6
    if second in NETWORK or second in SETTINGS or second in ("", "errors"):
        return 1
    return {"inference": 3, "evaluation": 4, "training": 5}.get(second, 2)


LAYERS = (
    "data",
    "the network",
    "settings files and model directories",
    "inference",
    "evaluation",
    "training",
    "the scripts",
)


def violations(root: Path) -> list[str]:
    """One sentence for every import that breaks a rule."""
    found = []
    for module, imports in sorted(own_imports(root).items()):
        for name in sorted(imports):
            why = ""
            if module.startswith("data") and name.startswith("transformer"):
                why = "data knows no network: give it plain arguments instead, from the script"
            elif layer(module) == 1 and name.startswith("data"):
                why = "the network knows no data: give it tensors and plain numbers instead"
            elif layer(name) > layer(module):
                why = (
                    f"{LAYERS[layer(module)]} must not know {LAYERS[layer(name)]}: move what both need down, "
                    "or pass it in as an argument"
                )
            if why:
                found.append(f"{module} imports {name}, but {why} (rules of CONTRIBUTING.md).")
    return found


def circle(root: Path) -> str:
    """A sentence about a circle of imports, empty if there is none."""
    try:
        graphlib.TopologicalSorter(own_imports(root)).prepare()
    except graphlib.CycleError as error:
        path = " imports ".join(reversed(error.args[1]))
        return f"These modules import each other in a circle, so none can be read first: {path}. Break it at one place."
    return ""


def foreign_imports_at_top_level(root: Path) -> Iterator[tuple[str, str]]:
    """(module, library) for every import that runs when the module is imported."""
    for module, file in source_files(root).items():
        tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
        for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]:
            function.body = []
        for name in imported_names(tree, module, file.name == "__init__.py"):
            if name.split(".")[0] not in {"data", "transformer", *SCRIPTS, *sys.stdlib_module_names}:
                yield module, name


# --- this repository ---


def test_no_module_knows_what_stands_above_it() -> None:
    assert len(source_files(ROOT)) > 10
    assert violations(ROOT) == [], "\n" + "\n".join(violations(ROOT))


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circle(ROOT) == ""


def test_every_module_is_named_after_what_it_does() -> None:
    for module in source_files(ROOT):
        words = set(re.split(r"[._]", module)) & {"utils", "util", "helpers", "helper", "common", "misc"}
        assert not words, f"{module}: a module is named after its one subject; '{words.pop()}' says nothing"


def test_the_core_needs_no_optional_library() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    distributions = [re.split(r"[^\w-]", dependency)[0].lower() for dependency in project["dependencies"]]
    required = {{"pyyaml": "yaml"}.get(name, name) for name in distributions} | {"pydantic_core"}  # part of pydantic
    for module, library in foreign_imports_at_top_level(ROOT):
        assert library.split(".")[0] in required, (
            f"{module} imports {library} when it is itself imported, but {library} is not among the dependencies in "
            "pyproject.toml: import it inside the function that needs it, or make it a dependency"
        )
        assert "tensorboard" not in library, f"{module} imports {library}: tensorboard is optional, import it inside"


# --- the checks themselves notice what they are there for ---


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A small repository in which all rules hold."""
    for name, text in {
        "train.py": "from transformer.training import loop\nfrom data import batches\n",
        "data/__init__.py": "",
        "data/batches.py": "import numpy\nfrom . import errors\n",
        "data/errors.py": "",
        "transformer/__init__.py": "",
        "transformer/__main__.py": "from transformer.training.loop import x\n",
        "transformer/config.py": "",
        "transformer/masks.py": "import torch\n",
        "transformer/model.py": "from transformer.config import A\nfrom transformer import masks\n",
        "transformer/model_directory.py": "from transformer.model import T\nfrom data.errors import E\n",
        "transformer/inference/__init__.py": "",
        "transformer/inference/translator.py": "from transformer.model_directory import load\n",
        "transformer/evaluation/__init__.py": "",
        "transformer/evaluation/metrics.py": "from transformer.inference.translator import T\n",
        "transformer/training/__init__.py": "",
        "transformer/training/loop.py": "from transformer.evaluation import metrics\n",
    }.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path


def test_the_rules_allow_the_layout_they_describe(repository: Path) -> None:
    assert violations(repository) == []
    assert circle(repository) == ""


@pytest.mark.parametrize(
    ("file", "line", "words"),
    [
        ("data/batches.py", "from transformer.config import A", "data knows no network"),
        ("data/batches.py", "import transformer", "data knows no network"),
        ("data/batches.py", "def f():\n    import transformer.masks", "data knows no network"),
        ("transformer/masks.py", "from data.batches import Batch", "the network knows no data"),
        ("transformer/masks.py", "import data.batches as b", "the network knows no data"),
        ("transformer/model.py", "from transformer.model_directory import load", "the network must not know settings"),
        ("transformer/config.py", "from .training.loop import x", "the network must not know training"),
        ("transformer/inference/translator.py", "from transformer import training", "inference must not know training"),
        ("transformer/inference/translator.py", "from ..evaluation import metrics", "inference must not know evaluat"),
        ("transformer/evaluation/metrics.py", "import transformer.training.loop", "evaluation must not know training"),
        ("transformer/training/loop.py", "import train", "training must not know the scripts"),
    ],
)
def test_an_import_upwards_is_noticed(repository: Path, file: str, line: str, words: str) -> None:
    with (repository / file).open("a") as source:
        source.write(line + "\n")
    (sentence,) = violations(repository)
    assert words in sentence
    assert sentence.startswith(module_name(Path(file)) + " imports ")


def test_a_circle_is_noticed(repository: Path) -> None:
    (repository / "transformer/masks.py").write_text("def f():\n    from transformer.model import T\n")
    assert "transformer.model imports transformer.masks" in circle(repository)


def test_only_imports_that_run_at_import_count_as_needed(repository: Path) -> None:
    (repository / "transformer/masks.py").write_text(
        "import sacremoses\nif True:\n    import lxml.etree\ndef f():\n    import tensorboard\nimport os, data\n"
    )
    found = {library for module, library in foreign_imports_at_top_level(repository) if module == "transformer.masks"}
    assert found == {"sacremoses", "lxml.etree"}
