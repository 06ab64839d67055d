"""`save_report`: the page about a run, or about several side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from data.atomic import whole_file
from data.errors import DataError
from data.report.funnel import funnels
from data.report.template import load_template
from data.report.visible import plain
from transformer.errors import ConfigError, RunError
from transformer.evaluation.report import clouds, comparison, curves, making, outcomes, samples
from transformer.evaluation.report.intervals import Interval, validation_intervals
from transformer.evaluation.report.run import Run, read_run

MOST_RUNS = 6  # that can be told apart by colour

_MOST_SETS = 4  # test sets of which sentences are shown
_MOST_PROBLEMS = 12
_NEW_INTERVALS = 2  # that a quick page takes the time for: where a resumed run has many, they come one after the other

Intervals = Mapping[int, Interval]


def save_report(paths: Sequence[Path], output: Path | None = None, *, thorough: bool = True) -> Path:
    """Write the page about these runs; where `output` says, else into the folder of the first one. Its path.

    Args:
        thorough: with what takes seconds: pictures of attention, which need the models, and sentences in detail.
            Without, the page takes a fraction of a second.

    Raises:
        ConfigError: there are too many runs, or one of them is named twice.
        RunError: one of them is no run.
        OSError: as `whole_file`.
    """
    if len(paths) > MOST_RUNS:
        raise ConfigError(f"{len(paths)} runs: at most {MOST_RUNS} can be told apart in a picture; name fewer")
    if len({path.resolve() for path in paths}) < len(paths):
        raise ConfigError(f"{', '.join(map(str, paths))}: the same run is named twice; name each once")
    runs = [read_run(path) for path in paths]
    if len({run.name for run in runs}) < len(runs):
        for run in runs:
            run.name = str(run.path)
    target = output or paths[0] / page_name(runs)
    content = page(runs, thorough=thorough)
    with whole_file(target) as stream:
        stream.write(content.encode("utf-8", "replace"))
    return target


def draw_report(path: Path, *, thorough: bool) -> str:
    """Write the page about a run that is being trained; what went wrong, or nothing: no picture is worth a run."""
    try:
        save_report([path], thorough=thorough)
    except Exception as error:
        return f"no report.html this time: {type(error).__name__}: {error}"
    return ""


def page_name(runs: Sequence[Run]) -> str:
    """The file in the folder of the first run: several runs have a page beside that of the first alone."""
    others = "-".join(quote(run.name, safe=" ") for run in runs[1:])
    return f"report-vs-{others}.html" if others else "report.html"


def page(runs: Sequence[Run], *, thorough: bool) -> str:
    """The page as HTML."""
    intervals = [validation_intervals(run, None if thorough else _NEW_INTERVALS) for run in runs]
    several = len(runs) > 1
    content = {
        "languages": tuple(map(plain, runs[0].languages)),
        "names": [plain(run.name) for run in runs],
        "state": _sentence(runs[0]),
        "tiles": [] if several else list(_tiles(runs[0], intervals[0])),
        "overview": [_overview(run, known) for run, known in zip(runs, intervals, strict=True)] if several else [],
        "curves": list(curves.pictures(runs, intervals)),
        "results": outcomes.results(runs),
        "samples": samples.through_time(runs),
        "sentences": [] if several else list(_sentences(runs[0], thorough)),
        "comparisons": [
            (plain(run.name), i, found)
            for i, (run, found) in enumerate(zip(runs[1:], comparison.compare_runs(runs), strict=True), 1)
        ],
        "attention": list(_attention(runs)) if thorough else [],
        "funnels": None if several else _funnels(runs[0]),
        "settings": making.settings_table(runs),
        "making": [
            (i, plain(run.name), making.environment(run), making.reproduction(run), making.all_settings(run))
            for i, run in enumerate(runs)
        ],
    }
    problems = [problem for run in runs for problem in run.problems]  # last, as what is made above adds to them
    more = len(problems) - _MOST_PROBLEMS
    told = [*problems[:_MOST_PROBLEMS], *([f"and {more:,} more like these"] if more > 0 else [])]
    template = load_template("run.html.j2", "transformer.evaluation.report", "data.report")
    return template.render(**content, problems=list(map(plain, told)))


# --- the head ---


def _sentence(run: Run) -> str:
    """How far the run is."""
    end = run.settings.train.max_steps if run.settings is not None else 0
    of = f" of {end:,}" if end else ""
    now = f"{datetime.now():%d %B %Y, %H:%M}"
    return {
        "finished": f"Finished after {run.step:,} updates",
        "finished early": f"Finished early, after {run.step:,}{of} updates",
        "training": f"Training: {run.step:,}{of} updates when this page was made, {now}",
        "stopped": f"Stopped after {run.step:,}{of} updates; the same command goes on from the last checkpoint",
    }[run.state]


def _tiles(run: Run, known: Intervals) -> Iterator[tuple[str, str, str]]:
    """(figure, what it is, remark)."""
    if best := run.best():
        step = int(best["step"])
        remark = "; ".join(filter(None, (_range(known.get(step)), f"the best, at {step:,}")))
        yield f"{best['valid_bleu']:.2f}", "BLEU of validation", remark
    for name, (evaluation, _) in list(run.tests.items())[:_MOST_SETS]:
        if bleu := evaluation.metrics.get("bleu"):
            yield f"{bleu.score:.2f}", f"BLEU of {plain(name)}", _range(bleu.interval)
    if lowest := run.best("valid_perplexity", sign=-1):
        yield f"{lowest['valid_perplexity']:.3f}", "perplexity", f"of validation, the lowest, at {lowest['step']:,}"
    if run.updates:
        last = run.updates[-1]
        seconds, tokens = float(last.get("seconds") or 0), float(last.get("n_tokens") or 0)
        yield duration(seconds), "of training", f"{tokens / 1e6:,.1f} M target tokens"
        if run.state == "training" and run.settings is not None and last["step"]:
            left = (run.settings.train.max_steps - last["step"]) * seconds / last["step"]
            yield duration(left), "left, about", f"{run.settings.train.max_steps - last['step']:,} updates"


def _overview(run: Run, known: Intervals) -> list[str]:
    """A row about one of several runs."""
    best = run.best()
    step = int(best["step"]) if best else 0
    lowest = run.best("valid_perplexity", sign=-1)
    last = run.updates[-1] if run.updates else {}
    return [
        run.state,
        f"{run.step:,}",
        f"{best['valid_bleu']:.2f}" if best else "–",
        _range(known.get(step)) or "–",
        f"{step:,}" if best else "–",
        f"{lowest['valid_perplexity']:.3f}" if lowest else "–",
        duration(float(last.get("seconds") or 0)) if last else "–",
    ]


def _range(interval: Interval | None) -> str:
    return "" if interval is None else f"{interval[0]:.1f} to {interval[1]:.1f}"


def duration(seconds: float) -> str:
    """As people say it: 41 s, 47 min, 3 h 20 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


# --- the body ---


def _sentences(run: Run, thorough: bool) -> Iterator[tuple[str, list[curves.Picture], list[samples.Ranking]]]:
    """(set, pictures, the best and the worst): of the test sets, or of the newest validation where there are none."""
    sets = [(plain(name), sentences) for name, (_, sentences) in run.tests.items() if sentences][:_MOST_SETS]
    if thorough and not sets and (found := samples.last_validation(run)):
        sets = [(f"validation, step {max(run.translated):,}", found)]
    for name, sentences in sets:
        drawn = (clouds.lengths(sentences), clouds.confidence(sentences))
        yield name, [picture for picture in drawn if picture is not None], samples.best_and_worst(run, sentences)


def _attention(runs: Sequence[Run]) -> Iterator[tuple[int, str, Markup]]:
    """(number of the run, its name, picture of a sentence of middling length)."""
    sentence = _middling(runs[0])
    for i, run in enumerate(runs):
        if sentence and (run.path / "model").is_dir():
            # slow to import, and not needed while a run trains
            from transformer.evaluation.attention_svg import cross_attention_svg
            from transformer.inference.translator import Translator

            try:
                svg = cross_attention_svg(Translator.load(run.path, "cpu"), sentence)
            except (ConfigError, DataError, RunError) as error:
                run.problems.append(f"no picture of attention: {error}")
                continue
            yield i, plain(run.name), Markup(svg)  # ElementTree has escaped it


def _middling(run: Run) -> str:
    """A sentence to draw: neither short nor long."""
    texts = run.valid_text[0] if run.valid_text else [s.src for _, found in run.tests.values() for s in found if s.src]
    chosen = samples.choose_lines(texts)
    return texts[chosen[len(chosen) // 2 - 1]] if chosen else ""


def _funnels(run: Run) -> dict[str, object] | None:
    """What was read and kept of the training text; its examples are on the page beside the prepared data."""
    found = funnels({**run.manifest, "examples": {}}) if run.manifest else None
    return found if found and found["each"] else None
