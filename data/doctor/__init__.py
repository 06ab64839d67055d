"""The doctor: reads corpora, changes nothing, and tells what is wrong with them, worst first.

examination.py   `examine` one corpus: findings, and what a picture of its drift needs
description.py   `describe` findings for people; `exit_code`
findings.py      what a finding is; how occurrences are collected
kinds.py         every kind of finding: how bad it is, and the remedy
reading.py       plain text read tolerantly: bad bytes and unequal counts are findings, not the end
sides.py         checks of the lines of one side
pairs.py         checks of lines side by side, languages
repeats.py       lines and pairs that occur again
traces.py        what is remembered of each line
agreement.py     how much two lines look like translations of each other
drift.py         places from which the sides are out of step
"""
