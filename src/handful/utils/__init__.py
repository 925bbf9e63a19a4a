"""General helpers without few-shot learning: files, limits, threads, interrupts, unpickling."""
