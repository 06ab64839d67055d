"""Every form that parallel text comes in, one module each."""
