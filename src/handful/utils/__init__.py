"""Helpers that know nothing of few-shot learning: files, limits, threads, interrupts, unpickling."""
