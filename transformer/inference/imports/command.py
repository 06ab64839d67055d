"""`python -m transformer import`: another program's model becomes a model directory."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from data.atomic import whole_directory
from transformer.command_line import CommandParser
from transformer.errors import ConfigError, RunError
from transformer.inference.imports.marian import import_marian, is_marian
from transformer.inference.imports.seed import VOCABULARY_COMMAND, import_seed
from transformer.model_directory import DESCRIPTION, Model, save_model


def import_command(argv: Sequence[str]) -> int:
    """Make a model directory of a Marian folder (OPUS-MT) or of the seed repository's checkpoint."""
    parser = CommandParser(prog="python -m transformer import", description=import_command.__doc__)
    parser.add_argument("source", type=Path, metavar="SOURCE", help="a folder of Hugging Face, or a file MODEL.chkpt")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="the model directory to make")
    parser.add_argument("--overwrite", action="store_true", help="in place of a model directory that is there")
    parser.add_argument("--languages", nargs=2, metavar=("SRC", "TGT"), help="codes (default: what SOURCE says)")
    parser.add_argument(
        "--vocabulary", nargs=2, type=Path, metavar=("SRC", "TGT"), help="of a checkpoint: its lists of words, as JSON"
    )
    args = parser.parse_args(argv)
    check_output(args.output, args.overwrite)
    if args.languages and not all(code.strip() and code.isprintable() for code in args.languages):
        raise ConfigError(f"--languages {shlex.join(args.languages)}: give two codes, such as en de")
    model = _read(args.source, args.vocabulary)
    if args.languages:
        model = replace(model, src_lang=args.languages[0], tgt_lang=args.languages[1])
    with whole_directory(args.output) as directory:
        save_model(directory, model)
    output = shlex.quote(str(args.output))
    size = sum(parameter.numel() for parameter in model.network.parameters())
    sizes = f"{len(model.src_vocabulary):,} source and {len(model.tgt_vocabulary):,} target pieces"
    print(f"{model.src_lang} → {model.tgt_lang}: {size:,} parameters, {sizes}\nwrote  {args.output}")
    print(f"next   python translate.py --model {output}, or train.py with train.init_from={output}")
    return 0


def check_output(output: Path, overwrite: bool) -> None:
    """Refuse to write where something is, unless it is a model directory and may go.

    Raises:
        ConfigError: there is one, and nothing was said about it.
        RunError: there is something else.
    """
    if not output.exists() or (output.is_dir() and not any(output.iterdir())):
        return
    if not (output / DESCRIPTION).is_file():
        raise RunError(f"{output}: is there already, and no model directory: choose another name")
    if not overwrite:
        raise ConfigError(f"{output}: is there already: choose another name, or --overwrite to replace it")


def _read(source: Path, lists: Sequence[Path] | None) -> Model:
    if source.is_file():
        if lists is None:
            raise ConfigError(
                f"{source}: a checkpoint holds no words: give --vocabulary src.json trg.json. Where the libraries are "
                f"that it was trained with, this writes both:\n\n{VOCABULARY_COMMAND}\n"
            )
        return import_seed(source, *lists)
    if lists is not None:
        raise ConfigError("--vocabulary belongs to a checkpoint (a file): the folders of Hugging Face have their own")
    if not source.exists():
        raise RunError(f"{source}: there is no such file or folder")
    if (source / DESCRIPTION).is_file():
        raise RunError(f"{source}: is a model directory already")
    if not is_marian(source):
        raise RunError(
            f"{source}: holds no model: config.json, model.safetensors, vocab.json, source.spm and target.spm are "
            "expected, as in Hugging Face's folders of OPUS-MT models"
        )
    return import_marian(source)
