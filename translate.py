"""Translate text, one line out for each line in: `python translate.py --model runs/base < in > out`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from data.errors import DataError
from data.lines import read_lines
from data.pairs import Pair
from data.writers import Labels
from transformer.command_line import check_folders, run_command
from transformer.errors import ConfigError
from transformer.inference.command.arguments import PICTURES, backend, check_arguments, is_typed, parse_arguments
from transformer.inference.command.inputs import Inputs, unequal
from transformer.inference.command.job import Job, run, run_in_parts
from transformer.inference.command.output_forms import write_translations
from transformer.inference.command.prompt import converse
from transformer.inference.command.results import Result
from transformer.inference.command.tally import notes
from transformer.inference.export.description import read_description
from transformer.inference.glossary import Glossary
from transformer.inference.line_translator import LineTranslator
from transformer.inference.requests import Wishes, read_requests
from transformer.torchrun import Process, take_gpu, this_process


def main(argv: Sequence[str] | None = None) -> int:
    """Check the arguments and all they name, load the model, translate, and say what happened."""
    args, process = parse_arguments(argv), this_process()
    settings = check_arguments(args, process)
    check_folders(args.output, args.alignments)
    inputs = inputs_of(args)
    references = list(read_lines(args.reference)) if args.reference else None
    n_lines = count_lines(inputs, args.reference, references)
    translator = load_translator(args, settings, process)
    job = job_of(args, inputs, translator)
    if is_typed(args):
        converse(partial(answer, job), "> " if translator.src_lang == "any" else f"{translator.src_lang}> ")
        return 0
    if n_lines is not None and isinstance(job.output, Path) and (job.output.is_file() or not job.output.exists()):
        is_complete = run_in_parts(job, n_lines, model_of(args, translator), process)
    else:
        run(job, n_lines, hidden=args.output is None and sys.stdout.isatty())
        is_complete = True
    if is_complete:
        report(args, job, references)
    elif process.size == 1:
        say(f"nothing is left to do here: of the processes that translate, the last to end writes {args.output}")
    return 0


def inputs_of(args: argparse.Namespace) -> Inputs:
    """The files to be read."""
    json_lines = args.input_format == "jsonl"
    if args.input_format is None and args.input:
        json_lines = ".jsonl" in args.input.suffixes
    glossary = Glossary.load(args.glossary) if args.glossary else None
    wishes = Wishes(args.prefix, args.require, args.avoid, tuple(args.avoid_everywhere), glossary)
    return Inputs(args.input, json_lines, args.invalid_utf8 == "replace", wishes, args.score, args.glossary)


def count_lines(inputs: Inputs, reference: Path | None, references: list[str] | None) -> int | None:
    """Read everything once before hours of work depend on it; None for what can be read only once.

    Raises:
        DataError: as `Inputs.lines`; or the reference is not as long as the input.
    """
    if not inputs.is_lasting:
        return None
    n_lines = sum(1 for _ in inputs.lines())
    if reference and references is not None and len(references) != n_lines:
        raise unequal(inputs.name, n_lines, reference, len(references))
    return n_lines


def load_translator(args: argparse.Namespace, settings: dict[str, Any], process: Process) -> LineTranslator:
    """Load the models, each process on a device of its own; PyTorch only where it is needed, as it is slow to start."""
    if backend(args) == "ctranslate2":
        from transformer.inference.ctranslate2_translator import CTranslate2Translator

        folder, threads = Path(args.model[0]), args.threads
        return CTranslate2Translator.load(folder, args.device, args.batch_size, threads, process, **settings)
    import torch

    from transformer.device import choose_device
    from transformer.inference.translator import Translator

    if args.threads:
        torch.set_num_threads(args.threads)
    if process.size > 1 and choose_device(args.device).type == "cuda":
        take_gpu(process, "give --device cpu")
    return Translator.load([Path(path) for path in args.model], args.device, args.batch_size, **settings)


def job_of(args: argparse.Namespace, inputs: Inputs, translator: LineTranslator) -> Job:
    """What there is to do."""
    form = args.format
    if args.score:
        form = {"text": "scores", "tsv": "scored_pairs"}.get(form, form)
    elif form == "tsv" and translator.settings.n_best > 1:
        form = "ranked"
    layer = translator.settings.alignment_layer
    layers = "mean of all layers" if layer is None else f"layer {layer}"
    return Job(
        inputs,
        translator,
        args.output or sys.stdout.buffer,
        form,
        Labels(translator.src_lang, translator.tgt_lang, args.system),
        alignments=args.alignments,
        annotate=bool(form == "jsonl" or args.alignments or args.attention_dir),
        draw=partial(draw, args.attention_dir, layers) if args.attention_dir else None,
        keep=[] if args.reference else None,
    )


def model_of(args: argparse.Namespace, translator: LineTranslator) -> dict[str, Any]:
    """What decides about the translation of a line."""
    settings = translator.settings.model_dump(exclude={"max_tokens", "workers"})
    if backend(args) == "ctranslate2":
        return {"models": [read_description(Path(path)).sha256 for path in args.model], "translate": settings}
    from transformer.model_directory import checksums

    return {"models": [checksums(path) for path in args.model], "translate": settings}


def answer(job: Job, line: str) -> None:
    """Translate what was typed."""
    try:
        requests = list(read_requests([line], "this line", job.inputs.wishes, json_lines=job.inputs.json_lines))
    except DataError as error:
        say(f"error: {error}")
        return
    for translation in job.translator.translations(requests, window=1, annotate=job.annotate):
        write_translations(job.output, job.form, [Result(Pair(requests[0].text, ""), translation)], job.labels)
        for note in notes(translation):
            say(f"({note})")


def draw(directory: Path, layers: str, number: int, result: Result) -> None:
    """Draw where the model looked for each word, if this is one of the first lines and not blank."""
    attention = result.translation.attention
    if number > PICTURES or not attention:
        return
    import torch

    from transformer.evaluation.attention_plot import draw_matrices  # slow to import, and seldom needed

    src, tgt = result.pair.src, result.translation.text
    src_words, tgt_words = ([f"▁{word}" for word in text.split()] for text in (src, tgt))
    path, panels = directory / f"{number:06}.png", {layers: torch.tensor(attention)}
    try:
        drawn = draw_matrices(path, panels, src_words, tgt_words, title=f"{src}\n{tgt}")
    except ConfigError as error:
        say(f"line {number}: no picture: {error}")
        return
    for note in drawn.notes:
        say(f"line {number}: {note}")


def report(args: argparse.Namespace, job: Job, references: list[str] | None) -> None:
    """Say what was written, what there is to note about it, how good it is, and what can be done next."""
    did = [] if args.output else ["scored" if args.score else "translated"]
    did += [f"wrote {path}" for path in (args.output, args.alignments) if path]
    did += [f"drew into {args.attention_dir}"] if args.attention_dir else []
    say(job.tally.report(", ".join(did)))
    if args.score:
        say(job.tally.perplexity())
    if references is not None and job.keep is not None:
        from transformer.evaluation.metrics import score  # slow to import, and not always needed
        from transformer.evaluation.tokenization import tokenizer_at_hand

        say(score(job.keep, references, tokenizer_at_hand(job.translator.tgt_lang)).formatted())
    elif args.output and job.form == "text":
        say(f"to score it: python evaluate.py --hypothesis {args.output} --reference FILE")


def say(text: str) -> None:
    """What is no translation goes to standard error."""
    print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(run_command(main))
