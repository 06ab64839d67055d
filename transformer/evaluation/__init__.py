"""How good a model is, and what it looks at: metrics over sacrebleu, and pictures of attention."""
