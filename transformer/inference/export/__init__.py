"""Models for other programs: `python -m transformer export`, each export proven equal before it gets its name.

`target` says what an ecosystem must offer, `ctranslate2` and its neighbours are one each, `obstacles` names the
settings that one cannot express, `gate` compares an export with its origin, `command` is the whole.
"""
