"""A fuzz of the `mgpp` command: words, presets, data files, model folders and run folders that nobody would write.

`python -m tests.fuzz --cases 10000` runs the seeds 0 to 9,999; a case follows from its seed alone.
"""
