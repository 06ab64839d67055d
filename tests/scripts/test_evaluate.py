"""`evaluate.py` as a user runs it: a model on its test sets, or two files; figures, files, and messages."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

import evaluate
from data.corpora import FileSource
from data.lines import write_lines
from data.preparation import Corpora, Rules, TrainingCorpus, VocabularyOptions, prepare
from data.prepared import load_prepared
from transformer.command_line import run_command
from transformer.config import ModelSettings, Settings, TranslateSettings
from transformer.config_file import save_settings
from transformer.evaluation.metrics import score
from transformer.inference.translator import Translator
from transformer.model import Transformer
from transformer.model_directory import Model, save_model

TESTS = {"news": 5, "held/out": 3}


class Result(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Result]
RULES = Rules(drop_contamination=False)


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with prepared/tiny and runs/tiny, which holds an untrained model."""
    folder = tmp_path_factory.mktemp("workplace")

    def corpus(name: str, numbers: range) -> FileSource:
        source = FileSource(folder / f"{name}.en", folder / f"{name}.de")
        write_lines(source.src, (f"the cat number {i} sat on the mat" for i in numbers))
        write_lines(source.tgt, (f"die Katze Nummer {i} saß auf der Matte" for i in numbers))
        return source

    tests = {name: corpus(name.replace("/", "-"), range(300, 300 + n)) for name, n in TESTS.items()}
    train = TrainingCorpus(corpus("train", range(200)), "train")
    corpora = Corpora("en", "de", [train], [corpus("valid", range(200, 210))], tests)
    prepare(folder / "prepared" / "tiny", corpora, RULES, VocabularyOptions(size=400), workers=1)
    prepared = load_prepared(folder / "prepared" / "tiny")

    settings = ModelSettings(n_encoder_layers=1, n_decoder_layers=1, d_model=32, d_ff=48, n_heads=4)
    torch.manual_seed(0)
    network = Transformer(settings, len(prepared.src_vocabulary), len(prepared.tgt_vocabulary)).eval()
    search = TranslateSettings(max_length_ratio=0.0, max_extra_length=6)
    model = Model(network, settings, search, prepared.src_vocabulary, prepared.tgt_vocabulary, "en", "de")
    (folder / "runs" / "tiny" / "model").mkdir(parents=True)
    save_model(folder / "runs" / "tiny" / "model", model)
    save_settings(Settings(name="tiny", model=settings), folder / "runs" / "tiny" / "settings.yaml")
    return folder


@pytest.fixture
def command(workplace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run evaluate.py in this process, in the folder of the run."""
    monkeypatch.chdir(workplace)

    def call(*arguments: str | Path) -> Result:
        try:
            code = run_command(lambda: evaluate.main([*map(str, arguments)]))
        except SystemExit as exit_:  # usage
            code = int(exit_.code or 0)
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return Result(code, captured.out, captured.err)

    return call


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def test_a_run_is_scored_on_every_test_set_and_its_translations_are_written(workplace: Path, command: Command) -> None:
    result = command("--model", "runs/tiny")
    assert result.code == 0
    translator = Translator.load("runs/tiny", "cpu")
    for name, (src, references) in load_prepared(Path("prepared/tiny")).test_text.items():
        path = workplace / "runs/tiny/translations" / f"{name.replace('/', '%2F')}.de"
        hypotheses = path.read_text(encoding="utf-8").split("\n")[:-1]
        assert hypotheses == translator.translate(src)
        expected = score(hypotheses, references)
        row = next(line for line in result.out.splitlines() if line.startswith(name))
        assert row.split()[1:4] == [f"{expected.bleu:.2f}", f"{expected.chrf:.2f}", f"{expected.length_ratio:.3f}"]
        assert expected.bleu_signature in result.out
        assert expected.chrf_signature in result.out
        assert str(path.relative_to(workplace)) in result.out
    assert "next" in result.out


def test_a_model_directory_is_evaluated_with_named_data_and_stays_as_it_is(
    workplace: Path, command: Command, tmp_path: Path
) -> None:
    before = sorted(path.name for path in (workplace / "runs/tiny/model").iterdir())
    arguments = ("--model", "runs/tiny/model", "--data", "prepared/tiny")
    table = command("--model", "runs/tiny").out.split("wrote")[0]
    alone = command(*arguments)
    assert alone.code == 0
    assert alone.out.startswith(table)
    assert sorted(path.name for path in (workplace / "runs/tiny/model").iterdir()) == before
    assert command(*arguments, "--output", tmp_path / "new").code == 0
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["held%2Fout.de", "news.de"]


def test_examples_are_triples_spread_over_each_test_set(command: Command) -> None:
    out = command("--model", "runs/tiny", "--examples", "4").out
    news, _ = load_prepared(Path("prepared/tiny")).test_text["news"]
    sources = re.findall(r"^source +(.*)\nreference +(.*)\ntranslation +(.*)$", out, re.MULTILINE)
    assert len(sources) == 4 + 3, "no more than there are"
    assert {source for source, _, _ in sources} >= {news[i] for i in (0, 1, 2, 3)}
    for source, reference, translation in sources:
        assert reference == source.replace("the cat number", "die Katze Nummer").replace(
            "sat on the mat", "saß auf der Matte"
        )
        assert translation == Translator.load("runs/tiny", "cpu").translate([source])[0]


def test_settings_of_the_search_can_be_overridden(command: Command) -> None:
    assert command("--model", "runs/tiny", "translate.max_extra_length=2", "translate.beam_size=1").code == 0
    lines = Path("runs/tiny/translations/news.de").read_text(encoding="utf-8").split("\n")[:-1]
    src = load_prepared(Path("prepared/tiny")).test_text["news"][0]
    assert lines == Translator.load("runs/tiny", "cpu", max_extra_length=2, beam_size=1).translate(src)


def test_b1_files_with_unequal_numbers_of_lines_are_refused_with_both_numbers(command: Command, tmp_path: Path) -> None:
    two = write(tmp_path / "b1.hyp", "The dog bit the man.\nIt was not a surprise.\n")
    three = write(tmp_path / "b1.ref", "The dog bit the man.\nIt was not unexpected.\nThe man bit him first.\n")
    for hypothesis, reference, counts in ((two, three, (2, 3)), (three, two, (3, 2))):
        result = command("--hypothesis", hypothesis, "--reference", reference)
        assert (result.code, result.out) == (1, "")
        assert f"{hypothesis} has {counts[0]} lines but {reference} has {counts[1]}" in result.err


def test_b2_a_score_of_0_comes_with_a_note_and_corpus_bleu_uses_all_orders(command: Command, tmp_path: Path) -> None:
    short = write(tmp_path / "short", "Green Square\n")
    result = command("--hypothesis", short, "--reference", short)
    assert result.code == 0
    assert re.search(r"BLEU +0\.00 +nrefs:1.*eff:no", result.out)
    assert "needs 4-grams" in result.out
    longer = write(tmp_path / "longer", "Green Square\nThe small dog ran home .\n")
    assert re.search(r"BLEU +100\.00 ", command("--hypothesis", longer, "--reference", longer).out)


def test_b3_files_are_read_raw_and_13a_does_the_tokenising(command: Command, tmp_path: Path) -> None:
    reference = write(tmp_path / "ref", "I can't see the boss's car, sir.\nIt costs $5.00 (about 4 euros).\n")
    spaced = "I can 't see the boss 's car , sir .\nIt costs $ 5.00 ( about 4 euros ) .\n"
    for hypothesis, bleu in ((reference, "100.00"), (write(tmp_path / "hyp", spaced), "64.56")):
        out = command("--hypothesis", hypothesis, "--reference", reference).out
        assert re.search(rf"BLEU +{bleu} .*case:mixed.*tok:13a", out)


@pytest.mark.parametrize(
    ("hypothesis", "reference", "bleu"),
    [("Hello there.", "", "81.33"), ("", "Hello there.", "65.14"), ("", "", "100.00")],
)
def test_b6_empty_lines_count(command: Command, tmp_path: Path, hypothesis: str, reference: str, bleu: str) -> None:
    files = [
        write(tmp_path / name, f"The cat sat on the mat.\n{line}\n")
        for name, line in (("hyp", hypothesis), ("ref", reference))
    ]
    out = command("--hypothesis", files[0], "--reference", files[1]).out
    assert re.search(rf"BLEU +{bleu} ", out)
    assert "2 lines" in out


@pytest.mark.parametrize(
    ("arguments", "code", "parts"),
    [
        ([], 2, ["--model", "--hypothesis"]),
        (["--hypothesis", "a"], 2, ["--hypothesis and --reference"]),
        (["--model", "runs/tiny", "--hypothesis", "a", "--reference", "b"], 2, ["either --model"]),
        (["--hypothesis", "no.de", "--reference", "nor.de"], 1, ["no.de"]),
        (["--model", "runs/tiny", "--exampels", "3"], 2, ["--exampels", "--examples"]),
        (["--model", "runs/tiny", "--examples", "-1"], 2, ["--examples", "-1"]),
        (["--model", "runs/tiny", "translate.beam_size=0"], 2, ["translate.beam_size"]),
        (["--model", "runs/tiny", "train.lr=1"], 2, ["train.lr"]),
        (["--hypothesis", "a", "--reference", "b", "translate.beam_size=3"], 2, ["translate.beam_size=3"]),
        (["--model", "runs/none"], 1, ["runs/none"]),
        (["--model", "runs/tiny/model"], 2, ["--data"]),
        (["--model", "runs/tiny", "--data", "prepared/none"], 1, ["prepared/none"]),
    ],
)
def test_a_mistake_is_one_message_and_an_exit_code(
    command: Command, arguments: list[str], code: int, parts: list[str]
) -> None:
    result = command(*arguments)
    assert (result.code, result.out) == (code, "")
    for part in parts:
        assert part in result.err


def test_the_prepared_data_are_looked_for_where_training_ran(
    workplace: Path, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = command("--model", workplace / "runs/tiny")
    assert result.code == 1
    assert "--data" in result.err


def test_prepared_data_without_test_sets_are_refused(workplace: Path, command: Command, tmp_path: Path) -> None:
    corpus = FileSource(workplace / "train.en", workplace / "train.de")
    corpora = Corpora("en", "de", [TrainingCorpus(corpus, "train")], [corpus], {})
    prepare(tmp_path / "untested", corpora, RULES, VocabularyOptions(size=400), workers=1)
    result = command("--model", "runs/tiny", "--data", tmp_path / "untested")
    assert (result.code, result.out) == (1, "")
    assert "data.test" in result.err
