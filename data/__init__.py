"""Text → ids → batches. Takes plain arguments, never a settings object, and knows nothing of the network."""
