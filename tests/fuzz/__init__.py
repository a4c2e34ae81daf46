"""Fuzzing of everything that reads a file: `python -m tests.fuzz --inputs 100000 --seed 0`.

Each input is a well-formed file, damaged or forged by a generator that knows the seed and the input's number only; so
an input is the same in every run, and `--only NUMBER` runs one again. `mutate.py` damages, `forge.py` knows formats,
`targets.py` says what to read and what must hold of what was read, `worker.py` runs inputs under limits of memory and
time, and `run.py` watches workers, counts outcomes and keeps what failed.
"""
