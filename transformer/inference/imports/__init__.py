"""Models of other programs, read into model directories. Nothing here executes what it reads."""
