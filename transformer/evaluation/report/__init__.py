"""runs/NAME/report.html: a page about a run, or about several side by side, that needs no network and no script.

    command.py      `python -m transformer report`
    page.py         `save_report`: what the page says, and the page
    run.py          a run as it lies on disk, finished or not, whole or not
    curves.py       what is drawn over the updates
    series.py       figures of metrics.jsonl, thinned out
    intervals.py    how sure the BLEU of a validation is
    outcomes.py     test results
    clouds.py       every sentence of a test set as a dot: lengths, confidence
    samples.py      translations: through time, the best and the worst
    comparison.py   two runs: whether and where they differ
    wording.py      words that differ between two texts
    making.py       settings, environment, how to make the run again

Whatever a run lacks is left out, and said. What it looks like comes from data/report, the page about prepared data.
"""

from transformer.evaluation.report.page import draw_report, save_report

__all__ = ["draw_report", "save_report"]
