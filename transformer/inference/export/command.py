"""`python -m transformer export`: write a model for another program, and prove that it does the same there."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

from tqdm import tqdm

from data.atomic import whole_directory
from transformer.command_line import CommandParser
from transformer.errors import ConfigError
from transformer.inference.export import ctranslate2, huggingface, onnx
from transformer.inference.export.card import export_card
from transformer.inference.export.description import ExportDescription, checksums, is_export, write_description
from transformer.inference.export.gate import Gate, Parity
from transformer.inference.export.gate_lines import gate_lines
from transformer.inference.export.hub import licence_reminder, plan_upload, publish
from transformer.inference.export.obstacles import LIMITS, fit_search, obstacles
from transformer.inference.export.target import Target
from transformer.model_card import stated_licence
from transformer.model_directory import CARD, Model, find_model, load_model

HUB = "hub"
TARGETS = {target.name: target for target in (ctranslate2.TARGET, huggingface.TARGET, onnx.TARGET)}


def export_command(argv: Sequence[str]) -> int:
    """Write a model for CTranslate2, Hugging Face or ONNX Runtime, proven to translate as it does here."""
    args = parse_arguments(argv)
    if args.to == HUB:
        return upload_command(args)
    target = TARGETS[args.to]
    check_arguments(args, target)
    model = load_model(args.model)
    check_network(model, target)
    parity, description = export(model, target, args)
    print(f"{args.output}: {parity.describe()}")
    print(f"next  {target.next_step(args.output, description)}")
    return 0


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """What an export can be told."""
    parser = CommandParser(prog="python -m transformer export", description=export_command.__doc__)
    parser.add_argument("model", type=Path, metavar="MODEL", help="a run (runs/NAME) or model directory")
    parser.add_argument(
        "--to", required=True, choices=[*TARGETS, HUB], help="the program it is for; or hub: to upload it"
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="the folder to write")
    parser.add_argument(
        "--quantization",
        choices=sorted({kind for target in TARGETS.values() for kind in target.quantizations}),
        help="store the weights in fewer bits (fp32)",
    )
    parser.add_argument(
        "--input",
        type=Path,
        metavar="FILE",
        help="lines on which both are compared (the validation lines of the run, else invented ones)",
    )
    parser.add_argument("--reference", type=Path, metavar="FILE", help="their translations, for BLEU")
    parser.add_argument("--overwrite", action="store_true", help="replace an export that is there already")
    parser.add_argument("--repo", metavar="USER/NAME", help="of the hub; MODEL may be an export, too")
    parser.add_argument("--dry-run", action="store_true", help="only list what would be uploaded")
    args: argparse.Namespace = parser.parse_args(argv)
    of_hub, of_export = (
        args.repo or args.dry_run,
        (args.output or args.input or args.reference or args.quantization or args.overwrite),
    )
    if args.to == HUB and (of_export or not args.repo):
        parser.error("--to hub takes --repo USER/NAME and --dry-run, and nothing else")
    if args.to != HUB and (of_hub or not args.output):
        parser.error(f"--to {args.to} takes --output DIR; --repo and --dry-run are for --to hub")
    return args


def upload_command(args: argparse.Namespace) -> int:
    """Put a model or an export on the hub, or say what would be put there."""
    upload = plan_upload(args.model, args.repo)
    print(upload.describe())
    if reminder := licence_reminder(upload):
        print(f"note: {reminder}", file=sys.stderr)
    if not args.dry_run:
        print(f"done: {publish(upload)}, private until you change that on its page")
    return 0


def check_arguments(args: argparse.Namespace, target: Target) -> None:
    """See that the export can be written, before anything is loaded.

    Raises:
        ConfigError: all that is wrong.
    """
    problems = []
    missing = [module for module in target.modules if importlib.util.find_spec(module) is None]
    if missing:
        problems.append(f"--to {target.name} needs {' and '.join(missing)}: pip install {' '.join(missing)}")
    if args.quantization and args.quantization not in target.quantizations:
        known = ", ".join(target.quantizations) or "none"
        problems.append(f"--quantization {args.quantization}: {target.name} has {known}")
    if args.reference and not args.input:
        problems.append(f"--reference {args.reference} belongs to lines that --input FILE gives")
    if args.model.is_file():
        problems.append(f"{args.model} is a file: give a run (runs/NAME) or a model directory")
    output = args.output
    if output.is_dir() and any(output.iterdir()):
        if not is_export(output):
            problems.append(f"--output {output} holds something else than an export: choose another folder")
        elif not args.overwrite:
            problems.append(f"--output {output} is there already: choose another folder, or give --overwrite")
    elif output.exists() and not output.is_dir():
        problems.append(f"--output {output} is a file: choose another name")
    if problems:
        raise ConfigError("\n".join(problems))


def check_network(model: Model, target: Target) -> None:
    """Raises ConfigError, with every setting of the network that the target cannot express."""
    if found := obstacles(target.name, model.settings):
        title = LIMITS[target.name].title
        raise ConfigError("\n".join([f"this model cannot be exported to {title}:", *found]))


def export(model: Model, target: Target, args: argparse.Namespace) -> tuple[Parity, ExportDescription]:
    """Write the folder, which has its name when the gate has been passed.

    Raises:
        RunError: the export does something else than the model.
        DataError: the lines to compare them on cannot be read.
    """
    settings, changed = fit_search(target.name, model.translate)
    for sentence in changed:
        print(sentence, file=sys.stderr)
    model = replace(model, translate=settings)
    given = gate_lines(model, args.model, args.input, args.reference)
    plain = ExportDescription(target.name, None, model.src_lang, model.tgt_lang, settings, {}, {})
    n_passes = 6 if args.quantization else 4  # each greedily and with a beam
    with (
        tqdm(total=n_passes * len(given.lines), desc="comparing", unit=" lines", leave=False, disable=None) as bar,
        _naming(args.output),
    ):
        gate = Gate(model, given, target.impossible, bar.update)
        with whole_directory(args.output) as folder:
            description = write_export(folder, model, target, plain)
            parity = gate.check(target.open(folder))
            if args.quantization:
                bar.write(f"fp32: {parity.describe()}", file=sys.stderr)
                description = write_export(folder, model, target, replace(plain, quantization=args.quantization))
                parity = gate.check_quantised(target.open(folder))
            description = replace(description, parity=asdict(parity))
            write_description(folder, description)
            licence = stated_licence(find_model(args.model) / CARD)
            card = export_card(model, target, description, gate, parity, licence)
            (folder / CARD).write_text(card, encoding="utf-8")
    return parity, description


def write_export(folder: Path, model: Model, target: Target, description: ExportDescription) -> ExportDescription:
    """Fill the folder, in place of what it holds; returns the description with checksums."""
    for path in folder.iterdir():
        path.unlink()
    target.write(model, folder, description.quantization)
    description = replace(description, sha256=checksums(folder))
    write_description(folder, description)
    return description


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """A full disk is reported with the name of what was to be written, also by libraries that do not say it."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise
