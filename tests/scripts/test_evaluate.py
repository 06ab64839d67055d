"""`evaluate.py` as a user runs it: models on test sets, files, comparisons; figures, what is written, messages."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

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
from transformer.evaluation import systems
from transformer.evaluation.metrics import score
from transformer.evaluation.results import load_evaluation, load_sentences
from transformer.evaluation.word_frequency import rarest_words
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
    for name, gain in (("tiny", 1.0), ("other", 1.5)):
        with torch.no_grad():
            for parameter in network.parameters():
                parameter *= gain
        model = Model(network, settings, search, prepared.src_vocabulary, prepared.tgt_vocabulary, "en", "de")
        (folder / "runs" / name / "model").mkdir(parents=True)
        save_model(folder / "runs" / name / "model", model)
        save_settings(Settings(name="tiny", model=settings), folder / "runs" / name / "settings.yaml")
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
        figures = re.sub(r"\[.*?\]", "", row).split()
        assert figures[1:3] == [f"{expected.bleu:.2f}", f"{expected.chrf:.2f}"]
        assert figures[-2:] == [f"{expected.length_ratio:.3f}", str(len(src))]
        for signature in (expected.bleu_signature, expected.chrf_signature):
            assert signature.replace("nrefs:1|", "nrefs:1|bs:1000|seed:12345|") in result.out
        assert str(path.relative_to(workplace)) in result.out
        card = (workplace / "runs/tiny/model/README.md").read_text(encoding="utf-8")
        assert f"| {name} | {len(src)} | {expected.bleu:.1f} (" in card
        evaluation = load_evaluation(path.parent, name)
        assert evaluation.metrics["bleu"].score == expected.bleu
        assert evaluation.translate == translator.settings.model_dump()
        sentences = load_sentences(path.parent, evaluation)
        assert [(row.src, row.references, row.hypothesis) for row in sentences] == [
            (one, [other], hypothesis) for one, other, hypothesis in zip(src, references, hypotheses, strict=True)
        ]
    assert "python -m transformer report runs/tiny" in result.out


def test_the_log_probability_of_a_translation_is_that_of_forced_decoding(workplace: Path, command: Command) -> None:
    command("--model", "runs/other")
    evaluation = load_evaluation(workplace / "runs/other/translations", "news")
    sentences = load_sentences(workplace / "runs/other/translations", evaluation)
    translator = Translator.load("runs/other", "cpu")
    found = list(translator.translations([str(row.src) for row in sentences], annotate=True))
    for row, translation in zip(sentences, found, strict=True):
        assert translation.token_log_probs
        mean = sum(translation.token_log_probs) / len(translation.token_log_probs)
        assert row.log_prob_per_token == pytest.approx(mean, abs=1e-4)
    command("--model", "runs/other", "translate.coverage_penalty=0.2")
    evaluation = load_evaluation(workplace / "runs/other/translations", "news")
    sentences = load_sentences(workplace / "runs/other/translations", evaluation)
    assert {row.log_prob_per_token for row in sentences} == {None}, "the score is no longer log P alone"


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
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        f"{name}.{suffix}" for name in ("held%2Fout", "news") for suffix in ("de", "json", "jsonl")
    ]


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
    assert re.search(r"BLEU +0\.00 \[0\.0, 0\.0\] +nrefs:1.*eff:no", result.out)
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
        (["--hypothesis", "a"], 2, ["--hypothesis", "--reference FILE", "--test NAME"]),
        (["--model", "runs/tiny", "--hypothesis", "a", "--reference", "b"], 2, ["give one of --model"]),
        (["--hypothesis", "no.de", "--reference", "nor.de"], 1, ["no.de: ", "nor.de: "]),
        (["--compare", "runs/tiny"], 2, ["two systems"]),
        (["--compare", "runs/tiny", "runs/tiny", "--examples", "1"], 2, ["--examples is not for --compare"]),
        (["--compare", "runs/tiny", "runs/none"], 1, ["runs/none: no such folder"]),
        (["--compare", "runs/tiny", "prepared"], 1, ["prepared: not evaluated yet", "--model prepared"]),
        (["--compare", "runs/tiny", "runs/tiny"], 2, ["the same one twice"]),
        (["--compare", "a", "b", "--test", "x.xml", "y.xml", "--languages", "en-de"], 2, ["one test set"]),
        (["--compare", "a", "b", "--reference", "c", "--test", "wmt14/en-de"], 2, ["one test set"]),
        (["--compare", "runs/tiny", "runs/other", "--languages", "en-de"], 2, ["--languages is for files"]),
        (["--compare", "runs/tiny", "runs/other", "--reference", "a"], 2, ["--reference is for files"]),
        (["--compare", "a", "b", "--languages", "en-de"], 1, ["a: no such folder", "--reference", "--test"]),
        (["--model", "."], 1, [".: holds no model"]),
        (["--model", "", "runs/tiny"], 1, [".: holds no model"]),
        (["--model", "runs/tiny", "--output", "news.en"], 1, ["news.en: File exists; something else has this name"]),
        (["--model", "runs/tiny", "--output", "news.en/out"], 1, ["news.en/out: Not a directory"]),
        (["--model", "runs/tiny", "--src", "a"], 2, ["--src needs --reference"]),
        (["--model", "runs/tiny", "--reference", "evaluate.py"], 1, ["evaluate.py"]),
        (["--model", "runs/tiny", "--domains", "a"], 2, ["--domains"]),
        (["--model", "runs/tiny", "--test", "wmt14/ful"], 1, ["wmt14/ful", "wmt14/full"]),
        (["--model", "runs/tiny", "--test", "news", "news"], 2, ["two test sets of one name"]),
        (["--model", "runs/tiny", "--tokenize", "14a"], 2, ["--tokenize 14a: no such tokeniser, did you mean 13a?"]),
        (["--model", "runs/tiny", "--languages", "english"], 2, ["--languages english", "en-de"]),
        (["--hypothesis", "a", "--test", "wmt14"], 2, ["--languages"]),
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


# --- more than one model, more than one reference, other test sets ---


def test_several_models_stand_beside_each_other_and_are_compared_afterwards(workplace: Path, command: Command) -> None:
    result = command("--model", "runs/tiny", "runs/other", "translate.beam_size=2")
    assert result.code == 0, result.err
    labels = [line.split("  ")[:2] for line in result.out.splitlines()[1:5]]
    assert labels == [["news", "tiny"], ["news", "other"], ["held/out", "tiny"], ["held/out", "other"]]
    assert "evaluate.py --compare runs/tiny runs/other" in result.out
    compared = command("--compare", "runs/tiny", "runs/other")
    assert compared.code == 0, compared.err
    assert compared.out.startswith("held/out, 3 lines  ")
    assert compared.out.count("p, paired bootstrap") == compared.out.count("p, approximate randomisation") == 2
    for name, n in TESTS.items():
        evaluation = load_evaluation(workplace / "runs/other/translations", name)
        assert evaluation.n_lines == n
        assert f"{evaluation.metrics['chrf'].score:.2f}" in compared.out


def test_a_test_set_of_runs_that_are_compared_can_be_named(command: Command) -> None:
    command("--model", "runs/tiny", "runs/other")
    compared = command("--compare", "runs/tiny", "runs/other", "--test", "news")
    assert compared.code == 0, compared.err
    assert re.findall(r"^(.*), \d+ lines", compared.out, re.MULTILINE) == ["news"]
    result = command("--compare", "runs/tiny", "runs/other", "--test", "news", "talks")
    assert (result.code, result.out) == (1, "")
    assert "--test talks: not all were evaluated on it; they were on held/out, news" in result.err


def test_the_training_text_is_counted_once_for_models_of_the_same_data(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = []

    def count(lines: Sequence[str], *data: Any) -> Any:
        counted.append(len(lines))
        return rarest_words(lines, *data)

    monkeypatch.setattr(systems, "rarest_words", count)
    assert command("--model", "runs/tiny", "runs/other").code == 0
    assert counted == [sum(TESTS.values())]
    buckets = [load_evaluation(Path("runs", run, "translations"), "news").breakdown for run in ("tiny", "other")]
    for found in buckets:
        assert [(bucket.label, bucket.n_lines) for bucket in found["rarest word"]] == [("never", 5)]


@pytest.mark.parametrize("output", [[], ["--output", "out"]])
def test_where_nothing_can_be_written_nothing_is_translated(
    command: Command, monkeypatch: pytest.MonkeyPatch, output: list[str]
) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write everywhere
    monkeypatch.setattr(Translator, "load", lambda *_, **__: pytest.fail("the model was loaded"))
    result = command("--model", "runs/tiny", *output)
    assert (result.code, result.out) == (1, "")
    assert f"{'out' if output else 'runs/tiny/translations'}: Permission denied; check" in result.err


def test_names_of_files_that_are_not_utf_8_are_spelled(command: Command, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    files = [write(folder / os.fsdecode(name), "The cat sat on the mat.\n") for name in (b"\xe9.en", b"\xe8.en")]
    result = command("--hypothesis", *files, "--reference", files[0], "--output", folder)
    assert result.code == 0, result.err
    assert [line.split()[:2] for line in result.out.splitlines()[1:3]] == [
        [r"\xe9", rf"\x{x}.en"] for x in ("e9", "e8")
    ]
    assert "caf\\udce9" in result.out
    for name in (r"\xe9.en", r"\xe8.en"):
        assert load_evaluation(folder / quote(name), r"\xe9").n_lines == 1


@pytest.mark.parametrize("damage", ["missing", "cut", "another"])
def test_a_run_whose_results_are_damaged_is_not_compared(
    workplace: Path, command: Command, tmp_path: Path, damage: str
) -> None:
    for name in ("tiny", "other"):
        command("--model", f"runs/{name}", "--output", tmp_path / name)
    rows = tmp_path / "other" / "news.jsonl"
    lines = rows.read_text(encoding="utf-8").split("\n")[:-1]
    if damage == "missing":
        rows.unlink()
    elif damage == "cut":
        rows.write_text("\n".join(lines)[:-40], encoding="utf-8")
    else:
        first = json.loads(lines[0]) | {"references": ["eine andere Referenz"]}
        rows.write_text("\n".join([json.dumps(first), *lines[1:], ""]), encoding="utf-8")
    result = command("--compare", tmp_path / "tiny", tmp_path / "other")
    assert result.code == 1
    assert ("news, line 1: not the same sentence" if damage == "another" else "other/news.jsonl") in result.err


def test_files_are_compared_as_by_sacrebleus_command_line(command: Command, tmp_path: Path) -> None:
    """Seed, draws and p-values; on the reference with some words lost."""
    words = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "two", "dogs", "run", "over", "an", "old", "bridge"]
    texts: dict[str, list[str]] = {"ref": [], "a": [], "b": []}
    for line in range(60):
        sentence = [words[(line * 7 + 5 * i) % len(words)] for i in range(8 + line % 5)]
        texts["ref"].append(" ".join(sentence))
        texts["a"].append(" ".join(word for i, word in enumerate(sentence) if (line + i) % 4))
        texts["b"].append(" ".join(word for i, word in enumerate(sentence) if (line * i) % 5 or line % 3))
    paths = {name: write(tmp_path / name, "".join(f"{line}\n" for line in lines)) for name, lines in texts.items()}
    out = command("--compare", paths["a"], paths["b"], "--reference", paths["ref"]).out
    assert out.startswith("ref, 60 lines")
    for kind, row in (("bs", "p, paired bootstrap"), ("ar", "p, approximate randomisation")):
        options = [paths["ref"], "-i", paths["a"], paths["b"], f"--paired-{kind}", "-m", "bleu", "chrf", "ter"]
        run = [sys.executable, "-m", "sacrebleu", *map(str, options), "-f", "text", "--no-color"]
        theirs = subprocess.run(run, capture_output=True, text=True, check=True).stdout
        expected = re.findall(r"\(p = ([\d.]+)\)", theirs)
        ours = next(line for line in out.splitlines() if row in line).removeprefix("  " + row).replace("*", "").split()
        assert [ours[0], ours[1], ours[3]] == expected, theirs


def test_two_references_count_both(command: Command, tmp_path: Path) -> None:
    one, other = (
        write(tmp_path / name, text) for name, text in (("a.en", "The dog ran home.\n"), ("b.en", "It went home.\n"))
    )
    hypothesis = write(tmp_path / "out", "It went home.\n")
    result = command("--hypothesis", hypothesis, "--reference", one, other)
    assert re.search(r"BLEU +100\.00 .*nrefs:2", result.out)
    three = write(tmp_path / "c.en", "x\ny\n")
    result = command("--hypothesis", hypothesis, "--reference", one, other, three)
    assert (result.code, result.out) == (1, "")
    assert f"{hypothesis} has 1 lines but {three} has 2" in result.err


def test_several_files_of_translations_stand_beside_each_other(command: Command, tmp_path: Path) -> None:
    reference = write(tmp_path / "ref.en", "The cat sat on the mat.\n")
    files = [write(tmp_path / name, text) for name, text in (("a", "The cat sat on the mat.\n"), ("b", "A cat sat.\n"))]
    out = command("--hypothesis", *files, "--reference", reference, "--output", tmp_path / "out").out
    expected = score(["A cat sat."], ["The cat sat on the mat."]).bleu
    assert [line.split()[:3] for line in out.splitlines()[1:3]] == [
        ["ref", "a", "100.00"],
        ["ref", "b", f"{expected:.2f}"],
    ]
    for name in "ab":
        evaluation = load_evaluation(tmp_path / "out" / name, "ref")
        assert load_sentences(tmp_path / "out" / name, evaluation)[0].src is None


def test_a_models_test_set_may_be_files_with_domains(workplace: Path, command: Command, tmp_path: Path) -> None:
    src, reference = workplace / "news.en", workplace / "news.de"
    domains = write(tmp_path / "domains", "news\tdoc1\nnews\tdoc1\nspeech\nnews\n\n")
    result = command("--model", "runs/tiny", "--src", src, "--reference", reference, "--domains", domains)
    assert result.code == 0, result.err
    buckets = load_evaluation(workplace / "runs/tiny/translations", "news").breakdown["domain"]
    assert [(bucket.label, bucket.n_lines) for bucket in buckets] == [("news", 3), ("speech", 1), ("(none)", 1)]
    result = command(
        "--model", "runs/tiny", "--src", src, "--reference", reference, "--domains", reference.parent / "valid.en"
    )
    assert (result.code, result.out) == (1, "")
    assert "valid.en has 10 lines but the test set news has 5" in result.err


def test_wmt_xml_gives_its_references_that_are_whole_and_its_domains(
    workplace: Path, command: Command, tmp_path: Path
) -> None:
    def segments(texts: dict[int, str]) -> str:
        return "<p>" + "".join(f'<seg id="{i}">{text}</seg>' for i, text in texts.items()) + "</p>"

    texts = {i: f"the cat number {i} sat" for i in range(1, 5)}
    documents = "".join(
        f'<doc id="d{d}" origlang="en" domain="{domain}"><src lang="en">{segments(texts)}</src>'
        f'<ref lang="de" translator="A">{segments(texts)}</ref>'
        + (f'<ref lang="de" translator="B">{segments(texts)}</ref>' if d == 1 else "")
        + "</doc>"
        for d, domain in ((1, "news"), (2, "social"))
    )
    path = write(
        tmp_path / "set.xml", f'<?xml version="1.0" encoding="utf-8"?>\n<dataset id="s">{documents}</dataset>\n'
    )
    result = command("--model", "runs/tiny", "--test", path)
    assert result.code == 0, result.err
    assert "reference B has only 4 of 8 segments" in result.err
    evaluation = load_evaluation(workplace / "runs/tiny/translations", "set")
    assert evaluation.metrics["bleu"].signature.startswith("nrefs:1|")
    assert [(b.label, b.n_lines) for b in evaluation.breakdown["domain"]] == [("news", 4), ("social", 4)]


def test_wmt_xml_without_segments_is_refused_as_an_empty_file_is(command: Command, tmp_path: Path) -> None:
    document = '<doc id="d" origlang="en"><src lang="en"><p/></src><ref lang="de" translator="A"><p/></ref></doc>'
    path = write(tmp_path / "set.xml", f'<dataset id="s">{document}</dataset>\n')
    hypothesis = write(tmp_path / "out", "Eine Zeile.\n")
    for system in ("--model", "runs/tiny"), ("--hypothesis", hypothesis, "--languages", "en-de"):
        result = command(*system, "--test", path)
        assert (result.code, result.out) == (1, "")
        assert f"{path}: is empty: 0 lines" in result.err


def test_sgm_files_are_scored_segment_by_segment(command: Command, tmp_path: Path) -> None:
    def sgm(kind: str, texts: dict[int, str]) -> str:
        rows = "".join(f'<seg id="{i}">{text}</seg>\n' for i, text in texts.items())
        return f'<{kind} setid="s" srclang="any" trglang="en">\n<doc docid="d">\n{rows}</doc>\n</{kind}>\n'

    texts = {1: "The cat sat on the mat &amp; slept.", 2: "The dog ran home again."}
    reference = write(tmp_path / "ref.en.sgm", sgm("refset", texts))
    out = write(tmp_path / "out.sgm", sgm("tstset", texts))
    plain = write(tmp_path / "plain", "The cat sat on the mat & slept.\nThe dog ran home again.\n")
    for hypothesis in (out, plain):
        assert re.search(r"BLEU +100\.00 ", command("--hypothesis", hypothesis, "--reference", reference).out)
    turned = write(tmp_path / "turned.sgm", sgm("tstset", {2: texts[2], 1: texts[1]}))
    result = command("--hypothesis", turned, "--reference", reference)
    assert (result.code, result.out) == (1, "")
    assert "turned.sgm has document 'd', segment 2 where" in result.err


def test_one_of_the_prepared_test_sets_can_be_named(command: Command) -> None:
    result = command("--model", "runs/tiny", "--test", "held/out")
    assert result.code == 0
    assert "3 lines" in result.out
    assert "source length" in result.out
    assert "rarest word" in result.out


# --- what is odd about files ---


def test_carriage_returns_and_a_byte_order_mark_are_no_text_and_said(command: Command, tmp_path: Path) -> None:
    lines = ["The cat sat on the mat.", "", "The dog ran home again."]
    reference = write(tmp_path / "ref", "".join(f"{line}\n" for line in lines))
    hypothesis = tmp_path / "hyp"
    hypothesis.write_bytes("\ufeff".encode() + "".join(f"{line}\r\n" for line in lines).encode())
    result = command("--hypothesis", hypothesis, "--reference", reference, "--languages", "de-en")
    assert re.search(r"BLEU +100\.00 ", result.out)
    assert "3 lines" in result.out, "empty lines are kept"
    assert result.err.count(f"note: {hypothesis}: lines end in CR LF and it begins with a byte-order mark") == 1


@pytest.mark.parametrize("empty", ["hyp", "ref"])
def test_an_empty_file_is_refused(command: Command, tmp_path: Path, empty: str) -> None:
    files = {name: write(tmp_path / name, "" if name == empty else "A line.\n") for name in ("hyp", "ref")}
    result = command("--hypothesis", files["hyp"], "--reference", files["ref"])
    assert (result.code, result.out) == (1, "")
    assert f"{files[empty]}: is empty" in result.err


def test_a_reference_in_another_language_is_warned_about(command: Command, tmp_path: Path) -> None:
    german = "Der Mann ging gestern mit seinem alten Hund über die Straße.\nDas Wetter war schön.\n"
    english = "The man crossed the street with his old dog yesterday.\nThe weather was fine.\n"
    hypothesis, wrong = write(tmp_path / "out", german), write(tmp_path / "ref", english)
    result = command("--hypothesis", hypothesis, "--reference", wrong, "--languages", "en-de")
    assert result.code == 0
    assert "the references of ref look like en and not de" in result.err
    right = write(tmp_path / "right", german)
    result = command("--hypothesis", hypothesis, "--reference", right, "--src", wrong, "--languages", "en-de")
    assert result.err == ""


def test_the_target_language_is_taken_from_the_name_of_the_reference(command: Command, tmp_path: Path) -> None:
    text = "我喜欢猫和狗。\n今天天气很好。\n"
    hypothesis, reference = write(tmp_path / "out", text), write(tmp_path / "news.zh", text)
    result = command("--hypothesis", hypothesis, "--reference", reference)
    assert re.search(r"BLEU +100\.00 .*tok:zh", result.out)
    assert "the target language is zh, by the name of" in result.err
    result = command("--hypothesis", hypothesis, "--reference", reference, "--tokenize", "char")
    assert re.search(r"BLEU +100\.00 .*tok:char", result.out)
    assert "tok:13a" in command("--hypothesis", hypothesis, "--reference", reference, "--languages", "zh-en").out


def test_tokenised_text_is_warned_about(command: Command, tmp_path: Path) -> None:
    raw = write(tmp_path / "raw.en", "The cat sat on the mat.\nIt was old.\n")
    tokenised = write(tmp_path / "tokenised.en", "The cat sat on the mat .\nIt was old .\n")
    for hypothesis, reference, what in ((tokenised, raw, "translations"), (raw, tokenised, "references")):
        assert f"the {what} of" in (error := command("--hypothesis", hypothesis, "--reference", reference).err)
        assert "seem to be tokenised" in error


def test_files_that_are_compared_are_looked_at_like_those_that_are_scored(command: Command, tmp_path: Path) -> None:
    english = "The man crossed the street with his old dog yesterday.\nThe weather was fine.\n"
    german = "Der Mann ging gestern mit seinem alten Hund über die Straße.\nDas Wetter war schön.\n"
    texts = {"good": german, "spaced": german.replace(".", " ."), "wrong": english, "ref": german}
    good, spaced, wrong, reference = (write(tmp_path / name, text) for name, text in texts.items())
    result = command("--compare", good, spaced, wrong, "--reference", reference, "--languages", "en-de")
    assert result.code == 0, result.err
    assert "the translations of ref by spaced seem to be tokenised" in result.err
    assert "the translations of ref by wrong look like en and not de" in result.err
    assert "good" not in result.err


def test_the_literatures_form_is_labelled_and_beside_the_real_one(command: Command, tmp_path: Path) -> None:
    hypothesis = write(tmp_path / "hyp.en", "the cat sat on the mat, and slept.\n")
    reference = write(tmp_path / "ref.en", "The cat sat on the mat, and slept.\n")
    out = command("--hypothesis", hypothesis, "--reference", reference, "--literature").out
    assert re.search(r"literature +100\.00 .*case:lc.*tok:none", out)
    assert not re.search(r"BLEU +100\.00 ", out)


def test_the_help_shows_examples_that_the_parser_takes(command: Command) -> None:
    from transformer.evaluation.arguments import EXAMPLES, parse_arguments

    commands = [line.split()[1:] for line in EXAMPLES.splitlines() if line.startswith("  evaluate.py")]
    assert len(commands) == 6
    for arguments in commands:
        parse_arguments(arguments)
