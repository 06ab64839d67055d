"""The parts of `translate.py`: arguments, files with wishes, forms of output, parts that survive a kill, the prompt."""
